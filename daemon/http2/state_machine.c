#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/read_buffer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/connection/unsent.h"
#include "daemon/http2/frames.h"
#include "daemon/http2/output.h"
#include "daemon/http2/requests.h"
#include "daemon/http2/stream.h"
#include "daemon/transaction/accounting.h"

#include <errno.h>
#include <stdlib.h>

enum { BURST_FIRST_BYTES = 128 * 1024 };

/* The end */

/* RFC 9113 section 6.8: announces the end before it refuses streams. */
static void announce_goaway(struct http2_connection *http2)
{
    if (http2->goaway != GOAWAY_NONE)
        return;
    http2->goaway = GOAWAY_ANNOUNCED;
    output_put_goaway(http2, INT32_MAX, HTTP2_NO_ERROR);
    output_put_ping(http2, 0, frames_drain_ping);
}

/* Closes all streams; those with offload jobs remain until these are done. */
static void close_streams(struct http2_connection *http2)
{
    struct http2_stream *stream = TAILQ_FIRST(&http2->streams);

    while (stream != NULL) {
        struct http2_stream *next = TAILQ_NEXT(stream, link);

        if (!stream->dead)
            stream_close(stream);
        stream = next;
    }
}

/* Waiting */

/* True if a response has begun. */
static bool is_sending(const struct http2_connection *http2)
{
    const struct http2_stream *stream;

    TAILQ_FOREACH(stream, &http2->streams, link)
    if (stream->sending)
        return true;
    return http2->connection.unsent != NULL;
}

/* True if the client's windows hold up the response of STREAM. */
static bool is_held_up(const struct http2_stream *stream)
{
    return stream->sending && !stream->reading &&
           (stream->send_window <= 0 || stream->http2->send_window <= 0);
}

static bool is_window_closed(const struct http2_connection *http2)
{
    const struct http2_stream *stream;

    TAILQ_FOREACH(stream, &http2->streams, link)
    if (is_held_up(stream))
        return true;
    return false;
}

/*
 * True if the client has opened the windows for STREAM not at all, or more slowly than
 * min_send_rate, for send_timeout; else begins a new measurement after that time.
 */
static bool is_overdue(struct http2_stream *stream)
{
    const struct transaction_context *context = http2_context(stream->http2);
    const struct config *config = context->worker->config;
    uint64_t ms = (context->loop_now_ns - stream->measured_ns) / NS_PER_MS;

    if (!is_held_up(stream) || ms < config->connections_send_timeout)
        return false;
    if (stream->measured_bytes == 0 ||
        stream->measured_bytes * 1000 < config->connections_min_send_rate * ms)
        return true;
    stream->measured_ns = context->loop_now_ns;
    stream->measured_bytes = 0;
    return false;
}

/* The deadline passes only if a stream is overdue, or nothing happens. */
static void wait_for_window(struct http2_connection *http2)
{
    struct connection *connection = &http2->connection;
    struct http2_stream *stream;
    bool overdue = false;

    TAILQ_FOREACH(stream, &http2->streams, link)
    overdue = is_overdue(stream) || overdue;
    if (!overdue || connection->deadline != DEADLINE_SEND)
        connection_set_deadline(connection, DEADLINE_SEND);
}

/* Resets the streams whose windows the client does not open. */
static void reset_overdue(struct http2_connection *http2)
{
    struct http2_stream *stream = TAILQ_FIRST(&http2->streams);

    while (stream != NULL) {
        struct http2_stream *next = TAILQ_NEXT(stream, link);

        if (is_overdue(stream) && output_has_room(&http2_context(http2)->output)) {
            metric_add(http2_context(http2)->metrics, METRIC_http2_stalled, 1);
            output_put_reset(http2, stream->id, HTTP2_CANCEL);
            stream_close(stream);
        }
        stream = next;
    }
}

static enum deadline deadline_of(const struct http2_connection *http2)
{
    if (requests_await_bodies(http2))
        return DEADLINE_BODY;
    if (http2->connection.unserved != NULL || http2->block != NULL)
        return DEADLINE_HEADER;
    if (http2->stream_count > 0)
        return DEADLINE_NONE;
    return DEADLINE_KEEPALIVE;
}

/* Waits for the client. Everything that can be sent now is sent. */
static void wait_for_client(struct http2_connection *http2)
{
    struct connection *connection = &http2->connection;

    connection_watch(connection, EV_READ);
    if (is_window_closed(http2)) {
        wait_for_window(http2);
    } else {
        connection_set_deadline(connection, deadline_of(http2));
        if (http2->stream_count == 0)
            stream_free_spare(http2);
    }
    if (connection->loop->mode == THREAD_MOVING)
        connection_apply_mode(connection);
}

/* After everything has been processed that can be: sends, and waits for what comes next. */
static void send_and_wait(struct http2_connection *http2, bool log_full)
{
    struct connection *connection = &http2->connection;
    enum output_result sent;

    if (connection->client.closing)
        announce_goaway(http2);
    if (http2->goaway == GOAWAY_ANNOUNCED && connection->loop->mode == THREAD_STOPPING)
        output_put_final_goaway(http2);
    connection->client.closing = http2->goaway != GOAWAY_NONE;
    sent = output_send(http2);
    connection_set_busy(connection, is_sending(http2));
    if (sent == OUTPUT_FAILED) {
        connection_abandon(connection);
    } else if (sent == OUTPUT_BLOCKED) {
        connection_wait_for_client(connection);
    } else if (http2->failed) {
        connection->client.linger_wanted = true;
        close_streams(http2);
        if (connection->client.jobs_out > 0)
            connection_abandon(connection);
        else
            connection_linger(connection);
    } else if (log_full) {
        connection_wait_for_log(connection);
    } else if (http2->goaway == GOAWAY_FINAL && http2->stream_count == 0) {
        connection->client.linger_wanted = true;
        connection_linger(connection);
    } else if (sent == OUTPUT_MORE) {
        connection_wait(connection, EV_READ | EV_WRITE, DEADLINE_SEND);
    } else {
        wait_for_client(http2);
    }
}

/* Frames */

static void fail_http2(struct http2_connection *http2, enum http2_error error)
{
    metric_add(http2_context(http2)->metrics, METRIC_http2_errors, 1);
    output_put_goaway(http2, http2->last_stream, error);
    http2->failed = true;
}

/*
 * Processes all frames in DATA, in order, and keeps the rest. While something is unsent no frame is
 * processed, so that a client that does not read cannot make the answers pile up.
 */
static void serve_frames(struct connection *connection, const char *data, size_t length)
{
    struct http2_connection *http2 = http2_of(connection);
    struct transaction_context *context = http2_context(http2);
    enum output_result sent = OUTPUT_DONE;
    bool log_full = false;
    size_t at = 0, used = 1;

    while (used > 0 && !http2->failed) {
        enum http2_error error;

        if (!output_has_room(&context->output) && (sent = output_send(http2)) != OUTPUT_DONE &&
            sent != OUTPUT_MORE)
            break;
        if (!requests_process_runnable(http2) || !accounting_may_begin(context)) {
            log_full = !accounting_may_begin(context);
            if (log_full)
                break;
            continue;
        }
        error = frames_receive(http2, data + at, length - at, &used);
        at += used;
        if (error != HTTP2_NO_ERROR)
            fail_http2(http2, error);
    }
    if (http2->failed)
        at = length;
    if (sent == OUTPUT_FAILED || !connection_keep_unserved(connection, data + at, length - at)) {
        connection_abandon(connection);
        return;
    }
    if (sent == OUTPUT_BLOCKED)
        connection_wait_for_client(connection);
    else
        send_and_wait(http2, log_full);
}

static void serve_unserved_frames(struct http2_connection *http2)
{
    const struct read_buffer *unserved = http2->connection.unserved;

    if (unserved != NULL)
        serve_frames(&http2->connection, unserved->bytes, unserved->length);
    else
        serve_frames(&http2->connection, "", 0);
}

/* Reserves log space for responses that came from another thread. */
static bool reserve_http2_log(struct http2_connection *http2)
{
    const struct transaction_context *context = http2_context(http2);
    struct http2_stream *stream;

    TAILQ_FOREACH(stream, &http2->streams, link)
    if (stream->sending && !stream->reserved) {
        if (!accounting_has_room(context, accounting_words(stream->record)))
            return false;
        stream_set_reserved(stream, true);
    }
    return unsent_reserve_log(&http2->connection);
}

static void resume_http2(struct connection *connection)
{
    struct http2_connection *http2 = http2_of(connection);
    enum output_result sent;

    if (connection_close_abandoned(connection) ||
        (connection->loop->mode == THREAD_MOVING && connection_apply_mode(connection)))
        return;
    if (!reserve_http2_log(http2)) {
        connection_wait_for_log(connection);
        return;
    }
    sent = output_send_rest(http2);
    if (sent == OUTPUT_FAILED)
        connection_abandon(connection);
    else if (sent == OUTPUT_BLOCKED)
        connection_wait_for_client(connection);
    else
        serve_unserved_frames(http2);
}

/* Reading */

static void read_first(struct http2_connection *http2)
{
    struct connection *connection = &http2->connection;
    char *to = connection->loop->space->read[0];
    size_t got = connection_read(connection, to, LOOP_READ_BYTES);

    if (got > 0)
        serve_frames(connection, to, got);
}

static void on_ready_http2(evutil_socket_t fd, short what, void *argument)
{
    struct connection *connection = argument;
    struct http2_connection *http2 = http2_of(connection);

    (void)fd;
    loop_enter(connection->loop);
    if (connection->lingering)
        connection_read_lingering(connection);
    else if (http2->connection.unsent != NULL || (what & EV_READ) == 0)
        resume_http2(connection);
    else if (connection->unserved == NULL)
        read_first(http2);
    else if (connection_read_more(connection, FRAME_PAYLOAD_MAX))
        serve_unserved_frames(http2);
}

/* The protocol */

static void init_http2(struct connection *connection)
{
    struct http2_connection *http2 = http2_of(connection);

    TAILQ_INIT(&http2->streams);
    for (int i = 0; i < URGENCY_COUNT; i++)
        TAILQ_INIT(&http2->ready[i]);
    http2->settings = http2_settings_initial;
    http2->send_window = http2->receive_window = WINDOW_INITIAL;
    http2->burst = BURST_FIRST_BYTES;
}

/* The client's preface has been read: the connection begins with our SETTINGS. */
static void begin_http2_connection(struct connection *connection)
{
    struct http2_connection *http2 = http2_of(connection);

    if (nghttp2_hd_inflate_new(&http2->inflater) != 0) {
        connection_close(connection);
        return;
    }
    metric_add(http2_context(http2)->metrics, METRIC_connections_http2, 1);
    output_put_settings(http2);
    serve_unserved_frames(http2);
}

static void time_out_http2(struct connection *connection)
{
    struct http2_connection *http2 = http2_of(connection);

    if (connection->deadline == DEADLINE_BODY && http2->connection.unsent == NULL) {
        requests_time_out(http2);
        connection_restart_deadline(connection);
        serve_unserved_frames(http2);
    } else if (connection->deadline == DEADLINE_SEND && http2->connection.unsent == NULL) {
        reset_overdue(http2);
        connection_restart_deadline(connection);
        serve_unserved_frames(http2);
    } else if ((connection->deadline == DEADLINE_KEEPALIVE ||
                connection->deadline == DEADLINE_HEADER) &&
               http2->connection.unsent == NULL) {
        output_put_final_goaway(http2);
        http2->failed = true;
        send_and_wait(http2, false);
    } else {
        connection_abandon(connection);
    }
}

static bool is_http2_between_requests(const struct connection *connection)
{
    (void)connection;
    return false;
}

/* Announces the end, or does so when the client has taken what is unsent. */
static void drain_http2(struct connection *connection)
{
    connection->client.closing = true;
    resume_http2(connection);
}

static void moved_http2(struct connection *connection, bool leaving)
{
    struct http2_connection *http2 = http2_of(connection);
    _Atomic uint64_t *metrics = http2_context(http2)->metrics;
    struct http2_stream *stream;

    if (leaving) {
        metric_sub(metrics, METRIC_http2_open, 1);
        metric_sub(metrics, METRIC_http2_streams, http2->stream_count);
        TAILQ_FOREACH(stream, &http2->streams, link)
        if (stream->sending)
            stream_set_reserved(stream, false);
    } else {
        metric_add(metrics, METRIC_http2_open, 1);
        metric_add(metrics, METRIC_http2_streams, http2->stream_count);
    }
    connection_set_busy(connection, !leaving && is_sending(http2));
}

static void abort_http2_responses(struct connection *connection)
{
    struct http2_connection *http2 = http2_of(connection);

    close_streams(http2);
    unsent_abort(connection);
}

static void free_http2(struct connection *connection, struct cache *cache)
{
    struct http2_connection *http2 = http2_of(connection);
    struct http2_stream *stream;

    while ((stream = TAILQ_FIRST(&http2->streams)) != NULL)
        stream_free(stream, cache);
    stream_free_spare(http2);
    free(http2->block);
    nghttp2_hd_inflate_del(http2->inflater);
}

const struct connection_protocol http2_protocol = {
    .connection_bytes = sizeof(struct http2_connection),
    .init = init_http2,
    .accepted = begin_http2_connection,
    .ready = on_ready_http2,
    .serve = serve_frames,
    .resume = resume_http2,
    .timed_out = time_out_http2,
    .is_between_requests = is_http2_between_requests,
    .drain = drain_http2,
    .moved = moved_http2,
    .abort = abort_http2_responses,
    .free = free_http2,
};
