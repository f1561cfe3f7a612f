/*
 * What is measured of scenarios: a row for each scenario and each of its steps. One writer, the thread that owns it;
 * others may read once the writer has ended.
 */
#ifndef LOADGEN_SCENARIO_TALLY_H
#define LOADGEN_SCENARIO_TALLY_H

#include "loadgen/plan/scenario.h"
#include "loadgen/stats/tally.h"

enum { SCENARIO_TALLY_TEXT = 256 }; /* bytes */

/* Of a step: requests. Of a scenario: how often virtual users ran it. */
struct scenario_row {
    char *name;
    uint32_t weight; /* of a scenario; 0: a step */
    uint64_t begun;  /* = good + failed + open */
    uint64_t good;   /* step: passed; scenario: all of its steps passed */
    uint64_t failed; /* step: no response, a bad status, or a missing value; scenario: at a step */
    uint64_t open;   /* step: unanswered; scenario: unfinished when the run ended */
    uint64_t errors; /* step: failed without a complete response */
    uint64_t bad_statuses; /* step: responses with an unexpected status */
    uint64_t
        bad_extractions; /* step: responses without a value to take, and requests that cannot be made */
    char why[SCENARIO_TALLY_TEXT]; /* of the first bad extraction; "": none */
    struct histogram
        times; /* step: of responses, since due; scenario: of good ones, think times included; ns */
};

struct scenario_tally {
    size_t count;
    struct scenario_row row[];
};

/* COUNT rows, all zero, without names. Returns NULL if out of memory. */
struct scenario_tally *scenario_tally_allocate(size_t count);

/* A tally of SET, all zero. Returns NULL if out of memory. */
struct scenario_tally *scenario_tally_create(const struct scenario_set *set);

void scenario_tally_free(struct scenario_tally *tally);

/* Counts a step whose request has ended, which scenario_row.begun has counted. WHY: of a bad extraction. */
void scenario_tally_record_step(struct scenario_row *row, const struct transaction *transaction,
                                const char *why);

/* Whether both have the same scenarios and steps; NULL: none. */
bool scenario_tally_is_like(const struct scenario_tally *a, const struct scenario_tally *b);

/* Adds FROM, with the same scenarios, to *into, which it creates if it is NULL. Returns false if out of memory. */
bool scenario_tally_add(struct scenario_tally **into, const struct scenario_tally *from);

#endif
