/*
 * Series of trials: each of several points, which are plans, is run in each of several rounds, so that
 * what the machine does meanwhile meets all of them alike. Rounds go there and back (A B C, C B A, A B
 * C ...), so that a steady drift does, too. What is kept of a trial are its measures. Main thread.
 */
#ifndef LOADGEN_TRIALS_H
#define LOADGEN_TRIALS_H

#include "loadgen/run/trial.h"
#include "loadgen/stats/measures.h"

struct trials_point {
    const struct plan *plan; /* outlives the trials */
    const char *name;        /* for the live line: "100 connections"; NULL: none */
};

struct trials_setup {
    const struct trials_point *points;
    size_t point_count;
    uint32_t rounds;
    /*
     * Makes the world as the point needs it, such as a server's threads; NULL: nothing to do. Returns
     * 0, or -1 with WHY: the series ends, failed.
     */
    int (*before)(void *context, size_t point, char *why, size_t size);
    /* Sees each result before it is freed, also of a trial that was ended early; NULL: nobody. */
    void (*after)(void *context, size_t point, const struct result *result);
    void *context;
    const struct run_observer *observer; /* of each trial; NULL: none */
};

enum trials_end {
    TRIALS_COMPLETE,
    TRIALS_INTERRUPTED, /* by a signal */
    TRIALS_ABORTED,     /* a condition of --abort-on came true; that trial is not kept */
    TRIALS_FAILED,      /* a trial could not begin; WHY says */
};

/*
 * Runs the series into TRIALS, which was made for as many points and rounds. What was measured before
 * an early end is kept. *outcome is the last trial's.
 */
enum trials_end trials_run(struct trials *trials, const struct trials_setup *setup,
                           enum trial_outcome *outcome, char *why, size_t size);

#endif
