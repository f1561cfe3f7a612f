/* The history: rates from sums, ratios, gaps, a full ring. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "console/data/history.h"

#include <math.h>
#include <string.h>

static struct history *history;

static int begin(void **state)
{
    (void)state;
    history = history_create();
    return history == NULL;
}

static int end(void **state)
{
    (void)state;
    history_destroy(history);
    return 0;
}

static struct sample_copy sample_at(uint64_t second, uint64_t requests)
{
    struct sample_copy sample = {.time_ns = (1000 + second) * NS_PER_S};

    sample.values[METRIC_requests] = requests;
    sample.values[METRIC_connections_open] = 7;
    return sample;
}

static void push(uint64_t second, uint64_t requests)
{
    struct sample_copy sample = sample_at(second, requests);

    history_push(history, &sample, NULL);
}

static void rates_are_differences_over_time(void **state)
{
    double values[5];

    (void)state;
    push(0, 100);
    push(1, 150);
    push(3, 350); /* late sample: 200 in two seconds */
    history_series(history, SERIES_REQUESTS, values, 5);
    assert_true(isnan(values[0]) && isnan(values[1]));
    assert_true(isnan(values[2])); /* the first second has no previous one */
    assert_float_equal(values[3], 50, 1e-9);
    assert_float_equal(values[4], 100, 1e-9);
    history_series(history, SERIES_CONNECTIONS, values, 3);
    assert_float_equal(values[0], 7, 1e-9);
}

static void restart_makes_a_gap_without_a_rate(void **state)
{
    double values[6];

    (void)state;
    push(0, 1000);
    push(1, 1100);
    history_break(history);
    push(4, 5); /* another daemon, two seconds late */
    push(5, 15);
    assert_int_equal(history_length(history), 6);
    history_series(history, SERIES_REQUESTS, values, 6);
    assert_float_equal(values[1], 100, 1e-9);
    assert_true(isinf(values[2]) && values[2] < 0);
    assert_true(isinf(values[3]) && values[3] < 0);
    assert_true(isnan(values[4]));
    assert_float_equal(values[5], 10, 1e-9);
}

static void break_of_empty_history_does_nothing(void **state)
{
    (void)state;
    history_break(history);
    push(0, 1);
    assert_int_equal(history_length(history), 1);
}

static void wall_clock_jump_keeps_rates_finite(void **state)
{
    double values[3];

    (void)state;
    push(100, 10);
    push(50, 30);    /* set back */
    push(90000, 70); /* set far forward */
    history_series(history, SERIES_REQUESTS, values, 3);
    assert_float_equal(values[1], 20, 1e-9);
    assert_float_equal(values[2], 40, 1e-9);
}

static void hit_ratio_without_lookups_is_nan(void **state)
{
    double values[3];
    struct sample_copy sample = sample_at(0, 0);

    (void)state;
    history_push(history, &sample, NULL);
    sample.time_ns += NS_PER_S;
    sample.values[METRIC_cache_hits] = 3;
    sample.values[METRIC_cache_misses] = 1;
    history_push(history, &sample, NULL);
    sample.time_ns += NS_PER_S;
    history_push(history, &sample, NULL);
    history_series(history, SERIES_HIT_RATIO, values, 3);
    assert_float_equal(values[1], 0.75, 1e-9);
    assert_true(isnan(values[2]));
}

static void latency_is_of_its_own_second(void **state)
{
    double values[2];
    struct sample_copy sample = sample_at(0, 0);

    (void)state;
    sample.latency[histogram_index(1000000) >> HISTOGRAM_COARSE_SHIFT] = 99;
    sample.latency[histogram_index(50000000) >> HISTOGRAM_COARSE_SHIFT] = 1;
    sample.latency_max_ns = 50000000;
    history_push(history, &sample, NULL);
    history_series(history, SERIES_LATENCY_P50, values, 1);
    assert_in_range((uint64_t)values[0], 1000000, 1250000);
    history_series(history, SERIES_LATENCY_MAX, values, 1);
    assert_int_equal((uint64_t)values[0], 50000000);
}

static void full_ring_keeps_the_newest_seconds(void **state)
{
    static double values[SEGMENT_HISTORY_SAMPLES + 10];

    (void)state;
    for (uint64_t i = 0; i < 2 * SEGMENT_HISTORY_SAMPLES + 5; i++)
        push(i, i * i);
    assert_int_equal(history_length(history), SEGMENT_HISTORY_SAMPLES);
    history_series(history, SERIES_REQUESTS, values, SEGMENT_HISTORY_SAMPLES + 10);
    assert_true(isnan(values[9]));
    assert_true(isnan(values[10])); /* the previous second is overwritten */
    assert_float_equal(values[11], (double)(2 * (SEGMENT_HISTORY_SAMPLES + 6) - 1), 1e-6);
    assert_float_equal(values[SEGMENT_HISTORY_SAMPLES + 9],
                       (double)(2 * (2 * SEGMENT_HISTORY_SAMPLES + 4) - 1), 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rates_are_differences_over_time, begin, end),
        cmocka_unit_test_setup_teardown(restart_makes_a_gap_without_a_rate, begin, end),
        cmocka_unit_test_setup_teardown(break_of_empty_history_does_nothing, begin, end),
        cmocka_unit_test_setup_teardown(wall_clock_jump_keeps_rates_finite, begin, end),
        cmocka_unit_test_setup_teardown(hit_ratio_without_lookups_is_nan, begin, end),
        cmocka_unit_test_setup_teardown(latency_is_of_its_own_second, begin, end),
        cmocka_unit_test_setup_teardown(full_ring_keeps_the_newest_seconds, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
