/*
 * The outcome of a run's checks, for continuous integration: JUnit XML, and annotations as GitHub's workflow
 * commands. Main thread.
 */
#ifndef LOADGEN_REPORT_CHECKS_H
#define LOADGEN_REPORT_CHECKS_H

#include "loadgen/stats/result.h"

#include <stdio.h>

/* Both return 0. Errors of OUT are left to the caller (ferror()). */
int result_write_junit(FILE *out, const struct result *result);
int result_write_github(FILE *out, const struct result *result);

#endif
