#include "daemon/http2/requests.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/http2/frames.h"
#include "daemon/http2/output.h"
#include "daemon/http2/request_decoder.h"
#include "daemon/http2/stream.h"
#include "daemon/transaction/accounting.h"
#include "daemon/transaction/transaction.h"

#include <assert.h>
#include <stdlib.h>

enum {
    TABLE_UPDATE = 0x20,            /* a dynamic table size update to 0 (RFC 7541 section 6.3) */
    COPY_MAX_BYTES = 8 * 1024,      /* larger bodies are referenced, not copied */
    BODY_RESTART_BYTES = 64 * 1024, /* each 64 KiB of a request body restart body_timeout */
};
static_assert(DECODED_BYTES_MAX(128 * 1024) <= LOOP_HEAD_BYTES, "limits.header_bytes has to fit");

/* Resets */

enum http2_error requests_reset(struct http2_connection *http2, uint32_t id, enum http2_error error)
{
    struct http2_stream *stream = stream_find(http2, id);

    output_put_reset(http2, id, error);
    if (stream != NULL)
        stream_close(stream);
    return frames_count(http2, FLOOD_ERRORS);
}

/* Responses */

static void move_span(struct span *span, const char *from, size_t length, const char *to)
{
    if (span->start >= from && span->start <= from + length)
        span->start = to + (span->start - from);
}

/* Makes REQUEST point into TO, a copy of LENGTH bytes at FROM. */
static void move_request(struct request *request, const char *from, size_t length, const char *to)
{
    struct span *spans[] = {&request->line,
                            &request->fields,
                            &request->target,
                            &request->host,
                            &request->referer,
                            &request->user_agent,
                            &request->accept,
                            &request->accept_encoding,
                            &request->if_match,
                            &request->if_none_match,
                            &request->if_modified_since,
                            &request->if_unmodified_since,
                            &request->if_range,
                            &request->range};

    for (size_t i = 0; i < ARRAY_LENGTH(spans); i++)
        move_span(spans[i], from, length, to);
}

/* Keeps REQUEST, whose bytes are at the start of the loop's head space, in STREAM. */
static bool keep_request(struct http2_stream *stream, const struct request *request)
{
    const char *space = stream->http2->connection.loop->space->head;
    size_t length = (size_t)(request->line.start + request->line.length - space);

    if (stream->head != NULL)
        return true;
    stream->head = malloc(length);
    if (stream->head == NULL)
        return false;
    memcpy(stream->head, space, length);
    stream->request = *request;
    move_request(&stream->request, space, length, stream->head);
    return true;
}

/* Copies a small body behind the head, if the windows permit. */
static bool copy_body(struct http2_stream *stream)
{
    struct http2_connection *http2 = stream->http2;
    struct transaction_context *context = http2_context(http2);
    struct output_buffer *output = &context->output;
    struct body_source *body = &output->body;
    struct frame_head head = {(uint32_t)body->left, FRAME_DATA, FRAME_END_STREAM, stream->id};

    if (body->memory == NULL || body->parts != NULL || body->left > COPY_MAX_BYTES ||
        (int64_t)body->left > http2->send_window || (int64_t)body->left > stream->send_window ||
        output->used + FRAME_HEAD_BYTES + body->left > OUTPUT_BUFFER_BYTES)
        return false;
    http2->send_window -= (int32_t)body->left;
    output->used = (size_t)(frame_put_head(output->bytes + output->used, head) - output->bytes);
    output_put(output, body->memory, body->left);
    if (UNLIKELY(body->owned))
        resource_release(context->worker->cache, body->resource);
    *body = (struct body_source){.resource = NULL};
    return true;
}

/* Takes the body and the record of the last response from the output buffer. */
static bool take_body(struct http2_stream *stream)
{
    struct output_buffer *output = &http2_context(stream->http2)->output;
    uint64_t words = accounting_words(output->last_record);

    stream->record = malloc(words * 8);
    if (stream->record == NULL)
        return false;
    memcpy(stream->record, output->last_record, words * 8);
    output->record_words -= words;
    stream->body = output->body;
    body_source_keep(&stream->body);
    output->body = (struct body_source){.resource = NULL};
    stream->sending = true;
    stream->measured_ns = http2_context(stream->http2)->loop_now_ns;
    stream_set_reserved(stream, true);
    stream_update_ready(stream);
    return true;
}

static void end_response(struct http2_stream *stream)
{
    if (stream->receiving) /* the client may stop sending its body */
        output_put_reset(stream->http2, stream->id, HTTP2_NO_ERROR);
    stream_close(stream);
}

/* Writes the frame head before the header block that begins at BLOCK of the output buffer. */
static void finish_head(const struct http2_stream *stream, size_t block, bool ends_stream)
{
    struct output_buffer *output = &http2_context(stream->http2)->output;
    uint8_t flags = FRAME_END_HEADERS | (ends_stream ? FRAME_END_STREAM : 0);

    frame_put_head(
        output->bytes + block - FRAME_HEAD_BYTES,
        (struct frame_head){(uint32_t)(output->used - block), FRAME_HEADERS, flags, stream->id});
}

static enum transaction_result process_request(struct http2_stream *stream,
                                               const struct request *request)
{
    struct http2_connection *http2 = stream->http2;
    struct transaction_context *context = http2_context(http2);
    struct client *client = &http2->connection.client;
    enum transaction_result result;

    client->closing = http2->goaway != GOAWAY_NONE;
    client->streams = stream->opened_with;
    segment_activity_work(context->activity, THREAD_STATE_READ, context->loop_now_ns,
                          request->line.start, request->line.length);
    if (UNLIKELY(stream->status != 0)) {
        result = transaction_reject(context, client, &stream->state, request, stream->status);
        client->closing = http2->goaway != GOAWAY_NONE;
    } else {
        result = transaction_process(context, client, &stream->state, request);
    }
    if (result == TRANSACTION_WAITING)
        client->closing = http2->goaway != GOAWAY_NONE;
    return result;
}

/* Responds to REQUEST; or keeps it, if it waits for an offload job. */
static void respond_on_stream(struct http2_stream *stream, const struct request *request)
{
    struct http2_connection *http2 = stream->http2;
    struct transaction_context *context = http2_context(http2);
    struct output_buffer *output = &context->output;
    size_t begin = output->used, block = begin + FRAME_HEAD_BYTES;

    output->used = block;
    if (http2->table_update_due)
        output->bytes[output->used++] = TABLE_UPDATE;
    if (process_request(stream, request) == TRANSACTION_WAITING) {
        output->used = begin;
        stream->reading = true;
        if (!keep_request(stream, request)) {
            output_put_reset(http2, stream->id, HTTP2_INTERNAL_ERROR);
            stream_close(stream);
        }
        return;
    }
    http2->table_update_due = false;
    metric_add(context->metrics, METRIC_requests_http2, 1);
    http2_allow_window_updates(http2);
    if (body_source_is_empty(&output->body)) {
        body_source_release(&output->body, context->worker->cache);
        finish_head(stream, block, true);
        end_response(stream);
        return;
    }
    finish_head(stream, block, false);
    if (copy_body(stream)) {
        end_response(stream);
    } else if (!take_body(stream)) {
        body_source_release(&output->body, context->worker->cache);
        accounting_correct(output->last_record, 0);
        output_put_reset(http2, stream->id, HTTP2_INTERNAL_ERROR);
        stream_close(stream);
    }
}

/* Offload jobs */

/* The stream's offload job is done. */
static void finish_reading(struct http2_stream *stream)
{
    struct connection *connection = &stream->http2->connection;
    struct cache *cache = connection->loop->context.worker->cache;

    stream->reading = false;
    if (stream->dead)
        stream_free(stream, cache);
    else if (stream->sending)
        stream_update_ready(stream);
    else
        stream->runnable = true;
    connection->protocol->resume(connection);
}

static void resume_request(struct transaction_state *state)
{
    finish_reading(CONTAINER_OF(state, struct http2_stream, state));
}

static void resume_file(struct file_window *window, struct connection *connection)
{
    (void)connection;
    finish_reading(CONTAINER_OF(window, struct http2_stream, window));
}

bool requests_process_runnable(struct http2_connection *http2)
{
    struct http2_stream *stream = TAILQ_FIRST(&http2->streams);

    while (stream != NULL) {
        struct http2_stream *next = TAILQ_NEXT(stream, link);

        if (stream->runnable && (!accounting_may_begin(http2_context(http2)) ||
                                 !output_has_room(&http2_context(http2)->output)))
            return false;
        if (stream->runnable) {
            stream->runnable = false;
            respond_on_stream(stream, &stream->request);
        }
        stream = next;
    }
    return true;
}

/* Bodies */

static bool is_too_long(const struct http2_stream *stream, uint64_t length)
{
    return length > http2_context(stream->http2)->worker->config->limits_body_bytes;
}

/* Begins to receive the body of a request. */
static void begin_body(struct http2_stream *stream, const struct decoded_request *decoded)
{
    struct http2_connection *http2 = stream->http2;
    const struct request *request = &decoded->request;
    bool supported = transaction_supports_method(request->method);

    stream->receiving = true;
    stream->received_ns = http2_context(http2)->loop_now_ns;
    stream->state.began_ns = stream->received_ns;
    stream->content_length = decoded->has_content_length ? request->content_length : UINT64_MAX;
    if (decoded->has_content_length && is_too_long(stream, request->content_length))
        stream->status = 413;
    if (stream->status != 0 || (request->expect_continue && !supported)) {
        respond_on_stream(stream, request); /* the client need not send the body */
        return;
    }
    if (!keep_request(stream, request)) {
        output_put_reset(http2, stream->id, HTTP2_INTERNAL_ERROR);
        stream_close(stream);
        return;
    }
    if (request->expect_continue)
        output_put_continue(http2, stream->id);
}

/* The client has ended its side. */
static void end_body(struct http2_stream *stream)
{
    stream->receiving = false;
    if (stream->sending || stream->reading)
        return;
    if (stream->content_length != UINT64_MAX && stream->received != stream->content_length)
        requests_reset(stream->http2, stream->id, HTTP2_PROTOCOL_ERROR);
    else
        stream->runnable = true;
}

void requests_receive_body(struct http2_stream *stream, uint32_t length, uint32_t bytes,
                           bool ends_stream)
{
    uint64_t now_ns = http2_context(stream->http2)->loop_now_ns;

    stream->receive_window -= (int32_t)bytes;
    if (stream->received / BODY_RESTART_BYTES != (stream->received + length) / BODY_RESTART_BYTES)
        stream->received_ns = now_ns;
    stream->received += length;
    if (stream->receive_window < 0) {
        requests_reset(stream->http2, stream->id, HTTP2_FLOW_CONTROL_ERROR);
    } else if (stream->received > stream->content_length) {
        requests_reset(stream->http2, stream->id, HTTP2_PROTOCOL_ERROR);
    } else if (ends_stream) {
        end_body(stream);
    } else {
        output_replenish(stream->http2, stream->id, &stream->receive_window);
        if (!stream->sending && !stream->reading && stream->status == 0 &&
            is_too_long(stream, stream->received)) {
            stream->status = 413;
            stream->runnable = true;
        }
    }
}

bool requests_await_bodies(const struct http2_connection *http2)
{
    const struct http2_stream *stream;

    TAILQ_FOREACH(stream, &http2->streams, link)
    if (stream->receiving && !stream->dead)
        return true;
    return false;
}

void requests_time_out(struct http2_connection *http2)
{
    const struct transaction_context *context = http2_context(http2);
    uint64_t patience_ns = context->worker->config->connections_body_timeout * NS_PER_MS;
    struct http2_stream *stream;

    TAILQ_FOREACH(stream, &http2->streams, link)
    if (stream->receiving && !stream->sending && !stream->reading && !stream->dead &&
        context->loop_now_ns >= stream->received_ns + patience_ns) {
        stream->status = 408;
        stream->runnable = true;
    }
}

/* Header blocks */

static enum http2_error receive_trailers(struct http2_stream *stream, struct span block,
                                         bool ends_stream)
{
    struct http2_connection *http2 = stream->http2;
    enum decoded decoded = request_decode_trailers(http2->inflater, block);

    if (decoded == DECODED_FAILED)
        return HTTP2_COMPRESSION_ERROR;
    if (!stream->receiving)
        return requests_reset(http2, stream->id, HTTP2_STREAM_CLOSED);
    if (decoded == DECODED_MALFORMED || !ends_stream)
        return requests_reset(http2, stream->id, HTTP2_PROTOCOL_ERROR);
    end_body(stream);
    return HTTP2_NO_ERROR;
}

/* A block that opens no stream is decoded, because later ones depend on it. */
static enum http2_error drop_block(struct http2_connection *http2, struct span block)
{
    return request_decode_trailers(http2->inflater, block) == DECODED_FAILED
               ? HTTP2_COMPRESSION_ERROR
               : HTTP2_NO_ERROR;
}

static enum http2_error receive_past(struct http2_connection *http2, uint32_t id, struct span block)
{
    switch (stream_past(http2, id)) {
    case STREAM_RESET:
        return drop_block(http2, block);
    case STREAM_CLOSED:
        return HTTP2_STREAM_CLOSED;
    case STREAM_SKIPPED:
    case STREAM_IDLE:
        break;
    }
    return HTTP2_PROTOCOL_ERROR;
}

static enum http2_error refuse_stream(struct http2_connection *http2, uint32_t id,
                                      struct span block)
{
    enum http2_error error = drop_block(http2, block);

    stream_note_opened(http2, id);
    if (error != HTTP2_NO_ERROR)
        return error;
    metric_add(http2_context(http2)->metrics, METRIC_http2_refused, 1);
    return requests_reset(http2, id, HTTP2_REFUSED_STREAM);
}

static enum http2_error receive_request(struct http2_connection *http2, uint32_t id,
                                        struct span block, bool ends_stream, bool depends_on_itself)
{
    struct event_loop *loop = http2->connection.loop;
    const struct config *config = loop->context.worker->config;
    const struct decoder_limits limits = {config->limits_request_line, config->limits_header_bytes,
                                          config->limits_header_count};
    struct decoded_request decoded UNINITIALIZED;
    struct http2_stream *stream;

    if (http2->stream_count - http2->dead_count >= config->http2_max_concurrent_streams ||
        http2->dead_count >= config->http2_max_concurrent_streams)
        return refuse_stream(http2, id, block);
    stream_note_opened(http2, id);
    switch (
        request_decode(http2->inflater, block, ends_stream, &limits, loop->space->head, &decoded)) {
    case DECODED_FAILED:
        return HTTP2_COMPRESSION_ERROR;
    case DECODED_MALFORMED:
        return requests_reset(http2, id, HTTP2_PROTOCOL_ERROR);
    case DECODED_REQUEST:
        break;
    }
    if (depends_on_itself)
        return requests_reset(http2, id, HTTP2_PROTOCOL_ERROR);
    stream = stream_open(http2, id);
    if (stream == NULL)
        return requests_reset(http2, id, HTTP2_REFUSED_STREAM);
    stream->opened_with = (uint16_t)(http2->stream_count - http2->dead_count);
    stream->state.resume = resume_request;
    stream->window.read = resume_file;
    stream->status = decoded.status;
    if (decoded.priority.length > 0)
        stream->priority = http2_priority_read(decoded.priority);
    if (ends_stream)
        respond_on_stream(stream, &decoded.request);
    else
        begin_body(stream, &decoded);
    return HTTP2_NO_ERROR;
}

enum http2_error requests_receive_block(struct http2_connection *http2, uint32_t id,
                                        struct span block, bool ends_stream, bool depends_on_itself)
{
    struct http2_stream *stream = stream_find(http2, id);

    if (stream != NULL)
        return receive_trailers(stream, block, ends_stream);
    if (id % 2 == 0)
        return HTTP2_PROTOCOL_ERROR;
    if (id <= http2->last_stream)
        return receive_past(http2, id, block);
    if (http2->goaway == GOAWAY_FINAL)
        return drop_block(http2, block);
    return receive_request(http2, id, block, ends_stream, depends_on_itself);
}
