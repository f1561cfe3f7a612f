/* A run divided into windows of time, for confidence intervals of its rate and its latency. Pure. */
#ifndef LOADGEN_LAB_WINDOWS_H
#define LOADGEN_LAB_WINDOWS_H

#include "loadgen/stats/series.h"
#include "loadgen/stats/statistics.h"

enum { WINDOWS_MAX = 10 };

/*
 * The steps of SERIES in WINDOWS_MAX windows of about the same number of steps, or a window per step if there are
 * fewer. The interval is that of statistics_interval() over the windows: batch means (Conway 1963). Successive
 * seconds of a run are correlated and would give too narrow an interval; windows are less correlated the longer they
 * are, and count as independent. The interval covers variation within the run, not between runs.
 */

/* Responses per second. */
struct interval windows_rate(const struct series *series);

/* In ns: in each window, the mean over its responses of the p99 of their step. */
struct interval windows_p99(const struct series *series);

#endif
