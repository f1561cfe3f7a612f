/* The report of an earlier run as the base of conditions such as "p99>1.1x" (--baseline). Main thread. */
#ifndef LOADGEN_REPORT_BASELINE_H
#define LOADGEN_REPORT_BASELINE_H

#include "loadgen/plan/plan.h"

/*
 * Makes the limits of the relative conditions of PLAN absolute, from the JSON report that it names. Returns
 * 0, or -1 with WHY, also if the report lacks a number.
 */
int baseline_apply(struct plan *plan, char *why, size_t size);

#endif
