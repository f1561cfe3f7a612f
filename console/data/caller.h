/*
 * Calls to the daemon's control socket without ever waiting: one is out at a time, the others stand
 * in a queue, and each answer is handed on when it is there. The console's only thread.
 */
#ifndef CONSOLE_CALLER_H
#define CONSOLE_CALLER_H

#include <stdbool.h>
#include <stdint.h>

enum { CALLER_QUEUE = 16 };

struct caller;

struct caller *caller_create(void);
void caller_destroy(struct caller *caller); /* calls that are out are not answered any more */

/* OK tells the daemon's line of JSON from a sentence on why none came. */
typedef void caller_then(void *context, bool ok, const char *answer);

/*
 * Sends LINE to the control socket at PATH, both copied. THEN is called from caller_update(), but
 * at once, with a sentence, when the queue is full.
 */
void caller_call(struct caller *caller, const char *path, const char *line, caller_then *then,
                 void *context);

/* Calls that are not answered yet. */
unsigned caller_waiting(const struct caller *caller);

/* A descriptor to wait for, or -1. */
int caller_descriptor(const struct caller *caller);

/* Fetches what has come. When the descriptor is readable, and now and then for the deadline. */
void caller_update(struct caller *caller, uint64_t now_ns);

#endif
