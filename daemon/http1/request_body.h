/*
 * Receives the body of a request and discards it, so that the next request starts where it should.
 * The request is processed when its body is complete. Until then only its head is kept.
 *
 *   head parsed ─▶ request_body_check ─▶ complete ────────────────────────────▶ response
 *                       ├─▶ incomplete ─▶ (100) ─▶ request_body_receive … ──▶ request_body_check
 *                       └─▶ rejected: 400, 408, 413, 431
 *
 * The owning thread.
 */
#ifndef DAEMON_HTTP1_REQUEST_BODY_H
#define DAEMON_HTTP1_REQUEST_BODY_H

#include "daemon/http/request.h"
#include "daemon/http1/connection.h"

/*
 * For a request with a body, whose head is the first HEAD of LENGTH bytes at DATA. Returns the
 * number of these bytes that belong to the request if it is complete, 0 if its body is incomplete,
 * or minus the status to reject it with. May be called again for the same request.
 */
int request_body_check(struct http1_connection *http1, const struct request *request,
                       const char *data, size_t length, size_t head);

/*
 * Consumes DATA; bytes after the end of the body are kept. True if request_body_check() has a new
 * result.
 */
bool request_body_receive(struct http1_connection *http1, const char *data, size_t length);

/* Called when the deadline has passed: request_body_check() will return -408. */
void request_body_time_out(struct http1_connection *http1);

/* True if the current request waits for the rest of its body. */
bool request_body_is_incomplete(const struct http1_connection *http1);

/* Length of the head of that request. */
size_t request_body_head_length(const struct http1_connection *http1);

/*
 * Sends 100 (Continue) once to a client that expects it (RFC 9110 section 10.1.1). Returns what the
 * write returns, or 1 if there is nothing to send. All earlier responses have been sent.
 */
ssize_t request_body_send_continue(struct http1_connection *http1);

/* Frees the state of the body after the response to its request. */
void request_body_free(struct http1_connection *http1);

#endif
