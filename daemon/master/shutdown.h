/*
 * Stops the server in order: the workers finish their requests, the logger writes the remaining
 * lines, the loop ends. The master's loop.
 */
#ifndef DAEMON_SHUTDOWN_H
#define DAEMON_SHUTDOWN_H

#include "daemon/master/dispatch.h"
#include "daemon/master/supervisor.h"

struct shutdown;

/* All are borrowed. NULL: out of memory. */
struct shutdown *shutdown_new(struct server *server, struct workers *workers,
                              struct supervisor *supervisor, struct dispatch *dispatch);
void shutdown_free(struct shutdown *shutdown);

/* Begins the shutdown; a second call kills the workers. */
void shutdown_begin(struct shutdown *shutdown);

/*
 * Begins the shutdown of a server that has been upgraded: an idle connection is closed with its
 * next response, or at drain_timeout.
 */
void shutdown_begin_graceful(struct shutdown *shutdown);

/* Call when a process has ended: takes the next step if the shutdown has begun. */
void shutdown_advance(struct shutdown *shutdown);

bool shutdown_has_begun(const struct shutdown *shutdown);

#endif
