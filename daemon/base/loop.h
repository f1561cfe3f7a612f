/* Small helpers around libevent's loops. */
#ifndef DAEMON_LOOP_H
#define DAEMON_LOOP_H

#include <event2/event.h>

/* Frees EVENT, which may never have been made (NULL). */
static inline void loop_free_event(struct event *event)
{
    if (event != NULL)
        event_free(event);
}

#endif
