/*
 * The distribution of the latency as HdrHistogram writes it (outputPercentileDistribution,
 * https://hdrhistogram.org), for its plotter and for readers of wrk2's reports. In milliseconds.
 * Main thread.
 */
#ifndef LOADGEN_REPORT_HDR_H
#define LOADGEN_REPORT_HDR_H

#include "loadgen/stats/result.h"

#include <stdio.h>

/* Returns 0. Errors of OUT are left to the caller (ferror()). */
int result_write_hdr(FILE *out, const struct result *result);

#endif
