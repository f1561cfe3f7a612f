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
 * Watches a run while it goes on, ten times a second, in the main thread: ALL is the sum of all threads
 * up to ELAPSED_NS after the run's begin, warm-up included. Calls do not overlap.
 */
struct run_observer {
    void (*on_tick)(void *context, const struct tally *all, uint64_t elapsed_ns);
    void *context;
};

/*
 * Runs PLAN with WORK. OBSERVER may be NULL. Returns 0 with *result filled (it is owed a result_free()), or -1 with WHY when
 * it could not begin.
 */
int run_plan(const struct plan *plan, struct request_plan *request_plan,
             const struct run_observer *observer, struct result *result, char *why, size_t size);

#endif
