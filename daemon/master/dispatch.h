/*
 * Connections that the master passes to workers: those it accepts itself (workers.dispatch =
 * master, UNIX sockets, activated sockets) and those that a leaving worker returns. Each goes to
 * the next worker in round robin or to the one with the fewest connections. If no worker can take
 * one, it is queued here and the master stops accepting; if many are queued, also reading those that
 * workers return. The master's loop.
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
 * Accepts all connections, over TLS or not, queued in the listen socket FD, which the caller then
 * closes. DISPATCH is a struct dispatch.
 */
void dispatch_drain_listener(void *dispatch, int fd, uint8_t opening);

/*
 * Takes a connection (struct message_connection) that WORKER returns, and passes it to worker TO, or
 * to any other if TO is NULL or cannot take it. FD is -1 if it was lost. Returns NULL, or what the
 * worker did wrong: "returned ...".
 */
const char *dispatch_returned(struct dispatch *dispatch, struct worker_process *worker,
                              struct worker_process *to, const struct message_connection *message,
                              size_t length, int fd);

/* Passes on a connection that a dead worker has not received. */
void dispatch_again(struct dispatch *dispatch, const void *message, size_t length, int fd);

/* Empties the queue; call when a worker can take connections again. */
void dispatch_resume(struct dispatch *dispatch);

/*
 * For the end of this master: dispatch_flush() passes on all queued connections, even to workers
 * that have too many. dispatch_take_all() also accepts and passes on those that wait in listen
 * sockets. Afterwards the workers are told to finish, on the same channel.
 */
void dispatch_flush(struct dispatch *dispatch);
void dispatch_take_all(struct dispatch *dispatch);

/* Stops accepting for good, for the shutdown. */
void dispatch_stop_accepting(struct dispatch *dispatch);

#endif
