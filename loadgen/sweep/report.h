/* The reports of a sweep. Main thread. */
#ifndef LOADGEN_SWEEP_REPORT_H
#define LOADGEN_SWEEP_REPORT_H

#include "loadgen/sweep/sweep.h"

#include <stdio.h>

/*
 * Writes SWEEP, after sweep_conclude(), in the format of its plan. COLOUR allows emphasis by escape
 * sequences in text. Returns 0, or -1 with errno. Errors of OUT are left to the caller (ferror()).
 */
int sweep_report(FILE *out, const struct sweep *sweep, bool colour);

#endif
