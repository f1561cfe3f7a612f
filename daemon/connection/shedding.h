/*
 * Shedding: closes the connections that have been idle the longest when connections.max is reached
 * or descriptors or memory run out. A thread closes its own first. If it has none, its request goes
 * to the other threads of the worker, one after the other, by way of the main thread:
 *
 *   shed_ask() ──▶ main thread ◀──▶ shed_visit() in each thread ──▶ shed_finish()
 *
 * The owning thread.
 */
#ifndef DAEMON_CONNECTION_SHEDDING_H
#define DAEMON_CONNECTION_SHEDDING_H

#include "daemon/connection/connection.h"

/* Closes at most WANTED idle connections of LOOP and returns their number. */
uint32_t shed_idle(struct event_loop *loop, enum shortage reason, uint32_t wanted);

/*
 * Asks the other threads to close one. Does nothing while a request is under way, or shortly after
 * one that found no idle connection.
 */
void shed_ask(struct event_loop *loop, enum shortage reason);

/* Delivers a request to a struct event_loop: closes idle connections for it and returns it. */
void shed_visit(struct mailbox_item *item, void *receiver);

/*
 * Delivers its own request to a struct event_loop: if a connection was closed, accepts new ones
 * again.
 */
void shed_finish(struct mailbox_item *item, void *receiver);

#endif
