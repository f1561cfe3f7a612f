/*
 * Response writer: sends the thread's output buffer in one write if the client accepts all of it.
 * The unsent rest is kept (daemon/connection/unsent.h) and continues when the socket is
 * writable. Files are sent by sendfile() in windows; an offload thread first reads a window that is
 * not in the page cache. The owning thread unless noted.
 */
#ifndef DAEMON_HTTP1_RESPONSE_WRITER_H
#define DAEMON_HTTP1_RESPONSE_WRITER_H

#include "daemon/http1/connection.h"

enum write_result {
    WRITE_DONE,    /* everything is sent and accounted for; the output buffer is empty */
    WRITE_BLOCKED, /* the rest is unsent: continue when the socket is writable */
    WRITE_OFFLOAD, /* the rest is unsent: the offload job then calls the protocol's resume */
    WRITE_FAILED,  /* the client is gone: close the connection */
};

/* Copies the body of the last response into the output buffer if it is small. */
void response_copy_body(struct transaction_context *context);

/* Sends the thread's output buffer. */
enum write_result response_flush(struct http1_connection *http1);

/* Continues with the unsent response. */
enum write_result response_continue(struct http1_connection *http1);

/* Drops the unsent response and logs what was sent of it. */
void response_abort(struct connection *connection);

#endif
