/*
 * Connections in the master's hands: those it accepts itself (dispatch = master) and those that a
 * leaving worker gives back. Each goes to a worker, round robin or to the one with the fewest; when
 * all channels are full it waits here, and the master stops accepting until one drains.
 */
#ifndef DAEMON_DISPATCH_H
#define DAEMON_DISPATCH_H

#include "daemon/master/master.h"

/* With dispatch = master it accepts from all lanes from now on. NULL: out of memory. */
struct dispatch *dispatch_new(struct master *master);

/* Listening sockets or the way of dispatching have changed. Returns 0, or -1: out of memory. */
int dispatch_listen(struct dispatch *dispatch);

/* Accepts all that waits in FD, a listening socket that is going to be closed. DISPATCH is a struct
 * dispatch. */
void dispatch_take_rest(void *dispatch, int fd);

/* Closes what waits, and frees. The lanes stay open. */
void dispatch_free(struct dispatch *dispatch);

/* A worker gave this connection back (struct message_connection). */
void dispatch_returned(struct dispatch *dispatch, const void *message, size_t length, int fd);

/* A channel drained, or a worker came: whoever waits may go on. */
void dispatch_resume(struct dispatch *dispatch);

/* No more accepting: the server stops. */
void dispatch_stop_accepting(struct dispatch *dispatch);

#endif
