/*
 * The report of a run as comma-separated values (RFC 4180, but lines end with LF): a line of column
 * names; a row for each second, the warm-up first; for a repeated run, a row for each round, one
 * for the medians and two for the ends of their 95 % confidence intervals; the total. Every row has
 * the same columns. Only the total has percentiles other than p50, p90 and p99. Main thread.
 */
#ifndef LOADGEN_REPORT_CSV_H
#define LOADGEN_REPORT_CSV_H

#include "loadgen/stats/result.h"

#include <stdio.h>

/* Returns 0. Errors of OUT are left to the caller (ferror()). */
int result_write_csv(FILE *out, const struct result *result);

#endif
