/*
 * Connections that the master passes to workers: those it accepts itself (workers.dispatch = master,
 * UNIX sockets, activated sockets) and those that a leaving worker gives back. Each goes to the next
 * worker in round robin or to the one with the fewest connections. If no worker can take one, it is
 * queued here and the master stops accepting. The master's loop.
 */
#ifndef DAEMON_DISPATCH_H
#define DAEMON_DISPATCH_H

#include "daemon/master/workers.h"

struct dispatch;

/* Accepts from now on. SERVER and WORKERS are borrowed. NULL: out of memory. */
struct dispatch *dispatch_new(struct server *server, const struct workers *workers);

/* Closes queued connections and frees. The listen sockets stay open. */
void dispatch_free(struct dispatch *dispatch);

/* The listen sockets or workers.dispatch have changed. Returns 0, or -1: out of memory. */
int dispatch_update_listeners(struct dispatch *dispatch);

/* Accepts all connections queued in the listen socket FD, before it is closed. DISPATCH is a struct
 * dispatch. */
void dispatch_drain_listener(void *dispatch, int fd);

/* A worker gave this connection back (struct message_connection). */
void dispatch_return(struct dispatch *dispatch, const void *message, size_t length, int fd);

/* A worker can take connections again: empties the queue. */
void dispatch_resume(struct dispatch *dispatch);

/* Stops accepting for good: the server shuts down. */
void dispatch_stop_accepting(struct dispatch *dispatch);

#endif
