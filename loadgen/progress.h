/*
 * What is shown while a run goes on: a line on the terminal that renews itself, or a JSON object a
 * line for another program. Both go to standard error, so that standard output holds the report and
 * nothing else. Main thread.
 */
#ifndef LOADGEN_PROGRESS_H
#define LOADGEN_PROGRESS_H

#include "loadgen/plan.h"
#include "loadgen/tally.h"

#include <stdio.h>

enum { PROGRESS_TICK_MS = 100 };

enum progress_kind {
    PROGRESS_NONE,
    PROGRESS_LIVE,  /* a line, renewed each tick */
    PROGRESS_LINES, /* a JSON object a line, each second tick */
};

struct progress {
    enum progress_kind kind;
    const struct plan *plan;
    FILE *out;
    uint64_t ticks;
    uint64_t past_ns[10];       /* times of the last ticks, a ring */
    uint64_t past_answered[10]; /* answers up to then */
    struct histogram shown;     /* latency up to the last JSON line */
    bool keys;                  /* keys are taken: the line says which, where there is room */
    char said[80];              /* what the live line ends with for a while */
    uint64_t said_until;        /* that tick */
};

/* What is asked for right now; it may change while the run goes on. */
struct progress_setting {
    double rate; /* requests a second; 0: closed loop */
    uint32_t connections, threads;
};

/* Chooses the kind: lines if they are asked for, live if OUT is a terminal that can. */
void progress_begin(struct progress *progress, const struct plan *plan, FILE *out);

/* Shows TALLY, the sum of all threads at ELAPSED_NS since the run's begin. */
void progress_tick(struct progress *progress, const struct tally *tally, uint64_t elapsed_ns,
                   const struct progress_setting *setting);

/*
 * Says what came of a change: GOOD, and what holds now, or WHY it was refused. With progress lines it
 * is one of them, with a member "event": "changed" or "refused".
 */
void progress_say(struct progress *progress, bool good, const char *why, double rate,
                  uint32_t connections, uint32_t threads);

/* Takes the live line away. */
void progress_end(struct progress *progress);

/* The live line, at most WIDTH columns: what does not fit is left out from the right. Pure. */
void progress_format(char *line, size_t size, size_t width, const struct plan *plan,
                     const struct tally *tally, uint64_t elapsed_ns, double rate,
                     const struct progress_setting *setting);

#endif
