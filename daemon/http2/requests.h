/*
 * Requests: from header blocks and bodies to transactions, and from these to HEADERS and the first
 * DATA frame, or to a stream that has something to send. The owning thread.
 */
#ifndef DAEMON_HTTP2_REQUESTS_H
#define DAEMON_HTTP2_REQUESTS_H

#include "daemon/http2/connection.h"

/*
 * A complete header BLOCK of stream ID: a request or trailers. PRIORITY: of a HEADERS frame.
 * Returns the error to end the connection with.
 */
enum http2_error requests_receive_block(struct http2_connection *http2, uint32_t id,
                                        struct span block, bool ends_stream,
                                        bool depends_on_itself);

/* LENGTH bytes of a body, from a DATA frame with BYTES of payload, have arrived for STREAM. */
void requests_receive_body(struct http2_stream *stream, uint32_t length, uint32_t bytes,
                           bool ends_stream);

/*
 * Processes the requests whose offload jobs are done. Returns false if there is no space for
 * another response in the output buffer or no space for a record in the log.
 */
bool requests_process_runnable(struct http2_connection *http2);

/* Rejects with 408 the requests whose bodies have taken longer than body_timeout. */
void requests_time_out(struct http2_connection *http2);

/* True if a request body is incomplete. */
bool requests_await_bodies(const struct http2_connection *http2);

/* Resets the stream: it is counted, and closed. Returns ENHANCE_YOUR_CALM if there are too many. */
enum http2_error requests_reset(struct http2_connection *http2, uint32_t id,
                                enum http2_error error);

#endif
