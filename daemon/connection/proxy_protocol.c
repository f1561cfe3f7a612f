#include "daemon/connection/proxy_protocol.h"

#include "common/segment_writer.h"
#include "daemon/base/messages.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/preliminary.h"
#include "daemon/connection/proxy_header.h"
#include "daemon/connection/read_buffer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/transaction/admission.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

static void fail(struct connection *connection, enum metric counter)
{
    metric_add(connection->loop->context.metrics, counter, 1);
    connection_close(connection);
}

static void time_out(struct connection *connection)
{
    fail(connection, METRIC_proxy_failed_timeout);
}

/* A close without a byte is a check whether the port is open. */
static void end_of_input(struct connection *connection, ssize_t got, size_t before)
{
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        connection_wait(connection, EV_READ, DEADLINE_HEADER);
    else if (before > 0)
        fail(connection, METRIC_proxy_failed_invalid);
    else
        connection_close(connection);
}

/* The header is complete and read. */
static void complete(struct connection *connection, const struct proxy_header *header)
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
 * HTTP. The beginning of a header is kept in the connection's read buffer; another worker may have sent
 * anything as such a beginning.
 */
static void proceed(struct connection *connection)
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
        end_of_input(connection, got, before);
        return;
    }
    result = proxy_header_parse(bytes, before + (size_t)got, &header);
    if (result == PROXY_HEADER_COMPLETE && header.length <= before)
        result = PROXY_HEADER_INVALID;
    switch (result) {
    case PROXY_HEADER_COMPLETE:
        recv(connection->fd, bytes + before, header.length - before, 0);
        complete(connection, &header);
        break;
    case PROXY_HEADER_INCOMPLETE:
        recv(connection->fd, bytes + before, (size_t)got, 0);
        if (connection_keep_unserved(connection, bytes, before + (size_t)got))
            connection_wait(connection, EV_READ, DEADLINE_HEADER);
        else
            connection_close(connection);
        break;
    case PROXY_HEADER_INVALID:
        fail(connection, METRIC_proxy_failed_invalid);
        break;
    }
}

const struct connection_protocol proxy_protocol = {
    PRELIMINARY_PROTOCOL(proceed),
    .timed_out = time_out,
};
