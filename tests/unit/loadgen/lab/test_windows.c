/* Confidence intervals over the windows of a run. */
#include "loadgen/lab/windows.h"

#include "common/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

enum { STEPS = 40 };

static struct series_entry entries[STEPS];

/* Steps of a second with 100 responses; those of window W take W ms each. */
static struct series series_of(size_t steps)
{
    for (size_t i = 0; i < steps; i++)
        entries[i] = (struct series_entry){.begin_ns = i * NS_PER_S,
                                           .end_ns = (i + 1) * NS_PER_S,
                                           .answered = 100,
                                           .p99_ns = i * WINDOWS_MAX / steps * NS_PER_MS};
    return (struct series){.entry = entries, .count = steps};
}

/* Ten values: the interval is from the second to the ninth. */
static void interval_is_over_ten_windows_not_over_the_steps(void **state)
{
    struct series series = series_of(STEPS);
    struct interval rate = windows_rate(&series), p99 = windows_p99(&series);

    (void)state;
    assert_int_equal(rate.count, WINDOWS_MAX);
    assert_true(rate.median == 100 && rate.low == 100 && rate.high == 100);
    assert_int_equal(p99.count, WINDOWS_MAX);
    assert_true(fabs(p99.median - 4.5 * NS_PER_MS) < 1);
    assert_true(fabs(p99.low - 1.0 * NS_PER_MS) < 1);
    assert_true(fabs(p99.high - 8.0 * NS_PER_MS) < 1);
}

/* A short step at the end, with few responses, changes its window little. */
static void steps_count_by_their_time_and_their_responses(void **state)
{
    struct series series = series_of(STEPS);
    struct interval rate, p99;

    (void)state;
    for (size_t i = 3; i < STEPS; i += 4) {
        entries[i].end_ns = entries[i].begin_ns + NS_PER_S / 100;
        entries[i].answered = 1;
        entries[i].p99_ns += 301 * NS_PER_MS;
    }
    rate = windows_rate(&series);
    p99 = windows_p99(&series);
    assert_true(fabs(rate.median - 100) < 1e-6 && fabs(rate.low - 100) < 1e-6);
    assert_true(fabs(p99.low - 2.0 * NS_PER_MS) < 1);
}

static void few_steps_are_windows_and_steps_without_responses_have_no_p99(void **state)
{
    struct series series = series_of(2);
    struct interval p99 = windows_p99(&series);

    (void)state;
    assert_int_equal(p99.count, 2);
    assert_true(isnan(p99.low) && !isnan(p99.median));
    series = series_of(4);
    entries[1].answered = 0;
    assert_int_equal(windows_rate(&series).count, 4);
    assert_int_equal(windows_p99(&series).count, 3);
    series.count = 0;
    assert_true(isnan(windows_rate(&series).median));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interval_is_over_ten_windows_not_over_the_steps),
        cmocka_unit_test(steps_count_by_their_time_and_their_responses),
        cmocka_unit_test(few_steps_are_windows_and_steps_without_responses_have_no_p99),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
