/* A shared cache of things, with a segment; the thread caches before it. */
#ifndef TESTS_CACHE_FIXTURE_H
#define TESTS_CACHE_FIXTURE_H

#include "common/macros.h"
#include "daemon/content/cache.h"
#include "daemon/content/thread_cache.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ENTRIES = 64, DESCRIPTORS = 4, THREADS = 4, WORKER = 0, KIB = 1024 };

/* A cache with a segment; each test has its own. */
struct fixture {
    struct segment segment;
    struct cache *cache;
};

struct thing {
    struct cache_entry entry;
    char path[32];
};

static _Atomic int things_alive;

static inline void destroy_thing(struct cache_entry *entry)
{
    atomic_fetch_sub(&things_alive, 1);
    free(CONTAINER_OF(entry, struct thing, entry));
}

static inline struct thing *new_thing(const char *path, size_t bytes)
{
    struct thing *thing = calloc(1, sizeof(*thing));

    assert_non_null(thing);
    snprintf(thing->path, sizeof(thing->path), "%s", path);
    cache_entry_init(&thing->entry, thing->path, strlen(thing->path), bytes, 1000);
    atomic_fetch_add(&things_alive, 1);
    return thing;
}

/* Inserts and releases, so that the cache has the only reference. Returns true if it was stored. */
static inline bool put(struct cache *cache, const char *path, size_t bytes)
{
    struct thing *thing = new_thing(path, bytes);
    bool stored;

    cache_insert(cache, &thing->entry);
    stored = thing->entry.stored;
    cache_release(cache, &thing->entry);
    return stored;
}

static inline bool has(struct cache *cache, const char *path)
{
    struct cache_entry *entry = cache_find(cache, 0, path, strlen(path));

    if (entry != NULL)
        cache_release(cache, entry);
    return entry != NULL;
}

static inline uint64_t metric_of(const struct fixture *fixture, enum metric metric)
{
    return metric_get(segment_worker(&fixture->segment, WORKER)->metrics, metric);
}

static inline void open_fixture(struct fixture *fixture, uint64_t bytes,
                                const struct cache_policy *policy)
{
    const struct cache_limits limits = {bytes, DESCRIPTORS};

    assert_int_equal(own_segment_create(&fixture->segment,
                                        (struct segment_plan){.max_threads = THREADS,
                                                              .cache_entries = cache_slots(ENTRIES),
                                                              .ring_bytes = 64 * KIB}),
                     0);
    assert_int_equal(segment_reserve_worker(&fixture->segment, WORKER), 0);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(segment_reserve_thread(&fixture->segment, i), 0);
    fixture->cache = cache_new(&limits, policy, destroy_thing, &fixture->segment, WORKER);
    assert_non_null(fixture->cache);
}

static inline void close_fixture(struct fixture *fixture)
{
    cache_free(fixture->cache);
    segment_destroy(&fixture->segment);
    assert_int_equal(atomic_load(&things_alive), 0);
}

static inline struct thread_cache *new_thread_cache(struct fixture *fixture, uint32_t slot)
{
    struct thread_cache *cache =
        thread_cache_new(fixture->cache, segment_hits_of(&fixture->segment, slot),
                         segment_thread(&fixture->segment, slot)->metrics);

    assert_non_null(cache);
    cache_add_reader(fixture->cache, slot);
    return cache;
}

static inline struct span span_of(const char *text)
{
    return (struct span){text, strlen(text)};
}

static inline void put_open(struct cache *cache, const char *path)
{
    struct thing *thing = new_thing(path, 100);

    thing->entry.holds_descriptor = true;
    cache_insert(cache, &thing->entry);
    assert_true(thing->entry.stored);
    cache_release(cache, &thing->entry);
}

/* Looks up PATH like a thread whose thread cache does not have it. */
static inline void ask(const struct fixture *fixture, struct thread_cache *cache, const char *path)
{
    struct cache_entry *entry = cache_find(fixture->cache, 0, path, strlen(path));
    bool hit = entry != NULL;

    if (!hit) {
        put(fixture->cache, path, 100);
        entry = cache_find(fixture->cache, 0, path, strlen(path));
        assert_non_null(entry);
    }
    thread_cache_store(cache, 0, span_of(path), PREFER_IDENTITY, entry, hit, 1, UINT64_MAX);
    cache_release(fixture->cache, entry);
}

#endif
