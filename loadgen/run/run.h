/*
 * A run from its first request to its last: starts the client threads, shows progress, follows the
 * plan's ramps and what people and programs change, ends the run at its deadline or on a signal, and
 * adds everything up. Main thread; one after the other. Of SIGINT, SIGTERM and SIGHUP (interrupts.h)
 * the first ends the run as its deadline would, the second at once.
 */
#ifndef LOADGEN_RUN_H
#define LOADGEN_RUN_H

#include "loadgen/plan/plan.h"
#include "loadgen/plan/work.h"
#include "loadgen/stats/result.h"

#include <stddef.h>

/*
 * Runs PLAN with WORK. Returns 0 with *result filled (it is owed a result_free()), or -1 with WHY when
 * it could not begin.
 */
int run(const struct plan *plan, struct work *work, struct result *result, char *why, size_t size);

#endif
