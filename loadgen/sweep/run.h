/* Running a sweep. Main thread. */
#ifndef LOADGEN_SWEEP_RUN_H
#define LOADGEN_SWEEP_RUN_H

#include "loadgen/sweep/sweep.h"

/*
 * Runs all trials of PLAN with the server's workers and threads of each curve, restores these at
 * the end and draws the conclusions. Reports on standard error what cannot be restored. Returns
 * NULL with WHY and the program's exit status in *STATUS if it could not begin or continue. Free
 * with sweep_free().
 */
struct sweep *sweep_run(const struct plan *plan, enum result_status *status, char *why,
                        size_t size);

#endif
