/* Latencies in reports: the percentiles to list, and a bar chart. Pure. */
#ifndef LOADGEN_REPORT_LATENCIES_H
#define LOADGEN_REPORT_LATENCIES_H

#include "common/histogram.h"

#include "loadgen/plan/plan.h"

/* ---- Percentiles ---- */

/* The percentiles of the plan, in percent, or the usual ones; *COUNT is their number. */
const double *report_percentiles(const struct plan *plan, size_t *count);

/* "p99.9". Returns BUFFER, of REPORT_PERCENTILE_NAME bytes. */
enum { REPORT_PERCENTILE_NAME = 24 };
char *report_percentile_name(char *buffer, double percent);

/*
 * The percentile that follows PERCENT when a whole distribution is written. As in HdrHistogram,
 * there are five steps to each halving of the distance to 100.
 */
double report_next_level(double percent);

/*
 * ---- Bar chart ----
 *
 * Each row is a range with round bounds, such as 1.2 ms to 1.5 ms, on the finest logarithmic scale
 * that fits. A value within 1/64 of a bound may be counted in the neighbouring row, as histograms
 * are no more exact.
 */

enum {
    LATENCY_BARS_MAX = 24,
    LATENCY_BAR_WIDTH_MAX = 120,
    LATENCY_BAR_LABEL = 32,         /* bytes, for any two numbers */
    LATENCY_BAR_LABEL_COLUMNS = 11, /* the longest label: "820 us-1 ms" */
    LATENCY_BAR_TEXT = 4 * LATENCY_BAR_WIDTH_MAX,
    LATENCY_BAR_BEHIND = LATENCY_BAR_WIDTH_MAX + 64,
};

struct latency_bar {
    double from_ns, to_ns; /* the values are >= from and < to */
    uint64_t count;
    char label[LATENCY_BAR_LABEL]; /* "100-120 us" */
    char bar[LATENCY_BAR_TEXT];    /* drawn after the label */
    char behind
        [LATENCY_BAR_BEHIND]; /* drawn after the bar: "   45.1% p50"; "" if the row is empty */
};

/*
 * Fills at most MOST rows (up to LATENCY_BARS_MAX) from the lowest latency to the highest, with the
 * empty rows between. The longest bar takes WIDTH columns (up to LATENCY_BAR_WIDTH_MAX); UNICODE
 * draws bars in eighths of a column. A row that is not empty has a visible bar. Returns the number
 * of rows; 0 for an empty histogram.
 */
size_t latency_bars(const struct histogram *times, size_t most, size_t width, bool unicode,
                    struct latency_bar *bars);

#endif
