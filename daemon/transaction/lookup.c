#include "daemon/transaction/lookup.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/probes.h"
#include "daemon/content/thread_cache.h"
#include "daemon/content/variants.h"
#include "daemon/http/target.h"
#include "daemon/transaction/loading.h"
#include "daemon/transaction/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { VARIANT_PATH_MAX = TARGET_PATH_MAX + 8 };

int lookup_status(int failed)
{
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
        if (transaction->may_wait && loading_submit(transaction, path, NULL, CODING_IDENTITY))
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
static bool load_again(struct transaction *transaction, struct span path, struct resource *original,
                       enum coding coding, struct attempt *attempt)
{
    enum memory_room room;

    if (attempt->failed != ENOMEM)
        return false;
    room = memory_find_room(transaction->context, attempt->freed);
    if (room == MEMORY_FREED && ++attempt->tries < MEMORY_EAGER_TRIES)
        return true;
    if (room != MEMORY_NONE && transaction->may_wait &&
        loading_submit(transaction, path, original, coding))
        attempt->failed = LOOKUP_MUST_WAIT;
    return false;
}

static int load_now(struct transaction *transaction, struct span path, struct resource **found)
{
    struct attempt attempt = {.tries = 0};

    do {
        attempt.freed = memory_freed(transaction->context->worker);
        attempt.failed = try_to_load(transaction, path, found);
    } while (load_again(transaction, path, NULL, CODING_IDENTITY, &attempt));
    return attempt.failed;
}

/*
 * The current time, at most some milliseconds late. The time of the loop iteration may be long ago
 * if the thread got no CPU time or waited for a disk. The coarse clock costs a fraction of the exact
 * one.
 */
static uint64_t recent_ns(const struct transaction_context *context)
{
    uint64_t coarse_ns = clock_read_ns(CLOCK_MONOTONIC_COARSE);

    return coarse_ns > context->loop_now_ns ? coarse_ns : context->loop_now_ns;
}

/*
 * Returns true if RESOURCE is unchanged in the file system, false if not, or LOOKUP_MUST_WAIT. The
 * lateness of the clock is within the margin of a check that is due.
 */
static int revalidate(struct transaction *transaction, struct resource *resource)
{
    struct transaction_context *context = transaction->context;
    const struct worker_context *worker = context->worker;
    const struct resource_source *source = &transaction->site->source;
    uint64_t max_age_ns = worker->config->cache_revalidate * NS_PER_MS;
    uint64_t now_ns = recent_ns(context);
    int changed;

    if (LIKELY(!cache_check_is_due(&resource->entry, now_ns, max_age_ns)) ||
        !cache_claim_check(&resource->entry, clock_monotonic_ns(), max_age_ns))
        return true;
    segment_activity_state(context->activity, THREAD_STATE_FILE, now_ns);
    changed = resource_check(source, resource, FILES_CACHED_ONLY, &context->directory, now_ns);
    if (changed == EAGAIN && transaction->may_wait &&
        loading_submit(transaction, resource->file_path, NULL, CODING_IDENTITY))
        return LOOKUP_MUST_WAIT;
    if (changed == EAGAIN)
        changed = resource_check(source, resource, FILES_MAY_BLOCK, &context->directory, now_ns);
    if (changed == 0) {
        cache_set_checked(&resource->entry, now_ns);
        return true;
    }
    cache_invalidate(worker->cache, &resource->entry);
    return false;
}

static struct cache_entry *find_in_cache(const struct transaction *transaction, struct span path)
{
    struct cache *cache = transaction->context->worker->cache;

    return cache != NULL ? cache_find(cache, transaction->site->number, path.start, path.length)
                         : NULL;
}

int lookup_path(struct transaction *transaction, const char *path, size_t length,
                struct resource **found)
{
    struct transaction_context *context = transaction->context;
    struct span name = {path, length};
    struct cache_entry *entry;
    int failed, fresh;

    if (loading_take(transaction, name, found, &failed))
        return failed;
    if (context->negative_cache != NULL &&
        negative_cache_has(context->negative_cache, transaction->site->number, name,
                           clock_monotonic_ns())) {
        PROBE_CACHE_MISS(name, 1);
        transaction->outcome = OUTCOME_MISS;
        return ENOENT;
    }
    transaction->outcome = OUTCOME_HIT;
    segment_activity_state(context->activity, THREAD_STATE_LOCK, context->loop_now_ns);
    entry = find_in_cache(transaction, name);
    if (entry != NULL) {
        *found = CONTAINER_OF(entry, struct resource, entry);
        fresh = revalidate(transaction, *found);
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

void lookup_forget(const struct transaction *transaction, const char *path, size_t length)
{
    const struct transaction_context *context = transaction->context;

    if (context->negative_cache != NULL)
        negative_cache_remove(context->negative_cache, transaction->site->number,
                              (struct span){path, length});
    loading_discard(transaction->state, context->worker->cache);
}

/* Variants */

static struct span variant_path(const struct resource *original, enum coding coding, char *buffer)
{
    int length = snprintf(buffer, VARIANT_PATH_MAX, "%s" RESOURCE_VARIANT_MARK "%s",
                          original->entry.path, coding_names[coding].start);

    return (struct span){buffer, (size_t)length};
}

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
    } while (load_again(transaction, path, original, coding, &attempt));
    failed = attempt.failed;
    if (failed == 0)
        store_in_cache(context, *found);
    if (failed != EAGAIN && failed != EBUSY)
        return failed;
    if (transaction->may_wait && loading_submit(transaction, path, original, coding))
        return LOOKUP_MUST_WAIT;
    return EBUSY;
}

/* Results as those of lookup_variant(). */
static int find_or_load_variant(struct transaction *transaction, struct resource *original,
                                enum coding coding, struct resource **found)
{
    char buffer[VARIANT_PATH_MAX] UNINITIALIZED;
    struct span path = variant_path(original, coding, buffer);
    int failed;

    if (path.length >= VARIANT_PATH_MAX)
        return ENAMETOOLONG;
    if (loading_take(transaction, path, found, &failed))
        return failed;
    *found = find_variant(transaction, path, original);
    if (*found != NULL)
        return 0;
    if (transaction->outcome == OUTCOME_HIT)
        transaction->outcome = OUTCOME_MISS;
    return load_variant(transaction, path, original, coding, found);
}

static bool has_variant(const struct resource *resource, enum coding coding)
{
    return resource->variants.member[coding].inode != 0 ||
           (coding == CODING_GZIP && resource->may_gzip &&
            !atomic_load_explicit(&resource->gzip_not_smaller, memory_order_relaxed));
}

/* Returns EBUSY if an acceptable variant exists but cannot be loaded now. */
static int choose_variant(struct transaction *transaction, struct resource *resource,
                          struct resource **chosen)
{
    coding_preference accepts = transaction->accepts;
    int result = LOOKUP_NOT_ACCEPTABLE;
    enum coding coding;

    while (coding_next(&accepts, &coding)) {
        int failed;

        if (coding == CODING_IDENTITY) {
            *chosen = resource;
            return 0;
        }
        if (!has_variant(resource, coding))
            continue;
        failed = find_or_load_variant(transaction, resource, coding, chosen);
        if (failed == 0 || failed == LOOKUP_MUST_WAIT)
            return failed;
        if (failed == EBUSY)
            result = EBUSY;
    }
    return result;
}

int lookup_variant(struct transaction *transaction, struct resource **resource)
{
    struct resource *original = *resource;
    int failed = choose_variant(transaction, original, resource);

    if (failed != 0 || *resource != original)
        resource_release(transaction->context->worker->cache, original);
    return failed;
}

static coding_preference parse_line(struct span line)
{
    struct coding_weights weights = CODING_WEIGHTS_NONE;

    coding_read(&weights, line);
    return coding_prefer(&weights);
}

static coding_preference parse_lines(const struct request *request)
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
    if ((request->repeated & REQUEST_ACCEPT_ENCODING) != 0)
        return parse_lines(request);
    if (line.length > sizeof(memo->value))
        return parse_line(line);
    if (UNLIKELY(!span_is(line, (struct span){memo->value, memo->length}))) {
        memcpy(memo->value, line.start, line.length);
        memo->length = line.length;
        memo->preference = parse_line(line);
    }
    return memo->preference;
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

    if (context->thread_cache == NULL || transaction->state->loaded != NULL)
        return NULL;
    entry = thread_cache_find(
        context->thread_cache, site_cache_key(transaction->site, transaction->client->secure),
        transaction->request->target, transaction->accepts, context->loop_now_ns);
    if (entry == NULL)
        return NULL;
    resource = CONTAINER_OF(entry, struct resource, entry);
    return revalidate(transaction, resource) == true ? resource : NULL;
}

void lookup_store_in_thread_cache(const struct transaction *transaction, struct resource *resource)
{
    struct transaction_context *context = transaction->context;

    if (context->thread_cache != NULL && resource->entry.stored && !transaction->personal)
        thread_cache_store(context->thread_cache,
                           site_cache_key(transaction->site, transaction->client->secure),
                           transaction->request->target, transaction->accepts, &resource->entry,
                           transaction->outcome == OUTCOME_HIT, context->loop_now_ns);
}
