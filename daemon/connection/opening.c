#include "daemon/connection/opening.h"

#include "common/segment_writer.h"
#include "daemon/base/messages.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/proxy_header.h"
#include "daemon/connection/read_buffer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/connection/transport.h"
#include "daemon/transaction/admission.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/*
 * Both protocols add nothing to a connection, read nothing ahead, and move or end without a trace.
 */

static void preliminary_on_ready(evutil_socket_t fd, short what, void *argument)
{
    struct connection *connection = argument;

    (void)fd, (void)what;
    loop_enter(connection->loop);
    if (connection->lingering)
        connection_read_lingering(connection);
    else
        connection->protocol->resume(connection);
}

static bool preliminary_is_between_requests(const struct connection *connection)
{
    (void)connection;
    return true;
}

static void preliminary_moved(struct connection *connection, bool leaving)
{
    (void)connection, (void)leaving;
}

static void preliminary_free(struct connection *connection, struct cache *cache)
{
    (void)connection, (void)cache;
}

/* init and abort */
static void preliminary_nothing(struct connection *connection)
{
    (void)connection;
}

/*
 * Initializers of struct connection_protocol; PROCEED goes on as far as possible without waiting.
 */
#define PRELIMINARY_PROTOCOL(proceed)                                                              \
    .connection_bytes = sizeof(struct connection), .init = preliminary_nothing,                    \
    .accepted = (proceed), .ready = preliminary_on_ready, .resume = (proceed),                     \
    .is_between_requests = preliminary_is_between_requests, .moved = preliminary_moved,            \
    .abort = preliminary_nothing, .free = preliminary_free

/* The header of the PROXY protocol */

static void fail_proxy(struct connection *connection, enum metric counter)
{
    metric_add(connection->loop->context.metrics, counter, 1);
    connection_close(connection);
}

static void time_out_proxy(struct connection *connection)
{
    fail_proxy(connection, METRIC_proxy_failed_timeout);
}

/* A close without a byte is a check whether the port is open. */
static void end_without_header(struct connection *connection, ssize_t got, size_t before)
{
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        connection_wait(connection, EV_READ, DEADLINE_HEADER);
    else if (before > 0)
        fail_proxy(connection, METRIC_proxy_failed_invalid);
    else
        connection_close(connection);
}

/* The header is complete and read. */
static void complete_proxy(struct connection *connection, const struct proxy_header *header)
{
    struct transaction_context *context = &connection->loop->context;
    struct client *client = &connection->client;
    enum client_limit_verdict verdict;

    read_buffer_keep(&connection->unserved, NULL, 0);
    metric_add(context->metrics, METRIC_proxy_headers, 1);
    client->proxied = true;
    if (header->has_address)
        memcpy(client->address, header->address, sizeof(client->address));
    verdict = admission_of_connection(context->worker, client->address, false);
    client->counted = verdict == CLIENT_LIMIT_COUNTED;
    if (verdict == CLIENT_LIMIT_EXCEEDED) {
        admission_turn_away(context, connection->fd, verdict,
                            (connection->opening & OPENING_TLS) != 0);
        connection_close(connection);
        return;
    }
    connection->opening &= (uint8_t)~OPENING_PROXY;
    if (!connection_begin(connection))
        connection_close(connection);
}

/*
 * Looks at what has arrived before it takes it, because what follows the header belongs to TLS or
 * HTTP. The beginning of a header is kept in the connection's read buffer; another worker may
 * have sent anything as such a beginning.
 */
static void read_proxy_header(struct connection *connection)
{
    struct event_loop *loop = connection->loop;
    char *bytes = loop->space->read[0];
    size_t before = connection->unserved != NULL ? connection->unserved->length : 0;
    size_t room = before < PROXY_HEADER_MAX ? PROXY_HEADER_MAX - before : 0;
    enum proxy_header_result result;
    struct proxy_header header;
    ssize_t got;

    segment_activity_state(loop->context.activity, THREAD_STATE_READ, loop->context.loop_now_ns);
    if (before > 0)
        memcpy(bytes, connection->unserved->bytes, before);
    got = recv(connection->fd, bytes + before, room, MSG_PEEK);
    if (got <= 0) {
        end_without_header(connection, got, before);
        return;
    }
    result = proxy_header_parse(bytes, before + (size_t)got, &header);
    if (result == PROXY_HEADER_COMPLETE && header.length <= before)
        result = PROXY_HEADER_INVALID;
    switch (result) {
    case PROXY_HEADER_COMPLETE:
        recv(connection->fd, bytes + before, header.length - before, 0);
        complete_proxy(connection, &header);
        break;
    case PROXY_HEADER_INCOMPLETE:
        recv(connection->fd, bytes + before, (size_t)got, 0);
        if (connection_keep_unserved(connection, bytes, before + (size_t)got))
            connection_wait(connection, EV_READ, DEADLINE_HEADER);
        else
            connection_close(connection);
        break;
    case PROXY_HEADER_INVALID:
        fail_proxy(connection, METRIC_proxy_failed_invalid);
        break;
    }
}

const struct connection_protocol proxy_protocol = {
    PRELIMINARY_PROTOCOL(read_proxy_header),
    .timed_out = time_out_proxy,
};

/* The handshake of TLS */

/*
 * OpenSSL may have read only the beginning of the request. A close would reset the connection, and the
 * answer would be lost.
 */
static void reject_plain_http(struct connection *connection)
{
    static const char response[] = "HTTP/1.1 400 Bad Request\r\n"
                                   "Content-Type: text/plain\r\n"
                                   "Content-Length: 40\r\n"
                                   "Connection: close\r\n\r\n"
                                   "This port expects TLS: write https://.\r\n";

    send(connection->fd, response, sizeof(response) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    connection->transport = &transport_plain;
    connection->client.linger_wanted = true;
    connection_linger(connection);
}

static void fail_handshake(struct connection *connection, enum tls_failure failure)
{
    static const enum metric counters[] = {
        [TLS_FAILURE_VERSION] = METRIC_tls_failed_version,
        [TLS_FAILURE_CIPHER] = METRIC_tls_failed_cipher,
        [TLS_FAILURE_CLIENT] = METRIC_tls_failed_client,
        [TLS_FAILURE_HTTP] = METRIC_tls_failed_http,
        [TLS_FAILURE_OTHER] = METRIC_tls_failed_other,
    };

    metric_add(connection->loop->context.metrics, counters[failure], 1);
    if (failure == TLS_FAILURE_HTTP)
        reject_plain_http(connection);
    else
        connection_close(connection);
}

static void time_out_handshake(struct connection *connection)
{
    if (!connection->lingering)
        metric_add(connection->loop->context.metrics, METRIC_tls_failed_timeout, 1);
    connection_close(connection);
}

static void count_group(_Atomic uint64_t *metrics, const char *group)
{
    static const struct {
        const char *name;
        enum metric counter;
    } groups[] = {
#define TLS_GROUP(metric, name) {name, METRIC_tls_group_##metric},
#include "common/tls_groups.def"
#undef TLS_GROUP
    };

    for (size_t i = 0; i < ARRAY_LENGTH(groups) && group != NULL; i++)
        if (strcmp(groups[i].name, group) == 0)
            metric_add(metrics, groups[i].counter, 1);
}

static void complete_handshake(struct connection *connection)
{
    const struct tls_outcome outcome = transport_tls_outcome(connection);
    _Atomic uint64_t *metrics = connection->loop->context.metrics;

    metric_add(metrics, METRIC_tls_handshakes, 1);
    metric_add(metrics, METRIC_tls_resumed, outcome.resumed);
    count_group(metrics, outcome.group);
    if (outcome.validated) {
        metric_add(metrics, METRIC_tls_validations, 1);
        connection_close(connection);
        return;
    }
    connection->client.tls = log_record_tls(outcome.cipher_suite, outcome.group, outcome.resumed);
    connection->awaits_http2 = outcome.http2;
    connection->protocol = connection->loop->protocol;
    connection->protocol->init(connection);
    connection_set_deadline(connection, DEADLINE_KEEPALIVE);
    connection->protocol->accepted(connection);
}

/* As with an offload job, the connection stays on its thread; the signer has a time limit. */
static void await_signature(struct connection *connection)
{
    connection->client.jobs_out++;
    connection->loop->context.jobs_out++;
    connection_wait(connection, 0, DEADLINE_NONE);
}

/* Continues as far as possible without waiting. */
static void continue_handshake(struct connection *connection)
{
    enum tls_failure failure;

    segment_activity_state(connection->loop->context.activity, THREAD_STATE_READ,
                           connection->loop->context.loop_now_ns);
    switch (transport_tls_handshake(connection, &failure)) {
    case TLS_DONE:
        complete_handshake(connection);
        break;
    case TLS_WANTS_READ:
        connection_wait(connection, EV_READ, DEADLINE_HEADER);
        break;
    case TLS_WANTS_WRITE:
        connection_wait(connection, EV_WRITE, DEADLINE_HEADER);
        break;
    case TLS_WANTS_SIGNATURE:
        await_signature(connection);
        break;
    case TLS_FAILED:
        fail_handshake(connection, failure);
        break;
    }
}

void handshake_resume(void *owner)
{
    struct connection *connection = owner;
    struct event_loop *loop = connection->loop;

    loop_enter(loop);
    connection->client.jobs_out--;
    loop->context.jobs_out--;
    continue_handshake(connection);
}

const struct connection_protocol handshake_protocol = {
    PRELIMINARY_PROTOCOL(continue_handshake),
    .timed_out = time_out_handshake,
};
