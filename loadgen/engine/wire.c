#include "loadgen/engine/wire.h"

#include "common/clock.h"

#include "loadgen/engine/curl_request.h"
#include "loadgen/engine/curl_result.h"
#include "loadgen/engine/driver.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER_BYTES = 256 * 1024 };

/* ---- Connections ---- */

/* Closes libcurl's descriptor too. */
static void leave_multi(struct wire *wire)
{
    curl_multi_remove_handle(wire->group->multi, wire->stream.easy);
    wire->in_multi = false;
}

void wire_take_down(struct wire *wire)
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
    struct curl_group *group = wire->group;
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
    curl_multi_add_handle(group->multi, wire->stream.easy);
    curl_group_call_again(group); /* in a turn of its own: it may be refused at once */
}

/* ---- The end of a request ---- */

static struct conversation *conversation_of(const struct wire *wire)
{
    return wire->slot == 0 ? wire->room->place.conversation : NULL;
}

static void finish(struct wire *wire, struct exchange *exchange, uint64_t now_ns)
{
    if (conversation_of(wire) != NULL)
        conversation_end(conversation_of(wire), wire->stream.easy);
    exchange->connected = wire->fresh && wire->connect_ns > 0;
    exchange->connect_ns = wire->connect_ns;
    exchange->first_byte_ns =
        wire->first_byte_ns > wire->begun_ns ? wire->first_byte_ns - wire->begun_ns : 0;
    exchange->head_bytes = wire->response.head_bytes;
    exchange->body_bytes = wire->response.body_bytes;
    driver_ended(wire->room->place.driver, wire->slot, exchange, now_ns);
}

/* The connection is of no use any more, and the request failed. */
static void fail(struct wire *wire, enum error_kind error)
{
    struct exchange exchange = {.error = error};
    struct wire_room *room = wire->room;

    error_texts_record(&room->error_texts, error, wire->said);
    wire_take_down(wire);
    finish(wire, &exchange, clock_monotonic_ns());
}

/* The same where the driver cannot be told at once: it is just beginning the request. */
static void fail_soon(struct wire *wire, enum error_kind error)
{
    struct wire_room *room = wire->room;

    wire->state = WIRE_BROKEN;
    wire->error = error;
    wire->next_broken = room->broken;
    room->broken = wire;
    event_active(room->tell, EV_TIMEOUT, 0);
}

static void on_tell(evutil_socket_t fd, short events, void *context)
{
    struct wire_room *room = context;
    struct wire *wire = room->broken, *next;

    (void)fd;
    (void)events;
    room->broken = NULL;
    for (; wire != NULL; wire = next) {
        next = wire->next_broken;
        if (wire->state == WIRE_BROKEN)
            fail(wire, wire->error);
    }
}

static bool may_be_used_again(const struct wire *wire)
{
    const struct plan *plan = wire->room->place.plan;

    return wire->response.keep_alive && plan->keepalive &&
           (plan->requests_per_connection == 0 || wire->requests < plan->requests_per_connection);
}

/* A whole answer. CLEAN: nothing came behind it, which nobody had asked for. */
static void succeed(struct wire *wire, bool clean, uint64_t now_ns)
{
    struct exchange exchange = {
        .error = ERROR_KIND_NONE,
        .status = wire->response.status,
        .bad_content = body_check_is_bad(&wire->check, &wire->room->place.plan->checks,
                                         wire->response.body_bytes),
    };

    if (clean && wire->state == WIRE_RECEIVING && may_be_used_again(wire))
        wire->state = WIRE_FREE;
    else
        wire_take_down(wire);
    finish(wire, &exchange, now_ns);
}

/* ---- Bytes ---- */

static void on_writable(evutil_socket_t fd, short events, void *context);

static bool watch_writable(struct wire *wire)
{
    if (wire->writable == NULL)
        wire->writable =
            event_new(wire->room->place.base, wire->stream.fd, EV_WRITE, on_writable, wire);
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
    if (conversation_of(wire) != NULL)
        conversation_add_head(conversation_of(wire), '>', wire->request->message,
                              wire->request->message_length);
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

static void begin_answer(struct wire *wire, size_t length, uint64_t now_ns)
{
    wire->first_byte_ns = now_ns;
    if (conversation_of(wire) != NULL)
        conversation_add_head(conversation_of(wire), '<', wire->room->buffer, length);
}

/* Reads and parses once. Returns whether there may be more to read. */
static bool receive_some(struct wire *wire)
{
    char *buffer = wire->room->buffer;
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
        begin_answer(wire, (size_t)n, now_ns);
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
        wire_take_down(wire);
    else
        while (receive_some(wire))
            continue;
}

/* ---- When a connection has come up, or not ---- */

static bool watch_readable(struct wire *wire)
{
    wire->readable =
        event_new(wire->room->place.base, wire->stream.fd, EV_READ | EV_PERSIST, on_readable, wire);
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

void wire_connected(struct wire *wire)
{
    wire->state = WIRE_RECEIVING;
    wire->connect_ns = clock_monotonic_ns() - wire->begun_ns;
    driver_up(wire->room->place.driver, wire->slot);
    wire->said[0] = '\0';
    if (!take_over(wire) || !watch_readable(wire)) {
        snprintf(wire->said, sizeof(wire->said), "%s", strerror(errno));
        fail(wire, ERROR_KIND_LOCAL);
    } else if (!send_request(wire))
        fail(wire, ERROR_KIND_CLOSED);
}

void wire_not_connected(struct wire *wire, CURLcode code)
{
    const struct curl_ending ending = {.easy = wire->stream.easy, .code = code, .said = wire->said};
    struct exchange exchange = curl_result_read(&ending);

    error_texts_record(&wire->room->error_texts, exchange.error, curl_result_text(&ending));
    fail(wire, exchange.error);
}

/* ---- A request ---- */

void wire_begin(struct wire *wire, const struct request *request, uint64_t now_ns)
{
    wire->request = request;
    wire->begun_ns = now_ns;
    wire->first_byte_ns = 0;
    wire->connect_ns = 0;
    wire->fresh = false;
    response_begin(&wire->response, request->head);
    body_check_begin(&wire->check, &wire->room->place.plan->checks);
    if (wire->state == WIRE_FREE && wire->origin != request->origin)
        wire_take_down(wire);
    if (wire->state == WIRE_DOWN)
        connect_wire(wire);
    else if (!send_request(wire))
        fail_soon(wire, ERROR_KIND_CLOSED);
}

void wire_look_at_time(struct wire *wire, uint64_t now_ns)
{
    uint64_t timeout_ns = wire->room->place.plan->timeout_ms * NS_PER_MS;

    if ((wire->state == WIRE_SENDING || wire->state == WIRE_RECEIVING) &&
        now_ns >= wire->begun_ns + timeout_ns)
        fail(wire, ERROR_KIND_TIMEOUT);
}

/* ---- Setting up ---- */

static void take_body(void *context, const char *bytes, size_t length)
{
    struct wire *wire = context;

    body_check_add(&wire->check, &wire->room->place.plan->checks, bytes, length);
}

bool wire_set_up(struct wire *wire, struct wire_room *room, struct curl_group *group,
                 struct curl_sockets *sockets, uint32_t slot)
{
    const struct engine_place *place = &room->place;
    CURL *easy = curl_easy_init();

    wire->room = room;
    wire->group = group;
    wire->slot = slot;
    wire->stream.easy = easy;
    wire->stream.fd = -1;
    wire->response.line = malloc(RESPONSE_LINE_MAX);
    wire->response.context = wire;
    wire->response.on_body = place->plan->checks.digest_known ? take_body : NULL;
    return easy != NULL && wire->response.line != NULL &&
           curl_easy_setopt(easy, CURLOPT_PRIVATE, wire) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, wire->said) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L) == CURLE_OK &&
           curl_request_set_connection(place->plan, place->work, easy) &&
           curl_sockets_adopt(sockets, easy) &&
           (conversation_of(wire) == NULL || conversation_listen(conversation_of(wire), easy));
}

void wire_release(struct wire *wire)
{
    if (wire->stream.easy != NULL)
        wire_take_down(wire);
    curl_easy_cleanup(wire->stream.easy);
    free(wire->response.line);
}

bool wire_room_begin(struct wire_room *room, const struct engine_place *place)
{
    *room = (struct wire_room){.place = *place};
    room->buffer = malloc(BUFFER_BYTES);
    room->tell = event_new(place->base, -1, 0, on_tell, room);
    return room->buffer != NULL && room->tell != NULL;
}

void wire_room_end(struct wire_room *room)
{
    if (room->tell != NULL)
        event_free(room->tell);
    free(room->buffer);
}
