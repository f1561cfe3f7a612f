/*
 * The measures of a run: the numbers by which runs are compared; and a container for the measures
 * of many runs. Main thread.
 */
#ifndef LOADGEN_MEASURES_H
#define LOADGEN_MEASURES_H

#include "loadgen/stats/statistics.h"

#include <stdbool.h>
#include <stdint.h>

enum measure {
#define MEASURE(id, name, label, unit) MEASURE_##id,
#include "loadgen/stats/measures.def"
#undef MEASURE
    MEASURE_COUNT
};

enum measure_unit {
    MEASURE_OF_COUNT,
    MEASURE_OF_TIME, /* microseconds */
    MEASURE_OF_PERCENT,
    MEASURE_OF_CORES, /* seconds of CPU time per second */
};

extern const struct measure_info {
    const char *name, *label;
    enum measure_unit unit;
} measure_table[MEASURE_COUNT];

struct measures {
    double value[MEASURE_COUNT]; /* NAN: unknown, such as the p99.9 of ten responses */
};

/* "12,345", "1.20 ms", "3.1%", "1.52", or "-" for NAN. Returns BUFFER, of MEASURE_TEXT bytes. */
enum { MEASURE_TEXT = 32 };
char *measure_format(char *buffer, enum measure measure, double value);

/* Whether at least one of COUNT values is above the percentile PERCENT. */
static inline bool measure_percentile_is_known(double percent, uint64_t count)
{
    return (double)count * (100 - percent) / 100 >= 1 - 1e-9;
}

/* ---- Many runs ---- */

/* The measures of runs (trials) of several points, in several rounds. */
struct trials;

/* Empty, with room for ROUNDS trials of each point. Returns NULL if out of memory. */
struct trials *trials_create(size_t point_count, uint32_t rounds);
void trials_free(struct trials *trials);

/* Adds a trial of POINT; ignored if it already has all its rounds. */
void trials_add(struct trials *trials, size_t point, const struct measures *measures);

/* The number of trials of POINT. */
uint32_t trials_done(const struct trials *trials, size_t point);

/* Trial NUMBER of POINT, in the order they were added. */
const struct measures *trials_get(const struct trials *trials, size_t point, uint32_t number);

/* The median of MEASURE over all trials of POINT, with its confidence interval; low is at least 0. */
struct interval trials_interval(const struct trials *trials, size_t point, enum measure measure);

#endif
