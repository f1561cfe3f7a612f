#include "loadgen/lab/trace.h"

#include "common/macros.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

enum { COUNT = 200000, FILES = 100 };

static uint32_t numbers[COUNT], again[COUNT];

TEST(zipf_requests_files_in_proportion)
{
    uint32_t seen[FILES] = {0};
    double all = 0;

    assert_int_equal(trace_zipf(numbers, COUNT, FILES, 0.8, 7), 0);
    for (size_t i = 0; i < COUNT; i++) {
        assert_in_range(numbers[i], 0, FILES - 1);
        seen[numbers[i]]++;
    }
    for (uint32_t i = 0; i < FILES; i++)
        all += pow(i + 1.0, -0.8);
    for (uint32_t i = 0; i < FILES; i++) { /* within six standard deviations */
        double expected = COUNT * pow(i + 1.0, -0.8) / all;

        if (fabs(seen[i] - expected) > 6 * sqrt(expected))
            fail_msg("file %u was requested %u times instead of %.0f", i, seen[i], expected);
    }
}

TEST(same_seed_gives_same_trace)
{
    trace_zipf(numbers, 1000, FILES, 0.8, 7);
    trace_zipf(again, 1000, FILES, 0.8, 7);
    assert_memory_equal(numbers, again, 1000 * sizeof(*numbers));
    trace_zipf(again, 1000, FILES, 0.8, 8);
    assert_memory_not_equal(numbers, again, 1000 * sizeof(*numbers));
}

TEST(scans_request_their_files_in_order)
{
    static const uint32_t expected[] = {0, 0, 0, 10, 11, 0, 0, 0, 12, 10, 0, 0, 0, 11};
    uint32_t trace[ARRAY_LENGTH(expected)] = {0};

    trace_add_scans(trace, ARRAY_LENGTH(trace), 3, 2, 10, 13);
    assert_memory_equal(trace, expected, sizeof(expected));
}

/* Reference LRU: a list of files, the most recently used first. */
static double lru_by_hand(const uint32_t *trace, size_t count, size_t room)
{
    uint32_t row[FILES];
    size_t used = 0, hits = 0;

    for (size_t i = 0; i < count; i++) {
        size_t at = 0;

        while (at < used && row[at] != trace[i])
            at++;
        hits += at < used;
        if (at == used)
            at = used < room ? used++ : room - 1;
        memmove(row + 1, row, at * sizeof(*row));
        row[0] = trace[i];
    }
    return 100.0 * (double)hits / (double)count;
}

/*
 * The server's LRU promotes entries only at eviction, so its hits differ slightly from exact LRU.
 */
TEST(lazy_lru_hits_like_lru)
{
    static const size_t rooms[] = {5, 20, 50, 90};

    trace_zipf(numbers, 20000, FILES, 0.8, 7);
    for (size_t i = 0; i < ARRAY_LENGTH(rooms); i++) {
        double simulated = cache_simulate(&cache_policy_lru, numbers, 20000, FILES, rooms[i]);
        double by_hand = lru_by_hand(numbers, 20000, rooms[i]);

        if (fabs(simulated - by_hand) > 4)
            fail_msg("room for %zu: %.2f%%, by the definition %.2f%%", rooms[i], simulated,
                     by_hand);
    }
}

TEST(simulation_counts_hits)
{
    static const uint32_t once[] = {0, 1, 2, 3}, same[] = {0, 0, 0, 0}, loop[] = {0, 1, 2, 0, 1, 2};

    assert_true(cache_simulate(&cache_policy_lru, once, 4, 4, 4) == 0);
    assert_true(cache_simulate(&cache_policy_lru, same, 4, 4, 1) == 75);
    assert_true(cache_simulate(&cache_policy_lru, loop, 6, 3, 3) == 50);
    assert_true(cache_simulate(&cache_policy_lru, loop, 6, 3, 2) == 0);
    assert_true(cache_simulate(&cache_policy_lru, same, 4, 4, 0) == 0);
}

/* Zhang et al. (NSDI 2024): SIEVE evicts files early that are requested once. */
TEST(sieve_resists_scans_better_than_lru)
{
    enum { REQUESTS = 50000, POPULAR = 50, ROOM = 20 };

    trace_zipf(numbers, REQUESTS, POPULAR, 0.9, 1);
    trace_add_scans(numbers, REQUESTS, 100, 50, POPULAR, FILES);
    assert_true(cache_simulate(&cache_policy_sieve, numbers, REQUESTS, FILES, ROOM) >
                cache_simulate(&cache_policy_lru, numbers, REQUESTS, FILES, ROOM) + 3);
}
