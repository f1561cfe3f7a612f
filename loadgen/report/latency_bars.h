/*
 * A distribution of latencies as a few rows for people: each row is a range with neat bounds (1.2 ms to
 * 1.5 ms) of a logarithmic scale, the finest that fits. A value may stand in the row beside its own when
 * it is within 1/64 of the bound: so exact are histograms. Pure.
 */
#ifndef LOADGEN_LATENCY_BARS_H
#define LOADGEN_LATENCY_BARS_H

#include "common/histogram.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LATENCY_BARS_MAX = 24,
    LATENCY_BAR_WIDTH_MAX = 120,
    LATENCY_BAR_LABEL = 24,         /* bytes */
    LATENCY_BAR_LABEL_COLUMNS = 11, /* that a label takes at most: "820 us-1 ms" */
    LATENCY_BAR_TEXT = 4 * LATENCY_BAR_WIDTH_MAX,
    LATENCY_BAR_BEHIND = LATENCY_BAR_WIDTH_MAX + 64,
};

struct latency_bar {
    double from_ns, to_ns; /* not less than the one, less than the other */
    uint64_t count;
    char label[LATENCY_BAR_LABEL];   /* "100-120 us" */
    char bar[LATENCY_BAR_TEXT];      /* to be written behind it, and emphasised */
    char behind[LATENCY_BAR_BEHIND]; /* behind that: "   45.1% p50"; nothing of an empty row */
};

/*
 * Fills at most MOST (up to LATENCY_BARS_MAX) rows from the fastest answer to the slowest, empty ones
 * between them included. The longest bar takes WIDTH columns (up to LATENCY_BAR_WIDTH_MAX); with
 * UNICODE bars are drawn in eighths of a column. What is not nothing shows. Returns how many rows; 0
 * for an empty histogram.
 */
size_t latency_bars(const struct histogram *times, size_t most, size_t width, bool unicode,
                    struct latency_bar *bars);

#endif
