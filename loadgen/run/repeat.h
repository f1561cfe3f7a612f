/*
 * A run that is done several times (--repeat): one result with everything added up, and what the rounds
 * say together. Main thread.
 */
#ifndef LOADGEN_REPEAT_H
#define LOADGEN_REPEAT_H

#include "loadgen/run/trials.h"
#include "loadgen/stats/series.h"

struct repeat {
    struct trials *trials;      /* of one point, number 0 */
    struct series_entry *total; /* of each round that is in the trials */
    uint32_t asked, done;       /* rounds; done: those in the trials */
};

/* The measures that a table of rounds has. */
enum { REPEAT_ROWS = 9 };
extern const enum measure repeat_rows[REPEAT_ROWS];

/*
 * Runs PLAN as often as it says. *RESULT is the sum of all rounds, also of one that was ended early:
 * its repeat says what each came to, its series has no warm-ups. Release with result_free(). The
 * outcome is that of the last round; what was done before is lost when that is not TRIAL_DONE.
 */
enum trial_outcome repeat_run(const struct plan *plan, struct result *result, char *why,
                              size_t size);

/* Adds FROM, a later round, to INTO, which is a result of the same plan or all zero bytes. Returns
 * false when memory is short. */
bool repeat_add(struct result *into, const struct result *from);

void repeat_free(struct repeat *repeat);

static inline struct interval repeat_interval(const struct repeat *repeat, enum measure measure)
{
    return trials_interval(repeat->trials, 0, measure);
}

#endif
