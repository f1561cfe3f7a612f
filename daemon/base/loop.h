/* Helpers for libevent. */
#ifndef DAEMON_LOOP_H
#define DAEMON_LOOP_H

#include <event2/event.h>
#include <stdint.h>

/* event_free() that accepts NULL. */
static inline void loop_free_event(struct event *event)
{
    if (event != NULL)
        event_free(event);
}

/*
 * Starts TIMER, which ends in MS. Only for work that its owner's tick, once a second, also does:
 * without memory for the timer the work is late, but not lost.
 */
static inline void loop_start_timer(struct event *timer, uint64_t ms)
{
    const struct timeval when = {.tv_sec = (time_t)(ms / 1000),
                                 .tv_usec = (suseconds_t)(ms % 1000) * 1000};

    event_add(timer, &when);
}

#endif
