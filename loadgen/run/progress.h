/*
 * The display of a run's progress: the live view on a terminal, or JSON lines for a program. Both go to
 * standard error, so that standard output has only the report. Main thread.
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
    PROGRESS_LIVE,  /* the live view, redrawn each frame */
    PROGRESS_LINES, /* a JSON object per line, every second tick */
};

struct progress {
    enum progress_kind kind;
    const struct plan *plan;
    struct progress_goal goal;
    FILE *out;
    uint64_t ticks;
    uint64_t past_ns[10];       /* times of the last ticks, a ring */
    uint64_t past_answered[10]; /* responses up to these ticks */
    double rate;                /* responses per second over these ticks */
    struct rate_trace trace;
    struct histogram shown; /* latency up to the last JSON line */
    struct live_terminal terminal;
    bool keys;              /* the live view lists the keys */
    char message[80];       /* shown in the last line of the live view for a while */
    uint64_t message_until; /* tick at which the message expires */
};

/* The state of the run to display. */
struct progress_now {
    const struct tally *tally; /* the sum of all threads, without the warm-up */
    uint64_t elapsed_ns;       /* since the run's begin */
    struct progress_setting setting;
};

/* Chooses the kind: lines if the plan says so, live if OUT is a capable terminal. */
void progress_begin(struct progress *progress, const struct plan *plan,
                    const struct progress_goal *goal, FILE *out);

/* Call every PROGRESS_TICK_MS: samples the rate and writes JSON lines. */
void progress_tick(struct progress *progress, const struct progress_now *now);

/* Redraws the live view; call once per frame. */
void progress_draw(struct progress *progress, const struct progress_now *now);

/*
 * Reports a change: if ACCEPTED, the load now in effect; else WHY it was rejected. As a JSON line
 * it has a member "event": "changed" or "rejected".
 */
void progress_report_change(struct progress *progress, bool accepted, const char *why, double rate,
                            uint32_t connections, uint32_t threads);

/* Stops the process (Ctrl-Z) with the terminal restored; returns when it continues. */
void progress_suspend(struct progress *progress);

/* Draws the live view for the last time, or removes it if a report follows on the same terminal. */
void progress_end(struct progress *progress, const struct progress_now *now);

#endif
