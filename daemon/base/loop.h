/* A helper for libevent. */
#ifndef DAEMON_LOOP_H
#define DAEMON_LOOP_H

#include <event2/event.h>

/* event_free() that accepts NULL. */
static inline void loop_free_event(struct event *event)
{
    if (event != NULL)
        event_free(event);
}

#endif
