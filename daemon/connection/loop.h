/*
 * A turn of a serving thread's loop: one reading of the clock for all that one wake-up brings. All
 * requests of a turn begin at its start; what they answer carries its date.
 */
#ifndef DAEMON_TURN_H
#define DAEMON_TURN_H

#include "daemon/worker/thread.h"

/* Begins the turn if it has not begun. */
void turn_begin(struct serving_thread *thread);

/*
 * To be called first in every callback, but for the one that reads requests, which calls turn_begin():
 * that too, and serves what is held, so that connections are as they seem.
 */
void turn_enter(struct serving_thread *thread);

/* The same moment on the wall clock. */
static inline uint64_t turn_wall_ns(const struct serving_thread *thread)
{
    return thread->turn_ns + thread->wall_offset_ns;
}

#endif
