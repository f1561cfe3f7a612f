/* The bar chart of latencies. */
#include "common/clock.h"
#include "common/macros.h"
#include "loadgen/plan/arrivals.h"
#include "loadgen/report/latencies.h"
#include "tests/test.h"

#include <string.h>

static struct histogram times;
static struct latency_bar bars[LATENCY_BARS_MAX];

static void record(uint64_t ns, unsigned count)
{
    while (count-- > 0)
        histogram_record(&times, ns);
}

static void expect(size_t number, const char *label, const char *bar, const char *behind)
{
    assert_string_equal(bars[number].label, label);
    assert_string_equal(bars[number].bar, bar);
    assert_string_equal(bars[number].behind, behind);
}

TEST(row_has_label_bar_share_and_percentiles)
{
    histogram_reset(&times);
    assert_int_equal(latency_bars(&times, 12, 10, true, bars), 0);
    record(105 * NS_PER_US, 75);
    record(130 * NS_PER_US, 15);
    record(190 * NS_PER_US, 9910);
    assert_int_equal(latency_bars(&times, 12, 10, true, bars), 4);
    expect(0, "100-120 us", "▏", "            0.8%");
    expect(1, "120-150 us", "▏", "            0.1%");
    expect(2, "150-180 us", "", "");
    expect(3, "180-220 us", "██████████", "  99.1% p50 p90 p99 p99.9");
    assert_int_equal(latency_bars(&times, 12, 10, false, bars), 4);
    expect(0, "100-120 us", ".", "            0.8%");
    expect(3, "180-220 us", "##########", "  99.1% p50 p90 p99 p99.9");
}

TEST(wide_range_uses_coarse_scale)
{
    static const struct {
        uint64_t from_ns, to_ns;
        size_t most, rows;
        const char *first, *last;
    } cases[] = {
        {101 * NS_PER_US, 110 * NS_PER_US, 10, 1, "100-120 us", "100-120 us"},
        {101 * NS_PER_US, 500 * NS_PER_US, 10, 9, "100-120 us", "470-560 us"},
        {101 * NS_PER_US, 710 * NS_PER_US, 8, 6, "100-150 us", "700 us-1 ms"},
        {101 * NS_PER_US, 7 * NS_PER_MS, 8, 6, "100-200 us", "5-10 ms"},
        {101 * NS_PER_US, 70 * NS_PER_MS, 8, 6, "100-300 us", "30-100 ms"},
        {101 * NS_PER_US, 70 * NS_PER_S, 8, 6, "100 us-1 ms", "10-100 s"},
        {100, 70 * NS_PER_S, 3, 3, "100 ms-1 s", "10-100 s"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        uint64_t sum = 0;

        histogram_reset(&times);
        record(cases[i].from_ns, 5);
        record(cases[i].to_ns, 7);
        assert_int_equal(latency_bars(&times, cases[i].most, 40, true, bars), cases[i].rows);
        assert_string_equal(bars[0].label, cases[i].first);
        assert_string_equal(bars[cases[i].rows - 1].label, cases[i].last);
        for (size_t row = 0; row < cases[i].rows; row++)
            sum += bars[row].count;
        assert_int_equal(sum, 12);
    }
}

/* Random values: all rows fit, no bar is too wide, and every value is counted. */
TEST(every_value_is_in_a_row_that_fits)
{
    uint64_t random = 7;

    for (unsigned round = 0; round < 300; round++) {
        size_t most = 1 + random_next(&random) % 30, rows;
        uint64_t sum = 0, values = 1 + random_next(&random) % 50;

        histogram_reset(&times);
        for (uint64_t i = 0; i < values; i++)
            histogram_record(&times, random_next(&random) >> (random_next(&random) % 64));
        rows = latency_bars(&times, most, 500, round % 2 == 0, bars);
        assert_in_range(rows, 1, most < LATENCY_BARS_MAX ? most : LATENCY_BARS_MAX);
        for (size_t i = 0; i < rows; i++) {
            sum += bars[i].count;
            assert_true(strlen(bars[i].label) <= LATENCY_BAR_LABEL_COLUMNS);
            assert_true(strlen(bars[i].bar) <= (size_t)3 * LATENCY_BAR_WIDTH_MAX);
            assert_true(bars[i].count == 0 || bars[i].bar[0] != '\0');
        }
        assert_int_equal(sum, values);
    }
}
