/*
 * The deadlines of connections. Each connection is in one list of its loop, by kind of deadline, in
 * the order in which the waits began. The owning thread.
 */
#ifndef DAEMON_CONNECTION_TIMEOUTS_H
#define DAEMON_CONNECTION_TIMEOUTS_H

#include "daemon/connection/connection.h"

/* Waits for WHAT (EV_READ, EV_WRITE, or 0 if no event is awaited) until DEADLINE. */
void connection_wait(struct connection *connection, short what, enum deadline deadline);

/* The two halves of connection_wait(). */
void connection_watch(struct connection *connection, short what);
void connection_set_deadline(struct connection *connection, enum deadline deadline);

/* Restarts the current deadline. */
void connection_restart_deadline(struct connection *connection);

/* True if bytes of the client wait in its socket or transport. */
bool connection_has_unread(const struct connection *connection);

/* True while a request head or body is incomplete. */
static inline bool connection_awaits_request(const struct connection *connection)
{
    return connection->deadline == DEADLINE_HEADER || connection->deadline == DEADLINE_BODY;
}

/* True if its deadline was set in the last two seconds; each list is in that order. */
bool connection_is_recent(const struct connection *connection);

/* True if it has had a request in the last two seconds; then it is recent. */
bool connection_is_active(const struct connection *connection);

/* Number of active connections. */
uint32_t connections_count_active(const struct event_loop *loop);

/*
 * Number of connections whose client has taken nothing of an unfinished response for 5 seconds. The
 * deadline of one that has taken some, without an event, is restarted. Once a second.
 */
uint32_t connections_count_stalled(struct event_loop *loop);

/*
 * Waits until the client receives more of a partly sent response. The deadline is restarted unless
 * the client is slower than [connections] min_send_rate.
 */
void connection_wait_for_client(struct connection *connection);

/* Counts bytes of that response; COMPLETE: they were the last. */
void connection_count_sent(struct connection *connection, uint64_t bytes, bool complete);

/*
 * True if the client of CONNECTION, which lingers, has not received all, and is fast enough, as in
 * connection_wait_for_client(): then a close would lose the rest if the client sends anything more,
 * such as a WINDOW_UPDATE.
 */
bool connection_receives_the_rest(struct connection *connection);

/* Calls connections_retry_log() soon, again and again while the log ring has no space. */
void loop_wait_for_log(struct event_loop *loop);

/* Waits until the log ring has space and connections_retry_log() resumes the connection. */
void connection_wait_for_log(struct connection *connection);

/* Resumes connections that wait for the log ring, as long as it has space. On loop->log_retry. */
void connections_retry_log(struct event_loop *loop);

/* Calls the protocol for every connection whose deadline has passed. Once a second. */
void timeouts_expire(struct event_loop *loop);

#endif
