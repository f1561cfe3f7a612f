/*
 * Finds the representation to send in the thread cache (L1), the worker's cache (L2), the results
 * of offload threads for the request, or the file system; negotiates the content coding. On the
 * owning thread; an offload thread loads what would wait for a disk or takes long, and the request
 * is then processed again.
 */
#include "daemon/transaction/internal.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/probes.h"
#include "daemon/content/thread_cache.h"
#include "daemon/content/variants.h"
#include "daemon/http/response.h"
#include "daemon/http/target.h"
#include "daemon/transaction/shortage.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Loading by offload threads */

/*
 * Mark that ends the path of a page in a job: no file has such a path, and no coding has this name.
 */
#define PAGE_MARK RESOURCE_VARIANT_MARK "page"
enum { PAGE_MARK_LENGTH = sizeof(PAGE_MARK) - 1 };

enum { MEMORY_WAIT_MS = 10, MEMORY_TRIES_MAX = 500 };

struct load_job {
    struct offload_job job;
    struct transaction_context *context;
    struct client *client;
    const struct site *site;
    struct transaction_state *state;
    struct load_job *next;     /* when finished, it is in state->loaded */
    struct resource *original; /* a reference: load its variant CODING; NULL: load a file */
    enum coding coding;
    struct page_spec page; /* if its maker is set, generate this page instead */
    int failed;            /* result of the loading */
    uint64_t freed;        /* memory_freed() before it */
    uint32_t tries;        /* attempts that failed without memory */
    bool pauses;           /* waits before each further attempt */
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
static bool submit_again(struct load_job *load)
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

/* What came of the attempt to load the variant CODING of ORIGINAL. */
static void note_made(struct resource *original, enum coding coding, int failed,
                      const struct resource *variant)
{
    if (failed == 0 || failed == ENODATA)
        atomic_store_explicit(&original->made_bytes[coding],
                              failed == 0 ? variant->body_length : RESOURCE_NOT_SMALLER,
                              memory_order_relaxed);
}

/* Back on the owning thread. */
static void finish_load(struct offload_job *job)
{
    struct load_job *load = CONTAINER_OF(job, struct load_job, job);
    struct transaction_state *state = load->state;
    struct cache *cache = load->context->worker->cache;
    bool is_page = load->page.make != NULL;

    if (submit_again(load))
        return;
    load->context->jobs_out--;
    load->client->jobs_out--;
    load->next = state->loaded;
    state->loaded = load;
    if (!is_page && load->original != NULL)
        note_made(load->original, load->coding, load->failed, load->resource);
    if (!is_page && cache != NULL && load->resource != NULL)
        cache_insert(cache, &load->resource->entry);
    else if (!is_page && cache != NULL)
        invalidate_path(cache, load->site->number, load->path, load->length);
    state->resume(state);
}

/* A job for PATH with MARK appended. NULL: out of memory. */
static struct load_job *new_load_job(const struct transaction *transaction, struct span path,
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
                                     .activity = transaction->context->activity,
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
static bool submit_load(struct transaction *transaction, struct load_job *load)
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

/*
 * Submits the loading of PATH or, if ORIGINAL is not NULL, of its variant CODING. Returns false if
 * the queue is full or out of memory.
 */
static bool submit_file(struct transaction *transaction, struct span path,
                        struct resource *original, enum coding coding)
{
    struct load_job *load = new_load_job(transaction, path, "");

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
    return submit_load(transaction, load);
}

bool loading_submit_page(struct transaction *transaction, struct span path,
                         const struct page_spec *spec)
{
    struct load_job *load = new_load_job(transaction, path, PAGE_MARK);

    if (load == NULL)
        return false;
    load->page = *spec;
    load->job.state = spec->state;
    return submit_load(transaction, load);
}

/*
 * Returns true if PATH has been loaded for the request. Then *FAILED is 0 and *FOUND a reference,
 * or *FAILED is an errno.
 */
static bool take_loaded(struct transaction *transaction, struct span path, struct resource **found,
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
    return take_loaded(transaction, (struct span){name, path.length + PAGE_MARK_LENGTH}, page,
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

enum { VARIANT_PATH_MAX = TARGET_PATH_MAX + 8 };

int lookup_status(int failed)
{
    if (failed <= LOOKUP_REFUSED(400))
        return -failed;
    return failed == LOOKUP_NOT_ACCEPTABLE ? 406 : files_status(failed);
}

/* Files */

static void store_in_cache(const struct transaction_context *context, struct resource *resource)
{
    if (context->worker->cache != NULL)
        cache_insert(context->worker->cache, &resource->entry);
}

/* Opens and reads without waiting for a disk; an offload thread does what would block. */
static int try_to_load(struct transaction *transaction, struct span path, struct resource **found)
{
    struct transaction_context *context = transaction->context;
    const struct resource_source *source = &transaction->site->source;
    uint64_t now_ns = context->loop_now_ns;
    int failed;

    segment_activity_state(context->activity, THREAD_STATE_FILE, now_ns);
    failed = resource_load(source, path.start, path.length, FILES_CACHED_ONLY, FILES_CACHED_ONLY,
                           now_ns, found);
    if (failed == EAGAIN || failed == EBUSY) {
        if (transaction->may_wait && submit_file(transaction, path, NULL, CODING_IDENTITY))
            return LOOKUP_MUST_WAIT;
        /* The loop opens the file itself, even if that blocks, but does not read it from disk. */
        failed = resource_load(source, path.start, path.length, FILES_MAY_BLOCK, FILES_CACHED_ONLY,
                               now_ns, found);
        if (failed == EBUSY)
            metric_add(context->metrics, METRIC_offload_rejected, 1);
    }
    if (failed == 0)
        store_in_cache(context, *found);
    if (failed == ENOENT && context->negative_cache != NULL)
        negative_cache_add(context->negative_cache, transaction->site->number, path, now_ns);
    return failed;
}

/* An attempt to load a file or variant without waiting. */
struct attempt {
    int failed;
    uint64_t freed; /* memory_freed() before it */
    uint32_t tries; /* attempts that failed without memory, so far */
};

/*
 * True if the caller tries again: without memory, after the cache has shrunk, until it is empty.
 * Then a job waits for what others still use of it, and ATTEMPT->failed becomes LOOKUP_MUST_WAIT.
 */
static bool may_load_again(struct transaction *transaction, struct span path,
                           struct resource *original, enum coding coding, struct attempt *attempt)
{
    enum memory_room room;

    if (attempt->failed != ENOMEM)
        return false;
    room = memory_find_room(transaction->context, attempt->freed);
    if (room == MEMORY_FREED && ++attempt->tries < MEMORY_EAGER_TRIES)
        return true;
    if (room != MEMORY_NONE && transaction->may_wait &&
        submit_file(transaction, path, original, coding))
        attempt->failed = LOOKUP_MUST_WAIT;
    return false;
}

static int load_now(struct transaction *transaction, struct span path, struct resource **found)
{
    struct attempt attempt = {.tries = 0};

    do {
        attempt.freed = memory_freed(transaction->context->worker);
        attempt.failed = try_to_load(transaction, path, found);
    } while (may_load_again(transaction, path, NULL, CODING_IDENTITY, &attempt));
    return attempt.failed;
}

/*
 * The current time, at most some milliseconds late. The time of the loop iteration may be long ago
 * if the thread got no CPU time or waited for a disk. The coarse clock costs a fraction of the
 * exact one.
 */
static uint64_t recent_ns(const struct transaction_context *context)
{
    uint64_t coarse_ns = clock_read_ns(CLOCK_MONOTONIC_COARSE);

    return coarse_ns > context->loop_now_ns ? coarse_ns : context->loop_now_ns;
}

/*
 * Checks RESOURCE in the file system. Without memory for a job the caches shrink, so RESOURCE may
 * have left them when this returns. Results as those of revalidate().
 */
static int check_now(struct transaction *transaction, struct resource *resource, uint64_t now_ns)
{
    struct transaction_context *context = transaction->context;
    const struct resource_source *source = &transaction->site->source;
    int changed;

    segment_activity_state(context->activity, THREAD_STATE_FILE, now_ns);
    changed = resource_check(source, resource, FILES_CACHED_ONLY, &context->directory, now_ns);
    if (changed == EAGAIN && transaction->may_wait &&
        submit_file(transaction, resource->file_path, NULL, CODING_IDENTITY))
        return LOOKUP_MUST_WAIT;
    if (changed == EAGAIN)
        changed = resource_check(source, resource, FILES_MAY_BLOCK, &context->directory, now_ns);
    if (changed != 0)
        cache_invalidate(context->worker->cache, &resource->entry);
    else
        cache_set_checked(&resource->entry, now_ns);
    return !atomic_load_explicit(&resource->entry.stale, memory_order_acquire);
}

/*
 * Returns true if RESOURCE is unchanged in the file system, false if not, or LOOKUP_MUST_WAIT. The
 * lateness of the clock that NOW_NS is from is within the margin of a check that is due.
 */
static int revalidate(struct transaction *transaction, struct resource *resource, uint64_t now_ns)
{
    const struct worker_context *worker = transaction->context->worker;
    uint64_t max_age_ns = worker->config->cache_revalidate * NS_PER_MS;
    int result;

    if (LIKELY(!cache_check_is_due(&resource->entry, now_ns, max_age_ns)) ||
        !cache_claim_check(&resource->entry, clock_monotonic_ns(), max_age_ns))
        return true;
    cache_acquire(&resource->entry); /* the thread cache lends it */
    result = check_now(transaction, resource, now_ns);
    cache_release(worker->cache, &resource->entry);
    return result;
}

static struct cache_entry *find_in_cache(const struct transaction *transaction, struct span path)
{
    struct cache *cache = transaction->context->worker->cache;

    return cache != NULL ? cache_find(cache, transaction->site->number, path.start, path.length)
                         : NULL;
}

/* An index file is taken to be the first that may exist. */
uint64_t transaction_file_bytes(const struct worker_context *worker, const struct request *request)
{
    struct site_memo memo = {.site = NULL};
    const struct site *site = site_find(&worker->sites, &memo, request->host);
    struct target target UNINITIALIZED;
    struct cache_entry *entry;
    struct file file;
    uint64_t bytes;

    if (request->method != METHOD_GET || target_canonical(request->target, &target) != 0)
        return 0;
    if (target.directory && site->index.count > 0 &&
        target.length + strlen(site->index.item[0]) < sizeof(target.path))
        target.length +=
            (size_t)snprintf(target.path + target.length, sizeof(target.path) - target.length, "%s",
                             site->index.item[0]);
    entry = worker->cache != NULL
                ? cache_find(worker->cache, site->number, target.path, target.length)
                : NULL;
    if (entry != NULL) {
        bytes = CONTAINER_OF(entry, struct resource, entry)->body_length;
        cache_release(worker->cache, entry);
        return bytes;
    }
    if (files_find(&site->root, target.path, FILES_CACHED_ONLY, &file) != 0)
        return 0;
    close(file.fd);
    return file.directory ? 0 : file.size;
}

/* Another path is served instead of one that has no file, until this may have changed. */
static void note_absence(struct transaction *transaction, uint64_t until_ns)
{
    if (until_ns < transaction->until_ns)
        transaction->until_ns = until_ns;
}

/* True if PATH is cached as missing. */
static bool is_known_absent(struct transaction *transaction, struct span path)
{
    const struct negative_cache *cache = transaction->context->negative_cache;
    uint64_t until_ns = cache != NULL ? negative_cache_until(cache, transaction->site->number, path,
                                                             clock_monotonic_ns())
                                      : 0;

    if (until_ns == 0)
        return false;
    PROBE_CACHE_MISS(path, 1);
    transaction->outcome = OUTCOME_MISS;
    note_absence(transaction, until_ns);
    return true;
}

static int find_path(struct transaction *transaction, struct span name, struct resource **found)
{
    struct transaction_context *context = transaction->context;
    struct cache_entry *entry;
    int failed, fresh;

    if (take_loaded(transaction, name, found, &failed))
        return failed;
    if (is_known_absent(transaction, name))
        return ENOENT;
    transaction->outcome = OUTCOME_HIT;
    entry = find_in_cache(transaction, name);
    if (entry != NULL) {
        *found = CONTAINER_OF(entry, struct resource, entry);
        fresh = revalidate(transaction, *found, recent_ns(context));
        if (fresh == true) {
            PROBE_CACHE_HIT(2, name);
            return 0;
        }
        cache_release(context->worker->cache, entry);
        if (fresh == LOOKUP_MUST_WAIT)
            return LOOKUP_MUST_WAIT;
    }
    PROBE_CACHE_MISS(name, 0);
    transaction->outcome = OUTCOME_MISS;
    return load_now(transaction, name, found);
}

int lookup_path(struct transaction *transaction, const char *path, size_t length,
                struct resource **found)
{
    const struct transaction_context *context = transaction->context;
    int failed = find_path(transaction, (struct span){path, length}, found), refused;

    if (failed == 0 && context->worker->config->access_count > 0) {
        refused = access_check_file(transaction, path);
        if (refused != 0)
            resource_release(context->worker->cache, *found);
        return refused;
    }
    if (failed == ENOENT || failed == EISDIR)
        note_absence(transaction,
                     context->loop_now_ns + context->worker->config->cache_revalidate * NS_PER_MS);
    return failed;
}

void lookup_forget(const struct transaction *transaction, const char *path, size_t length)
{
    const struct transaction_context *context = transaction->context;

    if (context->negative_cache != NULL)
        negative_cache_remove(context->negative_cache, transaction->site->number,
                              (struct span){path, length});
    loading_discard(transaction->state, context->worker->cache);
}

/* Variants */

/* The variant in the cache, if it was made from the same version of the file. */
static struct resource *find_variant(const struct transaction *transaction, struct span path,
                                     const struct resource *original)
{
    struct cache_entry *entry = find_in_cache(transaction, path);
    struct resource *variant;

    if (entry == NULL)
        return NULL;
    variant = CONTAINER_OF(entry, struct resource, entry);
    if (!variants_equal(&variant->variants, &original->variants)) {
        cache_release(transaction->context->worker->cache, entry);
        return NULL;
    }
    resource_share_check(variant, original);
    return variant;
}

/*
 * Loads a precompressed file without waiting for a disk. Everything else goes to an offload thread.
 */
static int load_variant(struct transaction *transaction, struct span path,
                        struct resource *original, enum coding coding, struct resource **found)
{
    struct transaction_context *context = transaction->context;
    struct attempt attempt = {.tries = 0};
    int failed;

    do {
        attempt.freed = memory_freed(context->worker);
        attempt.failed = resource_load_variant(&transaction->site->source, original, coding,
                                               FILES_CACHED_ONLY, FILES_CACHED_ONLY, found);
    } while (may_load_again(transaction, path, original, coding, &attempt));
    failed = attempt.failed;
    if (failed == 0)
        store_in_cache(context, *found);
    if (failed != EAGAIN && failed != EBUSY)
        return failed;
    if (transaction->may_wait && submit_file(transaction, path, original, coding))
        return LOOKUP_MUST_WAIT;
    return EBUSY;
}

/* Results as those of lookup_variant(). */
static int find_or_load_variant(struct transaction *transaction, struct resource *original,
                                enum coding coding, struct resource **found)
{
    char buffer[VARIANT_PATH_MAX] UNINITIALIZED;
    int length = snprintf(buffer, VARIANT_PATH_MAX, "%s" RESOURCE_VARIANT_MARK "%s",
                          original->entry.path, coding_names[coding].start);
    struct span path = {buffer, (size_t)length};
    int failed;

    if (path.length >= VARIANT_PATH_MAX)
        return ENAMETOOLONG;
    if (take_loaded(transaction, path, found, &failed))
        return failed;
    *found = find_variant(transaction, path, original);
    if (*found != NULL)
        return 0;
    if (transaction->outcome == OUTCOME_HIT)
        transaction->outcome = OUTCOME_MISS;
    return load_variant(transaction, path, original, coding, found);
}

/* True if there is a precompressed file for CODING, and the client may have it. */
static bool has_permitted_file(struct transaction *transaction, const struct resource *resource,
                               enum coding coding)
{
    char path[VARIANT_PATH_MAX] UNINITIALIZED;

    if (coding == CODING_IDENTITY || resource->variants.member[coding].inode == 0)
        return false;
    if (transaction->context->worker->config->access_count == 0)
        return true;
    snprintf(path, sizeof(path), "%s%s", resource->file_path.start,
             coding_extensions[coding].start);
    return access_permits_now(transaction, path);
}

static int choose_file(struct transaction *transaction, struct resource *resource,
                       const struct coding_group *group, struct resource **chosen)
{
    int result = LOOKUP_NOT_ACCEPTABLE;

    for (size_t i = 0; i < group->count; i++) {
        int failed = has_permitted_file(transaction, resource, group->coding[i])
                         ? find_or_load_variant(transaction, resource, group->coding[i], chosen)
                         : LOOKUP_NOT_ACCEPTABLE;

        if (failed == 0 || failed == LOOKUP_MUST_WAIT)
            return failed;
        if (failed == EBUSY)
            result = EBUSY;
    }
    return result;
}

/* Sets *BYTES to the size of the variant CODING, which is made if it was not yet. */
static int measure_variant(struct transaction *transaction, struct resource *resource,
                           enum coding coding, uint64_t *bytes)
{
    struct resource *variant;
    int failed;

    *bytes = atomic_load_explicit(&resource->made_bytes[coding], memory_order_relaxed);
    if (*bytes != 0)
        return *bytes == RESOURCE_NOT_SMALLER ? ENODATA : 0;
    failed = find_or_load_variant(transaction, resource, coding, &variant);
    if (failed != 0)
        return failed;
    *bytes = variant->body_length;
    note_made(resource, coding, 0, variant);
    resource_release(transaction->context->worker->cache, variant);
    return 0;
}

/* The smallest variant that is made from RESOURCE. Others are smaller than gzip. */
static int choose_made(struct transaction *transaction, struct resource *resource,
                       const struct coding_group *group, struct resource **chosen)
{
    enum coding best = CODING_IDENTITY;
    int result = LOOKUP_NOT_ACCEPTABLE;
    uint64_t least = 0;

    for (size_t i = 0; i < group->count; i++) {
        enum coding coding = group->coding[i];
        uint64_t bytes = 0;
        int failed = ENODATA;

        if ((resource->may_make & 1U << coding) != 0 &&
            resource->variants.member[coding].inode == 0 &&
            (coding != CODING_GZIP || best == CODING_IDENTITY))
            failed = measure_variant(transaction, resource, coding, &bytes);
        if (failed == LOOKUP_MUST_WAIT)
            return failed;
        if (failed == EBUSY)
            result = EBUSY;
        if (failed == 0 && (best == CODING_IDENTITY || bytes < least)) {
            best = coding;
            least = bytes;
        }
    }
    return best == CODING_IDENTITY ? result
                                   : find_or_load_variant(transaction, resource, best, chosen);
}

/*
 * Of codings with the same weight, precompressed files are first, then what is made, then the file
 * itself. Returns EBUSY if an acceptable variant exists but cannot be loaded now.
 */
static int choose_variant(struct transaction *transaction, struct resource *resource,
                          struct resource **chosen)
{
    coding_preference accepts = transaction->accepts;
    int result = LOOKUP_NOT_ACCEPTABLE;
    struct coding_group group;

    while (coding_next_group(&accepts, &group)) {
        int failed = choose_file(transaction, resource, &group, chosen);

        if (failed != 0 && failed != LOOKUP_MUST_WAIT) {
            result = failed == EBUSY ? EBUSY : result;
            failed = choose_made(transaction, resource, &group, chosen);
        }
        if (failed == 0 || failed == LOOKUP_MUST_WAIT)
            return failed;
        result = failed == EBUSY ? EBUSY : result;
        if (coding_group_has(&group, CODING_IDENTITY) && !resource->coded_only) {
            *chosen = resource;
            return 0;
        }
    }
    return result;
}

int lookup_variant(struct transaction *transaction, struct resource **resource)
{
    struct resource *original = *resource;
    int failed = choose_variant(transaction, original, resource);

    if (failed == LOOKUP_NOT_ACCEPTABLE &&
        transaction->uncoded) { /* a range of coded bytes, then */
        transaction->accepts = lookup_accepted_codings(transaction->context, transaction->request);
        transaction->uncoded = false;
        failed = choose_variant(transaction, original, resource);
    }
    if (failed != 0 || *resource != original)
        resource_release(transaction->context->worker->cache, original);
    return failed;
}

static coding_preference parse_codings(const struct request *request)
{
    struct coding_weights weights = CODING_WEIGHTS_NONE;
    struct span line;
    const char *at = NULL;

    while (request_next_value(request, REQUEST_ACCEPT_ENCODING, &at, &line))
        coding_read(&weights, line);
    return coding_prefer(&weights);
}

coding_preference lookup_accepted_codings(struct transaction_context *context,
                                          const struct request *request)
{
    struct accept_encoding_memo *memo = &context->accept_encoding;
    struct span line = request->accept_encoding;

    if ((request->present & REQUEST_ACCEPT_ENCODING) == 0)
        return PREFER_IDENTITY;
    if ((request->repeated & REQUEST_ACCEPT_ENCODING) != 0 || line.length > sizeof(memo->value))
        return parse_codings(request);
    if (UNLIKELY(!span_is(line, (struct span){memo->value, memo->length}))) {
        memcpy(memo->value, line.start, line.length);
        memo->length = line.length;
        memo->preference = parse_codings(request);
    }
    return memo->preference;
}

coding_preference lookup_codings_of_range(const struct request *request, coding_preference accepts)
{
    enum coding named = CODING_IDENTITY;

    if ((request->present & REQUEST_IF_RANGE) != 0)
        named = coding_of_tag(request->if_range);
    else if ((request->present & REQUEST_IF_MATCH) != 0)
        named = coding_of_tag(request->if_match);
    return coding_prefer_for_range(accepts, named);
}

/* The thread cache */

void lookup_prefetch_set(const struct transaction_context *context, struct span target)
{
    const struct site *site =
        context->site.site != NULL ? context->site.site : context->worker->sites.fallback;

    if (LIKELY(context->thread_cache != NULL))
        thread_cache_expect(context->thread_cache, site_cache_key(site, true), target);
}

void lookup_prefetch_entry(const struct transaction_context *context)
{
    if (LIKELY(context->thread_cache != NULL))
        thread_cache_fetch(context->thread_cache);
}

struct resource *lookup_in_thread_cache(struct transaction *transaction)
{
    struct transaction_context *context = transaction->context;
    struct cache_entry *entry;
    struct resource *resource;
    uint64_t now_ns;

    if (context->thread_cache == NULL || transaction->state->loaded != NULL)
        return NULL;
    now_ns = recent_ns(context);
    entry = thread_cache_find(context->thread_cache,
                              site_cache_key(transaction->site, transaction->client->secure),
                              transaction->request->target, transaction->accepts, now_ns);
    if (entry == NULL)
        return NULL;
    resource = CONTAINER_OF(entry, struct resource, entry);
    return revalidate(transaction, resource, now_ns) == true ? resource : NULL;
}

void lookup_store_in_thread_cache(const struct transaction *transaction, struct resource *resource)
{
    struct transaction_context *context = transaction->context;

    if (context->thread_cache != NULL && resource->entry.stored && !transaction->personal &&
        transaction->until_ns > context->loop_now_ns)
        thread_cache_store(
            context->thread_cache, site_cache_key(transaction->site, transaction->client->secure),
            transaction->request->target, transaction->accepts, &resource->entry,
            transaction->outcome == OUTCOME_HIT, context->loop_now_ns, transaction->until_ns);
}
