/*
 * A trial: one run of a plan from its URLs to its result, as often in a process as one likes. What is
 * shown meanwhile is in the plan (quiet, label). Main thread.
 */
#ifndef LOADGEN_TRIAL_H
#define LOADGEN_TRIAL_H

#include "loadgen/run/run.h"

enum trial_outcome {
    TRIAL_DONE,  /* *result is what came of it, owed a result_free() */
    TRIAL_WRONG, /* it could not begin: WHY says what is wrong with the plan or the machine */
    TRIAL_UNKNOWN_HOST, /* a host is not known, as WHY says: nothing can be answered */
};

/*
 * Runs PLAN, which must outlive *result. OBSERVER may be NULL. The result is large: keep it off the stack. Signals end the
 * run early (interrupts.h); *result says so.
 */
enum trial_outcome trial(const struct plan *plan, const struct run_observer *observer,
                         struct result *result, char *why, size_t size);

/* The exit status for what a trial came to; RESULT is looked at only if it is done. */
enum result_status trial_status(enum trial_outcome outcome, const struct result *result);

#endif
