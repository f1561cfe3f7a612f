/*
 * SIGINT, SIGTERM, SIGQUIT and SIGHUP (unless ignored, as under nohup) as a descriptor to poll.
 * Counts all signals between the outermost interrupts_begin() and its interrupts_end(). Main
 * thread. Child processes get the original handlers.
 */
#ifndef LOADGEN_INTERRUPTS_H
#define LOADGEN_INTERRUPTS_H

#include <event2/event.h>
#include <stdint.h>

/* Calls may nest. Returns 0 or an errno; after 0 the caller must call interrupts_end(). */
int interrupts_begin(void);
void interrupts_end(void);

/* Readable if signals are pending; -1 outside of begin and end. Poll it, do not read it. */
int interrupts_fd(void);

/* The number of signals since the last call. */
uint64_t interrupts_take(void);

/* ---- Events of libevent loops; any thread ---- */

/*
 * event_add() that cannot fail: if it does, for lack of memory or kernel resources, ends the
 * program with a message and exit status 1. Without the event a run would never end or measure too
 * little.
 */
void events_add(struct event *event, const struct timeval *wait);

#endif
