#include "daemon/connection/lifecycle.h"

#include "common/client_address.h"
#include "common/segment_writer.h"
#include "daemon/base/messages.h"
#include "daemon/connection/timeouts.h"
#include "daemon/transaction/admission.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void join_loop(struct connection *connection, struct event_loop *loop)
{
    connection->loop = loop;
    connection->deadline = DEADLINE_KEEPALIVE;
    connection->deadline_from_ns = loop->context.loop_now_ns;
    TAILQ_INSERT_TAIL(&loop->connections[DEADLINE_KEEPALIVE], connection, link);
    metric_add(loop->context.metrics, METRIC_connections_open, 1);
    loop->context.counted_open_ns = 0;
    connection->protocol->moved(connection, false);
}

static void leave_loop(struct connection *connection)
{
    struct event_loop *loop = connection->loop;

    connection_watch(connection, 0);
    connection->protocol->moved(connection, true);
    TAILQ_REMOVE(&loop->connections[connection->deadline], connection, link);
    metric_sub(loop->context.metrics, METRIC_connections_open, 1);
    connection->loop = NULL;
}

static struct connection *connection_new(const struct connection_protocol *protocol, int fd,
                                         const uint8_t *address)
{
    struct connection *connection = calloc(1, protocol->connection_bytes);

    if (connection == NULL)
        return NULL;
    connection->fd = fd;
    connection->protocol = protocol;
    connection->transport = &transport_plain;
    memcpy(connection->client.address, address, CLIENT_ADDRESS_BYTES);
    protocol->init(connection);
    return connection;
}

void connection_accept(struct event_loop *loop, int fd, const uint8_t address[CLIENT_ADDRESS_BYTES])
{
    enum client_limit_verdict verdict =
        admission_of_connection(loop->context.worker, address, false);
    struct connection *connection = NULL;

    if (verdict != CLIENT_LIMIT_EXCEEDED)
        connection = connection_new(loop->protocol, fd, address);
    if (connection == NULL) {
        admission_reject(&loop->context, fd, address, verdict);
        return;
    }
    connection->client.counted = verdict == CLIENT_LIMIT_COUNTED;
    metric_add(loop->context.metrics, METRIC_connections_accepted, 1);
    join_loop(connection, loop);
    connection->protocol->accepted(connection);
}

/* Frees a connection that no thread owns. Any thread. */
static void discard(struct connection *connection, const struct worker_context *worker)
{
    connection->protocol->free(connection, worker->cache);
    if (connection->client.counted)
        client_limit_leave(worker->client_limit, client_key(connection->client.address));
    if (connection->fd >= 0)
        close(connection->fd);
    free(connection->unserved);
    free(connection);
}

void connection_close(struct connection *connection)
{
    struct transaction_context *context = &connection->loop->context;

    connection->protocol->abort(connection);
    leave_loop(connection);
    metric_add(context->metrics, METRIC_connections_closed, 1);
    discard(connection, context->worker);
}

void connections_close(struct event_loop *loop)
{
    for (int i = 0; i < DEADLINE_COUNT; i++) {
        struct connection *connection = TAILQ_FIRST(&loop->connections[i]);

        while (connection != NULL) {
            struct connection *next = TAILQ_NEXT(connection, link);

            if (connection->client.jobs_out == 0)
                connection_close(connection);
            connection = next;
        }
    }
}

/* Modes */

static bool is_between_requests(const struct connection *connection)
{
    return connection->client.jobs_out == 0 && !connection->client.closing &&
           !connection->lingering && connection->protocol->is_between_requests(connection);
}

static bool must_hand_over(const struct connection *connection)
{
    const struct read_buffer *unserved = connection->unserved;

    switch (connection->loop->mode) {
    case THREAD_MOVING:
        return connection->client.jobs_out == 0;
    case THREAD_DRAINING:
        return is_between_requests(connection) &&
               (unserved == NULL || unserved->length <= PASSED_BYTES_MAX);
    case THREAD_SERVING:
    case THREAD_STOPPING:
    case THREAD_RETIRING:
        break;
    }
    return false;
}

static void hand_over(struct connection *connection)
{
    struct transaction_context *context = &connection->loop->context;

    leave_loop(connection);
    metric_add(context->metrics, METRIC_connections_handed_over, 1);
    connection->log_blocked = false;
    mailbox_post(context->worker->main, &connection->item, ITEM_HANDED_OVER);
}

bool connection_apply_mode(struct connection *connection)
{
    if (must_hand_over(connection)) {
        hand_over(connection);
        return true;
    }
    if (connection->loop->mode == THREAD_STOPPING && is_between_requests(connection) &&
        read_buffer_is_idle(connection->unserved)) {
        connection_close(connection);
        return true;
    }
    return false;
}

void connections_apply_mode(struct event_loop *loop)
{
    for (int i = 0; i < DEADLINE_COUNT; i++) {
        struct connection *connection = TAILQ_FIRST(&loop->connections[i]);

        while (connection != NULL) {
            struct connection *next = TAILQ_NEXT(connection, link);

            connection_apply_mode(connection);
            connection = next;
        }
    }
}

/* Adoption */

void connection_adopt(struct event_loop *loop, struct connection *connection)
{
    join_loop(connection, loop);
    metric_add(loop->context.metrics, METRIC_connections_adopted, 1);
    if (connection_apply_mode(connection))
        return;
    if (connection->lingering)
        connection_wait(connection, EV_READ, DEADLINE_LINGER);
    else
        connection->protocol->resume(connection);
}

void connection_adopt_arrival(struct event_loop *loop, struct arrival *arrival)
{
    enum client_limit_verdict verdict =
        admission_of_connection(loop->context.worker, arrival->address, arrival->admitted);
    struct connection *connection = NULL;

    connection_count_received(loop->context.worker);
    if (verdict != CLIENT_LIMIT_EXCEEDED)
        connection = connection_new(loop->protocol, arrival->fd, arrival->address);
    if (connection != NULL &&
        read_buffer_keep(&connection->unserved, arrival->bytes, arrival->length)) {
        connection->client.requests = arrival->requests;
        connection->client.counted = verdict == CLIENT_LIMIT_COUNTED;
        connection->client.transferred = arrival->admitted;
        free(arrival);
        connection_adopt(loop, connection);
        return;
    }
    admission_reject(&loop->context, arrival->fd, arrival->address, verdict);
    free(connection);
    free(arrival);
}

struct arrival *connection_to_arrival(struct connection *connection,
                                      const struct worker_context *worker)
{
    size_t length = connection->unserved != NULL ? connection->unserved->length : 0;
    struct arrival *arrival = malloc(sizeof(*arrival) + length);

    if (arrival != NULL) {
        arrival->fd = connection->fd;
        arrival->requests = connection->client.requests;
        arrival->length = (uint32_t)length;
        arrival->admitted = true;
        memcpy(arrival->address, connection->client.address, sizeof(arrival->address));
        if (length > 0)
            memcpy(arrival->bytes, connection->unserved->bytes, length);
        connection->fd = -1;
    }
    discard(connection, worker);
    return arrival;
}

void connection_count_received(const struct worker_context *worker)
{
    metric_add_shared(segment_worker(worker->segment, worker->worker_slot)->metrics,
                      METRIC_connections_received, 1);
}
