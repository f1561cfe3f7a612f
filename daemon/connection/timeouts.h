/*
 * What a connection waits for, and how long: each is in one list of its thread, by kind of deadline
 * and ordered by when it began. The owning thread.
 */
#ifndef DAEMON_WAITING_H
#define DAEMON_WAITING_H

#include "daemon/connection/connection.h"

/* Waits for WHAT (EV_READ, EV_WRITE, or 0 for what the loop does not see) with this deadline. */
void waiting_for(struct connection *connection, short what, enum deadline deadline);

/* A request is coming in: its head or its body. */
static inline bool waiting_is_for_request(const struct connection *connection)
{
    return connection->deadline == DEADLINE_HEADER || connection->deadline == DEADLINE_BODY;
}

/* The two halves of it. */
void waiting_watch(struct connection *connection, short what);
void waiting_place(struct connection *connection, enum deadline deadline);

/* The deadline that it waits with counts anew from now. */
void waiting_renew(struct connection *connection);

#endif
