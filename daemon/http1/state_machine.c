#include "daemon/http1/connection.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/read_buffer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/connection/transport.h"
#include "daemon/connection/unsent.h"
#include "daemon/http1/request_body.h"
#include "daemon/http1/request_parser.h"
#include "daemon/http1/response_writer.h"
#include "daemon/transaction/accounting.h"
#include "daemon/transaction/transaction.h"

#include <errno.h>
#include <sys/socket.h>

static struct http1_connection *http1_of(struct connection *connection)
{
    return CONTAINER_OF(connection, struct http1_connection, connection);
}

static struct transaction_context *context_of(const struct http1_connection *http1)
{
    return &http1->connection.loop->context;
}

/* Waiting and closing */

/* Called when everything that was read is served: closes, hands over, or waits for the client. */
static void wait_or_close(struct http1_connection *http1)
{
    struct connection *connection = &http1->connection;

    if (connection->client.closing)
        connection_linger(connection);
    else if (!connection_apply_mode(connection))
        connection_wait(connection, EV_READ,
                        read_buffer_is_idle(connection->unserved) ? DEADLINE_KEEPALIVE
                                                                  : DEADLINE_HEADER);
}

/* Waits to send the rest of a response. */
static void wait_to_send(struct connection *connection, enum write_result why)
{
    if (why == WRITE_OFFLOAD)
        connection_wait(connection, 0, DEADLINE_NONE);
    else
        connection_wait_for_client(connection);
}

/* Sends 100 (Continue) if it is due; all earlier responses have been sent. */
static void wait_for_body(struct http1_connection *http1)
{
    struct connection *connection = &http1->connection;
    ssize_t sent = request_body_send_continue(http1);

    if (sent > 0)
        connection_wait(connection, EV_READ, DEADLINE_BODY);
    else if (sent < 0 && errno != EAGAIN && errno != EINTR)
        connection_close(connection);
    else
        connection_wait(connection, EV_WRITE, DEADLINE_SEND);
}

/* Requests */

enum progress {
    PROGRESS_NEXT,       /* the response is composed: look for the next request */
    PROGRESS_INCOMPLETE, /* the rest is not a complete request head */
    PROGRESS_BODY,       /* the request's body is incomplete */
    PROGRESS_OFFLOAD,    /* an offload job runs for the request */
    PROGRESS_LOG,        /* no space in the log ring */
    PROGRESS_HTTP2,      /* the client begins HTTP/2 */
    PROGRESS_NO_PREFACE, /* it does not, although ALPN has selected it (RFC 9113 section 3.4) */
};

/* The client's preface (RFC 9113 section 3.4). The parser rejects it, as a request with this method. */
static const struct span http2_preface = {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24};

/*
 * What rejected DATA is: the preface, its beginning, or else PROGRESS_NEXT. Over TLS, HTTP/2 begins
 * only after ALPN (RFC 9113 section 3.2).
 */
static enum progress check_preface(const struct http1_connection *http1, const char *data,
                                   size_t length)
{
    const struct connection *connection = &http1->connection;
    size_t common = length < http2_preface.length ? length : http2_preface.length;

    if (connection->loop->http2 == NULL || connection->client.requests > 0 ||
        (connection->tls != NULL && !connection->awaits_http2) ||
        memcmp(data, http2_preface.start, common) != 0)
        return PROGRESS_NEXT;
    return common == http2_preface.length ? PROGRESS_HTTP2 : PROGRESS_INCOMPLETE;
}

/* DATA begins with the preface. */
static void begin_http2(struct http1_connection *http1, const char *data, size_t length)
{
    struct connection *connection = &http1->connection;
    const struct connection_protocol *http2 = connection->loop->http2;

    if (read_buffer_keep(&connection->unserved, data + http2_preface.length,
                         length - http2_preface.length))
        connection = connection_become(connection, http2);
    else
        http2 = NULL;
    if (http2 != NULL && connection != NULL)
        http2->accepted(connection);
    else
        connection_close(&http1->connection);
}

static struct request_limits limits_of(const struct http1_connection *http1)
{
    const struct config *config = context_of(http1)->worker->config;

    return (struct request_limits){config->limits_request_line, config->limits_header_bytes,
                                   config->limits_header_count};
}

/* Processes the request at DATA. Adds to *USED the bytes that belong to it. */
static enum progress serve_one(struct http1_connection *http1, const char *data, size_t length,
                               size_t *used)
{
    struct transaction_context *context = context_of(http1);
    struct client *client = &http1->connection.client;
    const struct request_limits limits = limits_of(http1);
    struct request request UNINITIALIZED;
    enum transaction_result result;
    int taken;

    if (UNLIKELY(!accounting_may_begin(context)))
        return PROGRESS_LOG;
    if (UNLIKELY(http1->connection.awaits_http2)) {
        enum progress progress = check_preface(http1, data, length);

        return progress != PROGRESS_NEXT ? progress : PROGRESS_NO_PREFACE;
    }
    taken = request_parse(data, length, &limits, &http1->scanned, &request);
    if (taken == 0)
        return PROGRESS_INCOMPLETE;
    http1->scanned = 0;
    if (UNLIKELY(taken < 0)) {
        enum progress progress = check_preface(http1, data, length);

        if (progress != PROGRESS_NEXT)
            return progress;
    }
    if (UNLIKELY(request.has_body)) {
        taken = request_body_check(http1, &request, data, length, (size_t)taken);
        if (taken == 0)
            return PROGRESS_BODY;
    }
    segment_activity_work(context->activity, THREAD_STATE_READ, context->loop_now_ns,
                          request.line.start, request.line.length);
    result = taken > 0 ? transaction_process(context, client, &http1->state, &request)
                       : transaction_reject(context, client, &http1->state, &request, -taken);
    if (result == TRANSACTION_WAITING)
        return PROGRESS_OFFLOAD;
    response_copy_body(context);
    if (UNLIKELY(http1->body != NULL))
        request_body_free(http1);
    *used += taken > 0 ? (size_t)taken : length;
    return PROGRESS_NEXT;
}

/* Selects what the connection waits for after its bytes are served and its responses written. */
static void wait_for_next(struct http1_connection *http1, enum progress progress,
                          enum write_result sent)
{
    if (sent != WRITE_DONE)
        wait_to_send(&http1->connection, sent);
    else if (progress == PROGRESS_BODY)
        wait_for_body(http1);
    else if (progress == PROGRESS_OFFLOAD)
        connection_wait(&http1->connection, 0, DEADLINE_NONE);
    else if (progress == PROGRESS_LOG)
        connection_wait_for_log(&http1->connection);
    else
        wait_or_close(http1);
}

/* Serves all requests in DATA, in order, and keeps the rest. */
static void serve(struct http1_connection *http1, const char *data, size_t length)
{
    struct connection *connection = &http1->connection;
    const struct output_buffer *output = &context_of(http1)->output;
    enum write_result sent = WRITE_DONE;
    enum progress progress = PROGRESS_NEXT;
    size_t used = 0;

    while (used < length && progress == PROGRESS_NEXT && !connection->client.closing &&
           sent == WRITE_DONE) {
        progress = serve_one(http1, data + used, length - used, &used);
        if (!output_has_room(output))
            sent = response_flush(http1);
    }
    if (UNLIKELY(progress == PROGRESS_HTTP2)) {
        begin_http2(http1, data, length);
        return;
    }
    if (UNLIKELY(progress == PROGRESS_NO_PREFACE)) {
        metric_add(context_of(http1)->metrics, METRIC_http2_errors, 1);
        connection_close(connection);
        return;
    }
    if (progress == PROGRESS_BODY)
        length = used + request_body_head_length(http1); /* the body's bytes are consumed */
    if (sent == WRITE_DONE)
        sent = response_flush(http1);
    if (sent == WRITE_FAILED || !connection_keep_unserved(connection, data + used, length - used)) {
        connection_abandon(connection);
        return;
    }
    if (connection->client.closing && connection->unserved != NULL)
        connection->client.linger_wanted = true; /* the client sends after its last request */
    if (used > 0 && connection_awaits_request(connection))
        connection_set_deadline(connection, DEADLINE_KEEPALIVE); /* restarted for the next head */
    wait_for_next(http1, progress, sent);
}

static void serve_unserved(struct http1_connection *http1)
{
    const struct read_buffer *unserved = http1->connection.unserved;

    serve(http1, unserved->bytes, unserved->length);
}

/* Called when the pending response is sent: serves the bytes already read, or waits. */
static void serve_rest(struct http1_connection *http1)
{
    const struct connection *connection = &http1->connection;

    if (!connection->client.closing && connection->unserved != NULL)
        serve_unserved(http1);
    else
        wait_or_close(http1);
}

static void continue_sending(struct http1_connection *http1)
{
    struct connection *connection = &http1->connection;

    if (!unsent_reserve_log(connection)) {
        connection_wait_for_log(connection);
        return;
    }
    switch (response_continue(http1)) {
    case WRITE_DONE:
        serve_rest(http1);
        break;
    case WRITE_BLOCKED:
        wait_to_send(connection, WRITE_BLOCKED);
        connection_apply_mode(connection);
        break;
    case WRITE_OFFLOAD:
        wait_to_send(connection, WRITE_OFFLOAD);
        break;
    case WRITE_FAILED:
        connection_close(connection);
        break;
    }
}

static void resume(struct connection *connection)
{
    struct http1_connection *http1 = http1_of(connection);

    if (connection_close_abandoned(connection) ||
        (connection->loop->mode == THREAD_MOVING && connection_apply_mode(connection)))
        return;
    if (connection->unsent != NULL)
        continue_sending(http1);
    else
        serve_rest(http1);
}

static void resume_request(struct transaction_state *state)
{
    resume(&CONTAINER_OF(state, struct http1_connection, state)->connection);
}

/* Timeouts */

static void reject_slow_head(struct http1_connection *http1)
{
    struct connection *connection = &http1->connection;
    const struct read_buffer *unserved = connection->unserved;
    const struct request_limits limits = limits_of(http1);
    enum write_result sent;
    struct request request;
    size_t scanned = 0;

    /* The request line may be complete: parses it for the log. */
    request_parse(unserved->bytes, unserved->length, &limits, &scanned, &request);
    if (request.line.start == NULL)
        request.line = SPAN("");
    transaction_reject(context_of(http1), &connection->client, &http1->state, &request, 408);
    response_copy_body(context_of(http1));
    sent = response_flush(http1);
    if (sent == WRITE_DONE)
        wait_or_close(http1);
    else if (sent == WRITE_FAILED)
        connection_close(connection);
    else
        wait_to_send(connection, sent);
}

/* Responds to an incomplete request with 408 (RFC 9110 section 15.5.9). */
static void time_out(struct connection *connection)
{
    struct http1_connection *http1 = http1_of(connection);

    if (!connection_awaits_request(connection) || connection->awaits_http2 ||
        !accounting_may_begin(context_of(http1))) {
        connection_close(connection);
    } else if (http1->body == NULL) {
        reject_slow_head(http1);
    } else {
        request_body_time_out(http1);
        serve_unserved(http1);
    }
}

/* Reading */

static void read_body(struct http1_connection *http1)
{
    struct connection *connection = &http1->connection;
    char *to = connection->loop->space->read[0];
    size_t got = connection_read(connection, to, LOOP_READ_BYTES);

    if (got == 0)
        return;
    if (request_body_receive(http1, to, got))
        serve_unserved(http1);
    else
        connection_watch(connection, EV_READ);
}

/*
 * Read-ahead: a thread with many ready connections reads from the next one before it serves the
 * bytes of the current one. Meanwhile the CPU prefetches the cache entry for the current one.
 */

/* The bytes where the target of a request line would be; empty if there are none. */
static struct span probable_target(const char *data, size_t length)
{
    enum { METHOD_MAX = 8 };
    const char *space = memchr(data, ' ', length < METHOD_MAX ? length : METHOD_MAX);
    const char *end =
        space != NULL ? memchr(space + 1, ' ', (size_t)(data + length - space) - 1) : NULL;

    return end != NULL ? (struct span){space + 1, (size_t)(end - space) - 1} : SPAN("");
}

/* Reads into TO. Returns false if it read nothing. */
static bool read_ahead_into(struct connection *connection, char *to)
{
    struct event_loop *loop = connection->loop;
    size_t got;

    lookup_prefetch_entry(&loop->context);
    got = connection_read(connection, to, LOOP_READ_BYTES);
    if (UNLIKELY(got == 0))
        return false;
    loop->ahead = (struct read_ahead){connection, to, got};
    lookup_prefetch_set(&loop->context, probable_target(to, got));
    return true;
}

static void read_ahead(struct connection *connection)
{
    struct event_loop *loop = connection->loop;
    struct read_ahead before = loop->ahead;
    char *to = loop->space->read[before.data == loop->space->read[0]];

    if (read_ahead_into(connection, to) && before.connection != NULL)
        serve(http1_of(before.connection), before.data, before.length);
}

/* If the connection closes immediately, no event is ever added. */
static void begin(struct connection *connection)
{
    struct event_loop *loop = connection->loop;

    if (read_ahead_into(connection, loop->space->read[0]))
        loop_serve_ahead(loop);
}

static bool begins_request(const struct connection *connection, short what)
{
    return (what & EV_WRITE) == 0 && !connection->lingering && connection->unserved == NULL &&
           connection->loop->ahead.connection != connection;
}

static void on_ready(evutil_socket_t fd, short what, void *argument)
{
    struct connection *connection = argument;
    struct http1_connection *http1 = http1_of(connection);

    (void)fd;
    loop_begin_iteration(connection->loop);
    if (LIKELY(begins_request(connection, what))) {
        read_ahead(connection);
        return;
    }
    loop_serve_ahead(connection->loop);
    if (what & EV_WRITE)
        resume(connection);
    else if (connection->lingering)
        connection_read_lingering(connection);
    else if (request_body_is_incomplete(http1))
        read_body(http1);
    else if (connection_read_more(connection, 1))
        serve_unserved(http1);
}

/* The protocol */

static void init(struct connection *connection)
{
    http1_of(connection)->state.resume = resume_request;
}

static void serve_connection(struct connection *connection, const char *data, size_t length)
{
    serve(http1_of(connection), data, length);
}

static bool is_between_requests(const struct connection *connection)
{
    const struct http1_connection *http1 = (const struct http1_connection *)connection;

    return connection->unsent == NULL && http1->body == NULL;
}

static void moved(struct connection *connection, bool leaving)
{
    connection_set_busy(connection, !leaving && connection->unsent != NULL);
}

static void abort_response(struct connection *connection)
{
    response_abort(http1_of(connection));
}

static void free_members(struct connection *connection, struct cache *cache)
{
    struct http1_connection *http1 = http1_of(connection);

    loading_discard(&http1->state, cache);
    request_body_free(http1);
}

const struct connection_protocol http1_protocol = {
    .connection_bytes = sizeof(struct http1_connection),
    .init = init,
    .accepted = begin,
    .ready = on_ready,
    .serve = serve_connection,
    .resume = resume,
    .timed_out = time_out,
    .is_between_requests = is_between_requests,
    .moved = moved,
    .abort = abort_response,
    .free = free_members,
};
