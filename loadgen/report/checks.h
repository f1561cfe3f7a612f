/* The outcome of a run's checks as JUnit XML, for continuous integration. Main thread. */
#ifndef LOADGEN_REPORT_CHECKS_H
#define LOADGEN_REPORT_CHECKS_H

#include "loadgen/stats/result.h"

#include <stdio.h>

/* Returns 0. Errors of OUT are left to the caller (ferror()). */
int result_write_junit(FILE *out, const struct result *result);

#endif
