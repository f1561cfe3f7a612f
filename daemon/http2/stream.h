/*
 * The streams of a connection: which are open, which were, and which have something to send. The
 * owning thread.
 */
#ifndef DAEMON_HTTP2_STREAM_H
#define DAEMON_HTTP2_STREAM_H

#include "daemon/http2/connection.h"

/* Opens stream ID, which is above all before. NULL: out of memory. */
struct http2_stream *stream_open(struct http2_connection *http2, uint32_t id);

/* Notes that the client has opened ID, whether or not it is served. */
void stream_note_opened(struct http2_connection *http2, uint32_t id);

/* Notes that we have reset ID: frames that were on their way are ignored. */
void stream_note_reset(struct http2_connection *http2, uint32_t id);

/* The open stream ID, or NULL. */
struct http2_stream *stream_find(const struct http2_connection *http2, uint32_t id);

/* The state of a stream that stream_find() does not find. */
enum stream_past {
    STREAM_IDLE,    /* not yet opened */
    STREAM_SKIPPED, /* never opened: a higher one was */
    STREAM_CLOSED,
    STREAM_RESET, /* closed by us, or not served after the last GOAWAY */
};
enum stream_past stream_past(const struct http2_connection *http2, uint32_t id);

/* The response's body and record are the stream's from now on. */
void stream_make_ready(struct http2_stream *stream);
void stream_make_unready(struct http2_stream *stream);

/* Makes a stream ready if it has something to send and its window permits. */
void stream_update_ready(struct http2_stream *stream);

/* Changes the priority. */
void stream_set_priority(struct http2_stream *stream, struct http2_priority priority);

/* The stream to send from, or NULL; and its turn has passed. */
struct http2_stream *stream_first_ready(const struct http2_connection *http2);
void stream_pass_turn(struct http2_stream *stream);

/* Reserves space in the log ring for the record, or ends the reservation. */
void stream_set_reserved(struct http2_stream *stream, bool reserved);

/*
 * Ends the stream. An unsent response is counted and logged as cut short. The stream is freed, or
 * dead until its offload job is done.
 */
void stream_close(struct http2_stream *stream);

/* Frees a stream that is dead, or of a connection that no thread owns. */
void stream_free(struct http2_stream *stream, struct cache *cache);

/* Frees the spare one. */
void stream_free_spare(struct http2_connection *http2);

#endif
