/*
 * The engine that costs the least CPU time: our own HTTP/1. Each slot is a connection, which carries
 * one request at a time. The requests were built before the run; response.c parses the responses.
 * Without TLS a request costs one send() and one recv().
 */
#include "loadgen/engine/engine.h"

#include "common/clock.h"

#include "loadgen/engine/cookie_jar.h"
#include "loadgen/engine/curl_handle.h"
#include "loadgen/engine/raw_stream.h"
#include "loadgen/engine/response.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUFFER_BYTES = 256 * 1024,
    CALLS_PER_EVENT = 16, /* recv() or send() calls, so that a fast server cannot delay timers */
    CONNECTIONS_IN_GROUP = 20,
};

/* A connection that was idle for longer may have been closed, which a busy client has not seen. */
#define STALE_NS NS_PER_MS

enum raw_connection_state {
    RAW_DOWN,
    RAW_CONNECTING,
    RAW_FREE,      /* established, idle */
    RAW_SENDING,   /* part of the request is not sent yet */
    RAW_RECEIVING, /* the request is sent */
    RAW_BROKEN,    /* failed; in the list of the engine */
};

struct raw_connection {
    struct engine *engine;
    struct raw_stream stream;
    uint32_t slot;
    enum raw_connection_state state;
    bool fresh; /* established for the request in flight */
    uint32_t origin;
    uint32_t requests; /* requests on this connection */
    const struct request *request;
    const char *message; /* the request's, or with_cookies */
    size_t message_length;
    char *with_cookies;
    struct cookie_jar cookies;
    size_t sent;
    uint64_t begun_ns, connect_ns, handshake_ns, first_byte_ns;
    uint64_t free_ns;      /* since when it is RAW_FREE */
    enum error_kind error; /* if RAW_BROKEN */
    struct response response;
    struct body_check check;
    struct raw_connection *next_broken;
};

/* While libcurl establishes them, the connections of a group share a multi handle. */
struct group {
    struct curl_group curl;
    struct raw_connection connections[CONNECTIONS_IN_GROUP];
};

struct engine {
    struct engine_config config;
    struct curl_sockets *sockets;
    struct curl_groups groups;
    uint32_t slots;
    char *buffer;                  /* receive buffer */
    struct raw_connection *broken; /* a list of failures not yet reported to the owner */
    struct event *report_broken;   /* reports them in the next loop iteration */
    struct event *sweep;           /* checks timeouts */
};

static struct raw_connection *raw_connection_of(const struct engine *engine, uint32_t slot)
{
    uint32_t per_group = engine->groups.slots_per_group;
    struct group *group = (struct group *)engine->groups.group[slot / per_group];

    return &group->connections[slot % per_group];
}

/* ---- Connecting and closing ---- */

static void raw_close(struct raw_connection *connection)
{
    raw_stream_close(&connection->stream);
    connection->state = RAW_DOWN;
}

/* ---- The end of a request ---- */

static struct transcript *transcript_of(const struct raw_connection *connection)
{
    return connection->slot == 0 ? connection->engine->config.transcript : NULL;
}

static void raw_finish(struct raw_connection *connection, struct transaction *transaction,
                       uint64_t now_ns)
{
    const struct engine_owner *owner = &connection->engine->config.owner;

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

    error_texts_record(connection->engine->config.error_texts, error,
                       connection->stream.error_text);
    raw_close(connection);
    raw_finish(connection, &transaction, clock_monotonic_ns());
}

static void on_report_broken(evutil_socket_t fd, short events, void *context)
{
    struct engine *engine = context;
    struct raw_connection *connection = engine->broken, *next;

    (void)fd;
    (void)events;
    engine->broken = NULL;
    for (; connection != NULL; connection = next) {
        next = connection->next_broken;
        if (connection->state == RAW_BROKEN)
            raw_fail(connection, connection->error);
    }
}

/* The response is complete. OPEN: the server has not closed the connection. */
static void succeed(struct raw_connection *connection, bool open, uint64_t now_ns)
{
    const struct plan *plan = connection->engine->config.plan;
    struct transaction transaction = {
        .error = ERROR_KIND_NONE,
        .status = connection->response.status,
        .bad_content =
            body_check_fails(&connection->check, &plan->checks, connection->response.body_bytes),
    };
    bool persists = connection->response.keep_alive && !connection->request->closes &&
                    (plan->requests_per_connection == 0 ||
                     connection->requests < plan->requests_per_connection);

    if (open && connection->state == RAW_RECEIVING && persists) {
        connection->state = RAW_FREE;
        connection->free_ns = now_ns;
    } else
        raw_close(connection);
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
    if (connection->engine->config.plan->cookies)
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
    char *buffer = connection->engine->buffer;
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
        snprintf(connection->stream.error_text, sizeof(connection->stream.error_text), "%s",
                 connection->response.why);
        raw_fail(connection, ERROR_KIND_MALFORMED);
        break;
    }
    return false;
}

/* The server closed an idle connection, or sent bytes that no request asked for. */
static void drop_idle(struct raw_connection *connection)
{
    const struct engine_owner *owner = &connection->engine->config.owner;

    if (!connection->stream.tls && curl_sockets_has_bytes(connection->stream.fd))
        owner->unsolicited(owner->context);
    raw_close(connection);
}

static void raw_on_readable(evutil_socket_t fd, short events, void *context)
{
    struct raw_connection *connection = context;

    (void)fd;
    raw_stream_begin_reading(&connection->stream, events);
    if (connection->state == RAW_FREE) {
        drop_idle(connection);
        return;
    }
    for (int i = 0; i < CALLS_PER_EVENT; i++)
        if (!raw_receive_some(connection))
            return;
    raw_stream_read_later(&connection->stream);
}

/* ---- The result of connecting ---- */

static void on_established(struct raw_connection *connection)
{
    const struct engine_owner *owner = &connection->engine->config.owner;

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

/* The ended() of a group: libcurl connected, or failed to. */
static void raw_on_ended(struct curl_group *curl)
{
    CURLMsg *message;
    int more;

    while ((message = curl_multi_info_read(curl->multi, &more)) != NULL) {
        CURLcode code = message->data.result;
        struct raw_connection *connection = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &connection);
        if (code == CURLE_OK)
            on_established(connection);
        else
            raw_fail(connection, raw_stream_failure(&connection->stream, code));
    }
}

/* ---- A request ---- */

/* Whether the server has closed an idle connection; the event is perhaps still to come. */
static bool is_stale(const struct raw_connection *connection, uint64_t now_ns)
{
    struct pollfd fd = {.fd = connection->stream.fd, .events = POLLRDHUP};

    return now_ns > connection->free_ns + STALE_NS && poll(&fd, 1, 0) > 0;
}

static void engine_raw_begin(struct engine *engine, uint32_t slot, const struct request *request,
                             uint64_t now_ns)
{
    struct raw_connection *connection = raw_connection_of(engine, slot);

    connection->request = request;
    connection->begun_ns = now_ns;
    connection->first_byte_ns = 0;
    connection->connect_ns = connection->handshake_ns = 0;
    connection->fresh = false;
    response_begin(&connection->response, request->head);
    body_check_begin(&connection->check, &engine->config.plan->checks);
    if (connection->state == RAW_FREE && connection->origin != request->origin)
        raw_close(connection);
    if (connection->state == RAW_FREE && is_stale(connection, now_ns))
        drop_idle(connection);
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
        connection->next_broken = engine->broken;
        engine->broken = connection;
        event_active(engine->report_broken, EV_TIMEOUT, 0);
    }
}

static void engine_raw_flush(struct engine *engine)
{
    (void)engine; /* engine_raw_begin() has already sent it */
}

static bool engine_raw_cancel(struct engine *engine, uint32_t slot)
{
    struct raw_connection *connection = raw_connection_of(engine, slot);

    raw_close(connection);
    return connection->fresh && connection->connect_ns > 0;
}

static void engine_raw_close(struct engine *engine, uint32_t slot)
{
    raw_close(raw_connection_of(engine, slot));
}

static void engine_raw_forget(struct engine *engine, uint32_t slot)
{
    cookie_jar_free(&raw_connection_of(engine, slot)->cookies);
}

static void raw_on_sweep(evutil_socket_t fd, short events, void *context)
{
    const struct engine *engine = context;
    uint64_t now_ns = clock_monotonic_ns(),
             timeout_ns = engine->config.plan->timeout_ms * NS_PER_MS;

    (void)fd;
    (void)events;
    for (uint32_t i = 0; i < engine->slots; i++) {
        struct raw_connection *connection = raw_connection_of(engine, i);

        if ((connection->state == RAW_SENDING || connection->state == RAW_RECEIVING) &&
            now_ns >= connection->begun_ns + timeout_ns)
            raw_fail(connection, ERROR_KIND_TIMEOUT);
    }
}

/* ---- Life cycle ---- */

static void raw_on_body(void *context, const char *bytes, size_t length)
{
    struct raw_connection *connection = context;
    const struct engine_config *config = &connection->engine->config;

    body_check_add(&connection->check, &config->plan->checks, bytes, length);
    if (config->owner.body != NULL)
        config->owner.body(config->owner.context, connection->slot, bytes, length);
}

static void raw_on_field(void *context, struct span name, struct span value)
{
    const struct raw_connection *connection = context;
    const struct engine_owner *owner = &connection->engine->config.owner;

    owner->field(owner->context, connection->slot, name, value);
}

static void on_cookie(void *context, const char *value, size_t length)
{
    struct raw_connection *connection = context;

    cookie_jar_store(&connection->cookies, connection->request, value, length, time(NULL));
}

/* Initializes *connection, all zero before, for the next slot. Returns false if out of memory. */
static bool add_connection(struct engine *engine, struct raw_connection *connection,
                           struct curl_group *group)
{
    const struct engine_config *config = &engine->config;
    bool sees_body = config->plan->checks.digest_known || config->owner.body != NULL;

    connection->engine = engine;
    connection->slot = engine->slots;
    connection->response.line = malloc(RESPONSE_LINE_MAX);
    connection->response.context = connection;
    connection->response.on_body = sees_body ? raw_on_body : NULL;
    connection->response.on_field = config->owner.field != NULL ? raw_on_field : NULL;
    connection->response.on_cookie = config->plan->cookies ? on_cookie : NULL;
    if (!raw_stream_init(&connection->stream, config, group, engine->sockets, connection) ||
        connection->response.line == NULL ||
        !body_check_open(&connection->check, &config->plan->checks) ||
        (transcript_of(connection) != NULL &&
         !transcript_attach(transcript_of(connection), connection->stream.easy)))
        return false;
    engine->slots++;
    return true;
}

static bool engine_raw_reserve(struct engine *engine, uint32_t slots)
{
    while (engine->slots < slots) {
        struct group *group = (struct group *)curl_groups_get(&engine->groups, engine->slots);

        if (group == NULL ||
            !add_connection(engine, raw_connection_of(engine, engine->slots), &group->curl))
            return false;
    }
    return true;
}

/* Also accepts a connection that is all zero. */
static void raw_destroy(struct raw_connection *connection)
{
    if (connection->stream.easy != NULL)
        raw_close(connection);
    raw_stream_destroy(&connection->stream);
    body_check_close(&connection->check);
    free(connection->response.line);
    free(connection->with_cookies);
    cookie_jar_free(&connection->cookies);
}

static void engine_raw_destroy(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->groups.count; i++) {
        struct group *group = (struct group *)engine->groups.group[i];

        for (uint32_t k = 0; k < CONNECTIONS_IN_GROUP; k++)
            raw_destroy(&group->connections[k]);
    }
    curl_groups_end(&engine->groups);
    if (engine->sweep != NULL)
        event_free(engine->sweep);
    if (engine->report_broken != NULL)
        event_free(engine->report_broken);
    free(engine->buffer);
    curl_sockets_destroy(engine->sockets);
    free(engine);
}

static struct engine *engine_raw_create(const struct engine_config *config)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL)
        return NULL;
    engine->config = *config;
    engine->sockets = curl_sockets_create(config->base);
    engine->groups = (struct curl_groups){
        .sockets = engine->sockets,
        .ended = raw_on_ended,
        .group_bytes = sizeof(struct group),
        .slots_per_group = request_plan_has_tls(config->request_plan) ? 1 : CONNECTIONS_IN_GROUP,
    };
    engine->buffer = malloc(BUFFER_BYTES);
    engine->report_broken = event_new(config->base, -1, 0, on_report_broken, engine);
    engine->sweep = raw_sweep_start(config, raw_on_sweep, engine);
    if (engine->sockets != NULL && engine->buffer != NULL && engine->report_broken != NULL &&
        engine->sweep != NULL)
        return engine;
    engine_raw_destroy(engine);
    return NULL;
}

const struct engine_ops engine_raw = {
    .name = "raw",
    .create = engine_raw_create,
    .reserve = engine_raw_reserve,
    .begin = engine_raw_begin,
    .flush = engine_raw_flush,
    .cancel = engine_raw_cancel,
    .close = engine_raw_close,
    .forget = engine_raw_forget,
    .destroy = engine_raw_destroy,
};
