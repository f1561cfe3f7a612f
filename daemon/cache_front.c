#include "daemon/cache_front.h"

#include "common/macros.h"
#include "daemon/hash.h"

#include <stdlib.h>
#include <sys/random.h>

enum { WAYS = 4 };

struct item {
    struct cache_entry *entry;
    coding_preference accepts;
    size_t length;
    char target[];
};

/* The hashes of a set lie together: one cache line tells whether a target is known. */
struct set {
    uint64_t hash[WAYS];
    struct item *item[WAYS];
};

struct cache_front {
    struct cache *cache;
    struct segment_hits *hits;
    uint64_t seed;
    size_t mask;
    struct set *sets;
    uint32_t next_way; /* where the next one goes in a full set */
};

struct cache_front *cache_front_new(struct cache *cache, uint32_t entries,
                                    struct segment_hits *hits)
{
    struct cache_front *front = calloc(1, sizeof(*front));
    size_t sets = 16;

    while (sets * WAYS < 2 * (size_t)entries)
        sets *= 2;
    if (front == NULL)
        return NULL;
    front->cache = cache;
    front->hits = hits;
    front->mask = sets - 1;
    front->sets = aligned_alloc(CACHE_LINE, sets * sizeof(struct set));
    if (front->sets == NULL ||
        getrandom(&front->seed, sizeof(front->seed), 0) != sizeof(front->seed)) {
        free(front->sets);
        free(front);
        return NULL;
    }
    memset(front->sets, 0, sets * sizeof(struct set));
    return front;
}

static void drop(struct cache_front *front, struct set *set, size_t way)
{
    struct item *item = set->item[way];

    if (item == NULL)
        return;
    set->item[way] = NULL;
    set->hash[way] = 0;
    cache_release(front->cache, item->entry);
    free(item);
}

void cache_front_free(struct cache_front *front)
{
    if (front == NULL)
        return;
    for (size_t i = 0; i <= front->mask; i++)
        for (size_t way = 0; way < WAYS; way++)
            drop(front, &front->sets[i], way);
    free(front->sets);
    free(front);
}

void cache_front_sweep(struct cache_front *front)
{
    for (size_t i = 0; i <= front->mask; i++)
        for (size_t way = 0; way < WAYS; way++) {
            const struct item *item = front->sets[i].item[way];

            if (item != NULL && atomic_load_explicit(&item->entry->stale, memory_order_acquire))
                drop(front, &front->sets[i], way);
        }
}

/* 0 marks an empty way, so no target may hash to it. */
static uint64_t hash_of(const struct cache_front *front, struct span target,
                        coding_preference accepts)
{
    return hash_bytes(target.start, target.length, front->seed ^ accepts) | 1;
}

static void count_hits(struct cache_front *front, uint32_t slot, uint64_t more, uint64_t now_ns)
{
    struct segment_hits *hits = &front->hits[slot];
    uint64_t count = atomic_load_explicit(&hits->hits, memory_order_relaxed);

    atomic_store_explicit(&hits->hits, count + more, memory_order_relaxed);
    atomic_store_explicit(&hits->last_hit_ns, now_ns, memory_order_relaxed);
}

/* The slot has a new tenant: begin at 0, and only then say whose hits these are. */
static void claim_hits(struct cache_front *front, const struct cache_entry *entry)
{
    struct segment_hits *hits = &front->hits[entry->slot];

    if (atomic_load_explicit(&hits->id, memory_order_relaxed) == entry->id)
        return;
    atomic_store_explicit(&hits->id, 0, memory_order_relaxed);
    atomic_store_explicit(&hits->hits, 0, memory_order_release);
    atomic_store_explicit(&hits->id, entry->id, memory_order_release);
}

struct cache_entry *cache_front_find(struct cache_front *front, struct span target,
                                     coding_preference accepts, uint64_t now_ns)
{
    uint64_t hash = hash_of(front, target, accepts);
    struct set *set = &front->sets[(hash >> 1) & front->mask];

    for (size_t way = 0; way < WAYS; way++) {
        struct item *item = set->item[way];

        if (set->hash[way] != hash || item->length != target.length || item->accepts != accepts ||
            memcmp(item->target, target.start, target.length) != 0)
            continue;
        if (UNLIKELY(atomic_load_explicit(&item->entry->stale, memory_order_acquire))) {
            drop(front, set, way);
            return NULL;
        }
        count_hits(front, item->entry->slot, 1, now_ns);
        return item->entry;
    }
    return NULL;
}

static size_t free_way(struct cache_front *front, const struct set *set)
{
    for (size_t way = 0; way < WAYS; way++)
        if (set->item[way] == NULL)
            return way;
    return front->next_way++ % WAYS;
}

void cache_front_store(struct cache_front *front, struct span target, coding_preference accepts,
                       struct cache_entry *entry, bool hit, uint64_t now_ns)
{
    uint64_t hash = hash_of(front, target, accepts);
    struct set *set = &front->sets[(hash >> 1) & front->mask];
    struct item *item = malloc(sizeof(*item) + target.length);
    size_t way;

    if (item == NULL)
        return; /* the shared table has it */
    item->entry = entry;
    item->accepts = accepts;
    item->length = target.length;
    memcpy(item->target, target.start, target.length);
    cache_hold(entry);
    way = free_way(front, set);
    drop(front, set, way);
    set->hash[way] = hash;
    set->item[way] = item;
    claim_hits(front, entry);
    count_hits(front, entry->slot, hit, now_ns);
}
