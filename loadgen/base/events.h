/* Events of libevent loops that wsload cannot do without. Any thread. */
#ifndef LOADGEN_EVENTS_H
#define LOADGEN_EVENTS_H

#include <event2/event.h>

/*
 * event_add() that cannot fail: if it does, for lack of memory or kernel resources, ends the program
 * with a message and exit status 1. Without the event a run would never end or measure too little.
 */
void events_add(struct event *event, const struct timeval *wait);

#endif
