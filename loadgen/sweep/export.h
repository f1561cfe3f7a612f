/* A sweep as CSV or JSON. Main thread. */
#ifndef LOADGEN_SWEEP_EXPORT_H
#define LOADGEN_SWEEP_EXPORT_H

#include "loadgen/sweep/sweep.h"

#include <stdio.h>

/*
 * As comma-separated values (RFC 4180, but lines end with LF): for each point a row with the
 * medians, two rows with the ends of the 95 % confidence intervals, and one for each round. Unknown
 * values are empty. Returns 0. Errors of OUT are left to the caller (ferror()).
 */
int sweep_write_csv(FILE *out, const struct sweep *sweep);

/* JSON as specified by wsload.schema.json. Returns 0, or -1 if out of memory or OUT fails. */
int sweep_write_json(FILE *out, const struct sweep *sweep);

#endif
