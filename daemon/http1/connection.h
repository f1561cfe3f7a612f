/*
 * What comes in on a connection, and what is done about it: bytes are read, the requests in them
 * answered in order, the answers sent, and then it waits for more, or ends. The owning thread.
 */
#ifndef DAEMON_SERVING_H
#define DAEMON_SERVING_H

#include "daemon/connection/connection.h"
#include "daemon/http1/response_writer.h"

#include <event2/util.h>

/* The event loop's callback for a connection: it is readable or writable. */
void serving_event(evutil_socket_t fd, short what, void *argument);

/*
 * Serves what is held. A thread that finds many connections ready reads from the next one before it
 * serves what it has read from this one: what the answer is made of comes from memory meanwhile. So
 * something is held from one such event to the next, and nothing whenever anything else happens.
 */
void serving_catch_up(struct serving_thread *thread);

/* A connection that has just been accepted: its request has often come with it. */
void serving_begin(struct connection *connection);

/* Goes on with what is unsent and unread: after an adoption, or when a job has come back. */
void serving_resume(struct connection *connection);

/* Refuses the request under way, which takes too long: 408 (RFC 9110 section 15.5.9), and the end. */
void serving_refuse_slow(struct connection *connection);

/* Bytes that the client's side has not acknowledged. */
int serving_bytes_unsent(const struct connection *connection);

/* Lets those go on that waited for room in the log ring, while there is some. */
void serving_unblock(struct serving_thread *thread);

#endif
