/*
 * An HTTP/1 connection: what this protocol adds to a connection. Its state machine is state_machine.c.
 */
#ifndef DAEMON_HTTP1_CONNECTION_H
#define DAEMON_HTTP1_CONNECTION_H

#include "daemon/connection/connection.h"

struct pending_response;
struct request_body;

struct http1_connection {
    struct connection connection;     /* first */
    struct transaction_state state;   /* of the request under way */
    struct request_body *body;        /* being received; NULL: none */
    struct pending_response *pending; /* partly sent; NULL: none */
    size_t scanned;                   /* of the unserved bytes, by the request parser */
    bool counted_busy;                /* in the gauge connections_busy */
};

#endif
