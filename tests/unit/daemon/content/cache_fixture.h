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

/* Of the test, which opens it; it is closed afterwards. */
static struct {
    struct segment segment;
    struct cache *cache; /* NULL: not open */
    struct thread_cache *thread_cache[THREADS];
} fixture;

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

static inline struct cache_entry *find(const char *path)
{
    return cache_find(fixture.cache, 0, path, strlen(path));
}

static inline void release(struct cache_entry *entry)
{
    cache_release(fixture.cache, entry);
}

static inline bool put_thing(struct thing *thing)
{
    bool stored;

    cache_insert(fixture.cache, &thing->entry);
    stored = thing->entry.stored;
    release(&thing->entry);
    return stored;
}

/* Inserts and releases, so that the cache has the only reference. Returns true if it was stored. */
static inline bool put(const char *path, size_t bytes)
{
    return put_thing(new_thing(path, bytes));
}

static inline void put_open(const char *path)
{
    struct thing *thing = new_thing(path, 100);

    thing->entry.holds_descriptor = true;
    assert_true(put_thing(thing));
}

static inline bool has(const char *path)
{
    struct cache_entry *entry = find(path);

    if (entry != NULL)
        release(entry);
    return entry != NULL;
}

static inline uint64_t metric_of(enum metric metric)
{
    return metric_get(segment_worker(&fixture.segment, WORKER)->metrics, metric);
}

static inline void open_cache(uint64_t bytes, const struct cache_policy *policy)
{
    const struct cache_limits limits = {bytes, DESCRIPTORS};

    assert_int_equal(own_segment_create(&fixture.segment,
                                        (struct segment_plan){.max_threads = THREADS,
                                                              .cache_entries = cache_slots(ENTRIES),
                                                              .ring_bytes = 64 * KIB}),
                     0);
    assert_int_equal(segment_reserve_worker(&fixture.segment, WORKER), 0);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(segment_reserve_thread(&fixture.segment, i), 0);
    fixture.cache = cache_new(&limits, policy, destroy_thing, &fixture.segment, WORKER);
    assert_non_null(fixture.cache);
}

static inline struct thread_cache *open_thread_cache(uint32_t slot)
{
    struct thread_cache *cache =
        thread_cache_new(fixture.cache, segment_hits_of(&fixture.segment, slot),
                         segment_thread(&fixture.segment, slot)->metrics);

    assert_non_null(cache);
    cache_add_reader(fixture.cache, slot);
    fixture.thread_cache[slot] = cache;
    return cache;
}

static inline void close_thread_cache(uint32_t slot)
{
    cache_remove_reader(fixture.cache, slot);
    thread_cache_free(fixture.thread_cache[slot]);
    fixture.thread_cache[slot] = NULL;
}

/* With the caches of threads that are open. */
static inline int close_cache(void **state)
{
    (void)state;
    if (fixture.cache == NULL)
        return 0;
    for (uint32_t slot = 0; slot < THREADS; slot++)
        if (fixture.thread_cache[slot] != NULL)
            close_thread_cache(slot);
    cache_free(fixture.cache);
    fixture.cache = NULL;
    segment_destroy(&fixture.segment);
    return atomic_load(&things_alive);
}

const struct test_fixture test_fixture = {NULL, close_cache};

/* Looks up PATH like a thread whose thread cache does not have it. */
static inline void ask(struct thread_cache *cache, const char *path)
{
    struct cache_entry *entry = find(path);
    bool hit = entry != NULL;

    if (!hit) {
        put(path, 100);
        entry = find(path);
        assert_non_null(entry);
    }
    thread_cache_store(cache, 0, span_of(path), PREFER_IDENTITY, entry, hit, 1, UINT64_MAX);
    release(entry);
}

#endif
