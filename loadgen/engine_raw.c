/*
 * The engine for full speed. libcurl makes the connections (names, TLS, UNIX sockets) with
 * CURLOPT_CONNECT_ONLY; over them requests go out as they were made before the run, and answers are
 * read by response.c. A request on a plain connection then costs one send() and one recv().
 *
 * A plain connection is taken away from libcurl by a second descriptor of the same socket. One with TLS
 * stays with its easy handle, in a multi handle of its own: whenever libcurl makes another connection
 * there, it looks through those that it has and closes what has something to read.
 */
#include "loadgen/body_check.h"
#include "loadgen/curl_request.h"
#include "loadgen/curl_result.h"
#include "loadgen/curl_sockets.h"
#include "loadgen/driver.h"
#include "loadgen/engine.h"
#include "loadgen/response.h"
#include "loadgen/stream.h"

#include "common/clock.h"
#include "common/macros.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    WIRES_IN_GROUP = 20,
    BUFFER_BYTES = 256 * 1024,
    SWEEPS = 20, /* in the time that a request may take */
    SHORTEST_SWEEP_MS = 5,
    LONGEST_SWEEP_MS = 250,
};

enum wire_state {
    WIRE_DOWN,
    WIRE_CONNECTING,
    WIRE_FREE,      /* up, between two requests */
    WIRE_SENDING,   /* some of the request is still to be sent */
    WIRE_RECEIVING, /* all was sent */
    WIRE_BROKEN,    /* failed, and the driver is to hear of it in the loop */
};

/* A slot's connection, or the place for one. */
struct wire {
    struct engine *engine;
    struct group *group;
    struct stream stream;
    struct event *readable, *writable;
    uint32_t slot;
    enum wire_state state;
    bool in_multi; /* libcurl has it: it is coming up, or it has TLS */
    bool fresh;    /* it came up for the request under way */
    uint32_t origin;
    uint32_t requests; /* on this connection */
    const struct request *request;
    size_t sent;
    uint64_t begun_ns, connect_ns, first_byte_ns;
    enum error_kind error; /* of BROKEN */
    struct response response;
    struct body_check check;
    struct wire *next_broken;
    char said[CURL_ERROR_SIZE];
};

struct group {
    struct curl_group curl; /* first: ended() gets a pointer to it */
    struct engine *engine;
    struct wire wires[WIRES_IN_GROUP];
};

struct engine {
    struct engine_place place;
    struct curl_sockets *sockets;
    struct group **groups;
    uint32_t group_count, slots;
    uint32_t wires_in_group; /* as many in a multi handle */
    struct wire *broken;     /* a list */
    struct event *tell, *sweep;
    char *buffer;
    char other_error[CURL_ERROR_SIZE];
};

static struct wire *wire_of(const struct engine *engine, uint32_t slot)
{
    return &engine->groups[slot / engine->wires_in_group]->wires[slot % engine->wires_in_group];
}

/* ---- Connections ---- */

/* Closes libcurl's descriptor too. */
static void leave_multi(struct wire *wire)
{
    curl_multi_remove_handle(wire->group->curl.multi, wire->stream.easy);
    wire->in_multi = false;
}

static void take_down(struct wire *wire)
{
    if (wire->readable != NULL)
        event_free(wire->readable);
    if (wire->writable != NULL)
        event_free(wire->writable);
    wire->readable = wire->writable = NULL;
    if (wire->in_multi)
        leave_multi(wire);
    else if (wire->stream.fd >= 0)
        close(wire->stream.fd);
    wire->state = WIRE_DOWN;
    wire->stream.fd = -1;
}

static void connect_wire(struct wire *wire)
{
    struct group *group = wire->group;
    const struct request *request = wire->request;

    wire->state = WIRE_CONNECTING;
    wire->in_multi = true;
    wire->fresh = true;
    wire->requests = 0;
    wire->origin = request->origin;
    wire->stream.tls = request->target.tls;
    wire->said[0] = '\0';
    curl_easy_setopt(wire->stream.easy, CURLOPT_CURLU, request->target.url);
    curl_easy_setopt(wire->stream.easy, CURLOPT_RESOLVE, request->addresses);
    curl_multi_add_handle(group->curl.multi, wire->stream.easy);
    curl_group_call_again(&group->curl); /* in a turn of its own: it may be refused at once */
}

/* ---- The end of a request ---- */

static void finish(struct wire *wire, struct exchange *exchange, uint64_t now_ns)
{
    exchange->connected = wire->fresh && wire->connect_ns > 0;
    exchange->connect_ns = wire->connect_ns;
    exchange->first_byte_ns =
        wire->first_byte_ns > wire->begun_ns ? wire->first_byte_ns - wire->begun_ns : 0;
    exchange->head_bytes = wire->response.head_bytes;
    exchange->body_bytes = wire->response.body_bytes;
    driver_ended(wire->engine->place.driver, wire->slot, exchange, now_ns);
}

/* The connection is of no use any more, and the request failed. */
static void fail(struct wire *wire, enum error_kind error)
{
    struct exchange exchange = {.error = error};
    struct engine *engine = wire->engine;

    if (error == ERROR_KIND_OTHER && engine->other_error[0] == '\0')
        snprintf(engine->other_error, sizeof(engine->other_error), "%s", wire->said);
    take_down(wire);
    finish(wire, &exchange, clock_monotonic_ns());
}

/* The same where the driver cannot be told at once: it is just beginning the request. */
static void fail_soon(struct wire *wire, enum error_kind error)
{
    struct engine *engine = wire->engine;

    wire->state = WIRE_BROKEN;
    wire->error = error;
    wire->next_broken = engine->broken;
    engine->broken = wire;
    event_active(engine->tell, EV_TIMEOUT, 0);
}

static void on_tell(evutil_socket_t fd, short events, void *context)
{
    struct engine *engine = context;
    struct wire *wire = engine->broken, *next;

    (void)fd;
    (void)events;
    engine->broken = NULL;
    for (; wire != NULL; wire = next) {
        next = wire->next_broken;
        if (wire->state == WIRE_BROKEN)
            fail(wire, wire->error);
    }
}

static bool may_be_used_again(const struct wire *wire)
{
    const struct plan *plan = wire->engine->place.plan;

    return wire->response.keep_alive && plan->keepalive &&
           (plan->requests_per_connection == 0 || wire->requests < plan->requests_per_connection);
}

/* A whole answer. CLEAN: nothing came behind it, which nobody had asked for. */
static void succeed(struct wire *wire, bool clean, uint64_t now_ns)
{
    struct exchange exchange = {
        .error = ERROR_KIND_NONE,
        .status = wire->response.status,
        .bad_content = body_check_is_bad(&wire->check, &wire->engine->place.plan->checks,
                                         wire->response.body_bytes),
    };

    if (clean && wire->state == WIRE_RECEIVING && may_be_used_again(wire))
        wire->state = WIRE_FREE;
    else
        take_down(wire);
    finish(wire, &exchange, now_ns);
}

/* ---- Bytes ---- */

static void on_writable(evutil_socket_t fd, short events, void *context);

static bool watch_writable(struct wire *wire)
{
    if (wire->writable == NULL)
        wire->writable =
            event_new(wire->engine->place.base, wire->stream.fd, EV_WRITE, on_writable, wire);
    return wire->writable != NULL && event_add(wire->writable, NULL) == 0;
}

/* Sends what can be sent. Returns false when the connection is broken. */
static bool send_some(struct wire *wire)
{
    const struct request *request = wire->request;

    while (wire->sent < request->message_length) {
        ssize_t n = stream_send(&wire->stream, request->message + wire->sent,
                                request->message_length - wire->sent);

        if (n < 0 && !stream_is_for_later(errno))
            return false;
        if (n < 0) {
            wire->state = WIRE_SENDING;
            return watch_writable(wire);
        }
        wire->sent += (size_t)n;
    }
    wire->state = WIRE_RECEIVING;
    return true;
}

static bool send_request(struct wire *wire)
{
    wire->sent = 0;
    wire->requests++;
    return send_some(wire);
}

static void on_writable(evutil_socket_t fd, short events, void *context)
{
    struct wire *wire = context;

    (void)fd;
    (void)events;
    if (wire->state != WIRE_SENDING)
        return;
    if (!send_some(wire))
        fail(wire, ERROR_KIND_CLOSED);
}

/* The stream ended, or failed, in the middle of an answer or in place of one. */
static void end_of_stream(struct wire *wire, ssize_t n, uint64_t now_ns)
{
    if (n == 0 && response_end(&wire->response) == RESPONSE_DONE)
        succeed(wire, false, now_ns);
    else
        fail(wire, ERROR_KIND_CLOSED);
}

/* Reads and parses once. Returns whether there may be more to read. */
static bool receive_some(struct wire *wire)
{
    char *buffer = wire->engine->buffer;
    ssize_t n = stream_receive(&wire->stream, buffer, BUFFER_BYTES);
    uint64_t now_ns = clock_monotonic_ns();
    size_t used;

    if (n < 0 && stream_is_for_later(errno))
        return false;
    if (n <= 0) {
        end_of_stream(wire, n, now_ns);
        return false;
    }
    if (wire->first_byte_ns == 0)
        wire->first_byte_ns = now_ns;
    switch (response_feed(&wire->response, buffer, (size_t)n, &used)) {
    case RESPONSE_MORE:
        return n == BUFFER_BYTES || wire->stream.tls;
    case RESPONSE_DONE:
        succeed(wire, used == (size_t)n, now_ns);
        break;
    case RESPONSE_BAD:
        fail(wire, ERROR_KIND_MALFORMED);
        break;
    }
    return false;
}

static void on_readable(evutil_socket_t fd, short events, void *context)
{
    struct wire *wire = context;

    (void)fd;
    (void)events;
    if (wire->state == WIRE_FREE) /* closed, or spoken to unasked */
        take_down(wire);
    else
        while (receive_some(wire))
            continue;
}

/* ---- When a connection has come up, or not ---- */

static bool watch_readable(struct wire *wire)
{
    wire->readable = event_new(wire->engine->place.base, wire->stream.fd, EV_READ | EV_PERSIST,
                               on_readable, wire);
    return wire->readable != NULL && event_add(wire->readable, NULL) == 0;
}

/* Takes the connection over from libcurl. Returns false when there is no descriptor. */
static bool take_over(struct wire *wire)
{
    curl_socket_t fd = CURL_SOCKET_BAD;

    curl_easy_getinfo(wire->stream.easy, CURLINFO_ACTIVESOCKET, &fd);
    if (wire->stream.tls) {
        wire->stream.fd = fd;
    } else {
        wire->stream.fd = fd != CURL_SOCKET_BAD ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
        leave_multi(wire);
    }
    return wire->stream.fd >= 0;
}

static void on_connected(struct wire *wire)
{
    wire->state = WIRE_RECEIVING;
    wire->connect_ns = clock_monotonic_ns() - wire->begun_ns;
    driver_up(wire->engine->place.driver, wire->slot);
    if (!take_over(wire) || !watch_readable(wire))
        fail(wire, ERROR_KIND_LOCAL);
    else if (!send_request(wire))
        fail(wire, ERROR_KIND_CLOSED);
}

static void on_not_connected(struct wire *wire, CURLcode code)
{
    const struct curl_ending ending = {.easy = wire->stream.easy, .code = code, .said = wire->said};
    struct exchange exchange = curl_result_read(&ending);

    if (exchange.error == ERROR_KIND_OTHER && wire->said[0] == '\0')
        snprintf(wire->said, sizeof(wire->said), "%s", curl_result_text(&ending));
    fail(wire, exchange.error);
}

static void on_ended(struct curl_group *curl)
{
    CURLMsg *message;
    int more;

    while ((message = curl_multi_info_read(curl->multi, &more)) != NULL) {
        CURLcode code = message->data.result;
        struct wire *wire = NULL;

        if (message->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &wire);
        if (code == CURLE_OK)
            on_connected(wire);
        else
            on_not_connected(wire, code);
    }
}

/* ---- Time ---- */

static void on_sweep(evutil_socket_t fd, short events, void *context)
{
    struct engine *engine = context;
    uint64_t timeout_ns = engine->place.plan->timeout_ms * NS_PER_MS;
    uint64_t now_ns = clock_monotonic_ns();

    (void)fd;
    (void)events;
    for (uint32_t i = 0; i < engine->slots; i++) {
        struct wire *wire = wire_of(engine, i);

        if ((wire->state == WIRE_SENDING || wire->state == WIRE_RECEIVING) &&
            now_ns >= wire->begun_ns + timeout_ns)
            fail(wire, ERROR_KIND_TIMEOUT);
    }
}

static bool start_sweeping(struct engine *engine)
{
    uint64_t ms = engine->place.plan->timeout_ms / SWEEPS;
    struct timeval period;

    ms = ms < SHORTEST_SWEEP_MS ? SHORTEST_SWEEP_MS : ms > LONGEST_SWEEP_MS ? LONGEST_SWEEP_MS : ms;
    period = (struct timeval){0, (suseconds_t)(ms * 1000)};
    engine->sweep = event_new(engine->place.base, -1, EV_PERSIST, on_sweep, engine);
    return engine->sweep != NULL && event_add(engine->sweep, &period) == 0;
}

/* ---- The verbs of an engine ---- */

static void engine_raw_begin(struct engine *engine, uint32_t slot, const struct request *request,
                             uint64_t now_ns)
{
    struct wire *wire = wire_of(engine, slot);

    wire->request = request;
    wire->begun_ns = now_ns;
    wire->first_byte_ns = 0;
    wire->connect_ns = 0;
    wire->fresh = false;
    response_begin(&wire->response, request->head);
    body_check_begin(&wire->check, &engine->place.plan->checks);
    if (wire->state == WIRE_FREE && wire->origin != request->origin)
        take_down(wire);
    if (wire->state == WIRE_DOWN)
        connect_wire(wire);
    else if (!send_request(wire))
        fail_soon(wire, ERROR_KIND_CLOSED);
}

static void engine_raw_flush(struct engine *engine)
{
    (void)engine; /* everything has been sent */
}

static void engine_raw_take_down(struct engine *engine, uint32_t slot)
{
    take_down(wire_of(engine, slot));
}

static void take_body(void *context, const char *bytes, size_t length)
{
    struct wire *wire = context;

    body_check_add(&wire->check, &wire->engine->place.plan->checks, bytes, length);
}

static bool set_up_wire(struct engine *engine, struct wire *wire)
{
    CURL *easy = curl_easy_init();

    wire->stream.easy = easy;
    wire->stream.fd = -1;
    wire->response.line = malloc(RESPONSE_LINE_MAX);
    wire->response.context = wire;
    wire->response.on_body = engine->place.plan->checks.digest_known ? take_body : NULL;
    return easy != NULL && wire->response.line != NULL &&
           curl_easy_setopt(easy, CURLOPT_PRIVATE, wire) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, wire->said) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L) == CURLE_OK &&
           curl_request_set_connection(engine->place.plan, engine->place.work, easy) &&
           curl_sockets_adopt(engine->sockets, easy);
}

static bool add_wire(struct engine *engine, struct group *group)
{
    struct wire *wire = &group->wires[engine->slots % engine->wires_in_group];

    wire->engine = engine;
    wire->group = group;
    wire->slot = engine->slots;
    if (!set_up_wire(engine, wire))
        return false;
    engine->slots++;
    return true;
}

static struct group *add_group(struct engine *engine)
{
    struct group **grown = realloc(engine->groups, (engine->group_count + 1) * sizeof(*grown));
    struct group *group = grown != NULL ? calloc(1, sizeof(*group)) : NULL;

    if (grown != NULL)
        engine->groups = grown;
    if (group == NULL)
        return NULL;
    group->engine = engine;
    engine->groups[engine->group_count++] = group;
    return curl_group_begin(&group->curl, engine->sockets, on_ended) ? group : NULL;
}

static bool engine_raw_reserve(struct engine *engine, uint32_t slots)
{
    while (engine->slots < slots) {
        uint32_t number = engine->slots / engine->wires_in_group;
        struct group *group =
            number < engine->group_count ? engine->groups[number] : add_group(engine);

        if (group == NULL || !add_wire(engine, group))
            return false;
    }
    return true;
}

static void destroy_group(struct group *group)
{
    for (uint32_t i = 0; i < WIRES_IN_GROUP; i++) {
        struct wire *wire = &group->wires[i];

        if (wire->stream.easy != NULL)
            take_down(wire);
        curl_easy_cleanup(wire->stream.easy);
        free(wire->response.line);
    }
    curl_group_end(&group->curl);
    free(group);
}

static void engine_raw_destroy(struct engine *engine)
{
    for (uint32_t i = 0; i < engine->group_count; i++)
        destroy_group(engine->groups[i]);
    if (engine->tell != NULL)
        event_free(engine->tell);
    if (engine->sweep != NULL)
        event_free(engine->sweep);
    curl_sockets_destroy(engine->sockets);
    free(engine->buffer);
    free(engine->groups);
    free(engine);
}

static bool has_tls(const struct work *work)
{
    for (size_t i = 0; i < work->count; i++)
        if (work->requests[i].target.tls)
            return true;
    return false;
}

static struct engine *engine_raw_create(const struct engine_place *place)
{
    struct engine *engine = calloc(1, sizeof(*engine));

    if (engine == NULL)
        return NULL;
    engine->place = *place;
    engine->wires_in_group = has_tls(place->work) ? 1 : WIRES_IN_GROUP;
    engine->sockets = curl_sockets_create(place->base);
    engine->buffer = malloc(BUFFER_BYTES);
    engine->tell = event_new(place->base, -1, 0, on_tell, engine);
    if (engine->sockets != NULL && engine->buffer != NULL && engine->tell != NULL &&
        start_sweeping(engine))
        return engine;
    engine_raw_destroy(engine);
    return NULL;
}

static const char *engine_raw_other_error(const struct engine *engine)
{
    return engine->other_error;
}

const struct engine_ops engine_raw = {
    .name = "raw",
    .create = engine_raw_create,
    .reserve = engine_raw_reserve,
    .begin = engine_raw_begin,
    .flush = engine_raw_flush,
    .cancel = engine_raw_take_down,
    .close = engine_raw_take_down,
    .other_error = engine_raw_other_error,
    .destroy = engine_raw_destroy,
};
