/* The shared cache of a worker: limits, eviction, removal, checks, concurrent threads. */
#include "tests/unit/daemon/content/cache_fixture.h"

#include "common/clock.h"

#include <pthread.h>

TEST(inserted_entry_is_found_until_invalidated)
{
    struct fixture fixture;
    struct cache_entry *entry;

    open_fixture(&fixture, 64 * KIB, &cache_policy_sieve);
    assert_false(has(fixture.cache, "/a"));
    assert_true(put(fixture.cache, "/a", KIB));
    entry = cache_find(fixture.cache, 0, "/a", 2);
    assert_non_null(entry);
    assert_string_equal(entry->path, "/a");
    cache_invalidate(fixture.cache, entry);
    assert_true(entry->stale);
    assert_false(has(fixture.cache, "/a"));
    assert_int_equal(metric_of(&fixture, METRIC_cache_bytes), KIB); /* still referenced here */
    cache_release(fixture.cache, entry);
    assert_int_equal(metric_of(&fixture, METRIC_cache_bytes), 0);
    assert_int_equal(metric_of(&fixture, METRIC_cache_invalidated), 1);
    close_fixture(&fixture);
}

TEST(second_entry_of_path_replaces_first)
{
    struct fixture fixture;
    struct thing *first, *second;
    struct cache_entry *found;

    open_fixture(&fixture, 64 * KIB, &cache_policy_sieve);
    first = new_thing("/a", KIB);
    second = new_thing("/a", 2 * KIB);
    cache_insert(fixture.cache, &first->entry);
    cache_insert(fixture.cache, &second->entry);
    assert_true(first->entry.stale);
    found = cache_find(fixture.cache, 0, "/a", 2);
    assert_ptr_equal(found, &second->entry);
    assert_int_equal(metric_of(&fixture, METRIC_cache_entries), 1);
    cache_release(fixture.cache, found);
    cache_release(fixture.cache, &first->entry);
    cache_release(fixture.cache, &second->entry);
    close_fixture(&fixture);
}

TEST(bytes_are_bounded)
{
    struct fixture fixture;
    char path[16];

    open_fixture(&fixture, 64 * KIB, &cache_policy_lru);
    assert_false(put(fixture.cache, "/huge", 65 * KIB));
    for (int i = 0; i < 200; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        assert_true(put(fixture.cache, path, 5 * KIB));
        assert_in_range(metric_of(&fixture, METRIC_cache_bytes), 5 * KIB, 64 * KIB);
    }
    assert_true(has(fixture.cache, "/199"));
    assert_false(has(fixture.cache, "/0"));
    assert_int_equal(metric_of(&fixture, METRIC_cache_inserted),
                     metric_of(&fixture, METRIC_cache_evicted) +
                         metric_of(&fixture, METRIC_cache_entries));
    close_fixture(&fixture);
}

TEST(entries_are_bounded)
{
    struct fixture fixture;
    char path[16];

    open_fixture(&fixture, 1024 * KIB, &cache_policy_sieve);
    for (int i = 0; i < 3 * ENTRIES; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        assert_true(put(fixture.cache, path, 100));
        assert_in_range(metric_of(&fixture, METRIC_cache_entries), 1, ENTRIES);
    }
    assert_int_equal(metric_of(&fixture, METRIC_cache_entries), ENTRIES);
    close_fixture(&fixture);
}

/*
 * While evicted entries are still referenced, new ones are not stored if they would exceed the
 * budget.
 */
TEST(held_entries_count_until_released)
{
    struct fixture fixture;
    struct cache_entry *held[6];
    char path[16];

    open_fixture(&fixture, 64 * KIB, &cache_policy_lru);
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof(path), "/held%d", i);
        put(fixture.cache, path, 10 * KIB);
        held[i] = cache_find(fixture.cache, 0, path, strlen(path));
        assert_non_null(held[i]);
    }
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof(path), "/new%d", i);
        put(fixture.cache, path, 10 * KIB);
        assert_true(metric_of(&fixture, METRIC_cache_bytes) <= 64 * KIB);
    }
    for (int i = 0; i < 6; i++)
        cache_release(fixture.cache, held[i]);
    assert_true(put(fixture.cache, "/last", 10 * KIB));
    close_fixture(&fixture);
}

/* A thread cache keeps evicted entries until it is swept; meanwhile there is room for new ones. */
TEST(evicted_entries_leave_room_for_new_ones)
{
    struct fixture fixture;
    struct thread_cache *cache;
    uint64_t seen = 0;
    char path[16];
    int sweeps = 0;

    open_fixture(&fixture, 1024 * KIB, &cache_policy_lru);
    cache = new_thread_cache(&fixture, 1);
    for (int i = 0; i < 10 * ENTRIES; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        ask(&fixture, cache, path);
        if (cache_wants_sweep(fixture.cache, &seen)) {
            thread_cache_sweep(cache);
            sweeps++;
        }
    }
    assert_int_equal(metric_of(&fixture, METRIC_cache_entries), ENTRIES);
    assert_in_range(sweeps, 1, 2 * ENTRIES); /* not at each insertion */
    cache_remove_reader(fixture.cache, 1);
    thread_cache_free(cache);
    close_fixture(&fixture);
}

TEST(descriptors_have_a_limit_of_their_own)
{
    struct fixture fixture;
    char path[16];

    open_fixture(&fixture, 1024 * KIB, &cache_policy_lru);
    put(fixture.cache, "/memory", KIB);
    for (int i = 0; i < DESCRIPTORS + 2; i++) {
        snprintf(path, sizeof(path), "/open%d", i);
        put_open(fixture.cache, path);
    }
    assert_true(has(fixture.cache, "/memory"));
    assert_false(has(fixture.cache, "/open0"));
    assert_false(has(fixture.cache, "/open1"));
    assert_true(has(fixture.cache, "/open2"));
    assert_int_equal(metric_of(&fixture, METRIC_cache_entries), 1 + DESCRIPTORS);
    assert_int_equal(metric_of(&fixture, METRIC_cache_evicted), 2);
    assert_int_equal(cache_purge(fixture.cache, "/open*"), DESCRIPTORS);
    close_fixture(&fixture);
}

TEST(unused_descriptors_are_closed)
{
    struct fixture fixture;
    struct thread_cache *cache;
    struct cache_entry *used;
    uint64_t seen = 0;

    open_fixture(&fixture, 1024 * KIB, &cache_policy_lru);
    cache = new_thread_cache(&fixture, 1);
    put(fixture.cache, "/memory", KIB);
    put_open(fixture.cache, "/unused");
    put_open(fixture.cache, "/used");
    used = cache_find(fixture.cache, 0, "/used", 5);
    thread_cache_store(cache, 0, SPAN("/used"), PREFER_IDENTITY, used, true, 1, UINT64_MAX);
    cache_release(fixture.cache, used);
    cache_close_unused(fixture.cache);
    assert_true(has(fixture.cache, "/memory"));
    assert_true(has(fixture.cache, "/used"));
    assert_false(has(fixture.cache, "/unused"));
    assert_false(cache_wants_sweep(fixture.cache, &seen));
    cache_close_unused(fixture.cache); /* not hit since */
    assert_false(has(fixture.cache, "/used"));
    assert_true(cache_wants_sweep(fixture.cache, &seen)); /* the thread cache still has it */
    thread_cache_sweep(cache);
    assert_false(cache_wants_sweep(fixture.cache, &seen));
    cache_remove_reader(fixture.cache, 1);
    thread_cache_free(cache);
    close_fixture(&fixture);
}

TEST(purge_of_path_removes_its_variants)
{
    struct fixture fixture;

    open_fixture(&fixture, 1024 * KIB, &cache_policy_lru);
    put(fixture.cache, "/a", KIB);
    put(fixture.cache, "/a//gzip", KIB);
    put(fixture.cache, "/a/b", KIB);
    put(fixture.cache, "/ab", KIB);
    assert_int_equal(cache_purge(fixture.cache, "/a"), 2);
    assert_true(has(fixture.cache, "/a/b"));
    assert_true(has(fixture.cache, "/ab"));
    close_fixture(&fixture);
}

TEST(shed_evicts_half_of_the_memory)
{
    struct fixture fixture;
    char path[16];

    open_fixture(&fixture, 1024 * KIB, &cache_policy_lru);
    for (int i = 0; i < 16; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        put(fixture.cache, path, KIB);
    }
    assert_int_equal(cache_shed(fixture.cache), 8);
    assert_int_equal(metric_of(&fixture, METRIC_cache_bytes), 8 * KIB);
    assert_true(has(fixture.cache, "/15"));
    while (cache_shed(fixture.cache) > 0)
        continue;
    assert_int_equal(metric_of(&fixture, METRIC_cache_bytes), 0);
    assert_int_equal(metric_of(&fixture, METRIC_cache_shed), 16);
    close_fixture(&fixture);
}

/* What a caller does with ENTRY at NOW_NS: true if it must check it before it serves it. */
static bool must_check(struct cache_entry *entry, uint64_t now_ns, uint64_t max_age_ns)
{
    return cache_check_is_due(entry, now_ns, max_age_ns) &&
           cache_claim_check(entry, now_ns, max_age_ns);
}

TEST(only_one_caller_claims_a_due_check)
{
    struct thing *thing = new_thing("/a", KIB); /* at 1000 */

    assert_false(must_check(&thing->entry, 1749, 1000));
    assert_true(must_check(&thing->entry, 1750, 1000));
    assert_false(must_check(&thing->entry, 1750, 1000)); /* claimed already */
    cache_set_checked(&thing->entry, 1750);
    assert_false(must_check(&thing->entry, 2499, 1000));
    assert_true(must_check(&thing->entry, 2500, 1000));
    destroy_thing(&thing->entry);
}

/* The clock of a loop iteration that began before another thread's check. */
TEST(check_is_due_if_clock_is_older_than_last_check)
{
    struct thing *thing = new_thing("/a", KIB); /* at 1000 */

    assert_true(must_check(&thing->entry, 999, 0));
    assert_true(must_check(&thing->entry, 1000, 0));
    assert_true(cache_check_is_due(&thing->entry, 999, 1000));
    assert_false(cache_check_is_due(&thing->entry, 1000, 1000));
    destroy_thing(&thing->entry);
}

/* The caller that has claimed the check may be delayed. */
TEST(entry_over_max_age_is_not_served_unchecked)
{
    struct thing *thing = new_thing("/a", KIB); /* at 1000 */

    assert_true(must_check(&thing->entry, 1800, 1000));
    assert_false(must_check(&thing->entry, 1999, 1000));
    assert_true(must_check(&thing->entry, 2000, 1000));
    assert_true(must_check(&thing->entry, 2000, 1000));
    cache_set_checked(&thing->entry, 2000);
    cache_set_checked(&thing->entry, 1800); /* the delayed one, at last */
    assert_false(must_check(&thing->entry, 2749, 1000));
    assert_true(must_check(&thing->entry, 2000, 0));
    assert_true(must_check(&thing->entry, 2000, 0));
    destroy_thing(&thing->entry);
}

/*
 * Threads look up, insert, evict and invalidate concurrently; sanitizers watch for lost or double
 * frees.
 */
struct racer {
    struct fixture *fixture;
    uint32_t slot;
    pthread_t id;
};

static void race_once(struct racer *racer, struct thread_cache *own, unsigned *random,
                      uint64_t *swept)
{
    struct cache *cache = racer->fixture->cache;
    char path[16];
    struct cache_entry *entry;

    snprintf(path, sizeof(path), "/%d", rand_r(random) % (2 * ENTRIES));
    entry = thread_cache_find(own, 0, span_of(path), PREFER_IDENTITY, 5);
    if (entry != NULL)
        return;
    entry = cache_find(cache, 0, path, strlen(path));
    if (entry == NULL) {
        struct thing *thing = new_thing(path, 700);

        cache_insert(cache, &thing->entry);
        entry = &thing->entry;
    } else if (rand_r(random) % 16 == 0) {
        cache_invalidate(cache, entry);
    }
    if (entry->stored)
        thread_cache_store(own, 0, span_of(path), PREFER_IDENTITY, entry, true, 5, UINT64_MAX);
    cache_release(cache, entry);
    if (cache_wants_sweep(cache, swept))
        thread_cache_sweep(own);
}

static void *race(void *argument)
{
    struct racer *racer = argument;
    struct thread_cache *cache = new_thread_cache(racer->fixture, racer->slot);
    unsigned random = racer->slot + 1;
    uint64_t swept = 0;

    for (int i = 0; i < 20000; i++)
        race_once(racer, cache, &random, &swept);
    cache_remove_reader(racer->fixture->cache, racer->slot);
    thread_cache_free(cache);
    return NULL;
}

TEST(cache_is_safe_for_concurrent_threads)
{
    struct fixture fixture;
    struct racer racer[THREADS];

    open_fixture(&fixture, 32 * KIB, &cache_policy_sieve);
    for (uint32_t i = 0; i < THREADS; i++) {
        racer[i] = (struct racer){.fixture = &fixture, .slot = i};
        assert_int_equal(pthread_create(&racer[i].id, NULL, race, &racer[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(racer[i].id, NULL);
    assert_true(metric_of(&fixture, METRIC_cache_evicted) > 0);
    assert_true(metric_of(&fixture, METRIC_cache_bytes) <= 32 * KIB);
    close_fixture(&fixture);
}

/* Flush, purge, resize */

TEST(purge_removes_path_or_prefix)
{
    static const struct {
        const char *path;
        uint64_t taken;
    } cases[] = {{"/a", 1}, {"/a/", 2}, {"/a*", 4}, {"/", 5}, {"*", 5}, {"/a/b/c", 0}, {"/x", 0}};
    static const char *const paths[] = {"/a", "/a/b", "/a/c", "/ab", "/b"};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct fixture fixture;
        size_t left = 0;

        open_fixture(&fixture, 64 * KIB, &cache_policy_sieve);
        for (size_t p = 0; p < ARRAY_LENGTH(paths); p++)
            assert_true(put(fixture.cache, paths[p], 100));
        assert_int_equal(cache_purge(fixture.cache, cases[i].path), cases[i].taken);
        for (size_t p = 0; p < ARRAY_LENGTH(paths); p++)
            left += has(fixture.cache, paths[p]);
        assert_int_equal(left, ARRAY_LENGTH(paths) - cases[i].taken);
        assert_int_equal(metric_of(&fixture, METRIC_cache_purged), cases[i].taken);
        close_fixture(&fixture);
    }
}

TEST(entry_loaded_before_flush_is_not_stored)
{
    struct fixture fixture;
    struct thing *early, *late;

    open_fixture(&fixture, 64 * KIB, &cache_policy_sieve);
    early = new_thing("/early", 100);
    assert_true(put(fixture.cache, "/a", 100));
    assert_int_equal(cache_flush(fixture.cache), 1);
    assert_int_equal(metric_of(&fixture, METRIC_cache_entries), 0);
    cache_insert(fixture.cache, &early->entry);
    assert_false(early->entry.stored);
    late = new_thing("/late", 100);
    atomic_store(&late->entry.checked_ns, clock_monotonic_ns());
    cache_insert(fixture.cache, &late->entry);
    assert_true(late->entry.stored);
    cache_release(fixture.cache, &early->entry);
    cache_release(fixture.cache, &late->entry);
    close_fixture(&fixture);
}

TEST(smaller_limit_evicts_at_once)
{
    struct fixture fixture;

    open_fixture(&fixture, 64 * KIB, &cache_policy_lru);
    for (int i = 0; i < 10; i++) {
        char path[16];

        snprintf(path, sizeof(path), "/%d", i);
        assert_true(put(fixture.cache, path, 4 * KIB));
    }
    assert_int_equal(metric_of(&fixture, METRIC_cache_limit), 64 * KIB);
    assert_int_equal(cache_resize(fixture.cache, 64 * KIB), 0);
    assert_int_equal(cache_resize(fixture.cache, 16 * KIB),
                     7); /* a sixteenth is for stale entries */
    assert_int_equal(metric_of(&fixture, METRIC_cache_entries), 3);
    assert_true(has(fixture.cache, "/9"));
    assert_false(has(fixture.cache, "/0"));
    cache_set_policy(fixture.cache, &cache_policy_sieve);
    assert_int_equal(cache_resize(fixture.cache, 64 * KIB), 0);
    assert_true(put(fixture.cache, "/again", 4 * KIB));
    close_fixture(&fixture);
}

/* The limits, at their last byte */

TEST(entry_may_fill_the_share_of_live_entries)
{
    struct fixture fixture;
    char path[16];

    open_fixture(&fixture, 64 * KIB, &cache_policy_lru);
    for (int i = 0; i < 14; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        assert_true(put(fixture.cache, path, 4 * KIB));
    }
    assert_int_equal(metric_of(&fixture, METRIC_cache_evicted), 0);
    assert_false(put(fixture.cache, "/over", 56 * KIB + 1));
    assert_int_equal(metric_of(&fixture, METRIC_cache_entries), 14);
    assert_true(put(fixture.cache, "/all", 56 * KIB));
    assert_int_equal(metric_of(&fixture, METRIC_cache_entries), 1);
    close_fixture(&fixture);
}

/* Inserts PATH and invalidates it, but keeps the reference, which is returned. */
static struct cache_entry *put_stale(struct fixture *fixture, const char *path, size_t bytes)
{
    struct thing *thing = new_thing(path, bytes);

    cache_insert(fixture->cache, &thing->entry);
    assert_true(thing->entry.stored);
    cache_invalidate(fixture->cache, &thing->entry);
    return &thing->entry;
}

TEST(stale_entries_leave_the_rest_of_the_memory)
{
    struct fixture fixture;
    struct cache_entry *stale;

    open_fixture(&fixture, 64 * KIB, &cache_policy_lru);
    stale = put_stale(&fixture, "/a", 8 * KIB + 1);
    assert_false(put(fixture.cache, "/b", 56 * KIB));
    cache_release(fixture.cache, stale);
    stale = put_stale(&fixture, "/a", 8 * KIB);
    assert_true(put(fixture.cache, "/b", 56 * KIB));
    cache_release(fixture.cache, stale);
    close_fixture(&fixture);
}

TEST(stale_entries_keep_their_slots)
{
    struct fixture fixture;
    struct cache_entry **stale = calloc(cache_slots(ENTRIES), sizeof(struct cache_entry *));

    assert_non_null(stale);
    open_fixture(&fixture, 64 * KIB, &cache_policy_lru);
    for (uint32_t i = 0; i < cache_slots(ENTRIES); i++)
        stale[i] = put_stale(&fixture, "/a", 1);
    assert_false(put(fixture.cache, "/b", 1));
    cache_release(fixture.cache, stale[0]);
    assert_true(put(fixture.cache, "/b", 1));
    for (uint32_t i = 1; i < cache_slots(ENTRIES); i++)
        cache_release(fixture.cache, stale[i]);
    free(stale);
    close_fixture(&fixture);
}

/* More than a sixteenth of the memory, or half of the spare slots. */
TEST(stale_entries_need_a_sweep)
{
    enum { SPARE = 20 };
    struct fixture fixture;
    struct cache_entry *stale[SPARE];
    uint64_t seen = 0;

    assert_int_equal(cache_slots(ENTRIES), ENTRIES + SPARE);
    open_fixture(&fixture, 64 * KIB, &cache_policy_lru);
    for (uint32_t i = 0; i < SPARE / 2; i++)
        stale[i] = put_stale(&fixture, "/a", 1);
    assert_false(cache_wants_sweep(fixture.cache, &seen));
    stale[SPARE / 2] = put_stale(&fixture, "/a", 1);
    assert_true(cache_wants_sweep(fixture.cache, &seen));
    for (uint32_t i = 0; i <= SPARE / 2; i++)
        cache_release(fixture.cache, stale[i]);
    stale[0] = put_stale(&fixture, "/a", 4 * KIB);
    assert_false(cache_wants_sweep(fixture.cache, &seen));
    stale[1] = put_stale(&fixture, "/a", 1);
    assert_true(cache_wants_sweep(fixture.cache, &seen));
    assert_false(cache_wants_sweep(fixture.cache, &seen));
    cache_release(fixture.cache, stale[0]);
    cache_release(fixture.cache, stale[1]);
    close_fixture(&fixture);
}

TEST(allowance_limits_new_entries)
{
    struct fixture fixture;

    open_fixture(&fixture, 64 * KIB, &cache_policy_lru);
    cache_allow(fixture.cache, 100);
    assert_true(put(fixture.cache, "/a", 60));
    assert_false(put(fixture.cache, "/b", 41));
    assert_true(put(fixture.cache, "/b", 40));
    assert_false(put(fixture.cache, "/c", 1));
    cache_allow(fixture.cache, UINT64_MAX);
    assert_true(put(fixture.cache, "/c", 56 * KIB - 100));
    assert_true(put(fixture.cache, "/d", 56 * KIB));
    close_fixture(&fixture);
}

TEST(removed_entry_is_freed_after_its_last_reference)
{
    struct fixture fixture;
    struct cache_entry *stale;

    open_fixture(&fixture, 64 * KIB, &cache_policy_lru);
    assert_true(put(fixture.cache, "/b", 1));
    assert_false(cache_frees_soon(fixture.cache));
    stale = put_stale(&fixture, "/a", 1);
    assert_true(cache_frees_soon(fixture.cache));
    assert_int_equal(cache_freed(fixture.cache), 0);
    cache_release(fixture.cache, stale);
    assert_false(cache_frees_soon(fixture.cache));
    assert_int_equal(cache_freed(fixture.cache), 1);
    assert_int_equal(cache_flush(fixture.cache), 1);
    assert_int_equal(cache_freed(fixture.cache), 2);
    close_fixture(&fixture);
}

TEST(slot_is_published)
{
    struct fixture fixture;
    struct cache_entry *entry;
    const struct segment_cache_entry *published;

    open_fixture(&fixture, 64 * KIB, &cache_policy_lru);
    assert_true(put(fixture.cache, "/a", 7));
    entry = cache_find(fixture.cache, 0, "/a", 2);
    published = &segment_cache(&fixture.segment, WORKER)[entry->slot];
    assert_int_equal(published->id, entry->id);
    assert_int_equal(published->bytes, 7);
    assert_memory_equal(published->path, "/a", 3);
    assert_int_equal(published->state, CACHE_SLOT_LIVE);
    cache_invalidate(fixture.cache, entry);
    assert_int_equal(published->state, CACHE_SLOT_STALE);
    cache_release(fixture.cache, entry);
    assert_int_equal(published->state, CACHE_SLOT_FREE);
    close_fixture(&fixture);
}
