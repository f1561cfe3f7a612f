/*
 * The totals of a run in the text format of OpenMetrics, for the textfile collector of Prometheus's
 * node_exporter. Main thread.
 */
#ifndef LOADGEN_REPORT_OPENMETRICS_H
#define LOADGEN_REPORT_OPENMETRICS_H

#include "loadgen/stats/result.h"

#include <stdio.h>

/* Returns 0. Errors of OUT are left to the caller (ferror()). */
int result_write_openmetrics(FILE *out, const struct result *result);

#endif
