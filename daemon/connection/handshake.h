/*
 * The TLS handshake as the first protocol of a connection: it ends with the protocol that the loop
 * serves, which reads the first request. [connections] header_timeout limits it. The owning thread.
 */
#ifndef DAEMON_CONNECTION_HANDSHAKE_H
#define DAEMON_CONNECTION_HANDSHAKE_H

#include "daemon/connection/connection.h"

extern const struct connection_protocol handshake_protocol;

/* The RESUME of loop->signer: OWNER is a connection. */
void handshake_resume(void *owner);

#endif
