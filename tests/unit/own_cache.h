/* A cache of 64 KiB with a segment, which only the test uses. */
#ifndef TESTS_OWN_CACHE_H
#define TESTS_OWN_CACHE_H

#include "daemon/content/cache.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <stdlib.h>
#include <string.h>

enum { KIB = 1024 };

struct own_cache {
    struct segment segment; /* with the slots of a worker and of a thread */
    struct cache *cache;
};

/* DESTROY frees an entry. */
static inline void own_cache_open(struct own_cache *own, void (*destroy)(struct cache_entry *entry))
{
    const struct cache_limits limits = {64 * KIB, 0};
    const struct segment_plan plan = {.cache_entries = cache_slots(16), .ring_bytes = 64 * KIB};

    assert_int_equal(own_segment_create(&own->segment, plan), 0);
    assert_int_equal(segment_reserve_worker(&own->segment, 0), 0);
    assert_int_equal(segment_reserve_thread(&own->segment, 0), 0);
    own->cache = cache_new(&limits, &cache_policy_lru, destroy, &own->segment, 0);
    assert_non_null(own->cache);
}

static inline void own_cache_close(struct own_cache *own)
{
    cache_free(own->cache);
    segment_destroy(&own->segment);
}

/* The usual DESTROY. */
static inline void own_cache_forget(struct cache_entry *entry)
{
    free(entry);
}

/* Inserts an entry of BYTES for PATH, a constant. The caller releases it. */
static inline struct cache_entry *own_cache_insert(const struct own_cache *own, const char *path,
                                                   size_t bytes)
{
    struct cache_entry *entry = calloc(1, sizeof(*entry));

    assert_non_null(entry);
    cache_entry_init(entry, path, strlen(path), bytes, 1000);
    cache_insert(own->cache, entry);
    return entry;
}

/* The same, without a reference. Returns true if the cache took it. */
static inline bool own_cache_put(const struct own_cache *own, const char *path, size_t bytes)
{
    struct cache_entry *entry = own_cache_insert(own, path, bytes);
    bool stored = entry->stored;

    cache_release(own->cache, entry);
    return stored;
}

#endif
