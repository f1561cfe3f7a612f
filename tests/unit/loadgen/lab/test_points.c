/* Medians and ratios of points, windows of a run, the verdict on growth. */
#include "common/clock.h"
#include "loadgen/base/format.h"
#include "loadgen/lab/curves.h"
#include "loadgen/lab/observed.h"
#include "loadgen/lab/points.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

TEST(median_ignores_rounds_without_a_sample)
{
    static struct point point;

    point.rounds = 3;
    point.value[POINT_LEAST][0] = NAN;
    point.value[POINT_LEAST][1] = 25;
    point.value[POINT_LEAST][2] = NAN;
    assert_true(point_own_median(&point, POINT_LEAST) == 25);
}

TEST(median_without_any_sample_is_nan)
{
    static struct point point;

    point.rounds = 1;
    point.value[POINT_LEAST][0] = NAN;
    assert_true(isnan(point_own_median(&point, POINT_LEAST)));
}

TEST(ratio_has_three_forms)
{
    const struct interval slower = {.median = 0.924, .low = 0.752, .high = 1.136};
    const struct interval many = {.median = 104.8, .low = -1, .high = 110.7};
    const struct interval unknown = {.median = 2, .low = NAN, .high = NAN};
    char text[LAB_RATIO];

    assert_string_equal(lab_times(text, &slower),
                        "0.924 times (0.752 to 1.14 with 95% confidence)");
    assert_string_equal(lab_share(text, &slower), "92% (75% to 114% with 95% confidence)");
    assert_string_equal(lab_change(text, &slower), "-7.6% (-24.8% to +13.6% with 95% confidence)");
    assert_string_equal(lab_times(text, &many), "105 times (0 to 111 with 95% confidence)");
    assert_string_equal(lab_times(text, &unknown),
                        "2 times (too few rounds for a confidence interval)");
}

TEST(unknown_median_is_named)
{
    const struct interval unknown = {.median = NAN, .low = NAN, .high = NAN};
    char ratio[LAB_RATIO], between[LAB_BETWEEN];

    assert_string_equal(lab_times(ratio, &unknown), "unknown");
    assert_string_equal(lab_share(ratio, &unknown), "unknown");
    assert_string_equal(lab_between(between, &unknown, format_number), "unknown");
    assert_string_equal(lab_range(between, &unknown, format_number), "unknown");
}

/* The tolerance is 10 %. */
TEST(growth_verdict_needs_the_whole_interval_on_one_side)
{
    static const struct {
        struct interval ratio;
        enum findings_kind verdict;
    } cases[] = {
        {{0.90, 0.85, 0.95, 9}, FINDINGS_MET},       {{1.05, 1.00, 1.09, 9}, FINDINGS_MET},
        {{1.05, 1.00, 1.11, 9}, FINDINGS_UNDECIDED}, {{1.25, 0.95, 1.55, 9}, FINDINGS_UNDECIDED},
        {{1.25, 1.11, 1.55, 9}, FINDINGS_NOT_MET},   {{1.25, NAN, NAN, 2}, FINDINGS_UNDECIDED},
        {{NAN, NAN, NAN, 0}, FINDINGS_UNDECIDED},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(growth_verdict(&cases[i].ratio), cases[i].verdict);
}

/* A rate that falls does not mean that connections only wait. */
TEST(reason_follows_the_interval_of_the_rates)
{
    static const struct {
        struct interval rates;
        const char *begin;
    } cases[] = {
        {{0.549, 0.50, 0.60, 9}, "Additional connections cost work"},
        {{1.00, 0.96, 1.04, 9}, "The rate stays, so additional connections only wait"},
        {{3.20, 3.00, 3.40, 9}, "The first connections do not keep the server busy"},
        {{0.95, 0.70, 1.20, 9}, "The interval does not tell"},
        {{0.549, NAN, NAN, 1}, "There are too few rounds"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_memory_equal(curve_reason(&cases[i].rates), cases[i].begin, strlen(cases[i].begin));
}

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
TEST(interval_is_over_ten_windows_not_over_the_steps)
{
    struct series series = series_of(STEPS);
    struct interval rate = windows_rate(&series), p99 = windows_p99(&series);

    assert_int_equal(rate.count, WINDOWS_MAX);
    assert_true(rate.median == 100 && rate.low == 100 && rate.high == 100);
    assert_int_equal(p99.count, WINDOWS_MAX);
    assert_true(fabs(p99.median - 4.5 * NS_PER_MS) < 1);
    assert_true(fabs(p99.low - 1.0 * NS_PER_MS) < 1);
    assert_true(fabs(p99.high - 8.0 * NS_PER_MS) < 1);
}

/* A short step at the end, with few responses, changes its window little. */
TEST(steps_count_by_their_time_and_their_responses)
{
    struct series series = series_of(STEPS);
    struct interval rate, p99;

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

TEST(few_steps_are_windows_and_steps_without_responses_have_no_p99)
{
    struct series series = series_of(2);
    struct interval p99 = windows_p99(&series);

    assert_int_equal(p99.count, 2);
    assert_true(isnan(p99.low) && !isnan(p99.median));
    series = series_of(4);
    entries[1].answered = 0;
    assert_int_equal(windows_rate(&series).count, 4);
    assert_int_equal(windows_p99(&series).count, 3);
    series.count = 0;
    assert_true(isnan(windows_rate(&series).median));
}
