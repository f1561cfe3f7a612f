/*
 * SIGINT, SIGTERM, SIGQUIT and SIGHUP (unless ignored, as under nohup) as a descriptor to poll. Counts
 * all signals between the outermost interrupts_begin() and its interrupts_end(). Main thread. Child
 * processes get the original handlers.
 */
#ifndef LOADGEN_INTERRUPTS_H
#define LOADGEN_INTERRUPTS_H

#include <stdint.h>

/* Calls may nest. Returns 0 or an errno; after 0 the caller must call interrupts_end(). */
int interrupts_begin(void);
void interrupts_end(void);

/* Readable if signals are pending; -1 outside of begin and end. Poll it, do not read it. */
int interrupts_fd(void);

/* The number of signals since the last call. */
uint64_t interrupts_take(void);

#endif
