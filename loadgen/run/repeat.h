/* A run that is repeated (--repeat). Main thread. */
#ifndef LOADGEN_REPEAT_H
#define LOADGEN_REPEAT_H

#include "loadgen/run/trials.h"

/*
 * Runs PLAN plan->rounds times. *RESULT is the sum of all rounds, with result->rounds set; a round that
 * was ended early is part of the sum, not of the rounds. Release with result_free(). The outcome is that
 * of the last round; unless it is TRIAL_DONE, the earlier rounds are lost.
 */
enum trial_outcome repeat_run(const struct plan *plan, struct result *result, char *why,
                              size_t size);

#endif
