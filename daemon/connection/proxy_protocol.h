/*
 * The header of the PROXY protocol, as the first protocol of a connection to an address of [proxy]
 * listen: reads it, takes the client's address from it, and then begins TLS or HTTP. It takes no byte
 * after the header from the socket.
 */
#ifndef DAEMON_CONNECTION_PROXY_PROTOCOL_H
#define DAEMON_CONNECTION_PROXY_PROTOCOL_H

#include "daemon/connection/connection.h"

extern const struct connection_protocol proxy_protocol;

#endif
