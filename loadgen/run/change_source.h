/*
 * Where changes to a run come from while it goes on: lines on a descriptor, keys on the terminal.
 * Main thread; one at a time.
 */
#ifndef LOADGEN_CHANGE_SOURCE_H
#define LOADGEN_CHANGE_SOURCE_H

#include "loadgen/plan/control.h"

#include <event2/event.h>

struct change_source;

/* Called for each: CHANGE, or NULL and WHY for a line that is not understood. */
typedef void change_taker(void *context, const struct change *change, const char *why);

/*
 * Watches the descriptor FD (-1: none) and, if KEYS, standard input if that is a terminal of ours.
 * Returns NULL when there is no memory or FD cannot be watched.
 */
struct change_source *change_source_create(struct event_base *base, int fd, bool keys,
                                           change_taker *take, void *context);

/* Whether keys are taken. */
bool change_source_has_keys(const struct change_source *source);

/* Gives the terminal back. SOURCE may be NULL. */
void change_source_destroy(struct change_source *source);

#endif
