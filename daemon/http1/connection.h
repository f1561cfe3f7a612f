/*
 * An HTTP/1 connection: what this protocol adds to a connection, and its state machine
 * (state_machine.c), which reads, parses requests, answers them in order, sends the responses, and
 * waits for more or closes.
 *
 *   readable ─▶ read ahead ─▶ serve: parse, process … ─▶ flush ─▶ (unsent: writable …) ─▶ wait or close
 *                                      └─▶ offload job ─▶ resume: the same request again
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

extern const struct connection_protocol http1_protocol;

#endif
