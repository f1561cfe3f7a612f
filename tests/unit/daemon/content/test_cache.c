/* The shared cache of a worker: limits, eviction, removal, checks, concurrent threads. */
#include "tests/unit/daemon/content/cache_fixture.h"

#include "common/clock.h"

#include <pthread.h>

TEST(inserted_entry_is_found_until_invalidated)
{
    struct cache_entry *entry;

    open_cache(64 * KIB, &cache_policy_sieve);
    assert_false(has("/a"));
    assert_true(put("/a", KIB));
    entry = find("/a");
    assert_non_null(entry);
    assert_string_equal(entry->path, "/a");
    cache_invalidate(fixture.cache, entry);
    assert_true(entry->stale);
    assert_false(has("/a"));
    assert_int_equal(metric_of(METRIC_cache_bytes), KIB); /* still referenced here */
    release(entry);
    assert_int_equal(metric_of(METRIC_cache_bytes), 0);
    assert_int_equal(metric_of(METRIC_cache_invalidated), 1);
}

TEST(second_entry_of_path_replaces_first)
{
    struct thing *first, *second;
    struct cache_entry *found;

    open_cache(64 * KIB, &cache_policy_sieve);
    first = new_thing("/a", KIB);
    second = new_thing("/a", 2 * KIB);
    cache_insert(fixture.cache, &first->entry);
    cache_insert(fixture.cache, &second->entry);
    assert_true(first->entry.stale);
    found = find("/a");
    assert_ptr_equal(found, &second->entry);
    assert_int_equal(metric_of(METRIC_cache_entries), 1);
    release(found);
    release(&first->entry);
    release(&second->entry);
}

TEST(bytes_are_bounded)
{
    char path[16];

    open_cache(64 * KIB, &cache_policy_lru);
    assert_false(put("/huge", 65 * KIB));
    for (int i = 0; i < 200; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        assert_true(put(path, 5 * KIB));
        assert_in_range(metric_of(METRIC_cache_bytes), 5 * KIB, 64 * KIB);
    }
    assert_true(has("/199"));
    assert_false(has("/0"));
    assert_int_equal(metric_of(METRIC_cache_inserted),
                     metric_of(METRIC_cache_evicted) + metric_of(METRIC_cache_entries));
}

TEST(entries_are_bounded)
{
    char path[16];

    open_cache(1024 * KIB, &cache_policy_sieve);
    for (int i = 0; i < 3 * ENTRIES; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        assert_true(put(path, 100));
        assert_in_range(metric_of(METRIC_cache_entries), 1, ENTRIES);
    }
    assert_int_equal(metric_of(METRIC_cache_entries), ENTRIES);
}

/*
 * While evicted entries are still referenced, new ones are not stored if they would exceed the
 * budget.
 */
TEST(held_entries_count_until_released)
{
    struct cache_entry *held[6];
    char path[16];

    open_cache(64 * KIB, &cache_policy_lru);
    for (int i = 0; i < 6; i++) {
        snprintf(path, sizeof(path), "/held%d", i);
        put(path, 10 * KIB);
        held[i] = find(path);
        assert_non_null(held[i]);
    }
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof(path), "/new%d", i);
        put(path, 10 * KIB);
        assert_true(metric_of(METRIC_cache_bytes) <= 64 * KIB);
    }
    for (int i = 0; i < 6; i++)
        release(held[i]);
    assert_true(put("/last", 10 * KIB));
}

/* A thread cache keeps evicted entries until it is swept; meanwhile there is room for new ones. */
TEST(evicted_entries_leave_room_for_new_ones)
{
    struct thread_cache *cache;
    uint64_t seen = 0;
    char path[16];
    int sweeps = 0;

    open_cache(1024 * KIB, &cache_policy_lru);
    cache = open_thread_cache(1);
    for (int i = 0; i < 10 * ENTRIES; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        ask(cache, path);
        if (cache_wants_sweep(fixture.cache, &seen)) {
            thread_cache_sweep(cache);
            sweeps++;
        }
    }
    assert_int_equal(metric_of(METRIC_cache_entries), ENTRIES);
    assert_in_range(sweeps, 1, 2 * ENTRIES); /* not at each insertion */
}

TEST(descriptors_have_a_limit_of_their_own)
{
    char path[16];

    open_cache(1024 * KIB, &cache_policy_lru);
    put("/memory", KIB);
    for (int i = 0; i < DESCRIPTORS + 2; i++) {
        snprintf(path, sizeof(path), "/open%d", i);
        put_open(path);
    }
    assert_true(has("/memory"));
    assert_false(has("/open0"));
    assert_false(has("/open1"));
    assert_true(has("/open2"));
    assert_int_equal(metric_of(METRIC_cache_entries), 1 + DESCRIPTORS);
    assert_int_equal(metric_of(METRIC_cache_evicted), 2);
    assert_int_equal(cache_purge(fixture.cache, "/open*"), DESCRIPTORS);
}

TEST(unused_descriptors_are_closed)
{
    struct thread_cache *cache;
    struct cache_entry *used;
    uint64_t seen = 0;

    open_cache(1024 * KIB, &cache_policy_lru);
    cache = open_thread_cache(1);
    put("/memory", KIB);
    put_open("/unused");
    put_open("/used");
    used = find("/used");
    thread_cache_store(cache, 0, SPAN("/used"), PREFER_IDENTITY, used, true, 1, UINT64_MAX);
    release(used);
    cache_close_unused(fixture.cache);
    assert_true(has("/memory"));
    assert_true(has("/used"));
    assert_false(has("/unused"));
    assert_false(cache_wants_sweep(fixture.cache, &seen));
    cache_close_unused(fixture.cache); /* not hit since */
    assert_false(has("/used"));
    assert_true(cache_wants_sweep(fixture.cache, &seen)); /* the thread cache still has it */
    thread_cache_sweep(cache);
    assert_false(cache_wants_sweep(fixture.cache, &seen));
}

TEST(purge_of_path_removes_its_variants)
{
    open_cache(1024 * KIB, &cache_policy_lru);
    put("/a", KIB);
    put("/a//gzip", KIB);
    put("/a/b", KIB);
    put("/ab", KIB);
    assert_int_equal(cache_purge(fixture.cache, "/a"), 2);
    assert_true(has("/a/b"));
    assert_true(has("/ab"));
}

TEST(shed_evicts_half_of_the_memory)
{
    char path[16];

    open_cache(1024 * KIB, &cache_policy_lru);
    for (int i = 0; i < 16; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        put(path, KIB);
    }
    assert_int_equal(cache_shed(fixture.cache), 8);
    assert_int_equal(metric_of(METRIC_cache_bytes), 8 * KIB);
    assert_true(has("/15"));
    while (cache_shed(fixture.cache) > 0)
        continue;
    assert_int_equal(metric_of(METRIC_cache_bytes), 0);
    assert_int_equal(metric_of(METRIC_cache_shed), 16);
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
static void race_once(struct thread_cache *own, unsigned *random, uint64_t *swept)
{
    char path[16];
    struct cache_entry *entry;

    snprintf(path, sizeof(path), "/%d", rand_r(random) % (2 * ENTRIES));
    entry = thread_cache_find(own, 0, span_of(path), PREFER_IDENTITY, 5);
    if (entry != NULL)
        return;
    entry = find(path);
    if (entry == NULL) {
        struct thing *thing = new_thing(path, 700);

        cache_insert(fixture.cache, &thing->entry);
        entry = &thing->entry;
    } else if (rand_r(random) % 16 == 0) {
        cache_invalidate(fixture.cache, entry);
    }
    if (entry->stored)
        thread_cache_store(own, 0, span_of(path), PREFER_IDENTITY, entry, true, 5, UINT64_MAX);
    release(entry);
    if (cache_wants_sweep(fixture.cache, swept))
        thread_cache_sweep(own);
}

static void *race(void *argument)
{
    uint32_t slot = *(uint32_t *)argument;
    struct thread_cache *cache = open_thread_cache(slot);
    unsigned random = slot + 1;
    uint64_t swept = 0;

    for (int i = 0; i < 20000; i++)
        race_once(cache, &random, &swept);
    close_thread_cache(slot);
    return NULL;
}

TEST(cache_is_safe_for_concurrent_threads)
{
    pthread_t id[THREADS];
    uint32_t slot[THREADS];

    open_cache(32 * KIB, &cache_policy_sieve);
    for (uint32_t i = 0; i < THREADS; i++) {
        slot[i] = i;
        assert_int_equal(pthread_create(&id[i], NULL, race, &slot[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(id[i], NULL);
    assert_true(metric_of(METRIC_cache_evicted) > 0);
    assert_true(metric_of(METRIC_cache_bytes) <= 32 * KIB);
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
        size_t left = 0;

        open_cache(64 * KIB, &cache_policy_sieve);
        for (size_t p = 0; p < ARRAY_LENGTH(paths); p++)
            assert_true(put(paths[p], 100));
        assert_int_equal(cache_purge(fixture.cache, cases[i].path), cases[i].taken);
        for (size_t p = 0; p < ARRAY_LENGTH(paths); p++)
            left += has(paths[p]);
        assert_int_equal(left, ARRAY_LENGTH(paths) - cases[i].taken);
        assert_int_equal(metric_of(METRIC_cache_purged), cases[i].taken);
        assert_int_equal(close_cache(state), 0);
    }
}

TEST(entry_loaded_before_flush_is_not_stored)
{
    struct thing *early, *late;

    open_cache(64 * KIB, &cache_policy_sieve);
    early = new_thing("/early", 100);
    assert_true(put("/a", 100));
    assert_int_equal(cache_flush(fixture.cache), 1);
    assert_int_equal(metric_of(METRIC_cache_entries), 0);
    cache_insert(fixture.cache, &early->entry);
    assert_false(early->entry.stored);
    late = new_thing("/late", 100);
    atomic_store(&late->entry.checked_ns, clock_monotonic_ns());
    cache_insert(fixture.cache, &late->entry);
    assert_true(late->entry.stored);
    release(&early->entry);
    release(&late->entry);
}

TEST(smaller_limit_evicts_at_once)
{
    open_cache(64 * KIB, &cache_policy_lru);
    for (int i = 0; i < 10; i++) {
        char path[16];

        snprintf(path, sizeof(path), "/%d", i);
        assert_true(put(path, 4 * KIB));
    }
    assert_int_equal(metric_of(METRIC_cache_limit), 64 * KIB);
    assert_int_equal(cache_resize(fixture.cache, 64 * KIB), 0);
    assert_int_equal(cache_resize(fixture.cache, 16 * KIB),
                     7); /* a sixteenth is for stale entries */
    assert_int_equal(metric_of(METRIC_cache_entries), 3);
    assert_true(has("/9"));
    assert_false(has("/0"));
    cache_set_policy(fixture.cache, &cache_policy_sieve);
    assert_int_equal(cache_resize(fixture.cache, 64 * KIB), 0);
    assert_true(put("/again", 4 * KIB));
}

/* The limits, at their last byte */

TEST(entry_may_fill_the_share_of_live_entries)
{
    char path[16];

    open_cache(64 * KIB, &cache_policy_lru);
    for (int i = 0; i < 14; i++) {
        snprintf(path, sizeof(path), "/%d", i);
        assert_true(put(path, 4 * KIB));
    }
    assert_int_equal(metric_of(METRIC_cache_evicted), 0);
    assert_false(put("/over", 56 * KIB + 1));
    assert_int_equal(metric_of(METRIC_cache_entries), 14);
    assert_true(put("/all", 56 * KIB));
    assert_int_equal(metric_of(METRIC_cache_entries), 1);
}

/* Inserts PATH and invalidates it, but keeps the reference, which is returned. */
static struct cache_entry *put_stale(const char *path, size_t bytes)
{
    struct thing *thing = new_thing(path, bytes);

    cache_insert(fixture.cache, &thing->entry);
    assert_true(thing->entry.stored);
    cache_invalidate(fixture.cache, &thing->entry);
    return &thing->entry;
}

TEST(stale_entries_leave_the_rest_of_the_memory)
{
    struct cache_entry *stale;

    open_cache(64 * KIB, &cache_policy_lru);
    stale = put_stale("/a", 8 * KIB + 1);
    assert_false(put("/b", 56 * KIB));
    release(stale);
    stale = put_stale("/a", 8 * KIB);
    assert_true(put("/b", 56 * KIB));
    release(stale);
}

TEST(stale_entries_keep_their_slots)
{
    struct cache_entry **stale = calloc(cache_slots(ENTRIES), sizeof(struct cache_entry *));

    assert_non_null(stale);
    open_cache(64 * KIB, &cache_policy_lru);
    for (uint32_t i = 0; i < cache_slots(ENTRIES); i++)
        stale[i] = put_stale("/a", 1);
    assert_false(put("/b", 1));
    release(stale[0]);
    assert_true(put("/b", 1));
    for (uint32_t i = 1; i < cache_slots(ENTRIES); i++)
        release(stale[i]);
    free(stale);
}

/* More than a sixteenth of the memory, or half of the spare slots. */
TEST(stale_entries_need_a_sweep)
{
    enum { SPARE = 20 };
    struct cache_entry *stale[SPARE];
    uint64_t seen = 0;

    assert_int_equal(cache_slots(ENTRIES), ENTRIES + SPARE);
    open_cache(64 * KIB, &cache_policy_lru);
    for (uint32_t i = 0; i < SPARE / 2; i++)
        stale[i] = put_stale("/a", 1);
    assert_false(cache_wants_sweep(fixture.cache, &seen));
    stale[SPARE / 2] = put_stale("/a", 1);
    assert_true(cache_wants_sweep(fixture.cache, &seen));
    for (uint32_t i = 0; i <= SPARE / 2; i++)
        release(stale[i]);
    stale[0] = put_stale("/a", 4 * KIB);
    assert_false(cache_wants_sweep(fixture.cache, &seen));
    stale[1] = put_stale("/a", 1);
    assert_true(cache_wants_sweep(fixture.cache, &seen));
    assert_false(cache_wants_sweep(fixture.cache, &seen));
    release(stale[0]);
    release(stale[1]);
}

TEST(allowance_limits_new_entries)
{
    open_cache(64 * KIB, &cache_policy_lru);
    cache_allow(fixture.cache, 100);
    assert_true(put("/a", 60));
    assert_false(put("/b", 41));
    assert_true(put("/b", 40));
    assert_false(put("/c", 1));
    cache_allow(fixture.cache, UINT64_MAX);
    assert_true(put("/c", 56 * KIB - 100));
    assert_true(put("/d", 56 * KIB));
}

TEST(removed_entry_is_freed_after_its_last_reference)
{
    struct cache_entry *stale;

    open_cache(64 * KIB, &cache_policy_lru);
    assert_true(put("/b", 1));
    assert_false(cache_frees_soon(fixture.cache));
    stale = put_stale("/a", 1);
    assert_true(cache_frees_soon(fixture.cache));
    assert_int_equal(cache_freed(fixture.cache), 0);
    release(stale);
    assert_false(cache_frees_soon(fixture.cache));
    assert_int_equal(cache_freed(fixture.cache), 1);
    assert_int_equal(cache_flush(fixture.cache), 1);
    assert_int_equal(cache_freed(fixture.cache), 2);
}

TEST(slot_is_published)
{
    struct cache_entry *entry;
    const struct segment_cache_entry *published;

    open_cache(64 * KIB, &cache_policy_lru);
    assert_true(put("/a", 7));
    entry = find("/a");
    published = &segment_cache(&fixture.segment, WORKER)[entry->slot];
    assert_int_equal(published->id, entry->id);
    assert_int_equal(published->bytes, 7);
    assert_memory_equal(published->path, "/a", 3);
    assert_int_equal(published->state, CACHE_SLOT_LIVE);
    cache_invalidate(fixture.cache, entry);
    assert_int_equal(published->state, CACHE_SLOT_STALE);
    release(entry);
    assert_int_equal(published->state, CACHE_SLOT_FREE);
}
