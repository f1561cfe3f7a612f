#include "daemon/http2/output.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/connection/transport.h"
#include "daemon/connection/unsent.h"
#include "daemon/http2/stream.h"
#include "daemon/transaction/accounting.h"

#include <errno.h>
#include <stdlib.h>

enum {
    WINDOW_UPDATE_BYTES = 32 * 1024, /* consumed bytes that are worth a WINDOW_UPDATE */
    PIECES_MAX = 64,
    FILE_SPACE_BYTES = 128 * 1024,   /* read at once */
    BURST_MIN_BYTES = 32 * 1024,     /* a write has so many bytes of bodies... */
    BURST_MAX_BYTES = 512 * 1024,    /* ...and at most */
    SEND_BUDGET_BYTES = 2048 * 1024, /* so that other connections are served in between */
    FRAMES_ROOM_BYTES = 1024, /* of the output buffer are kept for a frame and the text in it */
};

/* Control frames */

static char *output_end(struct http2_connection *http2)
{
    struct output_buffer *output = &http2_context(http2)->output;

    return output->bytes + output->used;
}

static void output_advance_to(struct http2_connection *http2, const char *end)
{
    struct output_buffer *output = &http2_context(http2)->output;

    output->used = (size_t)(end - output->bytes);
}

void output_put_settings(struct http2_connection *http2)
{
    const struct config *config = http2_context(http2)->worker->config;
    char *at = frame_put_head(output_end(http2),
                              (struct frame_head){3 * FRAME_SETTING_BYTES, FRAME_SETTINGS, 0, 0});

    at =
        frame_put_setting(at, SETTING_MAX_CONCURRENT_STREAMS, config->http2_max_concurrent_streams);
    at = frame_put_setting(at, SETTING_MAX_HEADER_LIST_SIZE, (uint32_t)config->limits_header_bytes);
    at = frame_put_setting(at, SETTING_NO_RFC7540_PRIORITIES, 1);
    output_advance_to(http2, at);
}

void output_put_settings_ack(struct http2_connection *http2)
{
    output_advance_to(http2, frame_put_head(output_end(http2),
                                            (struct frame_head){0, FRAME_SETTINGS, FRAME_ACK, 0}));
}

void output_put_ping(struct http2_connection *http2, uint8_t flags, const char *payload)
{
    output_advance_to(http2, frame_put_ping(output_end(http2), flags, payload));
}

void output_put_reset(struct http2_connection *http2, uint32_t stream, enum http2_error error)
{
    output_advance_to(http2, frame_put_reset(output_end(http2), stream, error));
    stream_note_reset(http2, stream);
}

static void output_put_window_update(struct http2_connection *http2, uint32_t stream,
                                     uint32_t increment)
{
    output_advance_to(http2, frame_put_window_update(output_end(http2), stream, increment));
}

void output_put_goaway(struct http2_connection *http2, uint32_t last_stream, enum http2_error error)
{
    output_advance_to(http2, frame_put_goaway(output_end(http2), last_stream, error));
}

void output_put_continue(struct http2_connection *http2, uint32_t stream)
{
    static const char block[] = "\x08\x03"
                                "100"; /* :status */
    size_t length = sizeof(block) - 1;
    char *at =
        frame_put_head(output_end(http2), (struct frame_head){(uint32_t)length, FRAME_HEADERS,
                                                              FRAME_END_HEADERS, stream});

    memcpy(at, block, length);
    output_advance_to(http2, at + length);
}

void output_put_final_goaway(struct http2_connection *http2)
{
    if (http2->goaway == GOAWAY_FINAL)
        return;
    http2->goaway = GOAWAY_FINAL;
    output_put_goaway(http2, http2->last_stream, HTTP2_NO_ERROR);
}

void output_replenish(struct http2_connection *http2, uint32_t stream, int32_t *window)
{
    uint32_t used = WINDOW_INITIAL - (uint32_t)*window;

    if (used < WINDOW_UPDATE_BYTES)
        return;
    output_put_window_update(http2, stream, used);
    *window = WINDOW_INITIAL;
}

/* Gathering */

/* A write: pieces of the output buffer and of bodies. */
struct gather {
    struct http2_connection *http2;
    struct output_buffer *output;
    struct iovec piece[PIECES_MAX];
    int count;
    size_t gathered; /* bytes of the output buffer in the pieces */
    size_t all;
    size_t bodies;             /* bytes of bodies in it */
    struct http2_streams done; /* streams that end with this write; their bodies are in it */
    size_t file_used;
    char *file_space; /* FILE_SPACE_BYTES; NULL: no bodies are sent */
};

static void add_piece(struct gather *gather, const char *start, size_t length)
{
    gather->piece[gather->count++] = (struct iovec){(void *)(uintptr_t)start, length};
    gather->all += length;
}

/* Adds what the output buffer has got since the last call. */
static void add_output(struct gather *gather)
{
    struct output_buffer *output = gather->output;

    if (output->used > gather->gathered)
        add_piece(gather, output->bytes + gather->gathered, output->used - gather->gathered);
    gather->gathered = output->used;
}

static bool gather_has_room(const struct gather *gather)
{
    const struct output_buffer *output = gather->output;

    return gather->count + 2 * (FILE_SPACE_BYTES / FRAME_PAYLOAD_MAX + 1) < PIECES_MAX &&
           output->used + FRAMES_ROOM_BYTES <= OUTPUT_BUFFER_BYTES &&
           output->record_words + LOG_RECORD_WORDS_MAX <= OUTPUT_RECORD_WORDS &&
           gather->bodies < gather->http2->burst;
}

/* The response ends with this frame: moves its record to the buffer. */
static void finish_stream(struct gather *gather, struct http2_stream *stream)
{
    struct output_buffer *output = gather->output;
    uint64_t words = accounting_words(stream->record);

    stream_set_reserved(stream, false);
    output->last_record = output->records + output->record_words;
    memcpy(output->last_record, stream->record, words * 8);
    output->record_words += words;
    stream_make_unready(stream);
    stream->sending = false;
    if (stream->receiving) /* the client may stop sending its body */
        output_put_reset(gather->http2, stream->id, HTTP2_NO_ERROR);
    TAILQ_REMOVE(&gather->http2->streams, stream, link);
    TAILQ_INSERT_TAIL(&gather->done, stream, link);
}

/* Adds the head of a DATA frame with LENGTH bytes, which have been taken from the body. */
static void put_data_head(struct gather *gather, struct http2_stream *stream, size_t length)
{
    struct http2_connection *http2 = gather->http2;
    bool last = stream->text.length == 0 && body_source_is_empty(&stream->body);
    struct frame_head head = {(uint32_t)length, FRAME_DATA, last ? FRAME_END_STREAM : 0,
                              stream->id};

    output_advance_to(http2, frame_put_head(output_end(http2), head));
    stream->send_window -= (int32_t)length;
    http2->send_window -= (int32_t)length;
    stream->body_sent += length;
    stream->measured_bytes += length;
    gather->bodies += length;
    http2_allow_window_updates(http2);
}

/* At most this many bytes of LEFT fit in a frame of the stream. */
static size_t frame_limit(const struct http2_stream *stream, uint64_t left)
{
    const struct http2_connection *http2 = stream->http2;
    uint64_t limit = http2->settings.max_frame_size < FRAME_PAYLOAD_MAX
                         ? http2->settings.max_frame_size
                         : FRAME_PAYLOAD_MAX;

    limit = left < limit ? left : limit;
    limit = (uint64_t)stream->send_window < limit ? (uint64_t)stream->send_window : limit;
    return (uint64_t)http2->send_window < limit ? (uint64_t)http2->send_window : limit;
}

static void gather_text(struct gather *gather, struct http2_stream *stream)
{
    size_t length = frame_limit(stream, stream->text.length);
    const char *text = stream->text.start;

    stream->text.start += length;
    stream->text.length -= length;
    put_data_head(gather, stream, length);
    output_put(gather->output, text, length);
}

static void gather_memory(struct gather *gather, struct http2_stream *stream)
{
    const char *memory = stream->body.memory;
    size_t length = frame_limit(stream, stream->body.left);

    body_source_advance(&stream->body, length);
    put_data_head(gather, stream, length);
    add_output(gather);
    add_piece(gather, memory, length);
}

/* Number of bytes of the file to read at once. */
static uint64_t read_limit(const struct gather *gather, const struct http2_stream *stream)
{
    const struct http2_connection *http2 = gather->http2;
    uint64_t limit = FILE_SPACE_BYTES - gather->file_used;

    if (stream->priority.incremental && limit > FRAME_PAYLOAD_MAX)
        limit = FRAME_PAYLOAD_MAX; /* then it is the next one's turn */
    limit = stream->body.left < limit ? stream->body.left : limit;
    limit = (uint64_t)stream->send_window < limit ? (uint64_t)stream->send_window : limit;
    return (uint64_t)http2->send_window < limit ? (uint64_t)http2->send_window : limit;
}

/* Returns false if the file cannot be read: it has shrunk, for example. */
static bool gather_file(struct gather *gather, struct http2_stream *stream)
{
    const struct resource *file = stream->body.resource;
    char *space = gather->file_space + gather->file_used;
    uint64_t length =
        file_window_bytes(&stream->window, &gather->http2->connection, stream->body.resource,
                          stream->body.offset, stream->body.left);
    uint64_t limit = read_limit(gather, stream);
    ssize_t got;

    if (length == 0) {
        stream->reading = true;
        stream_update_ready(stream);
        return true;
    }
    length = length < limit ? length : limit;
    got = files_read(file->fd, file->device, space, length, stream->body.offset, FILES_MAY_BLOCK);
    if (got <= 0)
        return false;
    gather->file_used += (size_t)got;
    while (got > 0) {
        size_t frame = frame_limit(stream, (uint64_t)got);

        body_source_advance(&stream->body, frame);
        put_data_head(gather, stream, frame);
        add_output(gather);
        add_piece(gather, space, frame);
        space += frame;
        got -= (ssize_t)frame;
    }
    return true;
}

/* Sends frames of STREAM, which is ready. */
static void gather_from(struct gather *gather, struct http2_stream *stream)
{
    struct http2_connection *http2 = gather->http2;
    struct body_source *body = &stream->body;

    if (stream->text.length == 0 && body->left == 0)
        stream->text = body_source_next_part(body);
    if (stream->text.length > 0) {
        gather_text(gather, stream);
    } else if (body->memory != NULL) {
        gather_memory(gather, stream);
    } else if (!gather_file(gather, stream)) {
        output_put_reset(http2, stream->id, HTTP2_INTERNAL_ERROR);
        stream_close(stream);
        return;
    }
    if (stream->text.length == 0 && body_source_is_empty(body)) {
        finish_stream(gather, stream);
        return;
    }
    stream_update_ready(stream);
    if (stream->is_ready && stream->priority.incremental)
        stream_pass_turn(stream);
}

static void gather_bodies(struct gather *gather)
{
    struct http2_connection *http2 = gather->http2;
    struct http2_stream *stream;

    while (http2->send_window > 0 && gather_has_room(gather) &&
           gather->file_used + FRAME_PAYLOAD_MAX <= FILE_SPACE_BYTES &&
           (stream = stream_first_ready(http2)) != NULL)
        gather_from(gather, stream);
}

/* Writing */

static void free_done(struct gather *gather)
{
    struct cache *cache = http2_context(gather->http2)->worker->cache;
    struct http2_stream *stream;

    while ((stream = TAILQ_FIRST(&gather->done)) != NULL) {
        TAILQ_REMOVE(&gather->done, stream, link);
        TAILQ_INSERT_TAIL(&gather->http2->streams, stream, link);
        stream_free(stream, cache);
    }
}

/* A write that was accepted whole allows a larger one. */
static void adapt_burst(struct http2_connection *http2, const struct gather *gather, size_t sent)
{
    size_t burst = sent == gather->all ? http2->burst * 2 : sent;

    if (gather->bodies == 0 || (sent == gather->all && gather->bodies < http2->burst))
        return;
    http2->burst = burst < BURST_MIN_BYTES   ? BURST_MIN_BYTES
                   : burst > BURST_MAX_BYTES ? BURST_MAX_BYTES
                                             : burst;
}

static void count_sent(struct http2_connection *http2, size_t sent, bool complete)
{
    metric_add(http2_context(http2)->metrics, METRIC_bytes_sent, sent);
    connection_count_sent(&http2->connection, sent, complete);
}

/* Of the last system call. */
static enum output_result output_blocked_or_failed(const struct http2_connection *http2)
{
    if (errno == EAGAIN || errno == EINTR)
        return OUTPUT_BLOCKED;
    connection_count_reset(&http2->connection);
    return OUTPUT_FAILED;
}

/* Stores in *SENT how many bytes of the pieces are sent. */
static enum output_result write_pieces(struct gather *gather, size_t *sent)
{
    struct connection *connection = &gather->http2->connection;
    ssize_t result =
        connection->transport->write(connection, gather->piece, gather->count, WRITE_NEXT_NONE);

    *sent = result > 0 ? (size_t)result : 0;
    count_sent(gather->http2, *sent, *sent == gather->all);
    if (result < 0)
        return output_blocked_or_failed(gather->http2);
    return *sent < gather->all ? OUTPUT_BLOCKED : OUTPUT_DONE;
}

static enum output_result write_gathered(struct gather *gather)
{
    struct http2_connection *http2 = gather->http2;
    struct transaction_context *context = http2_context(http2);
    struct output_buffer *output = gather->output;
    enum output_result result;
    size_t sent;

    add_output(gather);
    if (gather->all == 0)
        return OUTPUT_DONE;
    segment_activity_state(context->activity, THREAD_STATE_WRITE, context->loop_now_ns);
    result = write_pieces(gather, &sent);
    transport_count_body(&http2->connection, http2->body_bytes_sent, gather->bodies);
    http2->body_bytes_sent += gather->bodies;
    adapt_burst(http2, gather, sent);
    if (result == OUTPUT_BLOCKED && !unsent_keep(&http2->connection, gather->piece, gather->count,
                                                 sent, output->records, output->record_words))
        result = OUTPUT_FAILED;
    if (result != OUTPUT_BLOCKED)
        accounting_finish_all(context, output->records, output->record_words);
    free_done(gather);
    output_clear(output);
    return result;
}

/* One write. Stores in *BODIES how many bytes of bodies were in it. */
static enum output_result send_once(struct http2_connection *http2, char *file_space,
                                    size_t *bodies)
{
    struct gather gather UNINITIALIZED;
    enum output_result result;

    gather.http2 = http2;
    gather.output = &http2_context(http2)->output;
    gather.count = 0;
    gather.gathered = gather.all = gather.bodies = gather.file_used = 0;
    gather.file_space = file_space;
    TAILQ_INIT(&gather.done);
    if (file_space != NULL)
        gather_bodies(&gather);
    result = write_gathered(&gather);
    *bodies = gather.bodies;
    return result;
}

static bool may_send_bodies(const struct http2_connection *http2)
{
    return http2->ready_count > 0 && http2->send_window > 0;
}

static __attribute__((noinline)) enum output_result send_bodies(struct http2_connection *http2)
{
    char file_space[FILE_SPACE_BYTES] UNINITIALIZED;
    uint64_t budget = SEND_BUDGET_BYTES;
    enum output_result result;
    size_t bodies;

    do {
        result = send_once(http2, file_space, &bodies);
        budget -= bodies < budget ? bodies : budget;
    } while (result == OUTPUT_DONE && may_send_bodies(http2) && budget > 0);
    return result == OUTPUT_DONE && may_send_bodies(http2) ? OUTPUT_MORE : result;
}

enum output_result output_send(struct http2_connection *http2)
{
    size_t bodies;

    return may_send_bodies(http2) ? send_bodies(http2) : send_once(http2, NULL, &bodies);
}

/* The unsent rest */

enum output_result output_send_rest(struct http2_connection *http2)
{
    struct connection *connection = &http2->connection;
    struct unsent_output *unsent = connection->unsent;
    struct iovec piece;
    ssize_t sent;

    if (unsent == NULL)
        return OUTPUT_DONE;
    piece = (struct iovec){(void *)(uintptr_t)unsent->text.start, unsent->text.length};
    sent = connection->transport->write(connection, &piece, 1, WRITE_NEXT_NONE);
    if (sent < 0)
        return output_blocked_or_failed(http2);
    unsent->text.start += sent;
    unsent->text.length -= (size_t)sent;
    count_sent(http2, (size_t)sent, unsent->text.length == 0);
    if (unsent->text.length > 0)
        return OUTPUT_BLOCKED;
    unsent_finish(connection);
    return OUTPUT_DONE;
}
