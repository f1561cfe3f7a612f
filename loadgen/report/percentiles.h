/* The percentiles that reports give. Pure. */
#ifndef LOADGEN_REPORT_PERCENTILES_H
#define LOADGEN_REPORT_PERCENTILES_H

#include "loadgen/plan/plan.h"

/* The percentiles of the plan, in percent, or the usual ones; *COUNT is their number. */
const double *report_percentiles(const struct plan *plan, size_t *count);

/* "p99.9". Returns BUFFER, of REPORT_PERCENTILE_NAME bytes. */
enum { REPORT_PERCENTILE_NAME = 24 };
char *report_percentile_name(char *buffer, double percent);

/*
 * The percentile after PERCENT where a whole distribution is written. As in HdrHistogram, each
 * halving of the distance to 100 has five steps.
 */
double report_next_level(double percent);

#endif
