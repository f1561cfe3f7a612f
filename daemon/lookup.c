#include "daemon/lookup.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void run_load(struct offload_job *job)
{
    struct load_job *load = CONTAINER_OF(job, struct load_job, job);

    load->failed = resource_load(&load->site->source, load->path, load->length, FILES_MAY_BLOCK,
                                 FILES_MAY_BLOCK, load->job.queued_ns, &load->resource);
}

/* Gives the loading to an offload thread. False: the queue is full, or memory is short. */
static bool submit_load(const struct exchange *exchange, const char *path, size_t length)
{
    struct serving_thread *thread = exchange->thread;
    struct load_job *load = calloc(1, sizeof(*load) + length + 1);

    if (load == NULL)
        return false;
    load->job.run = run_load;
    load->job.work = load->path;
    load->job.owner = &thread->mailbox;
    load->job.kind = LETTER_LOADED;
    load->connection = exchange->connection;
    load->site = thread->site;
    load->length = length;
    memcpy(load->path, path, length);
    if (!offload_submit(thread->site->offload, &load->job, thread->turn_ns)) {
        free(load);
        return false;
    }
    exchange->connection->job_out = true;
    thread->jobs_out++;
    metric_add(thread->metrics, METRIC_offloaded, 1);
    return true;
}

static void remember(const struct exchange *exchange, struct resource *resource)
{
    if (exchange->thread->site->cache != NULL)
        cache_insert(exchange->thread->site->cache, &resource->entry);
}

/* Opens and reads without waiting for a disk; what would wait goes to an offload thread. */
static int load_now(struct exchange *exchange, const char *path, size_t length,
                    struct resource **found)
{
    struct serving_thread *thread = exchange->thread;
    const struct resource_source *source = &thread->site->source;
    int failed;

    segment_activity_state(thread->activity, THREAD_STATE_FILE, thread->turn_ns);
    failed = resource_load(source, path, length, FILES_CACHED_ONLY, FILES_CACHED_ONLY,
                           thread->turn_ns, found);
    if (failed == EAGAIN || failed == EBUSY) {
        if (exchange->may_wait && submit_load(exchange, path, length))
            return LOOKUP_MUST_WAIT;
        /* Opens are never refused: the loop does them itself. Reading a cold file is. */
        failed = resource_load(source, path, length, FILES_MAY_BLOCK, FILES_CACHED_ONLY,
                               thread->turn_ns, found);
        if (failed == EBUSY)
            metric_add(thread->metrics, METRIC_offload_refused, 1);
    }
    if (failed == 0)
        remember(exchange, *found);
    return failed;
}

/* What an offload thread brought for this path, if it did: 0 and a reference, or its errno. */
static bool take_loaded(struct exchange *exchange, const char *path, size_t length,
                        struct resource **found, int *failed)
{
    for (struct load_job *load = exchange->connection->loaded; load != NULL; load = load->next) {
        if (load->length != length || memcmp(load->path, path, length) != 0)
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

/* True when the entry is still what the file system has; LOOKUP_MUST_WAIT when that takes a disk. */
static int still_true(struct exchange *exchange, struct resource *resource)
{
    struct serving_thread *thread = exchange->thread;
    uint64_t max_age_ns = thread->site->config->cache_revalidate * NS_PER_MS;
    int changed;

    if (!cache_claim_check(&resource->entry, thread->turn_ns, max_age_ns))
        return true;
    segment_activity_state(thread->activity, THREAD_STATE_FILE, thread->turn_ns);
    changed = resource_check(&thread->site->source, resource, FILES_CACHED_ONLY);
    if (changed == EAGAIN && exchange->may_wait &&
        submit_load(exchange, resource->entry.path, resource->entry.path_length))
        return LOOKUP_MUST_WAIT;
    if (changed == EAGAIN)
        changed = resource_check(&thread->site->source, resource, FILES_MAY_BLOCK);
    if (changed == 0)
        return true;
    cache_invalidate(thread->site->cache, &resource->entry);
    return false;
}

int lookup_path(struct exchange *exchange, const char *path, size_t length, struct resource **found)
{
    struct cache *cache = exchange->thread->site->cache;
    struct cache_entry *entry;
    int failed, fresh;

    if (take_loaded(exchange, path, length, found, &failed))
        return failed;
    exchange->outcome = OUTCOME_HIT;
    segment_activity_state(exchange->thread->activity, THREAD_STATE_LOCK,
                           exchange->thread->turn_ns);
    entry = cache != NULL ? cache_find(cache, path, length) : NULL;
    if (entry != NULL) {
        *found = CONTAINER_OF(entry, struct resource, entry);
        fresh = still_true(exchange, *found);
        if (fresh == true)
            return 0;
        cache_release(cache, entry);
        if (fresh == LOOKUP_MUST_WAIT)
            return LOOKUP_MUST_WAIT;
    }
    exchange->outcome = OUTCOME_MISS;
    return load_now(exchange, path, length, found);
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

struct connection *lookup_loaded(struct load_job *job)
{
    struct connection *connection = job->connection;
    struct serving_thread *thread = connection->thread;

    thread->jobs_out--;
    connection->job_out = false;
    job->next = connection->loaded;
    connection->loaded = job;
    if (job->resource != NULL && thread->site->cache != NULL)
        cache_insert(thread->site->cache, &job->resource->entry);
    else if (thread->site->cache != NULL)
        forget_path(thread->site->cache, job->path, job->length);
    return connection;
}

void lookup_forget(struct connection *connection, struct cache *cache)
{
    struct load_job *load;

    while ((load = connection->loaded) != NULL) {
        connection->loaded = load->next;
        if (load->resource != NULL)
            resource_release(cache, load->resource);
        free(load);
    }
}

struct resource *lookup_front(struct exchange *exchange)
{
    struct serving_thread *thread = exchange->thread;
    struct cache_entry *entry;
    struct resource *resource;

    if (thread->front == NULL || exchange->connection->loaded != NULL)
        return NULL;
    entry = cache_front_find(thread->front, exchange->request->target, thread->turn_ns);
    if (entry == NULL)
        return NULL;
    resource = CONTAINER_OF(entry, struct resource, entry);
    return still_true(exchange, resource) == true ? resource : NULL;
}

void lookup_store_front(const struct exchange *exchange, struct resource *resource)
{
    struct serving_thread *thread = exchange->thread;

    if (thread->front != NULL && resource->entry.stored)
        cache_front_store(thread->front, exchange->request->target, &resource->entry,
                          thread->turn_ns);
}

int lookup_status(int failed)
{
    return failed == EBUSY ? 503 : files_status(failed);
}
