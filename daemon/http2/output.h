/*
 * Output of a connection: control frames, which are collected in the thread's output buffer with
 * the responses, the DATA frames of the streams, and the unsent rest of a write. The owning
 * thread.
 */
#ifndef DAEMON_HTTP2_OUTPUT_H
#define DAEMON_HTTP2_OUTPUT_H

#include "daemon/http2/connection.h"

enum output_result {
    OUTPUT_DONE,    /* everything is written, except for what windows or offload jobs hold up */
    OUTPUT_MORE,    /* there is more; other connections first */
    OUTPUT_BLOCKED, /* the socket is full */
    OUTPUT_FAILED,  /* the client is gone */
};

/* Adds control frames. There is space for many of them after output_has_room(). */
void output_put_settings(struct http2_connection *http2);
void output_put_settings_ack(struct http2_connection *http2);
void output_put_ping(struct http2_connection *http2, uint8_t flags, const char *payload);
void output_put_reset(struct http2_connection *http2, uint32_t stream, enum http2_error error);
void output_put_goaway(struct http2_connection *http2, uint32_t last_stream,
                       enum http2_error error);
void output_put_continue(struct http2_connection *http2, uint32_t stream);

/* Announces, once, that no more streams are served than those that are open. */
void output_put_final_goaway(struct http2_connection *http2);

/*
 * Gives the client back what it has used of WINDOW, that of STREAM or, if this is 0, of the
 * connection, once that is much.
 */
void output_replenish(struct http2_connection *http2, uint32_t stream, int32_t *window);

/* Writes the output buffer and DATA of the streams that are ready. Nothing is unsent. */
enum output_result output_send(struct http2_connection *http2);

/* Writes the unsent rest. */
enum output_result output_send_rest(struct http2_connection *http2);

#endif
