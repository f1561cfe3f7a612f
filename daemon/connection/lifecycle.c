#include "daemon/connection/lifecycle.h"

#include "common/client_address.h"
#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/messages.h"
#include "daemon/base/probes.h"
#include "daemon/config/value.h"
#include "daemon/connection/connection_queue.h"
#include "daemon/connection/listen_socket.h"
#include "daemon/connection/opening.h"
#include "daemon/connection/read_buffer.h"
#include "daemon/connection/timeouts.h"
#include "daemon/connection/transport.h"
#include "daemon/connection/unsent.h"
#include "daemon/transaction/admission.h"
#include "daemon/transaction/shortage.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD_PEEKED_BYTES = 8 * 1024 };

/* The worker's number of open connections. */
static _Atomic uint32_t *worker_connections_open(const struct worker_context *worker)
{
    return &segment_worker(worker->segment, worker->worker_slot)->connections_open;
}

static void join_loop(struct connection *connection, struct event_loop *loop)
{
    connection->loop = loop;
    connection->deadline = DEADLINE_KEEPALIVE;
    connection->deadline_from_ns = loop->context.loop_now_ns;
    TAILQ_INSERT_TAIL(&loop->connections[DEADLINE_KEEPALIVE], connection, link);
    metric_add(loop->context.metrics, METRIC_connections_open, 1);
    if (connection->tls != NULL)
        metric_add(loop->context.metrics, METRIC_tls_open, 1);
    atomic_fetch_add_explicit(worker_connections_open(loop->context.worker), 1,
                              memory_order_relaxed);
    loop->context.counted_open_ns = 0;
    connection->protocol->moved(connection, false);
}

static void leave_loop(struct connection *connection)
{
    struct event_loop *loop = connection->loop;

    connection_watch(connection, 0);
    connection->protocol->moved(connection, true);
    unsent_end_reservation(connection);
    connection_set_busy(connection, false);
    TAILQ_REMOVE(&loop->connections[connection->deadline], connection, link);
    metric_sub(loop->context.metrics, METRIC_connections_open, 1);
    if (connection->tls != NULL)
        metric_sub(loop->context.metrics, METRIC_tls_open, 1);
    atomic_fetch_sub_explicit(worker_connections_open(loop->context.worker), 1,
                              memory_order_relaxed);
    connection->loop = NULL;
}

/* Frees what connection_new() has made. */
static void connection_delete(struct connection *connection)
{
    if (connection == NULL)
        return;
    if (connection->tls != NULL)
        transport_tls_free(connection);
    free(connection->unserved);
    free(connection);
}

/* Selects the first protocol of the opening of CONNECTION. Returns false if out of memory. */
static bool select_protocol(struct connection *connection, const struct event_loop *loop)
{
    if (UNLIKELY((connection->opening & OPENING_PROXY) != 0)) {
        connection->protocol = &proxy_protocol;
    } else if ((connection->opening & OPENING_TLS) != 0) {
        if (!transport_tls_open(connection, loop->tls, loop->context.worker->segment))
            return false;
        connection->protocol = &handshake_protocol;
        connection->client.secure = true;
        connection->opening = 0;
    } else {
        connection->protocol = loop->protocol;
    }
    return true;
}

static struct connection *connection_new(const struct event_loop *loop, int fd,
                                         const uint8_t *address, uint8_t opening)
{
    const struct config *config = loop->context.worker->config;
    struct connection *connection = calloc(1, loop->protocol->connection_bytes);

    if (connection == NULL)
        return NULL;
    connection->fd = fd;
    connection->transport = &transport_plain;
    connection->opening = opening;
    memcpy(connection->client.address, address, CLIENT_ADDRESS_BYTES);
    connection->client.forwarded = config->proxy_field != PROXY_FIELD_NONE &&
                                   (opening & OPENING_PROXY) == 0 &&
                                   network_set_contains(&config->proxy_trusted.set, address);
    if (!select_protocol(connection, loop)) {
        connection_delete(connection);
        return NULL;
    }
    connection->protocol->init(connection);
    return connection;
}

/* Tries again after the cache has shrunk. */
static struct connection *connection_new_for(struct event_loop *loop, int fd,
                                             const uint8_t *address, uint8_t opening)
{
    struct connection *connection = connection_new(loop, fd, address, opening);

    if (connection == NULL && memory_make_room(&loop->context))
        connection = connection_new(loop, fd, address, opening);
    return connection;
}

/*
 * Counts a connection to an address whose connections begin with OPENING against the limit of its
 * client. If a PROXY header names the client, it is counted when that has been read.
 */
static enum client_limit_verdict admit_client(const struct event_loop *loop, const uint8_t *address,
                                              uint8_t opening, bool admitted)
{
    if (UNLIKELY((opening & OPENING_PROXY) != 0))
        return CLIENT_LIMIT_UNCOUNTED;
    return admission_of_connection(loop->context.worker, address, admitted);
}

/* Closes FD if its connection must begin with a PROXY header and the peer is not trusted. */
static bool close_untrusted(struct event_loop *loop, int fd, const uint8_t *address,
                            uint8_t opening)
{
    if (LIKELY((opening & OPENING_PROXY) == 0) ||
        network_set_contains(&loop->context.worker->config->proxy_trusted.set, address))
        return false;
    metric_add(loop->context.metrics, METRIC_proxy_failed_untrusted, 1);
    close(fd);
    return true;
}

bool connection_accept(struct event_loop *loop, int fd, const uint8_t address[CLIENT_ADDRESS_BYTES],
                       uint8_t opening)
{
    enum client_limit_verdict verdict;
    struct connection *connection = NULL;

    if (close_untrusted(loop, fd, address, opening))
        return true;
    verdict = admit_client(loop, address, opening, false);
    if (verdict != CLIENT_LIMIT_EXCEEDED)
        connection = connection_new_for(loop, fd, address, opening);
    if (connection == NULL) {
        admission_reject(&loop->context, fd, address, verdict, opening != 0);
        return verdict == CLIENT_LIMIT_EXCEEDED;
    }
    connection->client.counted = verdict == CLIENT_LIMIT_COUNTED;
    metric_add(loop->context.metrics, METRIC_connections_accepted, 1);
    PROBE_ACCEPT(fd, address, (opening & OPENING_TLS) != 0);
    join_loop(connection, loop);
    connection->protocol->accepted(connection);
    return true;
}

bool connection_begin(struct connection *connection)
{
    struct event_loop *loop = connection->loop;

    if (!select_protocol(connection, loop) &&
        !(memory_make_room(&loop->context) && select_protocol(connection, loop)))
        return false;
    if (connection->tls != NULL)
        metric_add(loop->context.metrics, METRIC_tls_open, 1);
    connection->protocol->init(connection);
    connection_set_deadline(connection, DEADLINE_KEEPALIVE);
    connection->protocol->accepted(connection);
    return true;
}

/* Frees a connection that no thread owns. Any thread. */
static void discard_connection(struct connection *connection, const struct worker_context *worker)
{
    connection->protocol->free(connection, worker->cache);
    unsent_free(connection, worker->cache);
    if (connection->client.counted)
        client_limit_leave(worker->client_limit, client_key(connection->client.address));
    if (connection->fd >= 0)
        close(connection->fd);
    connection_delete(connection);
}

/* Closes our side: the client receives an end after the last response. */
static int shut_down_connection(struct connection *connection)
{
    if (connection->tls != NULL)
        transport_tls_end(connection);
    connection->buffered = false;
    return shutdown(connection->fd, SHUT_WR);
}

void connection_close(struct connection *connection)
{
    struct transaction_context *context = &connection->loop->context;

    connection->protocol->abort(connection);
    if (connection->tls != NULL)
        transport_tls_end(connection);
    leave_loop(connection);
    metric_add(context->metrics, METRIC_connections_closed, 1);
    discard_connection(connection, context->worker);
}

void connection_abandon(struct connection *connection)
{
    if (connection->client.jobs_out == 0) {
        connection_close(connection);
        return;
    }
    connection->protocol->abort(connection);
    read_buffer_keep(&connection->unserved, NULL, 0);
    connection->abandoned = true;
    connection_wait(connection, 0, DEADLINE_NONE);
}

bool connection_close_abandoned(struct connection *connection)
{
    if (LIKELY(!connection->abandoned))
        return false;
    if (connection->client.jobs_out == 0)
        connection_close(connection);
    return true;
}

bool connection_is_between_requests(const struct connection *connection)
{
    return connection->client.jobs_out == 0 && !connection->client.closing &&
           !connection->lingering && connection->protocol->is_between_requests(connection);
}

static bool connection_is_idle(const struct connection *connection)
{
    return connection_is_between_requests(connection) &&
           read_buffer_is_idle(connection->unserved) && !connection_has_unread(connection);
}

void connections_close(struct event_loop *loop, bool only_idle)
{
    for (int i = 0; i < DEADLINE_COUNT; i++) {
        struct connection *connection = TAILQ_FIRST(&loop->connections[i]);

        while (connection != NULL) {
            struct connection *next = TAILQ_NEXT(connection, link);

            if (only_idle ? connection_is_idle(connection) : connection->client.jobs_out == 0)
                connection_close(connection);
            connection = next;
        }
    }
}

/* The end of a connection */

void connection_linger(struct connection *connection)
{
    if (!connection->client.linger_wanted || shut_down_connection(connection) != 0) {
        connection_close(connection);
        return;
    }
    connection->lingering = true;
    connection->linger_from_ns = connection->loop->context.loop_now_ns;
    read_buffer_keep(&connection->unserved, NULL, 0);
    connection_wait(connection, EV_READ, DEADLINE_LINGER);
}

struct connection *connection_become(struct connection *connection,
                                     const struct connection_protocol *protocol)
{
    struct event_loop *loop = connection->loop;
    struct connection *next = calloc(1, protocol->connection_bytes);

    if (next == NULL)
        return NULL;
    connection_watch(connection, 0);
    connection->protocol->moved(connection, true);
    TAILQ_REMOVE(&loop->connections[connection->deadline], connection, link);
    *next = *connection;
    next->protocol = protocol;
    if (next->tls != NULL)
        transport_tls_attach(next);
    protocol->init(next);
    TAILQ_INSERT_TAIL(&loop->connections[DEADLINE_KEEPALIVE], next, link);
    next->deadline = DEADLINE_KEEPALIVE;
    next->deadline_from_ns = loop->context.loop_now_ns;
    protocol->moved(next, false);
    connection->protocol->free(connection, loop->context.worker->cache);
    free(connection);
    return next;
}

/* Modes */

static bool must_hand_over(const struct connection *connection)
{
    const struct read_buffer *unserved = connection->unserved;

    switch (connection->loop->mode) {
    case THREAD_MOVING:
        return connection->client.jobs_out == 0;
    case THREAD_DRAINING:
        return connection->tls == NULL && connection_is_between_requests(connection) &&
               (unserved == NULL || unserved->length <= PASSED_BYTES_MAX);
    case THREAD_SERVING:
    case THREAD_CLOSING:
    case THREAD_STOPPING:
    case THREAD_RETIRING:
    case THREAD_MODES:
        break;
    }
    return false;
}

/* To DESTINATION (enum, or a thread). No offload job refers to CONNECTION. */
static void hand_over_connection(struct connection *connection, uint32_t destination,
                                 enum move_reason reason)
{
    static const enum metric counters[] = {
        [MOVE_LEAVING] = METRIC_connections_moved_leaving,
        [MOVE_RESIZE] = METRIC_connections_moved_resize,
        [MOVE_UNEVEN] = METRIC_connections_moved_uneven,
    };
    struct transaction_context *context = &connection->loop->context;
    mailbox_deliver_fn *pass = connection->loop->pass_connection;

    connection->idle = !connection_is_active(connection);
    leave_loop(connection);
    metric_add(context->metrics, counters[reason], 1);
    connection->log_blocked = false;
    connection->destination = destination;
    mailbox_post(context->worker->main, &connection->item, pass);
}

bool connection_apply_mode(struct connection *connection)
{
    enum thread_mode mode = connection->loop->mode;

    if (connection->protocol->drain != NULL && mode != THREAD_SERVING && mode != THREAD_MOVING &&
        !connection->lingering) {
        connection->protocol->drain(connection);
        return true;
    }
    if (must_hand_over(connection)) {
        hand_over_connection(connection, DESTINATION_ANY, MOVE_LEAVING);
        return true;
    }
    if (mode == THREAD_STOPPING && connection_is_idle(connection)) {
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

/* Giving */

static bool may_be_given(const struct connection *connection, uint32_t destination)
{
    const struct read_buffer *unserved = connection->unserved;

    if (destination == DESTINATION_MASTER)
        return connection->tls == NULL && connection_is_between_requests(connection) &&
               (unserved == NULL || unserved->length <= PASSED_BYTES_MAX);
    return connection->client.jobs_out == 0 && !connection->client.closing &&
           !connection->lingering;
}

/* Of each WANTED-th part of the active connections, gives the last to have had a request. */
static void give_active_connections(struct event_loop *loop, const struct give *give,
                                    uint32_t wanted)
{
    uint32_t active = connections_count_active(loop), due = 0;

    wanted = wanted < active ? wanted : active;
    if (wanted == 0)
        return;
    for (enum deadline i = 0; i < DEADLINE_COUNT; i++) {
        struct connection *connection = TAILQ_LAST(&loop->connections[i], connection_list);

        while (connection != NULL && connection_is_recent(connection)) {
            struct connection *before = TAILQ_PREV(connection, connection_list, link);

            due += connection_is_active(connection) ? wanted : 0;
            if (due >= active && may_be_given(connection, give->destination)) {
                due -= active;
                hand_over_connection(connection, give->destination, give->reason);
            }
            connection = before;
        }
    }
}

/* Gives up to GIVE->count, first those that wait for a request. Returns how many are missing. */
static uint32_t give_idle_connections(struct event_loop *loop, const struct give *give)
{
    uint32_t left = give->count;

    for (enum deadline i = 0; i < DEADLINE_COUNT; i++) {
        struct connection *connection = TAILQ_FIRST(&loop->connections[i]);

        while (connection != NULL && left > 0 && !connection_is_active(connection)) {
            struct connection *next = TAILQ_NEXT(connection, link);

            if (may_be_given(connection, give->destination)) {
                hand_over_connection(connection, give->destination, give->reason);
                left--;
            }
            connection = next;
        }
    }
    return left;
}

void connections_give(struct mailbox_item *item, void *receiver)
{
    struct event_loop *loop = receiver;
    const struct give *give = CONTAINER_OF(item, struct give, item);

    if (loop->mode == THREAD_SERVING)
        give_active_connections(loop, give,
                                give->idle ? give_idle_connections(loop, give) : give->count);
    metric_set(loop->context.metrics, METRIC_connections_active, connections_count_active(loop));
    mailbox_post(loop->context.worker->main, item, give->given);
}

/* Adoption */

static void take_over_connection(struct event_loop *loop, struct connection *connection,
                                 enum metric counter)
{
    join_loop(connection, loop);
    metric_add(loop->context.metrics, counter, 1);
    if (connection_is_active(connection))
        metric_add(loop->context.metrics, METRIC_connections_active, 1);
    if (connection_apply_mode(connection))
        return;
    if (connection->lingering)
        connection_wait(connection, EV_READ, DEADLINE_LINGER);
    else
        connection->protocol->resume(connection);
}

void connection_adopt(struct event_loop *loop, struct connection *connection)
{
    take_over_connection(loop, connection, METRIC_connections_adopted);
}

/* Returns false if there was no memory. */
static bool adopt_arrival(struct event_loop *loop, struct arrival *arrival)
{
    enum client_limit_verdict verdict;
    struct connection *connection = NULL;

    if (arrival->passed)
        connection_count_received(loop->context.worker);
    if (close_untrusted(loop, arrival->fd, arrival->address, arrival->opening)) {
        free(arrival);
        return true;
    }
    verdict = admit_client(loop, arrival->address, arrival->opening, arrival->admitted);
    if (verdict != CLIENT_LIMIT_EXCEEDED)
        connection = connection_new_for(loop, arrival->fd, arrival->address, arrival->opening);
    if (connection != NULL &&
        read_buffer_keep(&connection->unserved, arrival->bytes, arrival->length)) {
        connection->client.requests = arrival->requests;
        connection->client.counted = verdict == CLIENT_LIMIT_COUNTED;
        connection->client.transferred = arrival->admitted;
        connection->client.proxied = arrival->proxied;
        connection->client.forwarded = connection->client.forwarded && !arrival->proxied;
        connection->idle = arrival->idle;
        if (!arrival->admitted)
            PROBE_ACCEPT(arrival->fd, arrival->address, (arrival->opening & OPENING_TLS) != 0);
        free(arrival);
        take_over_connection(loop, connection,
                             connection->client.transferred ? METRIC_connections_adopted
                                                            : METRIC_connections_accepted);
        return true;
    }
    admission_reject(&loop->context, arrival->fd, arrival->address, verdict, arrival->opening != 0);
    connection_delete(connection);
    free(arrival);
    return verdict == CLIENT_LIMIT_EXCEEDED;
}

void connection_adopt_arrival(struct mailbox_item *item, void *receiver)
{
    struct event_loop *loop = receiver;

    if (!adopt_arrival(loop, CONTAINER_OF(item, struct arrival, item)) &&
        shed_idle(loop, SHORTAGE_MEMORY, 1) == 0)
        shed_ask(loop, SHORTAGE_MEMORY);
}

/* Answers 503 to the connections that the queue has dropped, linked by item.next. */
static void refuse_connections(struct event_loop *loop, struct arrival *dropped)
{
    struct mailbox_item *item = dropped != NULL ? &dropped->item : NULL;

    while (item != NULL) {
        struct mailbox_item *next = item->next;

        connection_adopt_arrival(item, loop);
        item = next;
    }
}

/* Over TLS, or before a PROXY header, the request cannot be seen. */
void arrival_find_size(struct arrival *arrival, const struct connection_protocol *protocol,
                       const struct worker_context *worker)
{
    char peeked[HEAD_PEEKED_BYTES];
    ssize_t length;

    arrival->file_bytes = 0;
    if (arrival->opening != 0)
        return;
    if (arrival->length > 0) {
        arrival->file_bytes = protocol->file_bytes(worker, arrival->bytes, arrival->length);
        return;
    }
    length = recv(arrival->fd, peeked, sizeof(peeked), MSG_PEEK | MSG_DONTWAIT);
    if (length > 0)
        arrival->file_bytes = protocol->file_bytes(worker, peeked, (size_t)length);
}

bool connection_enqueue(struct event_loop *loop, int fd,
                        const uint8_t address[CLIENT_ADDRESS_BYTES], uint8_t opening)
{
    struct arrival *arrival = calloc(1, sizeof(*arrival));

    if (arrival == NULL) {
        admission_reject(&loop->context, fd, address, CLIENT_LIMIT_UNCOUNTED, opening != 0);
        return false;
    }
    arrival->fd = fd;
    arrival->opening = opening;
    memcpy(arrival->address, address, sizeof(arrival->address));
    if (connection_queue_wants_size(loop->queue))
        arrival_find_size(arrival, loop->protocol, loop->context.worker);
    refuse_connections(loop, connection_queue_put(loop->queue, arrival, loop->context.loop_now_ns));
    return true;
}

struct arrival *connection_to_arrival(struct connection *connection,
                                      const struct worker_context *worker)
{
    size_t length = connection->unserved != NULL ? connection->unserved->length : 0;
    bool can_go = connection->tls == NULL && connection->protocol->drain == NULL;
    struct arrival *arrival = can_go ? malloc(sizeof(*arrival) + length) : NULL;

    if (arrival != NULL) {
        arrival->passed = false;
        arrival->proxied = connection->client.proxied;
        arrival->opening = connection->opening;
        arrival->fd = connection->fd;
        arrival->requests = connection->client.requests;
        arrival->length = (uint32_t)length;
        arrival->admitted = true;
        arrival->idle = connection->idle;
        memcpy(arrival->address, connection->client.address, sizeof(arrival->address));
        if (length > 0)
            memcpy(arrival->bytes, connection->unserved->bytes, length);
        connection->fd = -1;
    }
    discard_connection(connection, worker);
    return arrival;
}

void connection_count_received(const struct worker_context *worker)
{
    metric_add_shared(segment_worker(worker->segment, worker->worker_slot)->metrics,
                      METRIC_connections_received, 1);
}
