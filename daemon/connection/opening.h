/*
 * What precedes HTTP on a connection, as protocols of their own: the header of the PROXY
 * protocol, on an address of [proxy] listen, then the TLS handshake. Each ends with the next
 * protocol, which takes over the connection. [connections] header_timeout limits them. The owning
 * thread.
 */
#ifndef DAEMON_CONNECTION_OPENING_H
#define DAEMON_CONNECTION_OPENING_H

#include "daemon/connection/connection.h"

/* Takes the client's address from the header, and no byte after it from the socket. */
extern const struct connection_protocol proxy_protocol;

extern const struct connection_protocol handshake_protocol;

/* The RESUME of loop->signer: OWNER is a connection. */
void handshake_resume(void *owner);

#endif
