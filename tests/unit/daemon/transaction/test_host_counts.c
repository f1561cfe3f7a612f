/* What a thread counts for each host, and which counts a slot keeps. */
#include "daemon/transaction/accounting.h"

#include "common/macros.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

enum { ENTRIES = 4, FIRST_ID = 100 };

static struct segment_host_counts counts[ENTRIES];

/* Each entry is that of another host. */
static int set_up(void **state)
{
    (void)state;
    memset(counts, 0, sizeof(counts));
    for (uint32_t i = 0; i < ENTRIES; i++) {
        const struct host_place place = {.entry = i, .id = FIRST_ID + i};

        host_counts_claim(counts, &place, 1);
    }
    return 0;
}

static uint64_t value(uint32_t entry, int metric)
{
    return atomic_load(&counts[entry].values[metric]);
}

static uint64_t longest_ns(uint32_t entry)
{
    return atomic_load(&counts[entry].latency_max_ns);
}

static uint64_t in_bucket_of(uint32_t entry, uint64_t duration_ns)
{
    return atomic_load(
        &counts[entry].latency[histogram_index(duration_ns) >> HISTOGRAM_COARSE_SHIFT]);
}

/* The number of durations in all buckets. */
static uint64_t in_all_buckets(uint32_t entry)
{
    uint64_t sum = 0;

    for (int i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        sum += atomic_load(&counts[entry].latency[i]);
    return sum;
}

static void expect_nothing(uint32_t entry)
{
    for (int i = 0; i < HOST_METRIC_COUNT; i++)
        assert_int_equal(value(entry, i), 0);
    assert_int_equal(in_all_buckets(entry), 0);
    assert_int_equal(longest_ns(entry), 0);
}

static void responses_are_counted_by_class(void **state)
{
    static const struct {
        int first, last;
        int metric;
    } classes[] = {
        {200, 299, HOST_METRIC_responses_2xx},
        {300, 399, HOST_METRIC_responses_3xx},
        {400, 499, HOST_METRIC_responses_4xx},
        {500, 599, HOST_METRIC_responses_5xx},
    };

    (void)state;
    for (uint32_t i = 0; i < ARRAY_LENGTH(classes); i++) {
        host_counts_add(&counts[i], classes[i].first, 0, 0);
        host_counts_add(&counts[i], classes[i].last, 0, 0);
        for (int metric = 0; metric < HOST_METRIC_COUNT; metric++)
            assert_int_equal(value(i, metric), metric == classes[i].metric ? 2 : 0);
    }
}

static void bytes_and_durations_are_added(void **state)
{
    (void)state;
    host_counts_add(&counts[1], 200, 10, 1000);
    host_counts_add(&counts[1], 404, 5, 50000000);
    host_counts_add(&counts[1], 200, 7, 1000);
    assert_int_equal(value(1, HOST_METRIC_body_bytes), 22);
    assert_int_equal(value(1, HOST_METRIC_response_time), 50002000);
    assert_int_equal(in_bucket_of(1, 1000), 2);
    assert_int_equal(in_bucket_of(1, 50000000), 1);
    assert_int_equal(in_all_buckets(1), 3);
    expect_nothing(0);
    expect_nothing(2);
}

static void longest_duration_is_kept(void **state)
{
    (void)state;
    host_counts_add(&counts[0], 200, 0, 700);
    assert_int_equal(longest_ns(0), 700);
    host_counts_add(&counts[0], 200, 0, 699);
    assert_int_equal(longest_ns(0), 700);
    host_counts_add(&counts[0], 200, 0, 701);
    assert_int_equal(longest_ns(0), 701);
}

/* The history has no larger bucket. */
static void last_bucket_takes_every_longer_duration(void **state)
{
    (void)state;
    host_counts_add(&counts[0], 200, 0, UINT64_MAX);
    assert_int_equal(atomic_load(&counts[0].latency[HISTOGRAM_COARSE_BUCKETS - 1]), 1);
    assert_int_equal(longest_ns(0), UINT64_MAX);
}

static void next_thread_of_a_slot_continues_the_counts(void **state)
{
    const struct host_place place[] = {{.entry = 2, .id = FIRST_ID + 2}};

    (void)state;
    host_counts_add(&counts[2], 200, 10, 700);
    host_counts_claim(counts, place, 1);
    assert_int_equal(value(2, HOST_METRIC_responses_2xx), 1);
    assert_int_equal(in_all_buckets(2), 1);
    assert_int_equal(longest_ns(2), 700);
}

static void counts_of_another_host_are_forgotten(void **state)
{
    const struct host_place place[] = {{.entry = 3, .id = FIRST_ID + 3},
                                       {.entry = 1, .id = FIRST_ID + ENTRIES},
                                       {.entry = 1, .id = FIRST_ID + ENTRIES}};

    (void)state;
    for (uint32_t i = 0; i < ENTRIES; i++)
        for (int status = 200; status < 600; status += 100)
            host_counts_add(&counts[i], status, 10, UINT64_C(1) << (status / 20));
    host_counts_add(&counts[1], 200, 0, 0);
    host_counts_add(&counts[1], 200, 0, UINT64_MAX);
    host_counts_claim(counts, place, 2);
    expect_nothing(1);
    assert_int_equal(atomic_load(&counts[1].id), FIRST_ID + ENTRIES);
    assert_int_equal(value(3, HOST_METRIC_body_bytes), 40);
    assert_int_equal(value(2, HOST_METRIC_body_bytes), 40);
    assert_int_equal(atomic_load(&counts[2].id), FIRST_ID + 2);
}

/* Several sites may have the same entry. */
static void only_the_places_given_are_claimed(void **state)
{
    const struct host_place place[] = {
        {.entry = 0, .id = 7}, {.entry = 0, .id = 7}, {.entry = 2, .id = 9}};

    (void)state;
    host_counts_add(&counts[2], 200, 10, 700);
    host_counts_claim(counts, place, 2);
    assert_int_equal(atomic_load(&counts[0].id), 7);
    assert_int_equal(atomic_load(&counts[2].id), FIRST_ID + 2);
    assert_int_equal(value(2, HOST_METRIC_body_bytes), 10);
}

#define TEST(name) cmocka_unit_test_setup(name, set_up)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(responses_are_counted_by_class),
        TEST(bytes_and_durations_are_added),
        TEST(longest_duration_is_kept),
        TEST(last_bucket_takes_every_longer_duration),
        TEST(next_thread_of_a_slot_continues_the_counts),
        TEST(counts_of_another_host_are_forgotten),
        TEST(only_the_places_given_are_claimed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
