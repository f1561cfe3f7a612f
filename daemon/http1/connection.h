/*
 * An HTTP/1 connection: what this protocol adds to a connection, and its state machine
 * (state_machine.c), which reads, parses requests, processes them in order, sends the responses,
 * and waits for more or closes.
 *
 *   readable ─▶ read ahead ─▶ serve: parse, process … ─▶ flush ─▶ (unsent: writable) ─▶ wait/close
 *                                      └─▶ offload job ─▶ resume: the same request again
 */
#ifndef DAEMON_HTTP1_CONNECTION_H
#define DAEMON_HTTP1_CONNECTION_H

#include "daemon/connection/connection.h"
#include "daemon/connection/file_window.h"

struct request_body;

struct http1_connection {
    struct connection connection;   /* first */
    struct transaction_state state; /* belongs to the current request */
    struct request_body *body;      /* being received; NULL: none */
    struct file_window window;      /* shows which part of the unsent file can be sent */
    size_t scanned;                 /* unserved bytes already scanned by the request parser */
};

static inline struct transaction_context *http1_context(const struct http1_connection *http1)
{
    return &http1->connection.loop->context;
}

extern const struct connection_protocol http1_protocol;

#endif
