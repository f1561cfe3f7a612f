/*
 * What the protocols before the first request have in common, those of the PROXY header and of the TLS
 * handshake: they add nothing to a connection, and move or end without a trace. The owning thread.
 */
#ifndef DAEMON_CONNECTION_PRELIMINARY_H
#define DAEMON_CONNECTION_PRELIMINARY_H

#include "daemon/connection/connection.h"

/* Calls resume of the protocol of ARGUMENT, a struct connection. */
void preliminary_on_ready(evutil_socket_t fd, short what, void *argument);

/* Never called: nothing is read ahead. */
void preliminary_serve(struct connection *connection, const char *data, size_t length);

bool preliminary_is_between_requests(const struct connection *connection);
void preliminary_moved(struct connection *connection, bool leaving);
void preliminary_free(struct connection *connection, struct cache *cache);

/* init and abort */
void preliminary_nothing(struct connection *connection);

/* Initializers of struct connection_protocol; PROCEED goes on as far as possible without waiting. */
#define PRELIMINARY_PROTOCOL(proceed)                                                              \
    .connection_bytes = sizeof(struct connection), .init = preliminary_nothing,                    \
    .accepted = (proceed), .ready = preliminary_on_ready, .serve = preliminary_serve,              \
    .resume = (proceed), .is_between_requests = preliminary_is_between_requests,                   \
    .moved = preliminary_moved, .abort = preliminary_nothing, .free = preliminary_free

#endif
