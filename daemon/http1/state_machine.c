#include "daemon/http1/connection.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/read_buffer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/connection/transport.h"
#include "daemon/connection/unsent.h"
#include "daemon/http1/body_parser.h"
#include "daemon/http1/request_parser.h"
#include "daemon/http1/response_writer.h"
#include "daemon/transaction/accounting.h"
#include "daemon/transaction/transaction.h"

#include <errno.h>
#include <stdlib.h>

/* Number of bytes of a body that restarts body_timeout. */
enum { BYTES_TO_RESTART = 64 * 1024 };

static struct http1_connection *http1_of(struct connection *connection)
{
    return CONTAINER_OF(connection, struct http1_connection, connection);
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

/*
 * Bodies of requests: each is received and discarded, so that the next request begins where it
 * should. A request is processed when its body is complete. Until then only its head is kept.
 *
 *   head parsed ─▶ check_body ─▶ complete ──────────────────────────▶ response
 *                       ├─▶ incomplete ─▶ (100) ─▶ read_body … ─▶ check_body
 *                       └─▶ rejected: 400, 408, 413, 431, 503
 */

struct request_body {
    struct body_parser parser;
    int result; /* BODY_MORE, BODY_DONE, or minus a status */
    size_t head_length;
    size_t bytes; /* since the deadline was restarted */
    bool continue_due;
};

/*
 * For a request with a body, whose head is the first HEAD of LENGTH bytes at DATA. Returns the
 * number of these bytes that belong to the request if it is complete, 0 if its body is
 * incomplete, or minus the status to reject it with. May be called again for the same request.
 */
static int check_body(struct http1_connection *http1, const struct request *request,
                      const char *data, size_t length, size_t head)
{
    const struct config *config = http1_context(http1)->worker->config;
    const struct body_limits limits = {config->limits_body_bytes, config->limits_header_bytes};
    struct client *client = &http1->connection.client;
    struct request_body *body = http1->body;
    struct request_body first = {.head_length = head,
                                 .continue_due = length == head && request->expect_continue};
    size_t used = 0;

    if (body != NULL)
        return body->result == BODY_MORE ? 0 : body->result < 0 ? body->result : (int)head;
    first.result = body_parser_begin(&first.parser, request, &limits);
    if (first.result == BODY_MORE && first.continue_due &&
        !transaction_supports_method(request->method)) {
        /* The client may read the final status and send no body, or still send all of it. */
        client->closing = client->linger_wanted = true;
        return (int)head;
    }
    if (first.result == BODY_MORE)
        first.result = body_parser_feed(&first.parser, data + head, length - head, &used);
    if (first.result != BODY_MORE)
        return first.result < 0 ? first.result : (int)(head + used);
    body = malloc(sizeof(*body));
    if (body == NULL)
        return -503;
    *body = first;
    http1->body = body;
    if (http1->state.began_ns == 0)
        http1->state.began_ns = http1_context(http1)->loop_now_ns;
    return 0;
}

static void free_body(struct http1_connection *http1)
{
    free(http1->body);
    http1->body = NULL;
}

/*
 * First sends 100 (Continue) if the client expects it (RFC 9110 section 10.1.1); all earlier
 * responses have been sent. What is sent of it in part cannot be completed later.
 */
static void wait_for_body(struct http1_connection *http1)
{
    static const char text[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct connection *connection = &http1->connection;
    const struct iovec part = {(void *)(uintptr_t)text, sizeof(text) - 1};

    if (http1->body->continue_due) {
        ssize_t sent = connection->transport->write(connection, &part, 1, WRITE_NEXT_NONE);

        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
            connection_wait(connection, EV_WRITE, DEADLINE_SEND);
            return;
        }
        if (sent > 0)
            metric_add(http1_context(http1)->metrics, METRIC_bytes_sent, (uint64_t)sent);
        if (sent != (ssize_t)part.iov_len) {
            connection_close(connection);
            return;
        }
        http1->body->continue_due = false;
    }
    connection_wait(connection, EV_READ, DEADLINE_BODY);
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

/*
 * The client's preface (RFC 9113 section 3.4). The parser rejects it, as a request with this
 * method.
 */
static const struct span http2_preface = {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24};

/*
 * Whether rejected DATA is the preface of HTTP/2 or its beginning; else PROGRESS_NEXT. Over TLS,
 * HTTP/2 begins only after ALPN (RFC 9113 section 3.2).
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

static struct request_limits limits_of(const struct config *config)
{
    return (struct request_limits){config->limits_request_line, config->limits_header_bytes,
                                   config->limits_header_count};
}

static uint64_t file_bytes_http1(const struct worker_context *worker, const char *data,
                                 size_t length)
{
    const struct request_limits limits = limits_of(worker->config);
    struct request request;
    size_t scanned = 0;

    return request_parse(data, length, &limits, &scanned, &request) > 0
               ? transaction_file_bytes(worker, &request)
               : 0;
}

/* Processes the request at DATA. Adds to *USED the bytes that belong to it. */
static enum progress serve_request(struct http1_connection *http1, const char *data, size_t length,
                                   size_t *used)
{
    struct transaction_context *context = http1_context(http1);
    struct client *client = &http1->connection.client;
    const struct request_limits limits = limits_of(context->worker->config);
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
        taken = check_body(http1, &request, data, length, (size_t)taken);
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
        free_body(http1);
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
static void serve_requests(struct connection *connection, const char *data, size_t length)
{
    struct http1_connection *http1 = http1_of(connection);
    const struct output_buffer *output = &http1_context(http1)->output;
    enum write_result sent = WRITE_DONE;
    enum progress progress = PROGRESS_NEXT;
    size_t used = 0;

    while (used < length && progress == PROGRESS_NEXT && !connection->client.closing &&
           sent == WRITE_DONE) {
        progress = serve_request(http1, data + used, length - used, &used);
        if (!output_has_room(output))
            sent = response_flush(http1);
    }
    if (UNLIKELY(progress == PROGRESS_HTTP2)) {
        begin_http2(http1, data, length);
        return;
    }
    if (UNLIKELY(progress == PROGRESS_NO_PREFACE)) {
        metric_add(http1_context(http1)->metrics, METRIC_http2_errors, 1);
        connection_close(connection);
        return;
    }
    if (progress == PROGRESS_BODY)
        length = used + http1->body->head_length; /* the body's bytes are consumed */
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

static void serve_unserved_requests(struct http1_connection *http1)
{
    const struct read_buffer *unserved = http1->connection.unserved;

    serve_requests(&http1->connection, unserved->bytes, unserved->length);
}

/* Called when the pending response is sent: serves the bytes already read, or waits. */
static void serve_rest(struct http1_connection *http1)
{
    const struct connection *connection = &http1->connection;

    if (!connection->client.closing && connection->unserved != NULL)
        serve_unserved_requests(http1);
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

static void resume_http1(struct connection *connection)
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

static void resume_http1_request(struct transaction_state *state)
{
    resume_http1(&CONTAINER_OF(state, struct http1_connection, state)->connection);
}

/* Timeouts */

static void reject_slow_head(struct http1_connection *http1)
{
    struct connection *connection = &http1->connection;
    const struct read_buffer *unserved = connection->unserved;
    const struct request_limits limits = limits_of(http1_context(http1)->worker->config);
    enum write_result sent;
    struct request request;
    size_t scanned = 0;

    /* The request line may be complete: parses it for the log. */
    request_parse(unserved->bytes, unserved->length, &limits, &scanned, &request);
    if (request.line.start == NULL)
        request.line = SPAN("");
    transaction_reject(http1_context(http1), &connection->client, &http1->state, &request, 408);
    response_copy_body(http1_context(http1));
    sent = response_flush(http1);
    if (sent == WRITE_DONE)
        wait_or_close(http1);
    else if (sent == WRITE_FAILED)
        connection_close(connection);
    else
        wait_to_send(connection, sent);
}

/* Responds to an incomplete request with 408 (RFC 9110 section 15.5.9). */
static void time_out_http1(struct connection *connection)
{
    struct http1_connection *http1 = http1_of(connection);

    if (!connection_awaits_request(connection) || connection->awaits_http2 ||
        !accounting_may_begin(http1_context(http1))) {
        connection_close(connection);
    } else if (http1->body == NULL) {
        reject_slow_head(http1);
    } else {
        http1->body->result = -408;
        serve_unserved_requests(http1);
    }
}

/* Reading */

/* Bytes after the end of the body are kept. */
static void read_body(struct http1_connection *http1)
{
    struct connection *connection = &http1->connection;
    struct request_body *body = http1->body;
    char *bytes = connection->loop->space->read[0];
    size_t got = connection_read(connection, bytes, LOOP_READ_BYTES), used;

    if (got == 0)
        return;
    body->continue_due = false;
    body->result = body_parser_feed(&body->parser, bytes, got, &used);
    if (body->result == BODY_DONE &&
        !read_buffer_append(&connection->unserved, bytes + used, got - used))
        body->result = -503;
    if (body->result != BODY_MORE) {
        serve_unserved_requests(http1);
        return;
    }
    body->bytes += got;
    if (body->bytes >= BYTES_TO_RESTART) {
        body->bytes = 0;
        connection_restart_deadline(connection);
    }
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
        serve_requests(before.connection, before.data, before.length);
}

/* If the connection closes immediately, no event is ever added. */
static void begin_http1(struct connection *connection)
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

static void on_ready_http1(evutil_socket_t fd, short what, void *argument)
{
    struct connection *connection = argument;
    struct http1_connection *http1 = http1_of(connection);
    bool is_ahead = connection->loop->ahead.connection == connection;

    (void)fd;
    loop_begin_iteration(connection->loop);
    if (LIKELY(begins_request(connection, what))) {
        read_ahead(connection);
        return;
    }
    loop_serve_ahead(connection->loop);
    if (is_ahead) /* it may be closed; if not, the event comes again */
        return;
    if (what & EV_WRITE)
        resume_http1(connection);
    else if (connection->lingering)
        connection_read_lingering(connection);
    else if (http1->body != NULL && http1->body->result == BODY_MORE)
        read_body(http1);
    else if (connection_read_more(connection, 1))
        serve_unserved_requests(http1);
}

/* The protocol */

static void init_http1(struct connection *connection)
{
    http1_of(connection)->state.resume = resume_http1_request;
}

static bool is_http1_between_requests(const struct connection *connection)
{
    const struct http1_connection *http1 = (const struct http1_connection *)connection;

    return connection->unsent == NULL && http1->body == NULL;
}

static void moved_http1(struct connection *connection, bool leaving)
{
    connection_set_busy(connection, !leaving && connection->unsent != NULL);
}

static void free_http1(struct connection *connection, struct cache *cache)
{
    struct http1_connection *http1 = http1_of(connection);

    loading_discard(&http1->state, cache);
    free_body(http1);
}

const struct connection_protocol http1_protocol = {
    .connection_bytes = sizeof(struct http1_connection),
    .init = init_http1,
    .accepted = begin_http1,
    .ready = on_ready_http1,
    .serve = serve_requests,
    .file_bytes = file_bytes_http1,
    .resume = resume_http1,
    .timed_out = time_out_http1,
    .is_between_requests = is_http1_between_requests,
    .moved = moved_http1,
    .abort = response_abort,
    .free = free_http1,
};
