#include "daemon/content/thread_cache.h"

#include "common/macros.h"
#include "daemon/base/hash.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum { WAYS = 5, FETCHED = 20 * CACHE_LINE };

struct item {
    coding_preference accepts;
    size_t length;
    char target[];
};

/*
 * Two cache lines. A set has pointers to both item and entry: they are far apart and rarely in the
 * CPU's caches, and so both can be prefetched at the same time.
 */
struct set {
    uint64_t hash[WAYS]; /* 0: empty */
    struct item *item[WAYS];
    struct cache_entry *entry[WAYS];
    uint64_t padding;
};

static_assert(sizeof(struct set) == 2 * CACHE_LINE, "a set is two cache lines");

struct thread_cache {
    struct cache *shared;
    struct segment_hits *hits;
    uint64_t seed;
    uint64_t expected; /* hash of the last expected target */
    size_t mask;
    struct set *sets;  /* in memory, aligned to a cache line */
    void *memory;      /* zeroed pages, not resident until written */
    uint32_t next_way; /* the next to replace in a full set */
};

struct thread_cache *thread_cache_new(struct cache *shared, uint32_t entries,
                                      struct segment_hits *hits)
{
    struct thread_cache *cache = calloc(1, sizeof(*cache));
    size_t sets = 16;

    while (sets * WAYS < 2 * (size_t)entries)
        sets *= 2;
    if (cache == NULL)
        return NULL;
    cache->shared = shared;
    cache->hits = hits;
    cache->mask = sets - 1;
    cache->memory = calloc(1, sets * sizeof(struct set) + CACHE_LINE);
    if (cache->memory == NULL ||
        getrandom(&cache->seed, sizeof(cache->seed), 0) != sizeof(cache->seed)) {
        free(cache->memory);
        free(cache);
        return NULL;
    }
    cache->sets =
        (struct set *)(((uintptr_t)cache->memory + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE);
    cache->expected = 1; /* any value but 0 */
    return cache;
}

static void drop(struct thread_cache *cache, struct set *set, size_t way)
{
    struct item *item = set->item[way];

    if (item == NULL)
        return;
    set->item[way] = NULL;
    set->hash[way] = 0;
    cache_release(cache->shared, set->entry[way]);
    free(item);
}

void thread_cache_free(struct thread_cache *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i <= cache->mask; i++)
        for (size_t way = 0; way < WAYS; way++)
            drop(cache, &cache->sets[i], way);
    free(cache->memory);
    free(cache);
}

static bool is_stale(const struct cache_entry *entry)
{
    return atomic_load_explicit(&entry->stale, memory_order_acquire);
}

void thread_cache_sweep(struct thread_cache *cache)
{
    for (size_t i = 0; i <= cache->mask; i++)
        for (size_t way = 0; way < WAYS; way++) {
            struct set *set = &cache->sets[i];

            if (set->item[way] != NULL && is_stale(set->entry[way]))
                drop(cache, set, way);
        }
}

/* Never returns 0, which marks an empty way. */
static uint64_t hash_of(const struct thread_cache *cache, struct span target)
{
    return hash_bytes(target.start, target.length, cache->seed) | 1;
}

static struct set *set_of(const struct thread_cache *cache, uint64_t hash)
{
    return &cache->sets[(hash >> 1) & cache->mask];
}

void thread_cache_expect(struct thread_cache *cache, struct span target)
{
    const char *set;

    cache->expected = hash_of(cache, target);
    set = (const char *)set_of(cache, cache->expected);
    for (size_t i = 0; i < sizeof(struct set); i += CACHE_LINE)
        __builtin_prefetch(set + i);
}

void thread_cache_fetch(const struct thread_cache *cache)
{
    const struct set *set = set_of(cache, cache->expected);

    for (size_t way = 0; way < WAYS; way++) {
        if (set->hash[way] != cache->expected)
            continue;
        __builtin_prefetch(set->item[way]);
        for (size_t i = 0; i < FETCHED; i += CACHE_LINE)
            __builtin_prefetch((const char *)&set->entry[way]->slot + i);
    }
}

static void count_hits(struct thread_cache *cache, uint32_t slot, uint64_t more, uint64_t now_ns)
{
    struct segment_hits *hits = &cache->hits[slot];
    uint64_t count = atomic_load_explicit(&hits->hits, memory_order_relaxed);

    atomic_store_explicit(&hits->hits, count + more, memory_order_relaxed);
    atomic_store_explicit(&hits->last_hit_ns, now_ns, memory_order_relaxed);
}

/*
 * Resets the hits of a slot that another entry used. Stores the id last, because readers check it.
 */
static void claim_hits(struct thread_cache *cache, const struct cache_entry *entry)
{
    struct segment_hits *hits = &cache->hits[entry->slot];

    if (atomic_load_explicit(&hits->id, memory_order_relaxed) == entry->id)
        return;
    atomic_store_explicit(&hits->id, 0, memory_order_relaxed);
    atomic_store_explicit(&hits->hits, 0, memory_order_release);
    atomic_store_explicit(&hits->id, entry->id, memory_order_release);
}

static bool same(const struct item *item, struct span target, coding_preference accepts)
{
    return item->length == target.length && item->accepts == accepts &&
           memcmp(item->target, target.start, target.length) == 0;
}

struct cache_entry *thread_cache_find(struct thread_cache *cache, struct span target,
                                      coding_preference accepts, uint64_t now_ns)
{
    uint64_t hash = hash_of(cache, target);
    struct set *set = set_of(cache, hash);

    for (size_t way = 0; way < WAYS; way++) {
        if (set->hash[way] != hash || !same(set->item[way], target, accepts))
            continue;
        if (UNLIKELY(is_stale(set->entry[way]))) {
            drop(cache, set, way);
            return NULL;
        }
        count_hits(cache, set->entry[way]->slot, 1, now_ns);
        return set->entry[way];
    }
    return NULL;
}

static size_t free_way(struct thread_cache *cache, const struct set *set)
{
    for (size_t way = 0; way < WAYS; way++)
        if (set->item[way] == NULL)
            return way;
    return cache->next_way++ % WAYS;
}

void thread_cache_store(struct thread_cache *cache, struct span target, coding_preference accepts,
                        struct cache_entry *entry, bool hit, uint64_t now_ns)
{
    uint64_t hash = hash_of(cache, target);
    struct set *set = set_of(cache, hash);
    struct item *item = malloc(sizeof(*item) + target.length);
    size_t way;

    if (item == NULL)
        return; /* it is still in the shared cache */
    item->accepts = accepts;
    item->length = target.length;
    memcpy(item->target, target.start, target.length);
    cache_acquire(entry);
    way = free_way(cache, set);
    drop(cache, set, way);
    set->hash[way] = hash;
    set->item[way] = item;
    set->entry[way] = entry;
    claim_hits(cache, entry);
    count_hits(cache, entry->slot, hit, now_ns);
}
