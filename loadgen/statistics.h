/* What can be said of two noisy series of measurements. Pure; no thread of its own. */
#ifndef LOADGEN_STATISTICS_H
#define LOADGEN_STATISTICS_H

#include <stddef.h>

/* The median; VALUES are put into order. NAN when there are none. */
double statistics_median(double *values, size_t count);

/*
 * How likely means as different as A's and B's are when there is no difference, two-sided: Welch's
 * t-test (1947), for variances that need not be equal. A series of COUNT values whose neighbours
 * correlate by r counts as COUNT (1 - r) / (1 + r) independent ones (Bartlett 1935), for seconds of a
 * run are alike. NAN when a side has fewer than STATISTICS_LEAST values.
 */
enum { STATISTICS_LEAST = 5 };
double statistics_difference(const double *a, size_t a_count, const double *b, size_t b_count);

#endif
