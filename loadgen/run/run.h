/*
 * Runs: a single one, series of runs, repeated runs. Main thread; one run at a time.
 *
 * A run starts the client threads, displays progress, follows the plan's ramps and stages, applies
 * changes from keys and --control-fd, ends at the deadline or on a signal, and collects the result.
 * The first signal (interrupts.h) ends the run like its deadline, the second one ends it
 * immediately.
 */
#ifndef LOADGEN_RUN_H
#define LOADGEN_RUN_H

#include "loadgen/plan/plan.h"
#include "loadgen/stats/measures.h"
#include "loadgen/stats/result.h"

#include <stdio.h>

/*
 * Called ten times per second during a run, in the main thread: ALL is the sum of all threads up to
 * ELAPSED_NS after the run's begin, warm-up included. Calls do not overlap.
 */
struct run_observer {
    void (*on_tick)(void *context, const struct tally *all, uint64_t elapsed_ns);
    void *context;
};

/* ---- One trial: a run from its plan ---- */

enum trial_outcome {
    TRIAL_DONE,      /* *result is valid; release it with result_free() */
    TRIAL_INVALID,   /* could not begin: WHY names the error in the plan or on the machine */
    TRIAL_NO_SERVER, /* WHY says why no server could be reached, or which host is unknown */
};

/*
 * Runs PLAN, which must outlive *result. OBSERVER may be NULL. The result is large: keep it off the
 * stack. Signals end the run early (interrupts.h), which *result records. The progress display
 * depends on the plan (quiet, label).
 */
enum trial_outcome trial_run(const struct plan *plan, const struct run_observer *observer,
                             struct result *result, char *why, size_t size);

/*
 * Runs PLAN, which has hostile clients, first without and then with them. *result is that of the
 * second run, and has the measures of the first.
 */
enum trial_outcome hostile_run(const struct plan *plan, struct result *result, char *why,
                               size_t size);

/* The exit status; RESULT is read only if OUTCOME is TRIAL_DONE. */
enum result_status trial_status(enum trial_outcome outcome, const struct result *result);

/*
 * ---- A series of trials ----
 *
 * Runs each of several points, which are plans, once per round, so that short disturbances of the
 * machine affect all points alike. The order alternates (A B C, C B A, A B C ...), so that steady
 * drift affects all points alike, too. A trial's result is reduced to its measures.
 */

struct trials_point {
    const struct plan *plan; /* outlives the series */
    const char *name;        /* shown in the live view: "100 connections"; NULL: none */
};

struct trials_setup {
    const struct trials_point *points;
    size_t point_count;
    uint32_t rounds;
    /*
     * Prepares a point before its trial, such as the server's threads; NULL: nothing to do. Returns
     * 0, or -1 with WHY: the series fails.
     */
    int (*before)(void *context, size_t point, char *why, size_t size);
    /* Receives each result before it is freed, also of a trial that ended early; NULL: none. */
    void (*after)(void *context, size_t point, const struct result *result);
    void *context;
    const struct run_observer *trial_observer; /* NULL: none */
    /*
     * Whether a trial has enough responses for its point; NULL: any has. One without is not passed
     * to after() but repeated, from before() on, which may change the plan.
     */
    bool (*enough)(void *context, size_t point, const struct measures *measures);
};

enum trials_end {
    TRIALS_COMPLETE,
    TRIALS_INTERRUPTED, /* a signal arrived */
    TRIALS_ABORTED,     /* an --abort-on condition held; that trial is not kept */
    TRIALS_FAILED,      /* a trial could not begin: see WHY */
};

/*
 * Runs the series into TRIALS, created for as many points and rounds. After an early end TRIALS has
 * the measures so far. *outcome is that of the last trial.
 */
enum trials_end trials_run(struct trials *trials, const struct trials_setup *setup,
                           enum trial_outcome *outcome, char *why, size_t size);

/* ---- A repeated run ---- */

/*
 * Runs PLAN plan->rounds times. *RESULT is the sum of all rounds, with result->rounds set; a round
 * that ended early is part of the sum, but not of the rounds. Release with result_free(). The
 * outcome is that of the last round; unless it is TRIAL_DONE, the earlier rounds are lost.
 */
enum trial_outcome repeat_run(const struct plan *plan, struct result *result, char *why,
                              size_t size);

/* ---- The terminal (live_view.c) ---- */

/*
 * Whether OUT is a terminal that can move its cursor, and NO_COLOR (https://no-color.org) is not
 * set.
 */
bool live_terminal_wants_colour(FILE *out);

/* Whether the locale uses UTF-8 and the terminal presumably displays it. */
bool live_terminal_has_unicode(void);

#endif
