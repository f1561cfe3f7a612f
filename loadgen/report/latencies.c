#include "loadgen/report/latencies.h"

#include "common/macros.h"

#include "loadgen/stats/measures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const double *report_percentiles(const struct plan *plan, size_t *count)
{
    static const double usual[] = {50, 90, 99, 99.9, 99.99, 99.999};

    *count = plan->percentile_count > 0 ? plan->percentile_count : ARRAY_LENGTH(usual);
    return plan->percentile_count > 0 ? plan->percentiles : usual;
}

char *report_percentile_name(char *buffer, double percent)
{
    snprintf(buffer, REPORT_PERCENTILE_NAME, "p%.10g", percent);
    return buffer;
}

double report_next_level(double percent)
{
    const double steps = 5;
    double halvings = floor(log2(100 / (100 - percent))) + 1;

    return percent + 100 / (steps * exp2(halvings));
}

/* ---- Bar chart ---- */

enum { STEPS_MAX = 12 };

/* The bounds in a decade, the finest scale first, which is E12 of IEC 60063. */
struct scale {
    size_t steps;
    double step[STEPS_MAX];
};

static const struct scale scales[] = {
    {12, {1, 1.2, 1.5, 1.8, 2.2, 2.7, 3.3, 3.9, 4.7, 5.6, 6.8, 8.2}},
    {6, {1, 1.5, 2, 3, 5, 7}},
    {3, {1, 2, 5}},
    {2, {1, 3}},
    {1, {1}},
};

static double bound(const struct scale *scale, size_t number)
{
    size_t decade = number / scale->steps;

    return scale->step[number % scale->steps] * pow(10, (double)decade);
}

/* The row of VALUE, counted from 1 ns. */
static size_t row_of(const struct scale *scale, uint64_t value)
{
    size_t row = 0;

    while (bound(scale, row + 1) <= (double)value)
        row++;
    return row;
}

static const struct {
    double ns;
    const char *name;
} time_units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};

static size_t unit_of(double ns)
{
    size_t unit = 0;

    while (unit + 1 < ARRAY_LENGTH(time_units) && ns < time_units[unit].ns * (1 - 1e-9))
        unit++;
    return unit;
}

static void put_range(struct latency_bar *bar)
{
    size_t from = unit_of(bar->from_ns), to = unit_of(bar->to_ns);
    double low = bar->from_ns / time_units[from].ns, high = bar->to_ns / time_units[to].ns;

    if (from == to)
        snprintf(bar->label, sizeof(bar->label), "%.3g-%.3g %s", low, high, time_units[to].name);
    else
        snprintf(bar->label, sizeof(bar->label), "%.3g %s-%.3g %s", low, time_units[from].name,
                 high, time_units[to].name);
}

/* The minimum and maximum of the values. Returns false for an empty histogram. */
static bool find_ends(const struct histogram *times, uint64_t *least, uint64_t *greatest)
{
    uint32_t from = UINT32_MAX, to = 0;

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        if (atomic_load_explicit(&times->bucket[i], memory_order_relaxed) > 0) {
            from = from == UINT32_MAX ? i : from;
            to = i;
        }
    if (from == UINT32_MAX)
        return false;
    *least = histogram_lowest(from);
    *greatest = histogram_lowest(to);
    return true;
}

/* If even the coarsest scale has too many rows, low values share the first. */
static const struct scale *choose_scale(uint64_t least, uint64_t greatest, size_t most,
                                        size_t *first, size_t *last)
{
    const struct scale *scale = NULL;

    for (size_t i = 0; i < ARRAY_LENGTH(scales); i++) {
        scale = &scales[i];
        *first = row_of(scale, least);
        *last = row_of(scale, greatest);
        if (*last - *first < most)
            return scale;
    }
    *first = *last + 1 - most;
    return scale;
}

/* ---- Drawing ---- */

/* Returns the width of the bar. */
static size_t fill_bar(struct latency_bar *bar, double fraction, size_t width, bool unicode)
{
    static const char *const parts[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    size_t eighths = (size_t)lround(fraction * (double)width * 8), whole;

    eighths = eighths > 0 ? eighths : 1;
    whole = unicode ? eighths / 8 : (eighths + 4) / 8;
    for (size_t i = 0; i < whole; i++)
        strcat(bar->bar, unicode ? "█" : "#");
    if (unicode)
        strcat(bar->bar, parts[eighths % 8]);
    else if (whole == 0)
        strcat(bar->bar, ".");
    return whole + (unicode ? eighths % 8 > 0 : whole == 0);
}

/* The row's share of all values, and the percentiles in the row. */
static void put_behind(struct latency_bar *bar, const struct histogram *times, size_t blanks)
{
    static const double marks[] = {50, 90, 99, 99.9};
    double share = 100 * (double)bar->count / (double)histogram_count(times);
    bool traces = share < 0.1;
    size_t used = (size_t)snprintf(bar->behind, sizeof(bar->behind), "%*s %s%.1f%%",
                                   (int)(blanks + (share < 99.95) + (share < 9.95) - traces), "",
                                   traces ? "<" : "", traces ? 0.1 : share);

    for (size_t i = 0; i < ARRAY_LENGTH(marks); i++) {
        double value =
            (double)histogram_lowest(histogram_index(histogram_percentile(times, marks[i])));

        if (measure_percentile_is_known(marks[i], histogram_count(times)) &&
            value >= bar->from_ns && value < bar->to_ns)
            used +=
                (size_t)snprintf(bar->behind + used, sizeof(bar->behind) - used, " p%g", marks[i]);
    }
}

static void draw_bars(struct latency_bar *bars, size_t count, const struct histogram *times,
                      size_t width, bool unicode)
{
    uint64_t largest = 1;

    for (size_t i = 0; i < count; i++)
        largest = bars[i].count > largest ? bars[i].count : largest;
    width = width < LATENCY_BAR_WIDTH_MAX ? width : LATENCY_BAR_WIDTH_MAX;
    for (size_t i = 0; i < count; i++) {
        double fraction = (double)bars[i].count / (double)largest;

        put_range(&bars[i]);
        if (bars[i].count > 0)
            put_behind(&bars[i], times, width - fill_bar(&bars[i], fraction, width, unicode));
    }
}

/* ---- The chart ---- */

static void count_values(const struct histogram *times, const struct scale *scale, size_t first,
                         size_t last, struct latency_bar *bars)
{
    size_t row = first;

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        while (row < last && bound(scale, row + 1) <= (double)histogram_lowest(i))
            row++;
        bars[row - first].count += atomic_load_explicit(&times->bucket[i], memory_order_relaxed);
    }
}

size_t latency_bars(const struct histogram *times, size_t most, size_t width, bool unicode,
                    struct latency_bar *bars)
{
    uint64_t least, greatest;
    size_t first, last;
    const struct scale *scale;

    if (most == 0 || !find_ends(times, &least, &greatest))
        return 0;
    scale = choose_scale(least, greatest, most < LATENCY_BARS_MAX ? most : LATENCY_BARS_MAX, &first,
                         &last);
    for (size_t row = first; row <= last; row++)
        bars[row - first] =
            (struct latency_bar){.from_ns = bound(scale, row), .to_ns = bound(scale, row + 1)};
    count_values(times, scale, first, last, bars);
    draw_bars(bars, last - first + 1, times, width, unicode);
    return last - first + 1;
}
