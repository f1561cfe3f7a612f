/* Running a sweep. Main thread. */
#ifndef LOADGEN_SWEEP_RUN_H
#define LOADGEN_SWEEP_RUN_H

#include "loadgen/sweep/sweep.h"

/*
 * Runs all trials of PLAN, with the number of workers and threads of each curve, restores the
 * server's own numbers at the end, and calls sweep_conclude(). Reports on standard error if they
 * cannot be restored. Returns NULL, with WHY and the program's exit status in *STATUS, if the sweep
 * could not begin or continue. Free with sweep_free().
 */
struct sweep *sweep_run(const struct plan *plan, enum result_status *status, char *why,
                        size_t size);

#endif
