/*
 * A second or a step of the history as a snapshot and a model, which the views show like the present.
 * Pure; the console's only thread.
 */
#ifndef CONSOLE_HISTORY_CURSOR_H
#define CONSOLE_HISTORY_CURSOR_H

#include "console/data/history.h"

/*
 * A cursor provides one second of the history as a snapshot and a model: sums, one state letter per
 * thread slot, latency, and what history_add_threads() kept. The description of the server, and the
 * worker of each slot where nothing was kept, come from the current snapshot.
 */
struct history_cursor;

struct history_cursor *history_cursor_create(void);
void history_cursor_destroy(struct history_cursor *cursor);

/*
 * Moves to the second or the step BACK seconds before the newest second; if that is in a gap, to the
 * first one after the gap. Returns how many seconds back that is; 0: there is none, and the model is not
 * valid.
 */
size_t history_cursor_set(struct history_cursor *cursor, const struct history *history,
                          const struct snapshot *present, size_t back);

/* Valid until the next push to the history. */
const struct model *history_cursor_model(const struct history_cursor *cursor);

/* The processes, and the CPU time of the threads; empty if they were not kept. Valid like that. */
const struct process_table *history_cursor_processes(const struct history_cursor *cursor);

#endif
