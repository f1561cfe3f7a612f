#include "daemon/content/cache.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/hash.h"
#include "daemon/base/mutex.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

struct cache {
    pthread_mutex_t lock;
    uint32_t max_entries, max_descriptors;
    uint32_t slots;             /* live and stale entries have one */
    _Atomic uint64_t max_bytes; /* changed under lock */
    void (*destroy)(struct cache_entry *entry);
    const struct segment *segment;
    uint32_t worker_slot;
    uint64_t hash_seed; /* fixed */

    /* Guarded by lock. */
    const struct cache_policy *policy;
    struct policy_list lists[2]; /* without and with a descriptor */
    uint64_t emptied_ns;         /* time of the last flush or purge, monotonic clock */
    struct cache_entry **bucket;
    size_t bucket_mask;
    uint32_t *free_slots;
    uint32_t free_count;
    uint64_t next_id;
    uint64_t live_bytes; /* entries in the table have them */
    uint32_t *readers;   /* thread slots whose hits count */
    _Atomic uint32_t reader_count;

    _Atomic uint64_t allowed_bytes;     /* new entries may have them; UINT64_MAX: no limit */
    _Atomic uint64_t stale_bytes;       /* removed entries that are still referenced have them */
    _Atomic uint64_t stale_descriptors; /* the same */
    _Atomic uint64_t stale_entries;     /* the same */
    _Atomic uint64_t removed;           /* entries so far */
    _Atomic uint64_t freed;             /* removed entries whose memory is free, so far */
};

static uint64_t max_bytes(const struct cache *cache)
{
    return atomic_load_explicit(&cache->max_bytes, memory_order_relaxed);
}

/* Memory that live entries leave to stale ones, and as much again to the thread caches. */
static uint64_t spare_share(const struct cache *cache)
{
    return max_bytes(cache) / 16;
}

static uint64_t live_limit(const struct cache *cache)
{
    return max_bytes(cache) - 2 * spare_share(cache);
}

uint32_t cache_max_entries(const struct cache *cache)
{
    return cache->max_entries;
}

uint64_t cache_thread_share(const struct cache *cache)
{
    uint32_t readers = atomic_load_explicit(&cache->reader_count, memory_order_relaxed);

    return spare_share(cache) / (readers > 0 ? readers : 1);
}

static struct policy_list *policy_list(struct cache *cache, const struct cache_entry *entry)
{
    return &cache->lists[entry->holds_descriptor];
}

static size_t entry_count(const struct cache *cache)
{
    return cache->lists[false].count + cache->lists[true].count;
}

static struct segment_cache_entry *published(const struct cache *cache,
                                             const struct cache_entry *entry)
{
    return &segment_cache(cache->segment, cache->worker_slot)[entry->slot];
}

static _Atomic uint64_t *metrics_of(const struct cache *cache)
{
    return segment_worker(cache->segment, cache->worker_slot)->metrics;
}

static void count_one(const struct cache *cache, enum metric metric)
{
    metric_add(metrics_of(cache), metric, 1);
}

static void publish_gauges(const struct cache *cache)
{
    uint64_t stale = atomic_load_explicit(&cache->stale_bytes, memory_order_relaxed);

    metric_set(metrics_of(cache), METRIC_cache_entries, entry_count(cache));
    metric_set(metrics_of(cache), METRIC_cache_bytes, cache->live_bytes + stale);
    metric_set(metrics_of(cache), METRIC_cache_limit, max_bytes(cache));
}

enum { SPARE_SLOTS = 16 };

uint32_t cache_slots(uint32_t entries)
{
    return entries + entries / 16 + SPARE_SLOTS;
}

struct cache *cache_new(const struct cache_limits *limits, const struct cache_policy *policy,
                        void (*destroy)(struct cache_entry *entry), const struct segment *segment,
                        uint32_t worker_slot)
{
    struct cache *cache = calloc(1, sizeof(*cache));
    size_t buckets = 64;

    if (cache == NULL)
        return NULL;
    cache->slots = segment->header.cache_entries;
    /* The inverse of cache_slots(): 17 slots for 16 entries. */
    cache->max_entries = cache->slots - SPARE_SLOTS - (cache->slots - SPARE_SLOTS) / 17;
    while (buckets < cache->max_entries)
        buckets *= 2;
    cache->max_descriptors = limits->descriptors;
    atomic_init(&cache->max_bytes, limits->bytes);
    atomic_init(&cache->allowed_bytes, UINT64_MAX);
    cache->policy = policy;
    cache->destroy = destroy;
    cache->segment = segment;
    cache->worker_slot = worker_slot;
    cache->bucket_mask = buckets - 1;
    cache->bucket = calloc(buckets, sizeof(struct cache_entry *));
    cache->free_slots = calloc(cache->slots, sizeof(uint32_t));
    cache->readers = calloc(segment_count(segment, SEGMENT_THREADS), sizeof(uint32_t));
    pthread_mutex_init(&cache->lock, NULL);
    if (cache->bucket == NULL || cache->free_slots == NULL || cache->readers == NULL ||
        getrandom(&cache->hash_seed, sizeof(cache->hash_seed), 0) != sizeof(cache->hash_seed)) {
        cache_free(cache);
        return NULL;
    }
    while (cache->free_count < cache->slots) {
        cache->free_slots[cache->free_count] = cache->slots - 1 - cache->free_count;
        cache->free_count++;
    }
    publish_gauges(cache);
    return cache;
}

void cache_entry_init(struct cache_entry *entry, const char *path, size_t length, size_t bytes,
                      uint64_t now_ns)
{
    *entry = (struct cache_entry){.path = path, .path_length = length, .bytes = bytes};
    atomic_init(&entry->references, 1);
    atomic_init(&entry->claimed_ns, 0);
    atomic_init(&entry->checked_ns, now_ns);
}

/* True if any thread hit the entry since the last call. Callback of the policy. */
static bool was_hit(void *context, struct policy_node *node)
{
    struct cache *cache = context;
    struct cache_entry *entry = CONTAINER_OF(node, struct cache_entry, policy);
    uint64_t hits = 0;
    bool hit;

    for (uint32_t i = 0; i < cache->reader_count; i++) {
        const struct segment_hits *own =
            &segment_hits_of(cache->segment, cache->readers[i])[entry->slot];

        if (atomic_load_explicit(&own->id, memory_order_acquire) == entry->id)
            hits += atomic_load_explicit(&own->hits, memory_order_relaxed);
    }
    hit = hits != entry->hits_seen;
    entry->hits_seen = hits;
    return hit;
}

static uint64_t entry_hash(const struct cache *cache, uint32_t site, const char *path,
                           size_t length)
{
    return hash_bytes(path, length, hash_of_site(cache->hash_seed, site));
}

static struct cache_entry **place_of_entry(struct cache *cache, uint32_t site, const char *path,
                                           size_t length, uint64_t hash)
{
    struct cache_entry **place = &cache->bucket[hash & cache->bucket_mask];

    while (*place != NULL &&
           ((*place)->hash != hash || (*place)->site != site || (*place)->path_length != length ||
            memcmp((*place)->path, path, length) != 0))
        place = &(*place)->chain;
    return place;
}

/* Frees the slot of an entry without references. Call under the lock. */
static void reclaim(struct cache *cache, struct cache_entry *entry)
{
    atomic_fetch_sub_explicit(&cache->stale_entries, 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&cache->stale_bytes, entry->bytes, memory_order_relaxed);
    atomic_fetch_sub_explicit(&cache->stale_descriptors, entry->holds_descriptor,
                              memory_order_relaxed);
    segment_cache_state(published(cache, entry), CACHE_SLOT_FREE);
    cache->free_slots[cache->free_count++] = entry->slot;
}

void cache_acquire(struct cache_entry *entry)
{
    atomic_fetch_add_explicit(&entry->references, 1, memory_order_relaxed);
}

static bool was_last(struct cache_entry *entry)
{
    return atomic_fetch_sub_explicit(&entry->references, 1, memory_order_acq_rel) == 1;
}

/* Frees a removed entry. Not under the lock. */
static void destroy(struct cache *cache, struct cache_entry *entry)
{
    cache->destroy(entry);
    atomic_fetch_add_explicit(&cache->freed, 1, memory_order_release);
}

void cache_release(struct cache *cache, struct cache_entry *entry)
{
    if (!was_last(entry))
        return;
    if (!entry->stored) {
        cache->destroy(entry);
        return;
    }
    mutex_lock(&cache->lock);
    reclaim(cache, entry);
    publish_gauges(cache);
    pthread_mutex_unlock(&cache->lock);
    destroy(cache, entry);
}

/*
 * Removes an entry from the table and drops the table's reference. If that was the last one, adds
 * the entry to the list *DEAD, to be destroyed outside the lock; otherwise it is stale until the
 * others are dropped. Call under the lock.
 */
static void remove_cache_entry(struct cache *cache, struct cache_entry *entry,
                               struct cache_entry **dead)
{
    struct cache_entry **place =
        place_of_entry(cache, entry->site, entry->path, entry->path_length, entry->hash);

    assert(*place == entry);
    *place = entry->chain;
    policy_remove(policy_list(cache, entry), &entry->policy);
    cache->live_bytes -= entry->bytes;
    atomic_fetch_add_explicit(&cache->stale_entries, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&cache->stale_bytes, entry->bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&cache->stale_descriptors, entry->holds_descriptor,
                              memory_order_relaxed);
    atomic_fetch_add_explicit(&cache->removed, 1, memory_order_relaxed);
    atomic_store_explicit(&entry->stale, true, memory_order_release);
    segment_cache_state(published(cache, entry), CACHE_SLOT_STALE);
    if (!was_last(entry))
        return;
    reclaim(cache, entry);
    entry->chain = *dead;
    *dead = entry;
}

static void destroy_all(struct cache *cache, struct cache_entry *dead)
{
    while (dead != NULL) {
        struct cache_entry *next = dead->chain;

        destroy(cache, dead);
        dead = next;
    }
}

struct cache_entry *cache_find(struct cache *cache, uint32_t site, const char *path, size_t length)
{
    uint64_t hash = entry_hash(cache, site, path, length);
    struct cache_entry *entry;

    mutex_lock(&cache->lock);
    entry = *place_of_entry(cache, site, path, length, hash);
    if (entry != NULL)
        cache_acquire(entry);
    pthread_mutex_unlock(&cache->lock);
    return entry;
}

static void evict_one(struct cache *cache, struct policy_list *list, struct cache_entry **dead)
{
    struct policy_node *victim = cache->policy->victim(list, was_hit, cache);

    remove_cache_entry(cache, CONTAINER_OF(victim, struct cache_entry, policy), dead);
    count_one(cache, METRIC_cache_evicted);
}

/* Evicts until BYTES and ENTRIES more fit. Call under the lock. */
static void evict_for(struct cache *cache, size_t bytes, uint32_t entries,
                      struct cache_entry **dead)
{
    while (entry_count(cache) > 0 && (cache->live_bytes + bytes > live_limit(cache) ||
                                      entry_count(cache) + entries > cache->max_entries))
        evict_one(cache, &cache->lists[cache->lists[false].count == 0], dead);
}

static void put_in(struct cache *cache, struct cache_entry *entry)
{
    struct cache_entry **place = &cache->bucket[entry->hash & cache->bucket_mask];

    cache_acquire(entry);
    entry->slot = cache->free_slots[--cache->free_count];
    entry->id = ++cache->next_id;
    entry->stored = true;
    entry->chain = *place;
    *place = entry;
    policy_insert(policy_list(cache, entry), &entry->policy);
    cache->live_bytes += entry->bytes;
    segment_cache_publish(published(cache, entry), entry->id, clock_wall_ns(), entry->bytes,
                          CACHE_SLOT_LIVE, entry->path);
    count_one(cache, METRIC_cache_inserted);
}

static bool take_allowance(struct cache *cache, uint64_t bytes)
{
    uint64_t allowed = atomic_load_explicit(&cache->allowed_bytes, memory_order_relaxed);

    do {
        if (allowed == UINT64_MAX)
            return true;
        if (allowed < bytes)
            return false;
    } while (!atomic_compare_exchange_weak_explicit(&cache->allowed_bytes, &allowed,
                                                    allowed - bytes, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

void cache_insert(struct cache *cache, struct cache_entry *entry)
{
    struct policy_list *open = &cache->lists[true]; /* the entries with a descriptor */
    struct cache_entry *dead = NULL, *other;
    uint64_t others_bytes;

    if (entry->bytes > live_limit(cache))
        return; /* never fits; do not evict others for it */
    if (!take_allowance(cache, entry->bytes))
        return;
    entry->hash = entry_hash(cache, entry->site, entry->path, entry->path_length);
    mutex_lock(&cache->lock);
    other = *place_of_entry(cache, entry->site, entry->path, entry->path_length, entry->hash);
    if (other != NULL)
        remove_cache_entry(cache, other, &dead);
    evict_for(cache, entry->bytes, 1, &dead);
    while (entry->holds_descriptor && open->count > 0 && open->count >= cache->max_descriptors)
        evict_one(cache, open, &dead);
    others_bytes =
        cache->live_bytes + atomic_load_explicit(&cache->stale_bytes, memory_order_relaxed);
    /* If its loading began before the last flush or purge, it may have old content. */
    if (atomic_load_explicit(&entry->checked_ns, memory_order_relaxed) >= cache->emptied_ns &&
        cache->free_count > 0 && others_bytes + entry->bytes <= max_bytes(cache))
        put_in(cache, entry);
    publish_gauges(cache);
    pthread_mutex_unlock(&cache->lock);
    destroy_all(cache, dead);
}

/* Flush, purge, resize */

/* Also matches variants: their path is the file's, "//" and a coding. */
static bool path_matches(const char *path, const struct cache_entry *entry)
{
    size_t length = strlen(path);
    bool beginning = length > 0 && (path[length - 1] == '/' || path[length - 1] == '*');

    if (beginning && path[length - 1] == '*')
        length--;
    return entry->path_length >= length && memcmp(entry->path, path, length) == 0 &&
           (beginning || entry->path_length == length ||
            strncmp(entry->path + length, "//", 2) == 0);
}

uint64_t cache_purge(struct cache *cache, const char *path)
{
    struct cache_entry *dead = NULL;
    uint64_t count = 0;

    mutex_lock(&cache->lock);
    cache->emptied_ns = clock_monotonic_ns();
    for (int i = 0; i < 2; i++)
        for (struct policy_node *node = cache->lists[i].newest; node != NULL;) {
            struct cache_entry *entry = CONTAINER_OF(node, struct cache_entry, policy);

            node = node->older;
            if (!path_matches(path, entry))
                continue;
            remove_cache_entry(cache, entry, &dead);
            count_one(cache, METRIC_cache_purged);
            count++;
        }
    publish_gauges(cache);
    pthread_mutex_unlock(&cache->lock);
    destroy_all(cache, dead);
    return count;
}

uint64_t cache_flush(struct cache *cache)
{
    return cache_purge(cache, "*");
}

uint64_t cache_resize(struct cache *cache, uint64_t bytes)
{
    struct cache_entry *dead = NULL;
    uint64_t before;

    mutex_lock(&cache->lock);
    before = entry_count(cache);
    atomic_store_explicit(&cache->max_bytes, bytes, memory_order_relaxed);
    evict_for(cache, 0, 0, &dead);
    before -= entry_count(cache);
    publish_gauges(cache);
    pthread_mutex_unlock(&cache->lock);
    destroy_all(cache, dead);
    return before;
}

void cache_allow(struct cache *cache, uint64_t bytes)
{
    atomic_store_explicit(&cache->allowed_bytes, bytes, memory_order_relaxed);
}

uint64_t cache_shed(struct cache *cache)
{
    struct cache_entry *dead = NULL;
    uint64_t count = 0, keep;

    mutex_lock(&cache->lock);
    keep = cache->live_bytes / 2;
    while (cache->live_bytes > keep) {
        evict_one(cache, &cache->lists[cache->lists[false].count == 0], &dead);
        count_one(cache, METRIC_cache_shed);
        count++;
    }
    publish_gauges(cache);
    pthread_mutex_unlock(&cache->lock);
    destroy_all(cache, dead);
    return count;
}

void cache_close_unused(struct cache *cache)
{
    struct cache_entry *dead = NULL;
    struct policy_node *node;

    mutex_lock(&cache->lock);
    node = cache->lists[true].newest;
    while (node != NULL) {
        struct cache_entry *entry = CONTAINER_OF(node, struct cache_entry, policy);

        node = node->older;
        if (was_hit(cache, &entry->policy))
            continue;
        remove_cache_entry(cache, entry, &dead);
        count_one(cache, METRIC_cache_evicted);
    }
    publish_gauges(cache);
    pthread_mutex_unlock(&cache->lock);
    destroy_all(cache, dead);
}

void cache_set_policy(struct cache *cache, const struct cache_policy *policy)
{
    mutex_lock(&cache->lock);
    cache->policy = policy;
    pthread_mutex_unlock(&cache->lock);
}

void cache_invalidate(struct cache *cache, struct cache_entry *entry)
{
    struct cache_entry *dead = NULL;

    mutex_lock(&cache->lock);
    if (entry->stored && !atomic_load_explicit(&entry->stale, memory_order_relaxed)) {
        remove_cache_entry(cache, entry, &dead);
        count_one(cache, METRIC_cache_invalidated);
        publish_gauges(cache);
    }
    pthread_mutex_unlock(&cache->lock);
    destroy_all(cache, dead);
}

bool cache_claim_check(struct cache_entry *entry, uint64_t now_ns, uint64_t max_age_ns)
{
    uint64_t checked = atomic_load_explicit(&entry->checked_ns, memory_order_relaxed);
    uint64_t claimed = atomic_load_explicit(&entry->claimed_ns, memory_order_relaxed);

    if (now_ns >= checked + max_age_ns)
        return true;
    return claimed != checked &&
           atomic_compare_exchange_strong_explicit(&entry->claimed_ns, &claimed, checked,
                                                   memory_order_relaxed, memory_order_relaxed);
}

/* Two callers at once may store the earlier time, and then the entry is only checked sooner. */
void cache_set_checked(struct cache_entry *entry, uint64_t began_ns)
{
    if (began_ns > atomic_load_explicit(&entry->checked_ns, memory_order_relaxed))
        atomic_store_explicit(&entry->checked_ns, began_ns, memory_order_relaxed);
}

static uint64_t stale(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

uint64_t cache_freed(const struct cache *cache)
{
    return atomic_load_explicit(&cache->freed, memory_order_acquire);
}

/* Reads the smaller number first: it never misses an entry. */
bool cache_frees_soon(const struct cache *cache)
{
    uint64_t freed = cache_freed(cache);

    return atomic_load_explicit(&cache->removed, memory_order_relaxed) != freed;
}

bool cache_wants_sweep(const struct cache *cache, uint64_t *seen)
{
    uint64_t removed;

    if (LIKELY(stale(&cache->stale_bytes) <= spare_share(cache) &&
               stale(&cache->stale_entries) <= (cache->slots - cache->max_entries) / 2 &&
               stale(&cache->stale_descriptors) == 0))
        return false;
    removed = atomic_load_explicit(&cache->removed, memory_order_relaxed);
    if (removed == *seen)
        return false;
    *seen = removed;
    return true;
}

void cache_add_reader(struct cache *cache, uint32_t thread_slot)
{
    mutex_lock(&cache->lock);
    cache->readers[cache->reader_count++] = thread_slot;
    pthread_mutex_unlock(&cache->lock);
}

void cache_remove_reader(struct cache *cache, uint32_t thread_slot)
{
    mutex_lock(&cache->lock);
    for (uint32_t i = 0; i < cache->reader_count; i++)
        if (cache->readers[i] == thread_slot)
            cache->readers[i--] = cache->readers[--cache->reader_count];
    pthread_mutex_unlock(&cache->lock);
}

void cache_free(struct cache *cache)
{
    struct cache_entry *dead = NULL;

    if (cache == NULL)
        return;
    for (int i = 0; i < 2; i++)
        while (cache->lists[i].newest != NULL)
            remove_cache_entry(
                cache, CONTAINER_OF(cache->lists[i].newest, struct cache_entry, policy), &dead);
    destroy_all(cache, dead);
    pthread_mutex_destroy(&cache->lock);
    free(cache->bucket);
    free(cache->free_slots);
    free(cache->readers);
    free(cache);
}
