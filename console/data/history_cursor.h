/*
 * A second that has gone by as a snapshot and a model, from the history: sums, one letter for each
 * thread slot, and latency. Who the server is, and which worker a slot belongs to, is taken from
 * the present. The console's only thread.
 */
#ifndef CONSOLE_PAST_H
#define CONSOLE_PAST_H

#include "console/data/history.h"
#include "console/data/model.h"

struct past;

struct past *past_create(void);
void past_destroy(struct past *past);

/*
 * Goes to the second BACK seconds before HISTORY's newest one, or to the nearest one after it that
 * is no gap. Returns how far back that is; 0: there is none, and the model is not to be used.
 */
size_t past_set(struct past *past, const struct history *history, const struct snapshot *present,
                size_t back);

/* Valid until the next push to the history. */
const struct model *past_model(const struct past *past);

#endif
