#include "daemon/transaction/lookup.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/content/negative_cache.h"
#include "daemon/content/variants.h"
#include "daemon/http/target.h"
#include "daemon/transaction/loading.h"
#include "daemon/worker/thread.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { VARIANT_PATH_MAX = TARGET_PATH_MAX + 8 };

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
        if (exchange->may_wait &&
            loading_submit(exchange, (struct span){path, length}, NULL, CODING_IDENTITY))
            return LOOKUP_MUST_WAIT;
        /* Opens are never refused: the loop does them itself. Reading a cold file is. */
        failed = resource_load(source, path, length, FILES_MAY_BLOCK, FILES_CACHED_ONLY,
                               thread->turn_ns, found);
        if (failed == EBUSY)
            metric_add(thread->metrics, METRIC_offload_rejected, 1);
    }
    if (failed == 0)
        remember(exchange, *found);
    if (failed == ENOENT && thread->negative_cache != NULL)
        negative_cache_add(thread->negative_cache, (struct span){path, length}, thread->turn_ns);
    return failed;
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
    changed = resource_check(&thread->site->source, resource, FILES_CACHED_ONLY, &thread->directory,
                             thread->turn_ns);
    if (changed == EAGAIN && exchange->may_wait &&
        loading_submit(exchange, resource->file_path, NULL, CODING_IDENTITY))
        return LOOKUP_MUST_WAIT;
    if (changed == EAGAIN)
        changed = resource_check(&thread->site->source, resource, FILES_MAY_BLOCK,
                                 &thread->directory, thread->turn_ns);
    if (changed == 0)
        return true;
    cache_invalidate(thread->site->cache, &resource->entry);
    return false;
}

static bool is_missing(const struct serving_thread *thread, struct span path)
{
    return thread->negative_cache != NULL &&
           negative_cache_has(thread->negative_cache, path, thread->turn_ns);
}

int lookup_path(struct exchange *exchange, const char *path, size_t length, struct resource **found)
{
    struct cache *cache = exchange->thread->site->cache;
    struct cache_entry *entry;
    int failed, fresh;

    if (loading_take(exchange, (struct span){path, length}, found, &failed))
        return failed;
    if (is_missing(exchange->thread, (struct span){path, length})) {
        exchange->outcome = OUTCOME_MISS;
        return ENOENT;
    }
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

static struct span form_path(const struct resource *original, enum coding coding, char *buffer)
{
    int length = snprintf(buffer, VARIANT_PATH_MAX, "%s" RESOURCE_VARIANT_MARK "%s",
                          original->entry.path, coding_names[coding].start);

    return (struct span){buffer, (size_t)length};
}

/* The variant that the cache has, if it is of the same state of the file. */
static struct resource *cached_form(struct exchange *exchange, struct span path,
                                    const struct resource *original)
{
    struct cache *cache = exchange->thread->site->cache;
    struct cache_entry *entry = cache != NULL ? cache_find(cache, path.start, path.length) : NULL;
    struct resource *variant;

    if (entry == NULL)
        return NULL;
    variant = CONTAINER_OF(entry, struct resource, entry);
    if (!variants_equal(&variant->variants, &original->variants)) {
        cache_release(cache, entry);
        return NULL;
    }
    resource_share_check(variant, original);
    return variant;
}

/* A variant that lies beside the file; what would wait for a disk goes to an offload thread. Making one
 * always goes there. */
static int load_form(struct exchange *exchange, struct span path, struct resource *original,
                     enum coding coding, struct resource **found)
{
    struct serving_thread *thread = exchange->thread;
    int failed = resource_load_variant(&thread->site->source, original, coding, FILES_CACHED_ONLY,
                                       FILES_CACHED_ONLY, thread->turn_ns, found);

    if (failed == 0)
        remember(exchange, *found);
    if (failed != EAGAIN && failed != EBUSY)
        return failed;
    if (exchange->may_wait && loading_submit(exchange, path, original, coding))
        return LOOKUP_MUST_WAIT;
    return EBUSY;
}

int lookup_form(struct exchange *exchange, struct resource *original, enum coding coding,
                struct resource **found)
{
    char buffer[VARIANT_PATH_MAX];
    struct span path = form_path(original, coding, buffer);
    int failed;

    if (path.length >= VARIANT_PATH_MAX)
        return ENAMETOOLONG;
    if (loading_take(exchange, path, found, &failed))
        return failed;
    *found = cached_form(exchange, path, original);
    if (*found != NULL)
        return 0;
    if (exchange->outcome == OUTCOME_HIT)
        exchange->outcome = OUTCOME_MISS;
    return load_form(exchange, path, original, coding, found);
}

/* What stands where a request line has its target; empty: nothing does. */
static struct span probable_target(const char *data, size_t length)
{
    enum { METHOD_LONGEST = 8 };
    const char *space = memchr(data, ' ', length < METHOD_LONGEST ? length : METHOD_LONGEST);
    const char *end =
        space != NULL ? memchr(space + 1, ' ', (size_t)(data + length - space) - 1) : NULL;

    return end != NULL ? (struct span){space + 1, (size_t)(end - space) - 1} : SPAN("");
}

void lookup_expect(const struct serving_thread *thread, const char *data, size_t length)
{
    if (LIKELY(thread->thread_cache != NULL))
        thread_cache_expect(thread->thread_cache, probable_target(data, length));
}

void lookup_fetch(const struct serving_thread *thread)
{
    if (LIKELY(thread->thread_cache != NULL))
        thread_cache_fetch(thread->thread_cache);
}

struct resource *lookup_front(struct exchange *exchange)
{
    struct serving_thread *thread = exchange->thread;
    struct cache_entry *entry;
    struct resource *resource;

    if (thread->thread_cache == NULL || exchange->connection->loaded != NULL)
        return NULL;
    entry = thread_cache_find(thread->thread_cache, exchange->request->target, exchange->accepts,
                              thread->turn_ns);
    if (entry == NULL)
        return NULL;
    resource = CONTAINER_OF(entry, struct resource, entry);
    return still_true(exchange, resource) == true ? resource : NULL;
}

void lookup_store_front(const struct exchange *exchange, struct resource *resource)
{
    struct serving_thread *thread = exchange->thread;

    if (thread->thread_cache != NULL && resource->entry.stored)
        thread_cache_store(thread->thread_cache, exchange->request->target, exchange->accepts,
                           &resource->entry, exchange->outcome == OUTCOME_HIT, thread->turn_ns);
}

int lookup_status(int failed)
{
    if (failed == LOOKUP_NOT_ACCEPTABLE)
        return 406;
    return failed == EBUSY ? 503 : files_status(failed);
}
