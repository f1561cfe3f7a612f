/* The samples of the history: sums, states of threads, and the latency since the sample before. */
#include "daemon/master/internal.h"

#include "tests/unit/own_segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

enum { THREADS = 3 };

static struct segment segment;
static struct histogram_window latency;

/* Thread slot 1 is not reserved. */
static int set_up(void **state)
{
    (void)state;
    if (own_segment_create(&segment, (struct segment_plan){.max_threads = THREADS}) != 0 ||
        segment_reserve_worker(&segment, 0) != 0 || segment_reserve_thread(&segment, 0) != 0 ||
        segment_reserve_thread(&segment, 2) != 0)
        return -1;
    latency = (struct histogram_window){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    segment_destroy(&segment);
    return 0;
}

static uint32_t bucket_of(const struct segment_sample *sample, uint64_t latency_ns)
{
    return atomic_load(&sample->latency[histogram_index(latency_ns) >> HISTOGRAM_COARSE_SHIFT]);
}

static uint32_t responses_of(const struct segment_sample *sample)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        sum += atomic_load(&sample->latency[i]);
    return sum;
}

static void samples_are_numbered(void **state)
{
    struct segment_master *master = segment_master(&segment);

    (void)state;
    for (uint64_t i = 0; i < 3; i++) {
        publish_sample(&segment, &latency, 1000 + i);
        assert_int_equal(atomic_load(&master->history_next), i + 1);
        assert_int_equal(atomic_load(&segment_sample(&segment, i)->number), i + 1);
        assert_int_equal(atomic_load(&segment_sample(&segment, i)->time_ns), 1000 + i);
    }
}

static void sample_has_the_sums_of_all_threads(void **state)
{
    const struct segment_sample *sample = segment_sample(&segment, 0);

    (void)state;
    metric_add(segment_thread(&segment, 0)->metrics, METRIC_http2_resets, 3);
    metric_add(segment_thread(&segment, 2)->metrics, METRIC_http2_resets, 4);
    metric_add(segment_thread(&segment, 2)->metrics, METRIC_http2_floods_empty, 5);
    publish_sample(&segment, &latency, 1);
    assert_int_equal(atomic_load(&sample->values[METRIC_http2_resets]), 7);
    assert_int_equal(atomic_load(&sample->values[METRIC_http2_floods_empty]), 5);
}

static void sample_has_the_state_of_each_thread(void **state)
{
    const struct segment_sample *sample = segment_sample(&segment, 0);
    const _Atomic char *letters = (const _Atomic char *)&sample->values[METRIC_COUNT];

    (void)state;
    atomic_store(&segment_thread(&segment, 0)->activity.state, THREAD_STATE_COUNT - 1);
    atomic_store(&segment_thread(&segment, 2)->activity.state, THREAD_STATE_COUNT); /* invalid */
    publish_sample(&segment, &latency, 1);
    assert_int_equal(letters[0], thread_state_table[THREAD_STATE_COUNT - 1].letter);
    assert_int_equal(letters[1], thread_state_table[THREAD_STATE_NONE].letter);
    assert_int_equal(letters[2], thread_state_table[0].letter);
}

static void latency_is_that_since_the_sample_before(void **state)
{
    const struct segment_sample *sample = segment_sample(&segment, 0);

    (void)state;
    histogram_record(&segment_latency_of(&segment, 0)[0], 1000);
    histogram_record(&segment_latency_of(&segment, 0)[OUTCOME_COUNT - 1], 1000);
    histogram_record(&segment_latency_of(&segment, 2)[0], UINT64_MAX);
    publish_sample(&segment, &latency, 1);
    assert_int_equal(responses_of(sample), 3);
    assert_int_equal(bucket_of(sample, 1000), 2);
    assert_int_equal(bucket_of(sample, UINT64_MAX), 1);
    histogram_record(&segment_latency_of(&segment, 2)[0], 5000);
    publish_sample(&segment, &latency, 2);
    sample = segment_sample(&segment, 1);
    assert_int_equal(responses_of(sample), 1);
    assert_int_equal(bucket_of(sample, 5000), 1);
    assert_in_range(atomic_load(&sample->latency_max_ns), 4900, 5100);
    publish_sample(&segment, &latency, 3);
    sample = segment_sample(&segment, 2);
    assert_int_equal(responses_of(sample), 0);
    assert_int_equal(atomic_load(&sample->latency_max_ns), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(samples_are_numbered),
        TEST(sample_has_the_sums_of_all_threads),
        TEST(sample_has_the_state_of_each_thread),
        TEST(latency_is_that_since_the_sample_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
