#include "daemon/transaction/loading.h"

#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/http/target.h"
#include "daemon/worker/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What names a page beside files: no file has such a path, and no coding this name. */
#define PAGE_MARK RESOURCE_VARIANT_MARK "page"
enum { PAGE_MARK_LENGTH = sizeof(PAGE_MARK) - 1 };

static void run_load(struct offload_job *job)
{
    struct load_job *load = CONTAINER_OF(job, struct load_job, job);
    const struct resource_source *source = &load->site->source;

    if (load->page.make != NULL)
        load->failed = load->page.make(load->site, &load->page,
                                       (struct span){load->path, load->length - PAGE_MARK_LENGTH},
                                       &load->resource);
    else if (load->original != NULL)
        load->failed = resource_load_variant(source, load->original, load->coding, FILES_MAY_BLOCK,
                                             FILES_MAY_BLOCK, load->job.queued_ns, &load->resource);
    else
        load->failed = resource_load(source, load->path, load->length, FILES_MAY_BLOCK,
                                     FILES_MAY_BLOCK, load->job.queued_ns, &load->resource);
}

/* A job for PATH with MARK behind it. NULL: memory is short. */
static struct load_job *new_job(const struct exchange *exchange, struct span path, const char *mark)
{
    struct serving_thread *thread = exchange->thread;
    size_t length = path.length + strlen(mark);
    struct load_job *load = calloc(1, sizeof(*load) + length + 1);

    if (load == NULL)
        return NULL;
    load->job.run = run_load;
    load->job.work = (struct span){load->path, path.length};
    load->job.state = THREAD_STATE_FILE;
    load->job.owner = &thread->mailbox;
    load->job.kind = ITEM_LOADED;
    load->connection = exchange->connection;
    load->site = thread->site;
    load->length = length;
    memcpy(load->path, path.start, path.length);
    memcpy(load->path + path.length, mark, strlen(mark));
    return load;
}

/* Takes LOAD over. */
static bool submit(const struct exchange *exchange, struct load_job *load)
{
    struct serving_thread *thread = exchange->thread;

    if (!offload_submit(thread->site->offload, &load->job, thread->turn_ns)) {
        if (load->original != NULL)
            resource_release(thread->site->cache, load->original);
        free(load);
        return false;
    }
    exchange->connection->job_out = true;
    thread->jobs_out++;
    metric_add(thread->metrics, METRIC_offloaded, 1);
    return true;
}

/* The file is held, and named, while a variant of it is made, or read where there is one beside it. */
static void expect_form(struct load_job *load)
{
    cache_hold(&load->original->entry);
    load->job.work.length = load->original->file_path.length;
    if (load->original->variants.member[load->coding].inode == 0)
        load->job.state = THREAD_STATE_COMPRESS;
}

bool loading_submit(const struct exchange *exchange, struct span path, struct resource *original,
                    enum coding coding)
{
    struct load_job *load = new_job(exchange, path, "");

    if (load == NULL)
        return false;
    load->original = original;
    load->coding = coding;
    if (original != NULL)
        expect_form(load);
    return submit(exchange, load);
}

bool loading_submit_page(const struct exchange *exchange, struct span path,
                         const struct page_order *page)
{
    struct load_job *load = new_job(exchange, path, PAGE_MARK);

    if (load == NULL)
        return false;
    load->page = *page;
    load->job.state = page->state;
    return submit(exchange, load);
}

bool loading_take_page(struct exchange *exchange, struct span path, struct resource **page,
                       int *failed)
{
    char name[TARGET_PATH_MAX + PAGE_MARK_LENGTH];

    memcpy(name, path.start, path.length);
    memcpy(name + path.length, PAGE_MARK, PAGE_MARK_LENGTH);
    return loading_take(exchange, (struct span){name, path.length + PAGE_MARK_LENGTH}, page,
                        failed);
}

bool loading_take(struct exchange *exchange, struct span path, struct resource **found, int *failed)
{
    for (struct load_job *load = exchange->connection->loaded; load != NULL; load = load->next) {
        if (!span_is(path, (struct span){load->path, load->length}))
            continue;
        *failed = load->failed;
        *found = load->resource;
        if (load->resource != NULL)
            cache_hold(&load->resource->entry);
        exchange->outcome = OUTCOME_OFFLOAD;
        return true;
    }
    return false;
}

/* The file is gone: what the cache still has of it must not be served again. */
static void forget_path(struct cache *cache, const char *path, size_t length)
{
    struct cache_entry *entry = cache_find(cache, path, length);

    if (entry == NULL)
        return;
    cache_invalidate(cache, entry);
    cache_release(cache, entry);
}

struct connection *loading_back(struct load_job *job)
{
    struct connection *connection = job->connection;
    struct serving_thread *thread = connection->thread;

    thread->jobs_out--;
    connection->job_out = false;
    job->next = connection->loaded;
    connection->loaded = job;
    if (job->page.make != NULL)
        return connection; /* no cache has pages */
    if (job->failed == ENODATA && job->original != NULL)
        atomic_store_explicit(&job->original->gzip_not_smaller, true, memory_order_relaxed);
    if (job->resource != NULL && thread->site->cache != NULL)
        cache_insert(thread->site->cache, &job->resource->entry);
    else if (thread->site->cache != NULL)
        forget_path(thread->site->cache, job->path, job->length);
    return connection;
}

void loading_forget(struct connection *connection, struct cache *cache)
{
    struct load_job *load;

    while ((load = connection->loaded) != NULL) {
        connection->loaded = load->next;
        if (load->resource != NULL)
            resource_release(cache, load->resource);
        if (load->original != NULL)
            resource_release(cache, load->original);
        free(load);
    }
}
