/* The reports of a finished run. They only format; what they say is in result.h. Main thread. */
#ifndef LOADGEN_REPORT_H
#define LOADGEN_REPORT_H

#include "loadgen/stats/measures.h"
#include "loadgen/stats/result.h"

#include <stdio.h>

/* What formats.def names: at most 80 columns where it is for people (with the usual percentiles);
 * COLOUR allows emphasis by escape sequences. Each returns 0, or -1 with errno; whether all was
 * written, OUT knows. */
#define FORMAT(id, name, ending, write)                                                            \
    int write(FILE *out, const struct result *result, bool colour);
#include "loadgen/plan/formats.def"
#undef FORMAT

/* In the format of the plan. Returns as they do. */
int report_write(FILE *out, const struct result *result, bool colour);

/* The percentiles to give, in percent, and in *COUNT how many: the plan's, or the usual ones. */
const double *report_percentiles(const struct plan *plan, size_t *count);

/* TEXT in Markdown: what would be markup, or end a cell, stands behind a backslash. */
void report_md_text(FILE *out, const char *text);

/* "p99.9" */
enum { REPORT_PERCENTILE_NAME = 24 };
char *report_percentile_name(char *buffer, size_t size, double percent);

/*
 * The percentile behind PERCENT where a distribution is written out: they grow denser towards 100, as
 * HdrHistogram has them.
 */
double report_next_level(double percent);

#endif
