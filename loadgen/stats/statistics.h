/* Medians with confidence intervals, and tests of significance. Pure. */
#ifndef LOADGEN_STATISTICS_H
#define LOADGEN_STATISTICS_H

#include <stddef.h>

/* The median, or NAN without values. Sorts VALUES. */
double statistics_median(double *values, size_t count);

/* A median with its confidence interval. */
struct interval {
    double median;    /* NAN: no values */
    double low, high; /* 95 % confidence; NAN: fewer than STATISTICS_INTERVAL_MIN values */
    size_t count;
};

/*
 * The median of VALUES, which are sorted, without NANs. From six values on, the interval is the narrowest
 * pair of order statistics that contains the true median with 95 % probability for any distribution (Hahn
 * and Meeker 1991, section 5.2). For three to five values it is Student's t interval of the mean, which
 * assumes a normal distribution and always contains the median.
 */
enum { STATISTICS_INTERVAL_MIN = 3 };
struct interval statistics_interval(double *values, size_t count);

/* Half the width of the interval in percent of the median; NAN if one of them is missing. */
double interval_percent(const struct interval *interval);

/*
 * The two-sided p-value that A and B have the same mean: Welch's t-test (1947), for unequal variances.
 * Successive seconds of a run are correlated: a series of COUNT values with autocorrelation r counts as
 * COUNT (1 - r) / (1 + r) independent ones (Bartlett 1935). NAN if a side has fewer than STATISTICS_MIN
 * values.
 */
enum { STATISTICS_MIN = 5 };
double statistics_p_value(const double *a, size_t a_count, const double *b, size_t b_count);

/*
 * As statistics_p_value(), for independent values such as whole runs. NAN if a side has fewer than
 * STATISTICS_INTERVAL_MIN.
 */
double statistics_p_value_of_runs(const double *a, size_t a_count, const double *b, size_t b_count);

#endif
