/*
 * The raw engine for HTTP/2: a slot is a stream of a connection. libcurl establishes connections,
 * nghttp2 makes and parses the frames.
 *
 * A request that begins while the connection is not established waits for it. A request that the
 * connection no longer takes (GOAWAY, --max-reqs-per-conn) waits until those in flight have ended
 * and is sent on a new connection. A request that the server has not processed, by its GOAWAY or by
 * REFUSED_STREAM, waits in the same way and is sent again.
 *
 * The owner is called from report_ended() and from events of the loop only.
 */
#include "loadgen/engine/engine.h"

#include "common/clock.h"

#include "loadgen/engine/cookie_jar.h"
#include "loadgen/engine/curl_handle.h"
#include "loadgen/engine/http2_fields.h"
#include "loadgen/engine/raw_stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- State ---- */

enum {
    BUFFER_BYTES = 256 * 1024,
    OUTPUT_BYTES = 64 * 1024,     /* frames to send are collected up to this size */
    FRAME_BYTES = 16 * 1024 + 9,  /* the largest frame that nghttp2 makes */
    CALLS_PER_EVENT = 16,         /* recv() calls, so that a fast server cannot delay timers */
    WINDOW_BYTES = (1 << 30) - 1, /* receive window: never full in practice */
    REFUSALS_MAX = 3,             /* of each stream of a connection, without a response meanwhile */
};

enum stream_state {
    STREAM_FREE,
    STREAM_WAITING, /* no connection is established */
    STREAM_SENT,    /* submitted to nghttp2 */
    STREAM_ENDED,   /* listed in the engine */
};

/* A slot and the stream of its request. */
struct http2_stream {
    struct http2_connection *connection;
    const struct request *request;
    enum stream_state state;
    bool off;       /* not in use for now */
    bool opener;    /* the connection is established for this request */
    bool complete;  /* the response has ended */
    bool malformed; /* nghttp2 rejected a frame */
    int32_t id;
    enum error_kind error; /* if STREAM_ENDED */
    uint32_t status;
    uint64_t begun_ns, first_byte_ns, ended_ns;
    uint64_t connect_ns, handshake_ns; /* if an opener */
    uint64_t head_bytes, body_bytes;
    uint32_t retries; /* times that the request was sent again */
    size_t request_body_sent;
    struct body_check check;
    struct cookie_jar cookies;  /* kept over all requests of the slot */
    struct http2_fields fields; /* if its request is not part of the request plan */
    struct http2_stream *next_ended;
};

enum connection_state { CONNECTION_DOWN, CONNECTION_CONNECTING, CONNECTION_UP, CONNECTION_BROKEN };

struct http2_connection {
    struct engine *engine;
    struct raw_stream stream;
    nghttp2_session *session; /* NULL unless UP or BROKEN */
    enum connection_state state;
    uint32_t first_slot, stream_count;
    uint32_t in_flight, waiting; /* streams SENT, streams WAITING */
    uint32_t off;
    uint32_t requests; /* sent so far */
    uint32_t refusals; /* requests that the server did not process since its last response */
    bool held;         /* after a refusal, until a response: the server takes no more */
    bool in_order;     /* refused requests wait: the oldest is sent first */
    uint64_t opening_ns;
    size_t out_length, out_sent;
    bool dirty;
    struct http2_connection *next_dirty;
    uint8_t out[OUTPUT_BYTES];
    struct http2_stream streams[];
};

/*
 * TLS connections stay in their multi handle, which they cannot share: a group for each connection.
 */
struct group {
    struct curl_group curl;
    struct http2_connection *connection;
};

struct engine {
    struct engine_config config;
    struct curl_sockets *sockets;
    struct curl_groups groups;
    uint32_t slots;
    struct http2_fields *fields; /* one for each request of the request plan */
    nghttp2_session_callbacks *callbacks;
    char *buffer;                     /* receive buffer */
    struct http2_connection *dirty;   /* a list of connections with something to send */
    struct http2_stream *ended;       /* a list of requests whose end is not reported yet */
    struct http2_stream **ended_tail; /* its last link */
    struct event *report;             /* calls report_ended() in the next loop iteration */
    struct event *sweep;              /* checks timeouts */
};

static struct http2_connection *http2_connection_of(const struct engine *engine, uint32_t slot)
{
    uint32_t number = slot / engine->groups.slots_per_group;

    return ((const struct group *)engine->groups.group[number])->connection;
}

static struct http2_stream *http2_stream_of(const struct engine *engine, uint32_t slot)
{
    struct http2_connection *connection = http2_connection_of(engine, slot);

    return &connection->streams[slot - connection->first_slot];
}

static uint32_t http2_slot_of(const struct http2_stream *stream)
{
    return stream->connection->first_slot + (uint32_t)(stream - stream->connection->streams);
}

static struct transcript *http2_transcript_of(const struct http2_stream *stream)
{
    struct transcript *transcript = stream->connection->engine->config.transcript;

    return http2_slot_of(stream) == 0 && transcript != NULL && !transcript->ended ? transcript
                                                                                  : NULL;
}

static void http2_mark_dirty(struct http2_connection *connection)
{
    struct engine *engine = connection->engine;

    if (connection->dirty)
        return;
    connection->dirty = true;
    connection->next_dirty = engine->dirty;
    engine->dirty = connection;
}

static void record_text(const struct http2_connection *connection, enum error_kind error,
                        const char *text, uint32_t code)
{
    char whole[ERROR_TEXT];

    snprintf(whole, sizeof(whole), "%s: %s (%" PRIu32 ")", text, nghttp2_http2_strerror(code),
             code);
    error_texts_record(connection->engine->config.error_texts, error, whole);
}

static void http2_end_stream(struct http2_stream *stream, enum error_kind error)
{
    struct http2_connection *connection = stream->connection;
    struct engine *engine = connection->engine;

    if (stream->state == STREAM_SENT)
        connection->in_flight--;
    else
        connection->waiting--;
    stream->state = STREAM_ENDED;
    stream->error = error;
    stream->ended_ns = clock_monotonic_ns();
    stream->next_ended = NULL;
    *engine->ended_tail = stream;
    engine->ended_tail = &stream->next_ended;
}

/* ---- What arrives ---- */

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

    (void)flags, (void)context;
    if (stream == NULL)
        return 0;
    owner = &stream->connection->engine->config.owner;
    transcript_add_field(http2_transcript_of(stream), '<', name, name_length, value, value_length);
    if (stream->connection->engine->config.plan->cookies && name_length == strlen("set-cookie") &&
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

    (void)flags, (void)context;
    if (stream == NULL)
        return 0;
    owner = &stream->connection->engine->config.owner;
    if (owner->body != NULL)
        owner->body(owner->context, http2_slot_of(stream), (const char *)bytes, length);
    stream->body_bytes += length;
    body_check_add(&stream->check, &stream->connection->engine->config.plan->checks,
                   (const char *)bytes, length);
    return 0;
}

/* Records the server's limit of streams, if it has one. */
static void record_limit(nghttp2_session *session, const struct http2_connection *connection)
{
    struct negotiations *negotiations = connection->engine->config.negotiations;
    uint32_t limit =
        nghttp2_session_get_remote_settings(session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

    if (limit > 0 && limit < PLAN_STREAMS_MAX &&
        (negotiations->least_streams == 0 || limit < negotiations->least_streams))
        negotiations->least_streams = limit;
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *context)
{
    struct http2_stream *stream =
        nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);

    if (frame->hd.type == NGHTTP2_SETTINGS && (frame->hd.flags & NGHTTP2_FLAG_ACK) == 0)
        record_limit(session, context);
    if (frame->hd.type == NGHTTP2_GOAWAY && frame->goaway.error_code != NGHTTP2_NO_ERROR)
        record_text(context, ERROR_KIND_CLOSED, "the server ended the connection",
                    frame->goaway.error_code);
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

    error_texts_record(((struct http2_connection *)context)->engine->config.error_texts,
                       ERROR_KIND_MALFORMED, nghttp2_strerror(error));
    if (stream != NULL)
        stream->malformed = true;
    return 0;
}

/* The connection no longer takes requests: this one waits for a new connection. */
static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error,
                       void *context)
{
    struct http2_connection *connection = context;

    (void)session, (void)error;
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

/*
 * Whether the request on a stream that closed with CODE can be sent again: the server has not
 * processed it (RFC 9113 sections 6.8 and 8.7). nghttp2 closes the streams above the last one of a
 * GOAWAY with the same code. A server that refuses all requests does not get them for ever.
 */
static bool is_refused(const struct http2_stream *stream, uint32_t code)
{
    return code == NGHTTP2_REFUSED_STREAM && stream->first_byte_ns == 0 &&
           stream->connection->refusals < REFUSALS_MAX * stream->connection->stream_count;
}

static void send_again(struct http2_stream *stream)
{
    struct http2_connection *connection = stream->connection;

    stream->state = STREAM_WAITING;
    stream->request_body_sent = 0;
    stream->retries++;
    connection->in_flight--;
    connection->waiting++;
    connection->refusals++;
    connection->held = connection->in_order = true;
}

static int on_stream_close(nghttp2_session *session, int32_t id, uint32_t code, void *context)
{
    struct http2_stream *stream = nghttp2_session_get_stream_user_data(session, id);
    bool good = stream != NULL && stream->complete && code == NGHTTP2_NO_ERROR;

    (void)context;
    if (stream == NULL || stream->state != STREAM_SENT || stream->id != id)
        return 0;
    if (is_refused(stream, code)) {
        send_again(stream);
    } else {
        if (!good && !stream->malformed)
            record_text(stream->connection, ERROR_KIND_CLOSED, "the server reset the stream", code);
        http2_end_stream(stream, good                ? ERROR_KIND_NONE
                                 : stream->malformed ? ERROR_KIND_MALFORMED
                                                     : ERROR_KIND_CLOSED);
        stream->connection->held = false;
        stream->connection->refusals = good ? 0 : stream->connection->refusals;
    }
    if (stream->connection->waiting > 0)
        http2_mark_dirty(stream->connection);
    return 0;
}

static bool http2_callbacks_make(nghttp2_session_callbacks **made)
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

/* ---- The end of a request ---- */

static void report_later(struct engine *engine)
{
    event_active(engine->report, EV_TIMEOUT, 0);
}

static void report_stream(struct http2_stream *stream)
{
    struct http2_connection *connection = stream->connection;
    const struct engine_config *config = &connection->engine->config;
    struct transaction transaction = {
        .error = stream->error,
        .status = stream->status,
        .connected = stream->opener && stream->connect_ns > 0,
        .connect_ns = stream->connect_ns,
        .handshake_ns = stream->handshake_ns,
        .resumed = connection->stream.resumed,
        .first_byte_ns =
            stream->first_byte_ns > stream->begun_ns ? stream->first_byte_ns - stream->begun_ns : 0,
        .head_bytes = stream->head_bytes,
        .body_bytes = stream->body_bytes,
        .retries = stream->retries,
    };

    if (stream->error == ERROR_KIND_NONE)
        transaction.bad_content =
            body_check_fails(&stream->check, &config->plan->checks, stream->body_bytes);
    else
        error_texts_record(connection->engine->config.error_texts, stream->error,
                           connection->stream.error_text);
    if (http2_transcript_of(stream) != NULL)
        transcript_end(http2_transcript_of(stream), connection->stream.easy);
    stream->state = STREAM_FREE;
    config->owner.ended(config->owner.context, http2_slot_of(stream), &transaction,
                        stream->ended_ns);
}

static void engine_raw_http2_flush(struct engine *engine);

/*
 * Reports the requests that have ended to the owner, and sends those that it begins. Requests that
 * end meanwhile are left for the next iteration of the loop.
 */
static void report_ended(struct engine *engine)
{
    struct http2_stream *stream = engine->ended, *next;

    engine->ended = NULL;
    engine->ended_tail = &engine->ended;
    for (; stream != NULL; stream = next) {
        next = stream->next_ended;
        report_stream(stream);
    }
    engine_raw_http2_flush(engine);
}

/* ---- Opening and closing ---- */

static void close_connection(struct http2_connection *connection)
{
    nghttp2_session_del(connection->session);
    connection->session = NULL;
    raw_stream_close(&connection->stream);
    connection->out_length = connection->out_sent = 0;
    connection->state = CONNECTION_DOWN;
}

/*
 * The first waiting request opens the connection; one that has opened another before, and was
 * refused there, only if there is no other.
 */
static struct http2_stream *choose_opener(struct http2_connection *connection)
{
    struct http2_stream *chosen = NULL;

    for (uint32_t i = 0; i < connection->stream_count; i++) {
        struct http2_stream *stream = &connection->streams[i];

        if (stream->state != STREAM_WAITING)
            continue;
        if (!stream->opener)
            return stream;
        chosen = chosen == NULL ? stream : chosen;
    }
    return chosen;
}

/* Requests must wait. */
static void open_connection(struct http2_connection *connection)
{
    struct http2_stream *opener = choose_opener(connection);

    opener->opener = true;
    opener->connect_ns = 0;
    connection->state = CONNECTION_CONNECTING;
    connection->opening_ns = clock_monotonic_ns();
    connection->requests = 0;
    connection->held = false;
    raw_stream_connect(&connection->stream, opener->request);
}

/* Ends all requests in STATE, and opens the connection again if others wait. */
static void end_streams(struct http2_connection *connection, enum stream_state state,
                        enum error_kind error)
{
    for (uint32_t i = 0; i < connection->stream_count; i++)
        if (connection->streams[i].state == state)
            http2_end_stream(&connection->streams[i], error);
    if (connection->waiting > 0)
        open_connection(connection);
    report_later(connection->engine);
}

/* The connection is lost: requests in flight fail, waiting ones get a new connection. */
static void lose_connection(struct http2_connection *connection, enum error_kind error)
{
    close_connection(connection);
    end_streams(connection, STREAM_SENT, error);
}

/* ---- Requests ---- */

static ssize_t read_request_body(nghttp2_session *session, int32_t id, uint8_t *buffer, size_t size,
                                 uint32_t *flags, nghttp2_data_source *source, void *context)
{
    struct http2_stream *stream = source->ptr;
    const struct request *request = stream->request;
    size_t rest = request->body_length - stream->request_body_sent,
           length = rest < size ? rest : size;

    (void)session, (void)id, (void)context;
    if (length > 0)
        memcpy(buffer, request->body + stream->request_body_sent, length);
    stream->request_body_sent += length;
    if (stream->request_body_sent == request->body_length)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)length;
}

static const struct http2_fields *fields_of(struct http2_stream *stream)
{
    struct engine *engine = stream->connection->engine;
    const struct request_plan *request_plan = engine->config.request_plan;
    bool planned = stream->request >= request_plan->requests &&
                   stream->request < request_plan->requests + request_plan->count;
    struct http2_fields *fields =
        planned ? &engine->fields[stream->request - request_plan->requests] : &stream->fields;

    return fields->count > 0 || http2_fields_make(fields, stream->request) ? fields : NULL;
}

/* Returns the number of the stream, or an error of nghttp2. */
static int32_t submit_fields(struct http2_stream *stream, const struct http2_fields *fields)
{
    const nghttp2_data_provider body = {.source.ptr = stream, .read_callback = read_request_body};
    bool keeps = stream->connection->engine->config.plan->cookies;
    char *cookies = keeps ? cookie_jar_value(&stream->cookies, stream->request, time(NULL)) : NULL;
    int32_t id = http2_fields_submit(fields, cookies, stream->connection->session,
                                     stream->request->body != NULL ? &body : NULL, stream);

    free(cookies);
    return id;
}

static void submit(struct http2_stream *stream)
{
    struct http2_connection *connection = stream->connection;
    const struct http2_fields *fields = fields_of(stream);

    stream->id = fields != NULL ? submit_fields(stream, fields) : NGHTTP2_ERR_NOMEM;
    if (stream->id < 0) {
        snprintf(connection->stream.error_text, sizeof(connection->stream.error_text), "%s",
                 nghttp2_strerror(stream->id));
        http2_end_stream(stream, ERROR_KIND_OTHER);
        report_later(connection->engine);
        return;
    }
    connection->waiting--;
    connection->in_flight++;
    connection->requests++;
    stream->state = STREAM_SENT;
    for (size_t i = 0; i < fields->count && http2_transcript_of(stream) != NULL; i++)
        transcript_add_field(http2_transcript_of(stream), '>', fields->field[i].name,
                             fields->field[i].namelen, fields->field[i].value,
                             fields->field[i].valuelen);
}

static void engine_raw_http2_begin(struct engine *engine, uint32_t slot,
                                   const struct request *request, uint64_t now_ns)
{
    struct http2_connection *connection = http2_connection_of(engine, slot);
    struct http2_stream *stream = http2_stream_of(engine, slot);

    connection->off -= stream->off ? 1 : 0;
    http2_fields_free(&stream->fields);
    *stream = (struct http2_stream){
        .connection = connection,
        .request = request,
        .state = STREAM_WAITING,
        .begun_ns = now_ns,
        .check = stream->check,
        .cookies = stream->cookies,
    };
    body_check_begin(&stream->check, &engine->config.plan->checks);
    connection->waiting++;
    if (connection->state == CONNECTION_DOWN)
        open_connection(connection);
    else if (connection->state == CONNECTION_UP)
        http2_mark_dirty(connection);
}

static void reset_stream(struct http2_stream *stream)
{
    nghttp2_session *session = stream->connection->session;

    nghttp2_session_set_stream_user_data(session, stream->id, NULL);
    nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, stream->id, NGHTTP2_CANCEL);
    http2_mark_dirty(stream->connection);
}

static bool engine_raw_http2_cancel(struct engine *engine, uint32_t slot)
{
    struct http2_connection *connection = http2_connection_of(engine, slot);
    struct http2_stream *stream = http2_stream_of(engine, slot);

    if (stream->state == STREAM_SENT) {
        reset_stream(stream);
        connection->in_flight--;
    } else if (stream->state == STREAM_WAITING) {
        connection->waiting--;
    }
    if (stream->state != STREAM_ENDED)
        stream->state = STREAM_FREE;
    return stream->opener && stream->connect_ns > 0;
}

/* Closes the connection if none of its slots is in use for now. */
static void engine_raw_http2_close(struct engine *engine, uint32_t slot)
{
    struct http2_connection *connection = http2_connection_of(engine, slot);
    struct http2_stream *stream = http2_stream_of(engine, slot);

    connection->off += stream->off ? 0 : 1;
    stream->off = true;
    if (connection->off == connection->stream_count)
        close_connection(connection);
}

static void engine_raw_http2_forget(struct engine *engine, uint32_t slot)
{
    cookie_jar_free(&http2_stream_of(engine, slot)->cookies);
}

static void check_timeouts(struct http2_connection *connection, uint64_t now_ns)
{
    uint64_t timeout_ns = connection->engine->config.plan->timeout_ms * NS_PER_MS;

    if (connection->state != CONNECTION_UP)
        return;
    for (uint32_t i = 0; i < connection->stream_count; i++) {
        struct http2_stream *stream = &connection->streams[i];

        if ((stream->state != STREAM_SENT && stream->state != STREAM_WAITING) ||
            now_ns < stream->begun_ns + timeout_ns)
            continue;
        if (stream->state == STREAM_SENT)
            reset_stream(stream);
        http2_end_stream(stream, ERROR_KIND_TIMEOUT);
        report_later(connection->engine);
    }
}

/* ---- Sending ---- */

/* Collects frames. Returns false if nghttp2 fails. */
static bool collect(struct http2_connection *connection)
{
    const uint8_t *bytes;

    connection->out_length = connection->out_sent = 0;
    while (connection->out_length + FRAME_BYTES <= OUTPUT_BYTES) {
        ssize_t n = nghttp2_session_mem_send(connection->session, &bytes);

        if (n <= 0)
            return n == 0;
        memcpy(connection->out + connection->out_length, bytes, (size_t)n);
        connection->out_length += (size_t)n;
    }
    return true;
}

/* Sends until nothing is left or the socket's buffer is full. Returns false if it failed. */
static bool send_frames(struct http2_connection *connection)
{
    while (true) {
        ssize_t n;

        if (connection->out_sent == connection->out_length && !collect(connection))
            return false;
        if (connection->out_length == 0)
            return true;
        n = raw_stream_send(&connection->stream, (char *)connection->out + connection->out_sent,
                            connection->out_length - connection->out_sent);
        if (n < 0 && raw_stream_would_block(errno))
            return event_add(connection->stream.writable, NULL) == 0;
        if (n < 0)
            return false;
        connection->out_sent += (size_t)n;
    }
}

/*
 * The next waiting request to send, or NULL: by the number of its stream, from *FIRST on. After
 * refusals, when the server may take only a part of them, the oldest.
 */
static struct http2_stream *next_waiting(struct http2_connection *connection, uint32_t *first)
{
    struct http2_stream *oldest = NULL;

    for (uint32_t i = connection->in_order ? 0 : *first; i < connection->stream_count; i++) {
        struct http2_stream *stream = &connection->streams[i];

        if (stream->state != STREAM_WAITING ||
            (oldest != NULL && oldest->begun_ns <= stream->begun_ns))
            continue;
        oldest = stream;
        *first = i + 1;
        if (!connection->in_order)
            break;
    }
    return oldest;
}

/* Whether the connection takes another request now. */
static bool takes_request(const struct http2_connection *connection)
{
    const struct plan *plan = connection->engine->config.plan;
    uint32_t max = plan->keepalive ? plan->requests_per_connection : 1;

    return nghttp2_session_check_request_allowed(connection->session) != 0 &&
           (max == 0 || connection->requests < max) &&
           (!connection->held || connection->in_flight == 0);
}

/* A failure is reported from the loop. */
static void flush_connection(struct http2_connection *connection)
{
    const struct engine *engine = connection->engine;
    struct http2_stream *stream;
    uint32_t first = 0;

    if (connection->state != CONNECTION_UP)
        return;
    while (connection->waiting > 0 && takes_request(connection) &&
           (stream = next_waiting(connection, &first)) != NULL)
        submit(stream);
    connection->in_order = connection->in_order && connection->waiting > 0;
    if (connection->waiting > 0 && connection->in_flight == 0 && engine->ended == NULL) {
        close_connection(connection);
        open_connection(connection);
    } else if (!send_frames(connection)) {
        connection->state = CONNECTION_BROKEN;
        event_active(connection->stream.readable, EV_READ, 0);
    }
}

/* Sends what the connections have to send. Does not call the owner. */
static void engine_raw_http2_flush(struct engine *engine)
{
    while (engine->dirty != NULL) {
        struct http2_connection *connection = engine->dirty;

        engine->dirty = connection->next_dirty;
        connection->dirty = false;
        flush_connection(connection);
    }
    if (engine->ended != NULL)
        report_later(engine);
}

static void http2_on_writable(evutil_socket_t fd, short events, void *context)
{
    struct http2_connection *connection = context;

    (void)fd, (void)events;
    http2_mark_dirty(connection);
    report_ended(connection->engine);
}

/* ---- Receiving ---- */

/* Reads and parses once. Returns whether there may be more to read. */
static bool http2_receive_some(struct http2_connection *connection)
{
    char *buffer = connection->engine->buffer;
    ssize_t n = raw_stream_receive(&connection->stream, buffer, BUFFER_BYTES), n_parsed;

    if (n < 0 && raw_stream_would_block(errno))
        return false;
    if (n <= 0) {
        lose_connection(connection, ERROR_KIND_CLOSED);
        return false;
    }
    n_parsed = nghttp2_session_mem_recv(connection->session, (uint8_t *)buffer, (size_t)n);
    if (n_parsed < 0) {
        error_texts_record(connection->engine->config.error_texts, ERROR_KIND_MALFORMED,
                           nghttp2_strerror((int)n_parsed));
        lose_connection(connection, ERROR_KIND_MALFORMED);
        return false;
    }
    if (nghttp2_session_want_write(connection->session) != 0)
        http2_mark_dirty(connection);
    if (nghttp2_session_want_read(connection->session) == 0 &&
        nghttp2_session_want_write(connection->session) == 0) {
        lose_connection(connection, ERROR_KIND_CLOSED);
        return false;
    }
    return n == BUFFER_BYTES || connection->stream.tls;
}

static void http2_on_readable(evutil_socket_t fd, short events, void *context)
{
    struct http2_connection *connection = context;
    int calls = 0;

    (void)fd;
    raw_stream_begin_reading(&connection->stream, events);
    while (calls < CALLS_PER_EVENT && http2_receive_some(connection))
        calls++;
    if (connection->state == CONNECTION_BROKEN)
        lose_connection(connection, ERROR_KIND_CLOSED);
    else if (calls == CALLS_PER_EVENT)
        raw_stream_read_later(&connection->stream);
    report_ended(connection->engine);
}

/* ---- The result of connecting ---- */

static bool begin_session(struct http2_connection *connection)
{
    static const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, WINDOW_BYTES},
    };

    return nghttp2_session_client_new(&connection->session, connection->engine->callbacks,
                                      connection) == 0 &&
           nghttp2_submit_settings(connection->session, NGHTTP2_FLAG_NONE, settings, 2) == 0 &&
           nghttp2_session_set_local_window_size(connection->session, NGHTTP2_FLAG_NONE, 0,
                                                 WINDOW_BYTES) == 0;
}

/* The request that the connection was established for has its times. */
static void note_times(struct http2_connection *connection)
{
    const struct engine_owner *owner = &connection->engine->config.owner;

    for (uint32_t i = 0; i < connection->stream_count; i++) {
        struct http2_stream *stream = &connection->streams[i];

        if (!stream->opener || stream->state != STREAM_WAITING)
            continue;
        stream->connect_ns = clock_monotonic_ns() - connection->opening_ns;
        stream->handshake_ns = curl_handle_handshake_ns(connection->stream.easy);
    }
    owner->connected(owner->context, connection->first_slot);
}

/* The connection is established. Returns ERROR_KIND_NONE if it can be used. */
static enum error_kind http2_take_connection(struct http2_connection *connection)
{
    struct raw_stream *stream = &connection->stream;

    connection->state = CONNECTION_UP;
    note_times(connection);
    if (!raw_stream_take_socket(stream) ||
        !raw_stream_watch(stream, http2_on_readable, http2_on_writable, connection) ||
        !begin_session(connection)) {
        snprintf(stream->error_text, sizeof(stream->error_text), "%s", strerror(errno));
        return ERROR_KIND_LOCAL;
    }
    if (stream->tls && (!stream->negotiated || strcmp(stream->negotiation.http, "HTTP/2") != 0)) {
        snprintf(stream->error_text, sizeof(stream->error_text),
                 "the server did not negotiate HTTP/2, and --engine raw does not fall back");
        return ERROR_KIND_TLS;
    }
    return ERROR_KIND_NONE;
}

/* The ended() of a group: libcurl connected, or failed to. */
static void http2_on_ended(struct curl_group *curl)
{
    struct http2_connection *connection = ((const struct group *)curl)->connection;
    CURLMsg *message;
    int more;

    while ((message = curl_multi_info_read(curl->multi, &more)) != NULL) {
        CURLcode code = message->data.result;
        enum error_kind error;

        if (message->msg != CURLMSG_DONE)
            continue;
        error = code == CURLE_OK ? http2_take_connection(connection)
                                 : raw_stream_failure(&connection->stream, code);
        if (error != ERROR_KIND_NONE) {
            close_connection(connection);
            end_streams(connection, STREAM_WAITING, error);
        } else {
            http2_mark_dirty(connection);
            engine_raw_http2_flush(connection->engine);
        }
    }
}

static void http2_on_sweep(evutil_socket_t fd, short events, void *context)
{
    const struct engine *engine = context;
    uint64_t now_ns = clock_monotonic_ns();

    (void)fd, (void)events;
    for (uint32_t i = 0; i < engine->slots; i += engine->groups.slots_per_group)
        check_timeouts(http2_connection_of(engine, i), now_ns);
}

/* ---- Life cycle ---- */

static void http2_connection_destroy(struct http2_connection *connection)
{
    if (connection == NULL)
        return;
    if (connection->stream.easy != NULL)
        close_connection(connection);
    raw_stream_destroy(&connection->stream);
    for (uint32_t i = 0; i < connection->stream_count; i++) {
        body_check_close(&connection->streams[i].check);
        cookie_jar_free(&connection->streams[i].cookies);
        http2_fields_free(&connection->streams[i].fields);
    }
    free(connection);
}

/* FIRST_SLOT: the number of its first slot. Returns NULL if out of memory. */
static struct http2_connection *http2_connection_create(struct engine *engine,
                                                        struct curl_group *group,
                                                        uint32_t first_slot)
{
    const struct engine_config *config = &engine->config;
    uint32_t count = config->plan->streams;
    struct http2_connection *connection =
        calloc(1, sizeof(*connection) + count * sizeof(connection->streams[0]));
    bool opened = true;

    if (connection == NULL)
        return NULL;
    connection->engine = engine;
    connection->first_slot = first_slot;
    connection->stream_count = count;
    for (uint32_t i = 0; i < count && opened; i++) {
        connection->streams[i].connection = connection;
        opened = body_check_open(&connection->streams[i].check, &config->plan->checks);
    }
    if (opened &&
        raw_stream_init(&connection->stream, config, group, engine->sockets, connection) &&
        (first_slot != 0 || config->transcript == NULL ||
         transcript_attach(config->transcript, connection->stream.easy)))
        return connection;
    http2_connection_destroy(connection);
    return NULL;
}

static void on_report(evutil_socket_t fd, short events, void *context)
{
    (void)fd, (void)events;
    report_ended(context);
}

static bool engine_raw_http2_reserve(struct engine *engine, uint32_t slots)
{
    while (engine->slots < slots) {
        struct group *group = (struct group *)curl_groups_get(&engine->groups, engine->slots);

        if (group == NULL)
            return false;
        group->connection = http2_connection_create(engine, &group->curl, engine->slots);
        if (group->connection == NULL)
            return false;
        engine->slots += engine->groups.slots_per_group;
    }
    return true;
}

static void engine_raw_http2_destroy(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->groups.count; i++)
        http2_connection_destroy(((struct group *)engine->groups.group[i])->connection);
    curl_groups_end(&engine->groups);
    if (engine->sweep != NULL)
        event_free(engine->sweep);
    if (engine->report != NULL)
        event_free(engine->report);
    for (size_t i = 0; engine->fields != NULL && i < engine->config.request_plan->count; i++)
        http2_fields_free(&engine->fields[i]);
    free(engine->fields);
    free(engine->buffer);
    nghttp2_session_callbacks_del(engine->callbacks);
    curl_sockets_destroy(engine->sockets);
    free(engine);
}

static struct engine *engine_raw_http2_create(const struct engine_config *config)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL)
        return NULL;
    engine->config = *config;
    engine->sockets = curl_sockets_create(config->base);
    engine->groups = (struct curl_groups){
        .sockets = engine->sockets,
        .ended = http2_on_ended,
        .group_bytes = sizeof(struct group),
        .slots_per_group = config->plan->streams,
    };
    engine->ended_tail = &engine->ended;
    engine->buffer = malloc(BUFFER_BYTES);
    engine->fields = calloc(config->request_plan->count, sizeof(*engine->fields));
    engine->report = event_new(config->base, -1, 0, on_report, engine);
    engine->sweep = raw_sweep_start(config, http2_on_sweep, engine);
    if (engine->sockets != NULL && engine->buffer != NULL && engine->fields != NULL &&
        engine->report != NULL && engine->sweep != NULL && http2_callbacks_make(&engine->callbacks))
        return engine;
    engine_raw_http2_destroy(engine);
    return NULL;
}

const struct engine_ops engine_raw_http2 = {
    .name = "raw",
    .create = engine_raw_http2_create,
    .reserve = engine_raw_http2_reserve,
    .begin = engine_raw_http2_begin,
    .flush = engine_raw_http2_flush,
    .cancel = engine_raw_http2_cancel,
    .close = engine_raw_http2_close,
    .forget = engine_raw_http2_forget,
    .destroy = engine_raw_http2_destroy,
};
