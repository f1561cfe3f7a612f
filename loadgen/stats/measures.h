/*
 * Medians with confidence intervals, and tests of significance; the measures of a run: the numbers
 * by which runs are compared; a container for the measures of many runs. Main thread.
 */
#ifndef LOADGEN_MEASURES_H
#define LOADGEN_MEASURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- Statistics; pure ---- */

/* The median, or NAN without values. Sorts VALUES. */
double statistics_median(double *values, size_t count);

/* A median with its confidence interval. */
struct interval {
    double median;    /* NAN: no values */
    double low, high; /* 95 % confidence; NAN: fewer than STATISTICS_INTERVAL_MIN values */
    size_t count;
};

/*
 * The median of VALUES, which are sorted, without NANs. From six values on, the interval is the
 * narrowest pair of order statistics that contains the true median with 95 % probability for any
 * distribution (Hahn and Meeker 1991, section 5.2). For three to five values it is Student's t
 * interval of the mean, which assumes a normal distribution and always contains the median.
 */
enum { STATISTICS_INTERVAL_MIN = 3 };
struct interval statistics_interval(double *values, size_t count);

/* Student's t with FREEDOM degrees of freedom that |t| exceeds with a probability of 5 %. */
double statistics_student_limit(double freedom);

/* Half the width of the interval in percent of the median; NAN if one of them is missing. */
double interval_percent(const struct interval *interval);

/*
 * The two-sided p-value that A and B have the same mean: Welch's t-test (1947), for unequal
 * variances. Successive seconds of a run are correlated: a series of COUNT values with
 * autocorrelation r counts as COUNT (1 - r) / (1 + r) independent ones (Bartlett 1935). NAN if a
 * side has fewer than STATISTICS_MIN values.
 */
enum { STATISTICS_MIN = 5 };
double statistics_p_value(const double *a, size_t a_count, const double *b, size_t b_count);

/*
 * As statistics_p_value(), for independent values such as whole runs. NAN if a side has fewer than
 * STATISTICS_INTERVAL_MIN.
 */
double statistics_p_value_of_runs(const double *a, size_t a_count, const double *b, size_t b_count);

/* ---- Measures ---- */

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

/*
 * The median of MEASURE over all trials of POINT, with its confidence interval; low is at least 0.
 */
struct interval trials_interval(const struct trials *trials, size_t point, enum measure measure);

#endif
