#include "daemon/http2/frames.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/http2/output.h"
#include "daemon/http2/requests.h"
#include "daemon/http2/stream.h"

#include <stdlib.h>
#include <string.h>

enum {
    EXPANSION_MAX = 2, /* a header block may be this many times limits.header_bytes */
};

const char frames_drain_ping[FRAME_PING_BYTES] = {'d', 'r', 'a', 'i', 'n', 'i', 'n', 'g'};

struct frame {
    struct frame_head head;
    const char *payload;
    uint32_t length; /* bytes of the payload without padding and priority */
};

enum http2_error frames_count(struct http2_connection *http2, enum http2_flood kind)
{
    static const uint32_t limits[] = {
#define FLOOD(name, limit) limit,
        HTTP2_FLOODS
#undef FLOOD
    };
    static const enum metric counters[] = {
        [FLOOD_RESETS] = METRIC_http2_floods_resets,
        [FLOOD_SETTINGS] = METRIC_http2_floods_settings,
        [FLOOD_PINGS] = METRIC_http2_floods_pings,
        [FLOOD_PRIORITIES] = METRIC_http2_floods_priorities,
        [FLOOD_EMPTY] = METRIC_http2_floods_empty,
        [FLOOD_WINDOWS] = METRIC_http2_floods_windows,
        [FLOOD_ERRORS] = METRIC_http2_floods_errors,
    };
    const struct transaction_context *context = http2_context(http2);
    struct http2_floods *floods = &http2->floods;

    if (context->loop_now_ns - floods->from_ns >= NS_PER_S) {
        floods->from_ns = context->loop_now_ns;
        memset(floods->count, 0, sizeof(floods->count));
    }
    if (++floods->count[kind] <= limits[kind])
        return HTTP2_NO_ERROR;
    metric_add(context->metrics, counters[kind], 1);
    return HTTP2_ENHANCE_YOUR_CALM;
}

/* Removes the padding. Returns false if it is longer than the payload. */
static bool unpad(struct frame *frame)
{
    uint32_t padding;

    if ((frame->head.flags & FRAME_PADDED) == 0)
        return true;
    if (frame->length == 0)
        return false;
    padding = (unsigned char)frame->payload[0];
    if (padding >= frame->length)
        return false;
    frame->payload++;
    frame->length -= padding + 1;
    return true;
}

/* Bodies */

static enum http2_error receive_data(struct http2_connection *http2, struct frame *frame)
{
    struct http2_stream *stream = stream_find(http2, frame->head.stream);
    bool ends_stream = (frame->head.flags & FRAME_END_STREAM) != 0;
    enum stream_past past;

    if (frame->head.stream == 0 || !unpad(frame))
        return HTTP2_PROTOCOL_ERROR;
    http2->receive_window -= (int32_t)frame->head.length;
    if (http2->receive_window < 0)
        return HTTP2_FLOW_CONTROL_ERROR;
    output_replenish(http2, 0, &http2->receive_window);
    if (stream != NULL && stream->receiving) {
        requests_receive_body(stream, frame->length, frame->head.length, ends_stream);
        return frame->length == 0 && !ends_stream ? frames_count(http2, FLOOD_EMPTY)
                                                  : HTTP2_NO_ERROR;
    }
    past = stream_past(http2, frame->head.stream);
    if (stream == NULL && past == STREAM_RESET)
        return HTTP2_NO_ERROR;
    if (stream == NULL && (past == STREAM_IDLE || past == STREAM_SKIPPED))
        return HTTP2_PROTOCOL_ERROR;
    return requests_reset(http2, frame->head.stream, HTTP2_STREAM_CLOSED);
}

/* Header blocks */

static void end_block(struct http2_connection *http2)
{
    free(http2->block);
    http2->block = NULL;
    http2->block_length = 0;
}

/* Appends a fragment. */
static enum http2_error continue_block(struct http2_connection *http2, const struct frame *frame)
{
    const struct transaction_context *context = http2_context(http2);
    size_t length = http2->block_length + frame->length;
    char *block;

    if (length > EXPANSION_MAX * context->worker->config->limits_header_bytes) {
        metric_add(context->metrics, METRIC_http2_floods_continuations, 1);
        return HTTP2_ENHANCE_YOUR_CALM;
    }
    block = realloc(http2->block, length + 1);
    if (block == NULL)
        return HTTP2_INTERNAL_ERROR;
    memcpy(block + http2->block_length, frame->payload, frame->length);
    http2->block = block;
    http2->block_length = length;
    return HTTP2_NO_ERROR;
}

static enum http2_error receive_headers(struct http2_connection *http2, struct frame *frame)
{
    uint32_t id = frame->head.stream;
    bool ends_stream = (frame->head.flags & FRAME_END_STREAM) != 0, depends_on_itself = false;

    if (id == 0 || !unpad(frame))
        return HTTP2_PROTOCOL_ERROR;
    if ((frame->head.flags & FRAME_HAS_PRIORITY) != 0) {
        if (frame->length < FRAME_PRIORITY_BYTES)
            return HTTP2_FRAME_SIZE_ERROR;
        depends_on_itself = frame_read_31(frame->payload) == id;
        frame->payload += FRAME_PRIORITY_BYTES;
        frame->length -= FRAME_PRIORITY_BYTES;
    }
    if (LIKELY((frame->head.flags & FRAME_END_HEADERS) != 0))
        return requests_receive_block(http2, id, (struct span){frame->payload, frame->length},
                                      ends_stream, depends_on_itself);
    http2->block_stream = id;
    http2->block_ends_stream = ends_stream;
    http2->block_depends_on_itself = depends_on_itself;
    return continue_block(http2, frame);
}

static enum http2_error receive_continuation(struct http2_connection *http2,
                                             const struct frame *frame)
{
    enum http2_error error;

    if (http2->block == NULL)
        return HTTP2_PROTOCOL_ERROR;
    error = continue_block(http2, frame);
    if (error == HTTP2_NO_ERROR && (frame->head.flags & FRAME_END_HEADERS) == 0)
        return frame->length == 0 ? frames_count(http2, FLOOD_EMPTY) : HTTP2_NO_ERROR;
    if (error == HTTP2_NO_ERROR)
        error = requests_receive_block(http2, http2->block_stream,
                                       (struct span){http2->block, http2->block_length},
                                       http2->block_ends_stream, http2->block_depends_on_itself);
    end_block(http2);
    return error;
}

/* Streams */

/* An idle stream must not be reset (section 5.1), so the error is one of the connection. */
static enum http2_error reject_priority(struct http2_connection *http2, uint32_t id,
                                        enum http2_error error)
{
    return stream_past(http2, id) == STREAM_IDLE ? error : requests_reset(http2, id, error);
}

static enum http2_error receive_priority(struct http2_connection *http2, const struct frame *frame)
{
    enum http2_error error = frames_count(http2, FLOOD_PRIORITIES);

    if (error != HTTP2_NO_ERROR)
        return error;
    if (frame->head.stream == 0)
        return HTTP2_PROTOCOL_ERROR;
    if (frame->length != FRAME_PRIORITY_BYTES)
        return reject_priority(http2, frame->head.stream, HTTP2_FRAME_SIZE_ERROR);
    if (frame_read_31(frame->payload) == frame->head.stream)
        return reject_priority(http2, frame->head.stream, HTTP2_PROTOCOL_ERROR);
    return HTTP2_NO_ERROR;
}

static enum http2_error receive_priority_update(struct http2_connection *http2,
                                                const struct frame *frame)
{
    enum http2_error error = frames_count(http2, FLOOD_PRIORITIES);
    struct http2_stream *stream;

    if (error != HTTP2_NO_ERROR)
        return error;
    if (frame->length < 4)
        return HTTP2_FRAME_SIZE_ERROR;
    if (frame->head.stream != 0 || frame_read_31(frame->payload) == 0)
        return HTTP2_PROTOCOL_ERROR;
    stream = stream_find(http2, frame_read_31(frame->payload));
    if (stream != NULL)
        stream_set_priority(
            stream, http2_priority_read((struct span){frame->payload + 4, frame->length - 4}));
    return HTTP2_NO_ERROR;
}

static enum http2_error receive_reset(struct http2_connection *http2, const struct frame *frame)
{
    struct http2_stream *stream = stream_find(http2, frame->head.stream);

    if (frame->head.stream == 0)
        return HTTP2_PROTOCOL_ERROR;
    if (frame->length != 4)
        return HTTP2_FRAME_SIZE_ERROR;
    if (stream == NULL && stream_past(http2, frame->head.stream) == STREAM_IDLE)
        return HTTP2_PROTOCOL_ERROR;
    if (stream != NULL) {
        metric_add(http2_context(http2)->metrics, METRIC_http2_resets, 1);
        stream_close(stream);
    }
    return frames_count(http2, FLOOD_RESETS);
}

static enum http2_error open_stream_window(struct http2_connection *http2, uint32_t id,
                                           uint32_t increment)
{
    struct http2_stream *stream = stream_find(http2, id);

    if (stream == NULL) {
        enum stream_past past = stream_past(http2, id);

        return past == STREAM_IDLE || past == STREAM_SKIPPED ? HTTP2_PROTOCOL_ERROR
                                                             : HTTP2_NO_ERROR;
    }
    if (increment == 0)
        return requests_reset(http2, id, HTTP2_PROTOCOL_ERROR);
    if (!window_add(&stream->send_window, increment))
        return requests_reset(http2, id, HTTP2_FLOW_CONTROL_ERROR);
    stream_update_ready(stream);
    return HTTP2_NO_ERROR;
}

static enum http2_error receive_window_update(struct http2_connection *http2,
                                              const struct frame *frame)
{
    uint32_t increment;

    if (http2->window_updates > 0)
        http2->window_updates--;
    else if (frames_count(http2, FLOOD_WINDOWS) != HTTP2_NO_ERROR)
        return HTTP2_ENHANCE_YOUR_CALM;
    if (frame->length != 4)
        return HTTP2_FRAME_SIZE_ERROR;
    increment = frame_read_31(frame->payload);
    if (frame->head.stream != 0)
        return open_stream_window(http2, frame->head.stream, increment);
    if (increment == 0)
        return HTTP2_PROTOCOL_ERROR;
    return window_add(&http2->send_window, increment) ? HTTP2_NO_ERROR : HTTP2_FLOW_CONTROL_ERROR;
}

/* The connection */

/* A new initial window also changes the windows of open streams (section 6.9.2). */
static enum http2_error shift_windows(struct http2_connection *http2, int64_t change)
{
    struct http2_stream *stream;

    TAILQ_FOREACH(stream, &http2->streams, link)
    {
        if (!window_add(&stream->send_window, change))
            return HTTP2_FLOW_CONTROL_ERROR;
        if (!stream->dead)
            stream_update_ready(stream);
    }
    return HTTP2_NO_ERROR;
}

static enum http2_error receive_settings(struct http2_connection *http2, const struct frame *frame)
{
    uint32_t window = http2->settings.initial_window;
    enum http2_error error = frames_count(http2, FLOOD_SETTINGS);

    if (error != HTTP2_NO_ERROR)
        return error;
    if (frame->head.stream != 0)
        return HTTP2_PROTOCOL_ERROR;
    if ((frame->head.flags & FRAME_ACK) != 0)
        return frame->length == 0 ? HTTP2_NO_ERROR : HTTP2_FRAME_SIZE_ERROR;
    error = http2_settings_read(&http2->settings, frame->payload, frame->length);
    if (error == HTTP2_NO_ERROR)
        error = shift_windows(http2, (int64_t)http2->settings.initial_window - window);
    if (http2->settings.header_table_size < http2_settings_initial.header_table_size)
        http2->table_update_due = true;
    output_put_settings_ack(http2);
    return error;
}

static enum http2_error receive_ping(struct http2_connection *http2, const struct frame *frame)
{
    enum http2_error error = frames_count(http2, FLOOD_PINGS);

    if (error != HTTP2_NO_ERROR)
        return error;
    if (frame->head.stream != 0)
        return HTTP2_PROTOCOL_ERROR;
    if (frame->length != FRAME_PING_BYTES)
        return HTTP2_FRAME_SIZE_ERROR;
    if ((frame->head.flags & FRAME_ACK) == 0) {
        output_put_ping(http2, FRAME_ACK, frame->payload);
    } else if (http2->goaway == GOAWAY_ANNOUNCED &&
               memcmp(frame->payload, frames_drain_ping, FRAME_PING_BYTES) == 0) {
        output_put_final_goaway(http2);
    }
    return HTTP2_NO_ERROR;
}

/* The client opens no more streams. */
static enum http2_error receive_goaway(struct http2_connection *http2, const struct frame *frame)
{
    if (frame->head.stream != 0)
        return HTTP2_PROTOCOL_ERROR;
    if (frame->length < 8)
        return HTTP2_FRAME_SIZE_ERROR;
    output_put_final_goaway(http2);
    return HTTP2_NO_ERROR;
}

/* Any frame */

static enum http2_error receive_frame(struct http2_connection *http2, struct frame *frame)
{
    switch (frame->head.type) {
    case FRAME_DATA:
        return receive_data(http2, frame);
    case FRAME_HEADERS:
        return receive_headers(http2, frame);
    case FRAME_PRIORITY:
        return receive_priority(http2, frame);
    case FRAME_RST_STREAM:
        return receive_reset(http2, frame);
    case FRAME_SETTINGS:
        return receive_settings(http2, frame);
    case FRAME_PUSH_PROMISE:
        return HTTP2_PROTOCOL_ERROR;
    case FRAME_PING:
        return receive_ping(http2, frame);
    case FRAME_GOAWAY:
        return receive_goaway(http2, frame);
    case FRAME_WINDOW_UPDATE:
        return receive_window_update(http2, frame);
    case FRAME_CONTINUATION:
        return receive_continuation(http2, frame);
    case FRAME_PRIORITY_UPDATE:
        return receive_priority_update(http2, frame);
    default: /* unknown ones are ignored (section 5.5) */
        return frames_count(http2, FLOOD_EMPTY);
    }
}

/*
 * The first frame is SETTINGS (section 3.4), and nothing interrupts a header block (section 4.3).
 */
static bool is_expected(const struct http2_connection *http2, struct frame_head head)
{
    if (http2->block != NULL)
        return head.type == FRAME_CONTINUATION && head.stream == http2->block_stream;
    return http2->started || (head.type == FRAME_SETTINGS && (head.flags & FRAME_ACK) == 0);
}

enum http2_error frames_receive(struct http2_connection *http2, const char *data, size_t length,
                                size_t *used)
{
    struct frame frame;

    *used = 0;
    if (length < FRAME_HEAD_BYTES)
        return HTTP2_NO_ERROR;
    frame.head = frame_head_read(data);
    if (!is_expected(http2, frame.head))
        return HTTP2_PROTOCOL_ERROR;
    if (frame.head.length > FRAME_PAYLOAD_MAX)
        return HTTP2_FRAME_SIZE_ERROR;
    if (length < FRAME_HEAD_BYTES + frame.head.length)
        return HTTP2_NO_ERROR;
    http2->started = true;
    frame.payload = data + FRAME_HEAD_BYTES;
    frame.length = frame.head.length;
    *used = FRAME_HEAD_BYTES + frame.length;
    return receive_frame(http2, &frame);
}
