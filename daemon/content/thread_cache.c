#include "daemon/content/thread_cache.h"

#include "common/macros.h"
#include "daemon/base/hash.h"
#include "daemon/base/memory_file.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

enum {
    WAYS = 5,
    FETCHED = 20 * CACHE_LINE,
    TARGET_MAX = 512, /* bytes; longer targets are not stored */
};

struct item {
    uint64_t until_ns;
    uint32_t site;
    uint16_t length;
    uint16_t accepts;
    char target[];
};

static_assert(4 * CODING_COUNT <= 16, "a preference fits in an item");

/*
 * Two cache lines. A set has pointers to both item and entry: they are far apart and rarely in the
 * CPU's caches, and so both can be prefetched at the same time.
 */
struct set {
    uint64_t hash[WAYS]; /* 0: empty */
    struct item *item[WAYS];
    struct cache_entry *entry[WAYS];
    uint64_t seen; /* hash of the last target with a query that was not stored */
};

static_assert(sizeof(struct set) == 2 * CACHE_LINE, "a set is two cache lines");

struct thread_cache {
    struct cache *shared;
    struct segment_hits *hits;
    uint64_t seed;
    uint64_t expected; /* hash of the last expected target */
    size_t mask;
    struct set *sets;    /* mapped */
    uint32_t next_way;   /* the next to replace in a full set */
    size_t hand;         /* the set in which to drop items next */
    uint64_t item_bytes; /* all items have them; published */
    _Atomic uint64_t *metrics;
};

struct thread_cache *thread_cache_new(struct cache *shared, struct segment_hits *hits,
                                      _Atomic uint64_t *metrics)
{
    struct thread_cache *cache = calloc(1, sizeof(*cache));
    size_t sets = 16;

    while (sets * WAYS < 2 * (size_t)cache_max_entries(shared))
        sets *= 2;
    if (cache == NULL)
        return NULL;
    cache->shared = shared;
    cache->hits = hits;
    cache->metrics = metrics;
    cache->mask = sets - 1;
    cache->sets = memory_map_zeros(sets * sizeof(struct set));
    if (cache->sets == NULL ||
        getrandom(&cache->seed, sizeof(cache->seed), 0) != sizeof(cache->seed)) {
        if (cache->sets != NULL)
            munmap(cache->sets, sets * sizeof(struct set));
        free(cache);
        return NULL;
    }
    cache->expected = 1; /* any value but 0 */
    return cache;
}

/* Memory of an item for a target of LENGTH: with its way and the allocator's share. */
static uint64_t item_bytes(size_t length)
{
    return sizeof(struct item) + length + sizeof(struct set) / WAYS + 2 * sizeof(size_t);
}

static void set_bytes(struct thread_cache *cache, uint64_t bytes)
{
    cache->item_bytes = bytes;
    metric_set(cache->metrics, METRIC_thread_cache_bytes, bytes);
}

static void drop_item(struct thread_cache *cache, struct set *set, size_t way)
{
    struct item *item = set->item[way];

    if (item == NULL)
        return;
    set->item[way] = NULL;
    set->hash[way] = 0;
    set_bytes(cache, cache->item_bytes - item_bytes(item->length));
    cache_release(cache->shared, set->entry[way]);
    free(item);
}

void thread_cache_free(struct thread_cache *cache)
{
    if (cache == NULL)
        return;
    for (size_t i = 0; i <= cache->mask; i++)
        for (size_t way = 0; way < WAYS; way++)
            drop_item(cache, &cache->sets[i], way);
    munmap(cache->sets, (cache->mask + 1) * sizeof(struct set));
    free(cache);
}

static bool is_stale(const struct cache_entry *entry)
{
    return atomic_load_explicit(&entry->stale, memory_order_acquire);
}

/* Drops items until BYTES more fit into the thread's share; the table is walked in a circle. */
static void make_share(struct thread_cache *cache, uint64_t bytes)
{
    uint64_t share = cache_thread_share(cache->shared);

    for (size_t i = 0;
         i <= cache->mask && cache->item_bytes > 0 && cache->item_bytes + bytes > share; i++) {
        for (size_t way = 0; way < WAYS; way++)
            drop_item(cache, &cache->sets[cache->hand], way);
        cache->hand = (cache->hand + 1) & cache->mask;
    }
}

void thread_cache_sweep(struct thread_cache *cache)
{
    make_share(cache, 0); /* the share may have shrunk */
    for (size_t i = 0; i <= cache->mask; i++)
        for (size_t way = 0; way < WAYS; way++) {
            struct set *set = &cache->sets[i];

            if (set->item[way] != NULL && is_stale(set->entry[way]))
                drop_item(cache, set, way);
        }
}

/* Never returns 0, which marks an empty way. */
static uint64_t target_hash(const struct thread_cache *cache, uint32_t site, struct span target)
{
    return hash_bytes(target.start, target.length, hash_of_site(cache->seed, site)) | 1;
}

static struct set *set_of(const struct thread_cache *cache, uint64_t hash)
{
    return &cache->sets[(hash >> 1) & cache->mask];
}

void thread_cache_expect(struct thread_cache *cache, uint32_t site, struct span target)
{
    const char *set;

    cache->expected = target_hash(cache, site, target);
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

static bool item_matches(const struct item *item, uint32_t site, struct span target,
                         coding_preference accepts)
{
    return item->length == target.length && item->accepts == accepts && item->site == site &&
           memcmp(item->target, target.start, target.length) == 0;
}

struct cache_entry *thread_cache_find(struct thread_cache *cache, uint32_t site, struct span target,
                                      coding_preference accepts, uint64_t now_ns)
{
    uint64_t hash = target_hash(cache, site, target);
    struct set *set = set_of(cache, hash);

    for (size_t way = 0; way < WAYS; way++) {
        if (set->hash[way] != hash || !item_matches(set->item[way], site, target, accepts))
            continue;
        if (UNLIKELY(is_stale(set->entry[way]) || now_ns >= set->item[way]->until_ns)) {
            drop_item(cache, set, way);
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

/*
 * A client can invent queries without end, so a target with a query is stored when it comes for the
 * second time without another one of its set in between.
 */
static bool is_worth_storing(struct set *set, struct span target, uint64_t hash)
{
    bool seen = set->seen == hash;

    if (target.length > TARGET_MAX)
        return false;
    if (seen || memchr(target.start, '?', target.length) == NULL)
        return true;
    set->seen = hash;
    return false;
}

void thread_cache_store(struct thread_cache *cache, uint32_t site, struct span target,
                        coding_preference accepts, struct cache_entry *entry, bool hit,
                        uint64_t now_ns, uint64_t until_ns)
{
    uint64_t hash = target_hash(cache, site, target), bytes = item_bytes(target.length);
    struct set *set = set_of(cache, hash);
    struct item *item;
    size_t way;

    claim_hits(cache, entry);
    count_hits(cache, entry->slot, hit, now_ns);
    if (!is_worth_storing(set, target, hash))
        return;
    make_share(cache, bytes);
    if (cache->item_bytes + bytes > cache_thread_share(cache->shared))
        return;
    item = malloc(sizeof(*item) + target.length);
    if (item == NULL)
        return; /* it is still in the shared cache */
    item->until_ns = until_ns;
    item->site = site;
    item->length = (uint16_t)target.length;
    item->accepts = (uint16_t)accepts;
    memcpy(item->target, target.start, target.length);
    cache_acquire(entry);
    way = free_way(cache, set);
    drop_item(cache, set, way);
    set->hash[way] = hash;
    set->item[way] = item;
    set->entry[way] = entry;
    set_bytes(cache, cache->item_bytes + bytes);
}

/* The negative cache */

enum { PLACES = 256, PATH_MAX_KEPT = 2 * CACHE_LINE - 2 * 8 - 4 - 2 };

struct place {
    uint64_t hash;
    uint64_t until_ns; /* 0: empty */
    uint32_t site;
    uint16_t length;
    char path[PATH_MAX_KEPT];
};
static_assert(sizeof(struct place) == 2 * CACHE_LINE, "a place is two cache lines");

struct negative_cache {
    uint64_t seed, max_age_ns;
    struct place places[PLACES];
};

struct negative_cache *negative_cache_new(uint64_t max_age_ns)
{
    struct negative_cache *cache = memory_map_zeros(sizeof(*cache));

    if (cache == NULL)
        return NULL;
    cache->max_age_ns = max_age_ns;
    if (getrandom(&cache->seed, sizeof(cache->seed), 0) != sizeof(cache->seed)) {
        negative_cache_free(cache);
        return NULL;
    }
    return cache;
}

void negative_cache_free(struct negative_cache *cache)
{
    if (cache != NULL)
        munmap(cache, sizeof(*cache));
}

static uint64_t absent_path_hash(const struct negative_cache *cache, uint32_t site,
                                 struct span path)
{
    return hash_bytes(path.start, path.length, hash_of_site(cache->seed, site));
}

uint64_t negative_cache_until(const struct negative_cache *cache, uint32_t site, struct span path,
                              uint64_t now_ns)
{
    uint64_t hash = absent_path_hash(cache, site, path);
    const struct place *place = &cache->places[hash % PLACES];

    return place->hash == hash && place->site == site && now_ns < place->until_ns &&
                   span_is(path, (struct span){place->path, place->length})
               ? place->until_ns
               : 0;
}

void negative_cache_add(struct negative_cache *cache, uint32_t site, struct span path,
                        uint64_t now_ns)
{
    uint64_t hash = absent_path_hash(cache, site, path);
    struct place *place = &cache->places[hash % PLACES];

    if (path.length > PATH_MAX_KEPT)
        return;
    place->hash = hash;
    place->site = site;
    place->until_ns = now_ns + cache->max_age_ns;
    place->length = (uint16_t)path.length;
    memcpy(place->path, path.start, path.length);
}

void negative_cache_remove(struct negative_cache *cache, uint32_t site, struct span path)
{
    if (negative_cache_until(cache, site, path, 0) != 0)
        cache->places[absent_path_hash(cache, site, path) % PLACES].until_ns = 0;
}

void negative_cache_clear(struct negative_cache *cache)
{
    for (size_t i = 0; i < PLACES; i++)
        cache->places[i].until_ns = 0;
}
