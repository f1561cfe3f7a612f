/* The caches of a thread: what it keeps of the shared cache, and paths without a file. */
#include "tests/unit/daemon/content/cache_fixture.h"

#include "common/clock.h"

TEST(hits_in_thread_cache_prevent_eviction)
{
    const struct cache_policy *const policies[] = {&cache_policy_sieve, &cache_policy_lru};

    for (size_t p = 0; p < ARRAY_LENGTH(policies); p++) {
        struct thread_cache *cache;
        struct cache_entry *hot;
        char path[16];

        open_cache(1024 * KIB, policies[p]);
        cache = open_thread_cache(1);
        put("/hot", KIB);
        hot = find("/hot");
        thread_cache_store(cache, 0, SPAN("//hot"), PREFER_IDENTITY, hot, true, 1, UINT64_MAX);
        release(hot);
        for (int i = 0; i < 10 * ENTRIES; i++) {
            snprintf(path, sizeof(path), "/%d", i);
            put(path, 100);
            assert_non_null(
                thread_cache_find(cache, 0, SPAN("//hot"), PREFER_IDENTITY, (uint64_t)i + 2));
        }
        assert_true(has("/hot"));
        assert_int_equal(segment_hits_of(&fixture.segment, 1)[hot->slot].hits, 10 * ENTRIES + 1);
        assert_int_equal(close_cache(state), 0);
    }
}

/* Entries requested once are evicted before those requested again. */
TEST(insertion_is_not_a_hit)
{
    const struct cache_policy *const policies[] = {&cache_policy_sieve, &cache_policy_lru};

    for (size_t p = 0; p < ARRAY_LENGTH(policies); p++) {
        struct thread_cache *cache;
        char path[16];

        open_cache(1024 * KIB, policies[p]);
        cache = open_thread_cache(1);
        ask(cache, "/0");
        assert_non_null(thread_cache_find(cache, 0, SPAN("/0"), PREFER_IDENTITY, 2));
        for (int i = 1; i <= ENTRIES; i++) {
            snprintf(path, sizeof(path), "/%d", i);
            ask(cache, path);
        }
        assert_true(has("/0"));
        assert_false(has("/1"));
        assert_int_equal(close_cache(state), 0);
    }
}

TEST(thread_cache_distinguishes_codings)
{
    const coding_preference gzip = (CODING_GZIP + 1) | (CODING_IDENTITY + 1) << 4;
    struct thread_cache *cache;
    struct cache_entry *plain, *packed;

    open_cache(1024 * KIB, &cache_policy_lru);
    cache = open_thread_cache(1);
    put("/a", KIB);
    put("/a//gzip", KIB);
    plain = find("/a");
    packed = find("/a//gzip");
    thread_cache_store(cache, 0, SPAN("/a"), PREFER_IDENTITY, plain, true, 1, UINT64_MAX);
    assert_null(thread_cache_find(cache, 0, SPAN("/a"), gzip, 2));
    thread_cache_store(cache, 0, SPAN("/a"), gzip, packed, true, 1, UINT64_MAX);
    assert_ptr_equal(thread_cache_find(cache, 0, SPAN("/a"), gzip, 2), packed);
    assert_ptr_equal(thread_cache_find(cache, 0, SPAN("/a"), PREFER_IDENTITY, 2), plain);
    release(plain);
    release(packed);
}

TEST(thread_cache_drops_stale_entries)
{
    struct thread_cache *cache;
    struct cache_entry *entry;

    open_cache(64 * KIB, &cache_policy_sieve);
    cache = open_thread_cache(0);
    put("/a", KIB);
    put("/b", KIB);
    for (const char *path = "/a"; path != NULL; path = path[1] == 'a' ? "/b" : NULL) {
        entry = find(path);
        thread_cache_store(cache, 0, span_of(path), PREFER_IDENTITY, entry, true, 1, UINT64_MAX);
        cache_invalidate(fixture.cache, entry);
        release(entry);
    }
    assert_int_equal(metric_of(METRIC_cache_bytes), 2 * KIB);
    assert_null(
        thread_cache_find(cache, 0, SPAN("/a"), PREFER_IDENTITY, 2)); /* dropped on lookup */
    assert_int_equal(metric_of(METRIC_cache_bytes), KIB);
    thread_cache_sweep(cache); /* or by a sweep */
    assert_int_equal(metric_of(METRIC_cache_bytes), 0);
}

TEST(thread_cache_distinguishes_targets)
{
    struct thread_cache *cache;
    char path[16];

    open_cache(1024 * KIB, &cache_policy_sieve);
    cache = open_thread_cache(0);
    for (int i = 0; i < ENTRIES; i++) {
        struct cache_entry *entry;

        snprintf(path, sizeof(path), "/%d", i);
        put(path, 100);
        entry = find(path);
        thread_cache_store(cache, 0, span_of(path), PREFER_IDENTITY, entry, true, 1, UINT64_MAX);
        release(entry);
    }
    for (int i = 0; i < ENTRIES; i++) {
        struct cache_entry *entry;

        snprintf(path, sizeof(path), "/%d", i);
        entry = thread_cache_find(cache, 0, span_of(path), PREFER_IDENTITY, 2);
        if (entry != NULL) /* a full set may have replaced some */
            assert_string_equal(entry->path, path);
        path[strlen(path)] = 'x'; /* after the target, whose length is one less */
    }
    assert_null(thread_cache_find(cache, 0, SPAN("/"), PREFER_IDENTITY, 2));
}

static uint64_t thread_cache_bytes(uint32_t slot)
{
    return metric_get(segment_thread(&fixture.segment, slot)->metrics, METRIC_thread_cache_bytes);
}

/* Stores "/a" for TARGET; true if the thread cache then has it. */
static bool stores(struct thread_cache *cache, const char *target)
{
    struct cache_entry *entry = find("/a");
    bool stored;

    thread_cache_store(cache, 0, span_of(target), PREFER_IDENTITY, entry, true, 1, UINT64_MAX);
    stored = thread_cache_find(cache, 0, span_of(target), PREFER_IDENTITY, 2) == entry;
    release(entry);
    return stored;
}

TEST(thread_cache_stores_no_long_targets_and_only_repeated_queries)
{
    struct thread_cache *cache;
    struct cache_entry *entry;
    char target[8 * KIB] = "/";

    open_cache(1024 * KIB, &cache_policy_sieve);
    put("/a", 100);
    cache = open_thread_cache(0);
    assert_true(stores(cache, "/a"));
    assert_false(stores(cache, "/a?q"));
    assert_true(stores(cache, "/a?q"));
    memset(target + 1, 'a', sizeof(target) - 2);
    assert_false(stores(cache, target));
    assert_false(stores(cache, target));
    assert_in_range(thread_cache_bytes(0), 1, KIB);
    entry = find("/a");
    assert_int_equal(segment_hits_of(&fixture.segment, 0)[entry->slot].hits, 5 + 2);
    release(entry);
    close_thread_cache(0);
    assert_int_equal(thread_cache_bytes(0), 0);
}

/* Spellings of one path, as %61 for a. */
TEST(thread_caches_are_bounded_in_bytes)
{
    enum { TARGETS = 4000 };
    struct thread_cache *cache[2];
    char target[300];

    open_cache(64 * KIB, &cache_policy_sieve);
    put("/a", 100);
    for (uint32_t slot = 0; slot < 2; slot++)
        cache[slot] = open_thread_cache(slot);
    assert_int_equal(cache_thread_share(fixture.cache), 2 * KIB);
    for (int i = 0; i < TARGETS; i++) {
        snprintf(target, sizeof(target), "/%0*d", i % 250 + 1, i);
        assert_true(stores(cache[0], target));
        assert_in_range(thread_cache_bytes(0), 1, 2 * KIB);
    }
    assert_true(thread_cache_bytes(0) > KIB);
    cache_resize(fixture.cache, 16 * KIB);
    thread_cache_sweep(cache[0]);
    assert_in_range(thread_cache_bytes(0), 0, KIB / 2);
}

TEST(other_readers_stay_when_one_leaves)
{
    struct thread_cache *cache[3];
    struct cache_entry *entry;

    open_cache(64 * KIB, &cache_policy_lru);
    assert_int_equal(cache_thread_share(fixture.cache), 4 * KIB);
    for (uint32_t slot = 0; slot < 3; slot++)
        cache[slot] = open_thread_cache(slot);
    close_thread_cache(0);
    assert_int_equal(cache_thread_share(fixture.cache), 2 * KIB);
    for (uint32_t slot = 1; slot < 3; slot++) {
        put_open("/a");
        entry = find("/a");
        thread_cache_store(cache[slot], 0, SPAN("/a"), PREFER_IDENTITY, entry, true, 1, UINT64_MAX);
        release(entry);
        cache_close_unused(fixture.cache);
        assert_true(has("/a")); /* its hits count */
    }
    for (uint32_t slot = 1; slot < 3; slot++)
        close_thread_cache(slot);
    assert_int_equal(cache_thread_share(fixture.cache), 4 * KIB);
}

/* The slot of an entry that was removed. */
TEST(hits_of_another_entry_are_reset)
{
    const struct segment_hits *hits;
    struct thread_cache *cache;
    struct cache_entry *entry;
    uint32_t slot;

    open_cache(64 * KIB, &cache_policy_lru);
    cache = open_thread_cache(1);
    assert_true(put("/a", 1));
    entry = find("/a");
    slot = entry->slot;
    hits = &segment_hits_of(&fixture.segment, 1)[slot];
    thread_cache_store(cache, 0, SPAN("/a"), PREFER_IDENTITY, entry, true, 5, UINT64_MAX);
    assert_non_null(thread_cache_find(cache, 0, SPAN("/a"), PREFER_IDENTITY, 6));
    assert_int_equal(hits->id, entry->id);
    assert_int_equal(hits->hits, 2);
    assert_int_equal(hits->last_hit_ns, 6);
    cache_invalidate(fixture.cache, entry);
    release(entry);
    thread_cache_sweep(cache);
    assert_true(put("/b", 1));
    entry = find("/b");
    assert_int_equal(entry->slot, slot);
    thread_cache_store(cache, 0, SPAN("/b"), PREFER_IDENTITY, entry, false, 7, UINT64_MAX);
    assert_int_equal(hits->id, entry->id);
    assert_int_equal(hits->hits, 0);
    assert_int_equal(hits->last_hit_ns, 7);
    release(entry);
}

TEST(thread_cache_stores_targets_up_to_512_bytes)
{
    struct thread_cache *cache;
    char target[514];

    open_cache(1024 * KIB, &cache_policy_sieve);
    put("/a", 100);
    cache = open_thread_cache(0);
    memset(target, 'a', sizeof(target));
    target[513] = '\0';
    assert_false(stores(cache, target));
    target[512] = '\0';
    assert_true(stores(cache, target));
    thread_cache_free(NULL);
}

/* Returns how many of the entries of a shared cache a new thread cache keeps. */
static size_t count_kept(void)
{
    struct thread_cache *cache = open_thread_cache(0);
    char target[16];
    size_t found = 0;

    for (int i = 0; i < ENTRIES; i++) {
        snprintf(target, sizeof(target), "/%d", i);
        assert_true(stores(cache, target));
    }
    for (int i = 0; i < ENTRIES; i++) {
        snprintf(target, sizeof(target), "/%d", i);
        found += thread_cache_find(cache, 0, span_of(target), PREFER_IDENTITY, 2) != NULL;
    }
    close_thread_cache(0);
    return found;
}

/*
 * It has twice as many places. Some sets are full nevertheless, depending on its seed: of 64
 * entries, 0.7 are lost on average; with half as many places, 6.5.
 */
TEST(thread_cache_has_room_for_all_entries)
{
    enum { CACHES = 50 };
    size_t found = 0;

    open_cache(1024 * KIB, &cache_policy_sieve);
    put("/a", 100);
    for (int i = 0; i < CACHES; i++)
        found += count_kept();
    assert_in_range(found, CACHES * (ENTRIES - 3), CACHES * ENTRIES);
}

/* --- Paths without a file --- */

enum { PATIENCE = 1000, LONGEST = 106 };

static struct negative_cache *missing;

static int set_up(void **state)
{
    (void)state;
    missing = negative_cache_new(PATIENCE);
    return missing == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    negative_cache_free(missing);
    return 0;
}

TEST_WITH(path_is_cached_until_max_age, set_up, tear_down)
{
    assert_false(negative_cache_until(missing, 0, SPAN("/a"), 5));
    negative_cache_add(missing, 0, SPAN("/a"), 5);
    assert_true(negative_cache_until(missing, 0, SPAN("/a"), 5));
    assert_true(negative_cache_until(missing, 0, SPAN("/a"), 5 + PATIENCE - 1));
    assert_false(negative_cache_until(missing, 0, SPAN("/a"), 5 + PATIENCE));
    assert_false(negative_cache_until(missing, 0, SPAN("/"), 5));
    assert_false(negative_cache_until(missing, 0, SPAN("/ab"), 5));
}

TEST_WITH(remove_removes_one_path, set_up, tear_down)
{
    negative_cache_add(missing, 0, SPAN("/a"), 5);
    negative_cache_remove(missing, 0, SPAN("/b"));
    assert_true(negative_cache_until(missing, 0, SPAN("/a"), 5));
    negative_cache_remove(missing, 0, SPAN("/a"));
    assert_false(negative_cache_until(missing, 0, SPAN("/a"), 5));
    negative_cache_remove(missing, 0, SPAN("/a"));
}

TEST_WITH(sites_have_their_own_paths, set_up, tear_down)
{
    negative_cache_add(missing, 1, SPAN("/a"), 5);
    assert_true(negative_cache_until(missing, 1, SPAN("/a"), 5));
    assert_false(negative_cache_until(missing, 0, SPAN("/a"), 5));
    negative_cache_remove(missing, 0, SPAN("/a"));
    assert_true(negative_cache_until(missing, 1, SPAN("/a"), 5));
    negative_cache_remove(missing, 1, SPAN("/a"));
    assert_false(negative_cache_until(missing, 1, SPAN("/a"), 5));
}

TEST_WITH(clear_removes_all_paths, set_up, tear_down)
{
    negative_cache_add(missing, 0, SPAN("/a"), 5);
    negative_cache_clear(missing);
    assert_false(negative_cache_until(missing, 0, SPAN("/a"), 5));
}

/* More paths than places: some are replaced, and no path is found that was not added. */
TEST_WITH(paths_over_capacity_are_replaced, set_up, tear_down)
{
    char path[32];
    int known = 0;

    for (int i = 0; i < 5000; i += 2)
        negative_cache_add(missing, 0, (struct span){path, (size_t)sprintf(path, "/%d", i)}, 5);
    for (int i = 0; i < 5000; i++) {
        bool has = negative_cache_until(missing, 0,
                                        (struct span){path, (size_t)sprintf(path, "/%d", i)}, 5);

        assert_false(has && i % 2 != 0);
        known += has;
    }
    assert_in_range(known, 100, 256);
}

TEST_WITH(long_paths_are_not_kept, set_up, tear_down)
{
    char path[300];
    size_t kept = 0;

    memset(path, 'x', sizeof(path));
    for (size_t length = 1; length <= sizeof(path); length++) {
        negative_cache_add(missing, 0, (struct span){path, length}, 5);
        if (!negative_cache_until(missing, 0, (struct span){path, length}, 5))
            break;
        kept = length;
        assert_false(negative_cache_until(missing, 0, (struct span){path, length + 1}, 5));
    }
    assert_int_equal(kept, LONGEST);
}
