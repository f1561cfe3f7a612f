/*
 * wsload find: the highest rate that meets a condition, or the lowest number of connections or of
 * the server's threads that almost reaches the highest rate. Each trial is a run of its own; the
 * next one depends on the results so far (search.h). Main thread.
 */
#ifndef LOADGEN_SWEEP_FIND_H
#define LOADGEN_SWEEP_FIND_H

#include "loadgen/sweep/search.h"
#include "loadgen/sweep/sweep.h"

enum { FIND_TEXT = 400, FIND_NOTES_MAX = 4 };

struct find {
    const struct plan *plan;
    struct search_trial trials[SEARCH_TRIALS_MAX];
    struct measures measures[SEARCH_TRIALS_MAX];
    double waited_percent[SEARCH_TRIALS_MAX]; /* requests that waited for a free connection */
    size_t count;
    uint64_t began_ns; /* wall clock */
    struct search_answer answer;
    enum sweep_limit limit;    /* of a rate: why a higher one does not meet the condition */
    char text[FIND_TEXT];      /* the answer as a sentence */
    char server[64];           /* instance name of the webserverd; "": another server */
    struct server_sizes sizes; /* 0: unknown */
    uint32_t machine_cores;
    enum trials_end end;
    char failure[SWEEP_FAILURE_TEXT]; /* why it could not continue (TRIALS_FAILED) */
    enum result_status status;
    struct sweep_finding note[FIND_NOTES_MAX];
    size_t note_count;
};

static inline bool find_seeks_rate(const struct find *find)
{
    return find->plan->find.what == PLAN_FIND_RATE;
}

/*
 * Searches as PLAN says, and restores the server's number of threads. Returns NULL, with WHY and
 * the program's exit status in *STATUS, if nothing could be measured. Free with free().
 */
struct find *find_run(const struct plan *plan, enum result_status *status, char *why, size_t size);

/* Writes FIND in the format of its plan; as sweep_report(). */
int find_report(FILE *out, const struct find *find, bool colour);

#endif
