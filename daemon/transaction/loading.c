#include "daemon/transaction/loading.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/http/response.h"
#include "daemon/http/target.h"
#include "daemon/transaction/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * Mark that ends the path of a page in a job: no file has such a path, and no coding has this name.
 */
#define PAGE_MARK RESOURCE_VARIANT_MARK "page"
enum { PAGE_MARK_LENGTH = sizeof(PAGE_MARK) - 1, PAGE_HEAD_MAX = 512 };

enum { MEMORY_WAIT_MS = 10, MEMORY_TRIES_MAX = 500 };

struct load_job {
    struct offload_job job;
    struct transaction_context *context;
    struct client *client;
    const struct site *site;
    struct transaction_state *state;
    struct load_job *next;     /* in state->loaded, when finished */
    struct resource *original; /* a reference: load its variant CODING; NULL: load a file */
    enum coding coding;
    struct page_spec page; /* if its maker is set, generate this page instead */
    int failed;            /* result of the loading */
    uint64_t freed;        /* memory_freed() before it */
    uint32_t tries;        /* attempts that failed without memory */
    bool pauses;           /* before each further attempt */
    struct resource *resource;
    size_t length;
    char path[]; /* path in the cache; ends with a NUL */
};

/* On an offload thread. */
static void run_load(struct offload_job *job)
{
    struct load_job *load = CONTAINER_OF(job, struct load_job, job);
    const struct resource_source *source = &load->site->source;
    struct span page_path = {load->path, load->length - PAGE_MARK_LENGTH};
    const struct timespec pause = {.tv_nsec = MEMORY_WAIT_MS * NS_PER_MS};

    if (load->pauses)
        nanosleep(&pause, NULL);
    load->freed = memory_freed(load->context->worker);
    if (load->page.make != NULL)
        load->failed = load->page.make(load->site, &load->page, page_path, &load->resource);
    else if (load->original != NULL)
        load->failed = resource_load_variant(source, load->original, load->coding, FILES_MAY_BLOCK,
                                             FILES_MAY_BLOCK, &load->resource);
    else
        load->failed = resource_load(source, load->path, load->length, FILES_MAY_BLOCK,
                                     FILES_MAY_BLOCK, clock_monotonic_ns(), &load->resource);
}

/* The file no longer exists: the cache must not serve its old content. */
static void invalidate_path(struct cache *cache, uint32_t site, const char *path, size_t length)
{
    struct cache_entry *entry = cache_find(cache, site, path, length);

    if (entry == NULL)
        return;
    cache_invalidate(cache, entry);
    cache_release(cache, entry);
}

/*
 * Without memory, loads again after the cache has shrunk, until the cache is empty; then after
 * pauses, while others still use what it has evicted.
 */
static bool load_again(struct load_job *load)
{
    struct transaction_context *context = load->context;
    enum memory_room room;

    if (load->failed != ENOMEM)
        return false;
    room = memory_find_room(context, load->freed);
    if (room == MEMORY_NONE || load->tries++ == MEMORY_TRIES_MAX)
        return false;
    load->pauses |= room == MEMORY_AWAITED || load->tries == MEMORY_EAGER_TRIES;
    return offload_submit(context->worker->offload, &load->job, context->loop_now_ns);
}

/* Back on the owning thread. */
static void finish_load(struct offload_job *job)
{
    struct load_job *load = CONTAINER_OF(job, struct load_job, job);
    struct transaction_state *state = load->state;
    struct cache *cache = load->context->worker->cache;
    bool is_page = load->page.make != NULL;

    if (load_again(load))
        return;
    load->context->jobs_out--;
    load->client->jobs_out--;
    load->next = state->loaded;
    state->loaded = load;
    if (!is_page && load->failed == ENODATA && load->original != NULL)
        atomic_store_explicit(&load->original->gzip_not_smaller, true, memory_order_relaxed);
    if (!is_page && cache != NULL && load->resource != NULL)
        cache_insert(cache, &load->resource->entry);
    else if (!is_page && cache != NULL)
        invalidate_path(cache, load->site->number, load->path, load->length);
    state->resume(state);
}

/* A job for PATH with MARK appended. NULL: out of memory. */
static struct load_job *new_job(const struct transaction *transaction, struct span path,
                                const char *mark)
{
    size_t length = path.length + strlen(mark);
    struct load_job *load = calloc(1, sizeof(*load) + length + 1);

    if (load == NULL && memory_make_room(transaction->context))
        load = calloc(1, sizeof(*load) + length + 1);
    if (load == NULL)
        return NULL;
    load->job = (struct offload_job){.run = run_load,
                                     .finish = finish_load,
                                     .work = {load->path, path.length},
                                     .state = THREAD_STATE_FILE,
                                     .owner = transaction->context->mailbox};
    load->context = transaction->context;
    load->client = transaction->client;
    load->site = transaction->site;
    load->state = transaction->state;
    load->length = length;
    memcpy(load->path, path.start, path.length);
    memcpy(load->path + path.length, mark, strlen(mark));
    return load;
}

/* Takes ownership of LOAD. */
static bool submit(struct transaction *transaction, struct load_job *load)
{
    struct transaction_context *context = transaction->context;

    if (!offload_submit(context->worker->offload, &load->job, context->loop_now_ns)) {
        if (load->original != NULL)
            resource_release(context->worker->cache, load->original);
        free(load);
        return false;
    }
    transaction->waiting = true;
    transaction->client->jobs_out++;
    context->jobs_out++;
    metric_add(context->metrics, METRIC_offloaded, 1);
    return true;
}

bool loading_submit(struct transaction *transaction, struct span path, struct resource *original,
                    enum coding coding)
{
    struct load_job *load = new_job(transaction, path, "");

    if (load == NULL)
        return false;
    load->original = original;
    load->coding = coding;
    if (original != NULL) {
        cache_acquire(&original->entry);
        load->job.work.length = original->file_path.length;
        if (original->variants.member[coding].inode == 0)
            load->job.state = THREAD_STATE_COMPRESS;
    }
    return submit(transaction, load);
}

bool loading_submit_page(struct transaction *transaction, struct span path,
                         const struct page_spec *spec)
{
    struct load_job *load = new_job(transaction, path, PAGE_MARK);

    if (load == NULL)
        return false;
    load->page = *spec;
    load->job.state = spec->state;
    return submit(transaction, load);
}

bool loading_take(struct transaction *transaction, struct span path, struct resource **found,
                  int *failed)
{
    for (struct load_job *load = transaction->state->loaded; load != NULL; load = load->next) {
        if (!span_is(path, (struct span){load->path, load->length}))
            continue;
        *failed = load->failed;
        *found = load->resource;
        if (load->resource != NULL)
            cache_acquire(&load->resource->entry);
        transaction->outcome = OUTCOME_OFFLOAD;
        return true;
    }
    return false;
}

bool loading_take_page(struct transaction *transaction, struct span path, struct resource **page,
                       int *failed)
{
    char name[TARGET_PATH_MAX + PAGE_MARK_LENGTH];

    memcpy(name, path.start, path.length);
    memcpy(name + path.length, PAGE_MARK, PAGE_MARK_LENGTH);
    return loading_take(transaction, (struct span){name, path.length + PAGE_MARK_LENGTH}, page,
                        failed);
}

void loading_discard(struct transaction_state *state, struct cache *cache)
{
    struct load_job *load;

    while ((load = state->loaded) != NULL) {
        state->loaded = load->next;
        if (load->resource != NULL)
            resource_release(cache, load->resource);
        if (load->original != NULL)
            resource_release(cache, load->original);
        free(load);
    }
}

/* Pages */

/*
 * The fields that a 304 repeats (RFC 9110 section 15.4.5): all after Content-Length and
 * Content-Type.
 */
static struct span fields_after_type(const char *head, size_t length)
{
    const char *type = strchr(head, '\n') + 1;
    const char *rest = strchr(type, '\n') + 1;

    return (struct span){rest, (size_t)(head + length - 2 - rest)};
}

/* One allocation for the struct, the path, the heads and the body. */
int page_new(struct span path, const char *fields, const char *body, size_t length,
             struct resource **page)
{
    char head[PAGE_HEAD_MAX];
    char block[HPACK_LINES_MAX(PAGE_HEAD_MAX)];
    size_t head_length =
        (size_t)snprintf(head, sizeof(head), "Content-Length: %zu\r\n%s\r\n", length, fields);
    struct span validators = fields_after_type(head, head_length);
    char *block_rest =
        hpack_put_lines(block, (struct span){head, (size_t)(validators.start - head)});
    size_t block_length = (size_t)(hpack_put_lines(block_rest, validators) - block);
    size_t bytes = sizeof(struct resource) + path.length + 1 + head_length + length + block_length;
    struct resource *resource = calloc(1, bytes);
    char *at;

    if (resource == NULL)
        return ENOMEM;
    at = (char *)(resource + 1);
    memcpy(at, path.start, path.length);
    cache_entry_init(&resource->entry, at, path.length, bytes, 0);
    resource->file_path = (struct span){at, path.length};
    at += path.length + 1;
    memcpy(at, head, head_length);
    resource->head[HTTP_1] = (struct span){at, head_length};
    resource->pieces[HTTP_1].validators = fields_after_type(at, head_length);
    at += head_length;
    memcpy(at, body, length);
    resource->body = at;
    resource->body_length = length;
    at += length;
    memcpy(at, block, block_length);
    resource->head[HTTP_2] = (struct span){at, block_length};
    resource->pieces[HTTP_2].validators =
        (struct span){at + (block_rest - block), block_length - (size_t)(block_rest - block)};
    resource->fd = -1;
    *page = resource;
    return 0;
}
