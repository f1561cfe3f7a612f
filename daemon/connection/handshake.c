#include "daemon/connection/handshake.h"

#include "common/segment_writer.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/preliminary.h"
#include "daemon/connection/timeouts.h"
#include "daemon/connection/transport_tls.h"

#include <sys/socket.h>

/* The request has been read: this answer is not lost with the close. */
static void reject_plain_http(const struct connection *connection)
{
    static const char response[] = "HTTP/1.1 400 Bad Request\r\n"
                                   "Content-Type: text/plain\r\n"
                                   "Content-Length: 40\r\n"
                                   "Connection: close\r\n\r\n"
                                   "This port expects TLS: write https://.\r\n";

    send(connection->fd, response, sizeof(response) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void fail(struct connection *connection, enum tls_failure failure)
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
    connection_close(connection);
}

static void time_out(struct connection *connection)
{
    metric_add(connection->loop->context.metrics, METRIC_tls_failed_timeout, 1);
    connection_close(connection);
}

static void complete(struct connection *connection)
{
    _Atomic uint64_t *metrics = connection->loop->context.metrics;
    bool resumed;
    unsigned int cipher = transport_tls_cipher(connection, &resumed);

    metric_add(metrics, METRIC_tls_handshakes, 1);
    metric_add(metrics, METRIC_tls_resumed, resumed);
    if (transport_tls_was_validation(connection)) {
        metric_add(metrics, METRIC_tls_validations, 1);
        connection_close(connection);
        return;
    }
    connection->client.tls = log_record_tls(cipher, resumed);
    connection->awaits_http2 = transport_tls_selected_http2(connection);
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
static void proceed(struct connection *connection)
{
    enum tls_failure failure;

    segment_activity_state(connection->loop->context.activity, THREAD_STATE_READ,
                           connection->loop->context.loop_now_ns);
    switch (transport_tls_handshake(connection, &failure)) {
    case TLS_DONE:
        complete(connection);
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
        fail(connection, failure);
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
    proceed(connection);
}

const struct connection_protocol handshake_protocol = {
    PRELIMINARY_PROTOCOL(proceed),
    .timed_out = time_out,
};
