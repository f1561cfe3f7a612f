#include "loadgen/engine/http2_callbacks.h"

#include "common/clock.h"

#include <stdlib.h>
#include <string.h>

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct http2_stream *stream =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)context;
    if (stream != NULL && stream->first_byte_ns == 0)
        stream->first_byte_ns = clock_monotonic_ns();
    return 0;
}

/* Counts bytes as in HTTP/1: "HTTP/2 200 \r\n", "name: value\r\n". */
static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_length, const uint8_t *value, size_t value_length, uint8_t flags,
                     void *context)
{
    struct http2_stream *stream =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    const struct engine_owner *owner;

    (void)flags;
    (void)context;
    if (stream == NULL)
        return 0;
    owner = &stream->connection->shared->config.owner;
    transcript_add_field(http2_transcript_of(stream), '<', name, name_length, value, value_length);
    if (stream->connection->shared->config.plan->cookies && name_length == strlen("set-cookie") &&
        memcmp(name, "set-cookie", name_length) == 0)
        cookie_jar_store(&stream->cookies, stream->request, (const char *)value, value_length,
                         time(NULL));
    if (owner->field != NULL && stream->status >= 200 && name_length > 0 && name[0] != ':')
        owner->field(owner->context, http2_slot_of(stream),
                     (struct span){(const char *)name, name_length},
                     (struct span){(const char *)value, value_length});
    if (name_length == 7 && memcmp(name, ":status", 7) == 0) {
        stream->status = (uint32_t)strtoul((const char *)value, NULL, 10);
        stream->head_bytes += sizeof("HTTP/2 200 \r\n") - 1;
    } else {
        stream->head_bytes += name_length + value_length + 4;
    }
    return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
                   size_t length, void *context)
{
    struct http2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    const struct engine_owner *owner;

    (void)flags;
    (void)context;
    if (stream == NULL)
        return 0;
    owner = &stream->connection->shared->config.owner;
    if (owner->body != NULL)
        owner->body(owner->context, http2_slot_of(stream), (const char *)bytes, length);
    stream->body_bytes += length;
    body_check_add(&stream->check, &stream->connection->shared->config.plan->checks,
                   (const char *)bytes, length);
    return 0;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct http2_stream *stream =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)context;
    if (stream == NULL || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS)
        stream->head_bytes += 2;
    if ((frame->hd.flags & NGHTTP2_FLAG_END_STREAM) != 0)
        stream->complete = true;
    return 0;
}

static int on_invalid_frame(nghttp2_session *session, const nghttp2_frame *frame, int error,
                            void *context)
{
    struct http2_stream *stream =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    (void)error;
    (void)context;
    if (stream != NULL)
        stream->malformed = true;
    return 0;
}

/* The connection no longer takes requests: this one waits for a new connection. */
static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error,
                       void *context)
{
    struct http2_connection *connection = context;

    (void)session;
    (void)error;
    if (frame->hd.type != NGHTTP2_HEADERS)
        return 0;
    for (uint32_t i = 0; i < connection->stream_count; i++) {
        struct http2_stream *stream = &connection->streams[i];

        if (stream->state == STREAM_SENT && stream->id == frame->hd.stream_id) {
            stream->state = STREAM_WAITING;
            connection->in_flight--;
            connection->waiting++;
        }
    }
    return 0;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *context)
{
    struct http2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    bool good = stream != NULL && stream->complete && code == NGHTTP2_NO_ERROR;

    (void)context;
    if (stream == NULL || stream->state != STREAM_SENT || stream->id != id)
        return 0;
    http2_end_stream(stream, good                ? ERROR_KIND_NONE
                             : stream->malformed ? ERROR_KIND_MALFORMED
                                                 : ERROR_KIND_CLOSED);
    if (stream->connection->waiting > 0)
        http2_mark_dirty(stream->connection);
    return 0;
}

bool http2_callbacks_make(nghttp2_session_callbacks **made)
{
    nghttp2_session_callbacks *callbacks;

    if (nghttp2_session_callbacks_new(made) != 0)
        return false;
    callbacks = *made;
    nghttp2_session_callbacks_set_on_begin_headers_callback(callbacks, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, on_data);
    nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, on_frame);
    nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(callbacks, on_invalid_frame);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(callbacks, on_not_sent);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    return true;
}
