/*
 * One run: starts the client threads, displays progress, follows the plan's ramps and stages,
 * applies changes from keys and --control-fd, ends at the deadline or on a signal, and collects the
 * result. Main thread; one run at a time. The first signal (interrupts.h) ends
 * the run like its deadline, the second one ends it immediately.
 */
#ifndef LOADGEN_RUN_H
#define LOADGEN_RUN_H

#include "loadgen/plan/plan.h"
#include "loadgen/plan/request_plan.h"
#include "loadgen/stats/result.h"

#include <stddef.h>

/*
 * Called ten times per second during a run, in the main thread: ALL is the sum of all threads up to
 * ELAPSED_NS after the run's begin, warm-up included. Calls do not overlap.
 */
struct run_observer {
    void (*on_tick)(void *context, const struct tally *all, uint64_t elapsed_ns);
    void *context;
};

/*
 * Runs PLAN with its prepared requests. OBSERVER may be NULL. Returns 0 with *result filled (release it
 * with result_free()), or -1 with WHY if the run could not begin.
 */
int run_plan(const struct plan *plan, struct request_plan *request_plan,
             const struct run_observer *observer, struct result *result, char *why, size_t size);

#endif
