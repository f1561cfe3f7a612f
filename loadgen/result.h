/* What a run came to: the material of every report. Owned by the main thread. */
#ifndef LOADGEN_RESULT_H
#define LOADGEN_RESULT_H

#include "loadgen/plan.h"
#include "loadgen/tally.h"

enum { RESULT_ERROR_TEXT = 256 };

struct result {
    const struct plan *plan;
    const char *url; /* as it was requested */
    const char *engine;
    struct tally tally;  /* of all threads */
    uint64_t elapsed_ns; /* from the first request's begin to the last one's end */
    uint64_t cpu_ns;     /* of all client threads, user and system */
    bool interrupted;
    char other_error[RESULT_ERROR_TEXT]; /* what was said about an error of kind OTHER; or "" */
};

/* Answers a second; 0 when no time passed. */
double result_rate(const struct result *result);

/* Part of one core that each client thread used, 0 to 1. */
double result_cpu_share(const struct result *result);

/* Requests that count as errors: failed, unanswered, or answered with a status not 2xx or 3xx. */
uint64_t result_bad(const struct result *result);

/* result_bad() in percent of all requests; 0 when there was none. */
double result_bad_percent(const struct result *result);

/* The exit status of the program. */
enum result_status {
    RESULT_GOOD = 0,
    RESULT_WRONG_USE = 1, /* nothing was run */
    RESULT_NOTHING = 2,   /* not one answer */
    RESULT_ERRORS = 3,    /* more errors than --max-errors allows */
    RESULT_INTERRUPTED = 130,
};
enum result_status result_status(const struct result *result);

/*
 * What a reader must know before believing the numbers, a sentence each.
 * Returns how many of NOTES were filled, at most RESULT_NOTES_MAX.
 */
enum { RESULT_NOTES_MAX = 8, RESULT_NOTE_TEXT = 320 };

struct result_note {
    const char *name; /* for programs */
    char text[RESULT_NOTE_TEXT];
};
size_t result_notes(const struct result *result, struct result_note *notes);

#endif
