/*
 * Connections that the master passes to workers: those it accepts itself (workers.dispatch =
 * master, UNIX sockets, activated sockets) and those that a leaving worker returns. Each goes to
 * the next worker in round robin or to the one with the fewest connections. If no worker can take
 * one, it is queued here and the master stops accepting. The master's loop.
 */
#ifndef DAEMON_DISPATCH_H
#define DAEMON_DISPATCH_H

#include "daemon/master/workers.h"

struct dispatch;

/* Starts accepting. SERVER and WORKERS are borrowed. NULL: out of memory. */
struct dispatch *dispatch_new(struct server *server, const struct workers *workers);

/* Closes queued connections and frees. The listen sockets stay open. */
void dispatch_free(struct dispatch *dispatch);

/*
 * Call when the listen sockets or workers.dispatch have changed. Returns 0, or -1: out of memory.
 */
int dispatch_update_listeners(struct dispatch *dispatch);

/*
 * Accepts all connections queued in the listen socket FD, which the caller then closes. DISPATCH is
 * a struct dispatch.
 */
void dispatch_drain_listener(void *dispatch, int fd);

/* Passes on a connection (struct message_connection) that a worker has returned. */
void dispatch_return(struct dispatch *dispatch, const void *message, size_t length, int fd);

/* Empties the queue; call when a worker can take connections again. */
void dispatch_resume(struct dispatch *dispatch);

/* Stops accepting for good, for the shutdown. */
void dispatch_stop_accepting(struct dispatch *dispatch);

#endif
