/* The reports of a finished run. They only format; what they say is in result.h. Main thread. */
#ifndef LOADGEN_REPORT_H
#define LOADGEN_REPORT_H

#include "loadgen/result.h"

#include <stdio.h>

/* The percentiles that reports give: REPORT_PERCENTILE(number, name). */
#define REPORT_PERCENTILES(REPORT_PERCENTILE)                                                      \
    REPORT_PERCENTILE(50, "50")                                                                    \
    REPORT_PERCENTILE(90, "90")                                                                    \
    REPORT_PERCENTILE(99, "99")                                                                    \
    REPORT_PERCENTILE(99.9, "99.9")                                                                \
    REPORT_PERCENTILE(99.99, "99.99")                                                              \
    REPORT_PERCENTILE(99.999, "99.999")

/* At most 80 columns; COLOUR allows emphasis by escape sequences. */
void report_text(FILE *out, const struct result *result, bool colour);

/* One JSON object and a newline. Returns 0, or -1 when memory is short. */
int report_json(FILE *out, const struct result *result);

/* Whether a percentile says anything: at least one of COUNT values lies beyond it. */
static inline bool report_percentile_known(double percent, uint64_t count)
{
    return (double)count * (100 - percent) / 100 >= 1 - 1e-9;
}

#endif
