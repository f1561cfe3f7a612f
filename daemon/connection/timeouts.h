/*
 * What a connection waits for, and how long: each is in one list of its loop, by kind of deadline and in
 * the order in which the waits began. The owning thread.
 */
#ifndef DAEMON_CONNECTION_TIMEOUTS_H
#define DAEMON_CONNECTION_TIMEOUTS_H

#include "daemon/connection/connection.h"

/* Waits for WHAT (EV_READ, EV_WRITE, or 0 for something that is not an event) until DEADLINE. */
void connection_wait(struct connection *connection, short what, enum deadline deadline);

/* The two halves of connection_wait(). */
void connection_watch(struct connection *connection, short what);
void connection_set_deadline(struct connection *connection, enum deadline deadline);

/* Restarts the current deadline. */
void connection_restart_deadline(struct connection *connection);

/* True while a request head or body is incomplete. */
static inline bool connection_awaits_request(const struct connection *connection)
{
    return connection->deadline == DEADLINE_HEADER || connection->deadline == DEADLINE_BODY;
}

/* A response is partly sent: waits until the client takes more. */
void connection_wait_for_client(struct connection *connection);

/* The log ring is full: waits until connections_retry_log() resumes it. */
void connection_wait_for_log(struct connection *connection);

/* Resumes connections that wait for space in the log ring, while there is some. On loop->log_retry. */
void connections_retry_log(struct event_loop *loop);

/* Calls the protocol for every connection whose deadline has passed. Once a second. */
void timeouts_expire(struct event_loop *loop);

#endif
