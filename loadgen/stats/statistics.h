/* What can be said of two noisy series of measurements. Pure; no thread of its own. */
#ifndef LOADGEN_STATISTICS_H
#define LOADGEN_STATISTICS_H

#include <stddef.h>

/* The median; VALUES are put into order. NAN when there are none. */
double statistics_median(double *values, size_t count);

/* What lies in the middle of a few measurements of the same, and how sure that is. */
struct interval {
    double median;    /* NAN: there were none */
    double low, high; /* of 95 % confidence; NAN: too few to say */
    size_t count;
};

/*
 * The median with a 95 % confidence interval; VALUES are put into order, what is NAN is left out. From
 * six values on it is the narrowest pair of order statistics that holds the true median with at least
 * that probability, whatever the distribution (Hahn and Meeker 1991, section 5.2). Three to five can
 * not say that much by themselves: Student's t interval of the mean, which takes them for normal and
 * always contains their median.
 */
enum { STATISTICS_INTERVAL_LEAST = 3 };
struct interval statistics_interval(double *values, size_t count);

/* Half the width of the interval in percent of the median; NAN where either is not there. */
double interval_percent(const struct interval *interval);

/*
 * How likely means as different as A's and B's are when there is no difference, two-sided: Welch's
 * t-test (1947), for variances that need not be equal. A series of COUNT values whose neighbours
 * correlate by r counts as COUNT (1 - r) / (1 + r) independent ones (Bartlett 1935), for seconds of a
 * run are alike. NAN when a side has fewer than STATISTICS_LEAST values.
 */
enum { STATISTICS_LEAST = 5 };
double statistics_difference(const double *a, size_t a_count, const double *b, size_t b_count);

/* The same for values that are independent of each other, such as whole runs: three of each do. */
double statistics_difference_of_runs(const double *a, size_t a_count, const double *b,
                                     size_t b_count);

#endif
