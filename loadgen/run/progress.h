/*
 * What is shown while a run goes on: a view on the terminal that renews itself, or a JSON object a line
 * for another program. Both go to standard error, so that standard output holds the report and nothing
 * else. Main thread.
 */
#ifndef LOADGEN_PROGRESS_H
#define LOADGEN_PROGRESS_H

#include "loadgen/plan/plan.h"
#include "loadgen/run/live_terminal.h"
#include "loadgen/stats/tally.h"

#include <stdio.h>

enum { PROGRESS_TICK_MS = 100 };

enum progress_kind {
    PROGRESS_NONE,
    PROGRESS_LIVE,  /* a view, renewed each frame */
    PROGRESS_LINES, /* a JSON object a line, each second tick */
};

struct progress {
    enum progress_kind kind;
    const struct plan *plan;
    struct progress_goal goal;
    FILE *out;
    uint64_t ticks;
    uint64_t past_ns[10];       /* times of the last ticks, a ring */
    uint64_t past_answered[10]; /* answers up to then */
    double rate;                /* answers a second over these ticks */
    struct rate_trace trace;
    struct histogram shown; /* latency up to the last JSON line */
    struct live_terminal terminal;
    bool keys;           /* keys are taken: the view says which */
    char said[80];       /* what the view ends with for a while */
    uint64_t said_until; /* that tick */
};

/* What is shown of a run right now. */
struct progress_now {
    const struct tally *tally; /* the sum of all threads, of what counts */
    uint64_t elapsed_ns;       /* since the run's begin */
    struct progress_setting setting;
};

/*
 * Chooses the kind: lines if they are asked for, live if OUT is a terminal that can. GOAL is how far the
 * run goes.
 */
void progress_begin(struct progress *progress, const struct plan *plan,
                    const struct progress_goal *goal, FILE *out);

/* To be called each PROGRESS_TICK_MS: takes a sample of the rate, and writes a line. */
void progress_tick(struct progress *progress, const struct progress_now *now);

/* Draws the live view, as often as is wanted. */
void progress_draw(struct progress *progress, const struct progress_now *now);

/*
 * Says what came of a change: GOOD, and what holds now, or WHY it was refused. With progress lines it
 * is one of them, with a member "event": "changed" or "refused".
 */
void progress_say(struct progress *progress, bool good, const char *why, double rate,
                  uint32_t connections, uint32_t threads);

/* Stops the process, as Ctrl-Z asks, with the terminal in order; returns when it goes on. */
void progress_suspend(struct progress *progress);

/* Draws the live view for the last time: it stays, or gives its place to a report that says it all. */
void progress_end(struct progress *progress, const struct progress_now *now);

#endif
