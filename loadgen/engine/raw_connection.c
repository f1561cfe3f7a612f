#include "loadgen/engine/raw_connection.h"

#include "common/clock.h"

#include "loadgen/engine/curl_handle.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUFFER_BYTES = 256 * 1024,
    CALLS_PER_EVENT = 16, /* recv() or send() calls, so that a fast server cannot delay timers */
};

/* ---- Connecting and closing ---- */

void raw_connection_close(struct raw_connection *connection)
{
    raw_stream_close(&connection->stream);
    connection->state = RAW_DOWN;
}

/* ---- The end of a request ---- */

static struct transcript *transcript_of(const struct raw_connection *connection)
{
    return connection->slot == 0 ? connection->shared->config.transcript : NULL;
}

static void raw_finish(struct raw_connection *connection, struct transaction *transaction,
                       uint64_t now_ns)
{
    const struct engine_owner *owner = &connection->shared->config.owner;

    if (transcript_of(connection) != NULL)
        transcript_end(transcript_of(connection), connection->stream.easy);
    transaction->connected = connection->fresh && connection->connect_ns > 0;
    transaction->connect_ns = connection->connect_ns;
    transaction->handshake_ns = connection->fresh ? connection->handshake_ns : 0;
    transaction->resumed = connection->stream.resumed;
    transaction->first_byte_ns = connection->first_byte_ns > connection->begun_ns
                                     ? connection->first_byte_ns - connection->begun_ns
                                     : 0;
    transaction->head_bytes = connection->response.head_bytes;
    transaction->body_bytes = connection->response.body_bytes;
    owner->ended(owner->context, connection->slot, transaction, now_ns);
}

static void raw_fail(struct raw_connection *connection, enum error_kind error)
{
    struct transaction transaction = {.error = error};

    error_texts_record(connection->shared->config.error_texts, error,
                       connection->stream.error_text);
    raw_connection_close(connection);
    raw_finish(connection, &transaction, clock_monotonic_ns());
}

static void on_report_broken(evutil_socket_t fd, short events, void *context)
{
    struct raw_shared *shared = context;
    struct raw_connection *connection = shared->broken, *next;

    (void)fd;
    (void)events;
    shared->broken = NULL;
    for (; connection != NULL; connection = next) {
        next = connection->next_broken;
        if (connection->state == RAW_BROKEN)
            raw_fail(connection, connection->error);
    }
}

/* The response is complete. OPEN: the server has not closed the connection. */
static void succeed(struct raw_connection *connection, bool open, uint64_t now_ns)
{
    const struct plan *plan = connection->shared->config.plan;
    struct transaction transaction = {
        .error = ERROR_KIND_NONE,
        .status = connection->response.status,
        .bad_content =
            body_check_fails(&connection->check, &plan->checks, connection->response.body_bytes),
    };
    bool persists = connection->response.keep_alive && plan->keepalive &&
                    (plan->requests_per_connection == 0 ||
                     connection->requests < plan->requests_per_connection);

    if (open && connection->state == RAW_RECEIVING && persists)
        connection->state = RAW_FREE;
    else
        raw_connection_close(connection);
    raw_finish(connection, &transaction, now_ns);
}

/* ---- Sending ---- */

/* Sends until the socket's buffer is full, or enough for one event. Returns false if it failed. */
static bool send_some(struct raw_connection *connection)
{
    connection->state = RAW_SENDING;
    for (int i = 0; i < CALLS_PER_EVENT && connection->sent < connection->message_length; i++) {
        ssize_t n = raw_stream_send(&connection->stream, connection->message + connection->sent,
                                    connection->message_length - connection->sent);

        if (n < 0 && !raw_stream_would_block(errno))
            return false;
        if (n < 0)
            break;
        connection->sent += (size_t)n;
    }
    if (connection->sent < connection->message_length)
        return event_add(connection->stream.writable, NULL) == 0;
    connection->state = RAW_RECEIVING;
    return true;
}

/* Puts the Cookie field, if there are cookies for the request, at the end of its head. */
static void add_cookies(struct raw_connection *connection)
{
    const struct request *request = connection->request;
    size_t head_length = request->message_length - request->body_length - strlen("\r\n");
    char *value = cookie_jar_value(&connection->cookies, request, time(NULL)), *message;

    free(connection->with_cookies);
    connection->with_cookies = NULL;
    if (value == NULL)
        return;
    message = malloc(request->message_length + strlen(value) + sizeof("Cookie: \r\n"));
    if (message != NULL) {
        size_t used = head_length;

        memcpy(message, request->message, head_length);
        used += (size_t)sprintf(message + used, "Cookie: %s\r\n\r\n", value);
        if (request->body_length > 0)
            memcpy(message + used, request->body, request->body_length);
        connection->message = message;
        connection->message_length = used + request->body_length;
    }
    connection->with_cookies = message;
    free(value);
}

static bool send_request(struct raw_connection *connection)
{
    connection->message = connection->request->message;
    connection->message_length = connection->request->message_length;
    if (connection->shared->config.plan->cookies)
        add_cookies(connection);
    if (transcript_of(connection) != NULL)
        transcript_add_head(transcript_of(connection), '>', connection->message,
                            connection->message_length);
    connection->sent = 0;
    connection->requests++;
    return send_some(connection);
}

static void raw_on_writable(evutil_socket_t fd, short events, void *context)
{
    struct raw_connection *connection = context;

    (void)fd;
    (void)events;
    if (connection->state == RAW_SENDING && !send_some(connection))
        raw_fail(connection, ERROR_KIND_CLOSED);
}

/* ---- Receiving ---- */

/* Reads and parses once. Returns whether there may be more to read. */
static bool raw_receive_some(struct raw_connection *connection)
{
    char *buffer = connection->shared->buffer;
    ssize_t n = raw_stream_receive(&connection->stream, buffer, BUFFER_BYTES);
    uint64_t now_ns = clock_monotonic_ns();
    size_t used;

    if (n < 0 && raw_stream_would_block(errno))
        return false;
    if (n <= 0) {
        if (n == 0 && response_end(&connection->response) == RESPONSE_DONE)
            succeed(connection, false, now_ns);
        else
            raw_fail(connection, ERROR_KIND_CLOSED);
        return false;
    }
    if (connection->first_byte_ns == 0) {
        connection->first_byte_ns = now_ns;
        if (transcript_of(connection) != NULL)
            transcript_add_head(transcript_of(connection), '<', buffer, (size_t)n);
    }
    switch (response_feed(&connection->response, buffer, (size_t)n, &used)) {
    case RESPONSE_MORE:
        return n == BUFFER_BYTES || connection->stream.tls;
    case RESPONSE_DONE:
        if (used == (size_t)n)
            succeed(connection, true, now_ns);
        else
            raw_fail(connection, ERROR_KIND_SURPLUS);
        break;
    case RESPONSE_BAD:
        raw_fail(connection, ERROR_KIND_MALFORMED);
        break;
    }
    return false;
}

static void raw_on_readable(evutil_socket_t fd, short events, void *context)
{
    struct raw_connection *connection = context;
    const struct engine_owner *owner = &connection->shared->config.owner;

    (void)fd;
    raw_stream_begin_reading(&connection->stream, events);
    if (connection->state == RAW_FREE) {
        /* The server closed an idle connection, or sent bytes that no request asked for. */
        if (!connection->stream.tls && curl_sockets_has_bytes(connection->stream.fd))
            owner->unsolicited(owner->context);
        raw_connection_close(connection);
        return;
    }
    for (int i = 0; i < CALLS_PER_EVENT; i++)
        if (!raw_receive_some(connection))
            return;
    raw_stream_read_later(&connection->stream);
}

/* ---- The result of connecting ---- */

void raw_connection_established(struct raw_connection *connection)
{
    const struct engine_owner *owner = &connection->shared->config.owner;

    connection->state = RAW_RECEIVING;
    connection->connect_ns = clock_monotonic_ns() - connection->begun_ns;
    connection->handshake_ns = curl_handle_handshake_ns(connection->stream.easy);
    owner->connected(owner->context, connection->slot);
    connection->stream.error_text[0] = '\0';
    if (!raw_stream_take_socket(&connection->stream) ||
        !raw_stream_watch(&connection->stream, raw_on_readable, raw_on_writable, connection)) {
        snprintf(connection->stream.error_text, sizeof(connection->stream.error_text), "%s",
                 strerror(errno));
        raw_fail(connection, ERROR_KIND_LOCAL);
    } else if (!send_request(connection))
        raw_fail(connection, ERROR_KIND_CLOSED);
}

void raw_connection_failed(struct raw_connection *connection, CURLcode code)
{
    raw_fail(connection, raw_stream_failure(&connection->stream, code));
}

/* ---- A request ---- */

void raw_connection_begin(struct raw_connection *connection, const struct request *request,
                          uint64_t now_ns)
{
    connection->request = request;
    connection->begun_ns = now_ns;
    connection->first_byte_ns = 0;
    connection->connect_ns = connection->handshake_ns = 0;
    connection->fresh = false;
    response_begin(&connection->response, request->head);
    body_check_begin(&connection->check, &connection->shared->config.plan->checks);
    if (connection->state == RAW_FREE && connection->origin != request->origin)
        raw_connection_close(connection);
    if (connection->state == RAW_DOWN) {
        connection->state = RAW_CONNECTING;
        connection->fresh = true;
        connection->requests = 0;
        connection->origin = request->origin;
        raw_stream_connect(&connection->stream, request);
    } else if (!send_request(connection)) {
        /* Reported in the next loop iteration: the owner must not be called from here. */
        connection->state = RAW_BROKEN;
        connection->error = ERROR_KIND_CLOSED;
        connection->next_broken = connection->shared->broken;
        connection->shared->broken = connection;
        event_active(connection->shared->report_broken, EV_TIMEOUT, 0);
    }
}

void raw_connection_check_timeout(struct raw_connection *connection, uint64_t now_ns)
{
    uint64_t timeout_ns = connection->shared->config.plan->timeout_ms * NS_PER_MS;

    if ((connection->state == RAW_SENDING || connection->state == RAW_RECEIVING) &&
        now_ns >= connection->begun_ns + timeout_ns)
        raw_fail(connection, ERROR_KIND_TIMEOUT);
}

/* ---- Life cycle ---- */

static void raw_on_body(void *context, const char *bytes, size_t length)
{
    struct raw_connection *connection = context;

    const struct engine_config *config = &connection->shared->config;

    body_check_add(&connection->check, &config->plan->checks, bytes, length);
    if (config->owner.body != NULL)
        config->owner.body(config->owner.context, connection->slot, bytes, length);
}

static void raw_on_field(void *context, struct span name, struct span value)
{
    const struct raw_connection *connection = context;
    const struct engine_owner *owner = &connection->shared->config.owner;

    owner->field(owner->context, connection->slot, name, value);
}

static void on_cookie(void *context, const char *value, size_t length)
{
    struct raw_connection *connection = context;

    cookie_jar_store(&connection->cookies, connection->request, value, length, time(NULL));
}

bool raw_connection_init(struct raw_connection *connection, struct raw_shared *shared,
                         struct curl_group *group, struct curl_sockets *sockets, uint32_t slot)
{
    connection->shared = shared;
    connection->slot = slot;
    connection->response.line = malloc(RESPONSE_LINE_MAX);
    connection->response.context = connection;
    connection->response.on_body =
        shared->config.plan->checks.digest_known || shared->config.owner.body != NULL ? raw_on_body
                                                                                      : NULL;
    connection->response.on_field = shared->config.owner.field != NULL ? raw_on_field : NULL;
    connection->response.on_cookie = shared->config.plan->cookies ? on_cookie : NULL;
    return raw_stream_init(&connection->stream, &shared->config, group, sockets, connection) &&
           connection->response.line != NULL &&
           body_check_open(&connection->check, &shared->config.plan->checks) &&
           (transcript_of(connection) == NULL ||
            transcript_attach(transcript_of(connection), connection->stream.easy));
}

void raw_connection_destroy(struct raw_connection *connection)
{
    if (connection->stream.easy != NULL)
        raw_connection_close(connection);
    raw_stream_destroy(&connection->stream);
    body_check_close(&connection->check);
    free(connection->response.line);
    free(connection->with_cookies);
    cookie_jar_free(&connection->cookies);
}

bool raw_shared_begin(struct raw_shared *shared, const struct engine_config *config)
{
    *shared = (struct raw_shared){.config = *config};
    shared->buffer = malloc(BUFFER_BYTES);
    shared->report_broken = event_new(config->base, -1, 0, on_report_broken, shared);
    return shared->buffer != NULL && shared->report_broken != NULL;
}

void raw_shared_end(struct raw_shared *shared)
{
    if (shared->report_broken != NULL)
        event_free(shared->report_broken);
    free(shared->buffer);
}
