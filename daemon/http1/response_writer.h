/*
 * Response writer: sends the thread's output buffer in one write if the client accepts all of it.
 * The unsent rest becomes the connection's pending response, which continues when the socket is
 * writable. Files are sent by sendfile() in windows; an offload thread first reads a window that is
 * not in the page cache. The owning thread unless noted.
 */
#ifndef DAEMON_HTTP1_RESPONSE_WRITER_H
#define DAEMON_HTTP1_RESPONSE_WRITER_H

#include "daemon/http1/connection.h"

enum write_result {
    WRITE_DONE,    /* everything is sent and accounted for; the output buffer is empty */
    WRITE_BLOCKED, /* the rest is pending: continue when the socket is writable */
    WRITE_OFFLOAD, /* the rest is pending: the offload job then calls the protocol's resume */
    WRITE_FAILED,  /* the client is gone: close the connection */
};

/* Copies the body of the last response into the output buffer if it is small. */
void response_copy_body(struct transaction_context *context);

/* Sends the thread's output buffer. */
enum write_result response_flush(struct http1_connection *http1);

/* Continues with the pending response. */
enum write_result response_continue(struct http1_connection *http1);

/*
 * Reserves space in the log ring for the record of a pending response that came from another
 * thread, unless done already. Returns false if there is no space and the response must wait.
 */
bool response_reserve_log(struct http1_connection *http1);

/*
 * The connection is about to leave its thread (LEAVING), which ends the reservation, or has been
 * adopted by another.
 */
void response_moved(struct http1_connection *http1, bool leaving);

/* Drops the pending response and logs what was sent of it. */
void response_abort(struct http1_connection *http1);

/* Frees the pending response of a connection that no thread owns. Any thread. */
void response_free(struct http1_connection *http1, struct cache *cache);

#endif
