#include "common/clock.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/connection/connection_queue.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/listen_socket.h"
#include "daemon/http1/connection.h"
#include "daemon/transaction/shortage.h"
#include "daemon/worker/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    UNASSIGNED = UINT32_MAX,
    DEFER_MS = 2,
    RELIEF_MS = 200,
    SHED_PART = 8, /* one in so many connections is closed at a time while memory is short */
};

/* Listen sockets */

struct worker_listener {
    uint32_t id, row;
    int fd; /* the worker's; the thread has a duplicate */
    uint8_t opening;
    uint32_t thread;
    struct listen_socket *socket; /* the thread's, while assigned */
};

static void revoke_socket(const struct worker *worker, struct worker_listener *listener)
{
    if (listener->thread < worker->count)
        listen_socket_revoke(&worker->threads[listener->thread]->loop, listener->socket);
    listener->thread = UNASSIGNED;
}

static void assign_socket(const struct worker *worker, struct worker_listener *listener,
                          uint32_t thread)
{
    int copy;

    if (listener->thread == thread)
        return;
    revoke_socket(worker, listener);
    copy = fcntl(listener->fd, F_DUPFD_CLOEXEC, 0);
    listener->socket =
        copy >= 0 ? listen_socket_assign(&worker->threads[thread]->loop, copy, listener->opening)
                  : NULL;
    if (listener->socket != NULL)
        listener->thread = thread;
    else
        event_log(LEVEL_ERROR, "cannot assign a listen socket to a thread: %s", strerror(errno));
}

void worker_listeners_assign(struct worker *worker)
{
    uint32_t rank = 0; /* index of the row among the worker's rows */

    for (uint32_t i = 0; i < worker->listener_count && worker->count > 0; i++) {
        struct worker_listener *listener = &worker->listeners[i];

        if (listener->thread >= worker->count)
            listener->thread = UNASSIGNED; /* its thread is exiting and closes it */
        if (i > 0 && listener->row != listener[-1].row)
            rank++;
        assign_socket(worker, listener, worker->queue != NULL ? 0 : rank % worker->count);
    }
}

static bool reserve_listener(struct worker *worker)
{
    uint32_t capacity = worker->listener_capacity == 0 ? 16 : worker->listener_capacity * 2;
    struct worker_listener *item;

    if (worker->listener_count < worker->listener_capacity)
        return true;
    item = realloc(worker->listeners, capacity * sizeof(*item));
    if (item == NULL)
        return false;
    worker->listeners = item;
    worker->listener_capacity = capacity;
    return true;
}

bool worker_listeners_add(struct worker *worker, const struct message_listen_socket *message,
                          int fd)
{
    uint32_t at = worker->listener_count;
    struct worker_listener *item;

    if (!reserve_listener(worker)) {
        event_log(LEVEL_ERROR, "cannot add a listen socket: out of memory");
        close(fd);
        return false;
    }
    item = worker->listeners;
    while (at > 0 && (item[at - 1].row > message->row ||
                      (item[at - 1].row == message->row && item[at - 1].id > message->id)))
        at--;
    memmove(&item[at + 1], &item[at], (worker->listener_count - at) * sizeof(*item));
    item[at] = (struct worker_listener){.id = message->id,
                                        .row = message->row,
                                        .fd = fd,
                                        .opening = message->opening & OPENING_ALL,
                                        .thread = UNASSIGNED};
    worker->listener_count++;
    return true;
}

void worker_listeners_drop(struct worker *worker, uint32_t id)
{
    for (uint32_t i = 0; i < worker->listener_count; i++) {
        struct worker_listener *listener = &worker->listeners[i];

        if (listener->id != id)
            continue;
        revoke_socket(worker, listener);
        close(listener->fd);
        worker->listener_count--;
        memmove(listener, listener + 1, (worker->listener_count - i) * sizeof(*listener));
        return;
    }
}

void worker_listeners_drop_all(struct worker *worker)
{
    while (worker->listener_count > 0)
        close(worker->listeners[--worker->listener_count].fd);
}

/* Shortages */

void worker_shed(struct worker *worker, enum shortage reason, uint32_t wanted)
{
    if (worker->shed_pending || wanted == 0)
        return;
    worker->shed_pending = true;
    worker->shed =
        (struct shed_request){.pass = worker_pass_shed_request, .reason = reason, .wanted = wanted};
    worker_pass_shed_request(&worker->shed.item, worker);
}

void worker_pass_shed_request(struct mailbox_item *item, void *receiver)
{
    struct shed_request *request = CONTAINER_OF(item, struct shed_request, item);
    struct worker *worker = receiver;

    if (request->closed < request->wanted && request->visited < worker->count)
        mailbox_post(&worker->threads[request->visited++]->loop.mailbox, item, shed_visit);
    else if (request->asker != NULL)
        mailbox_post(request->asker, item, shed_finish);
    else
        worker->shed_pending = false;
}

void worker_sweep_evicted(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->count; i++)
        thread_sweep_evicted(worker->threads[i]);
}

static void free_some_memory(struct worker *worker)
{
    struct cache *cache = worker->context.cache;
    uint64_t open = 0;

    if (cache == NULL || cache_shed(cache) == 0) {
        for (uint32_t i = 0; i < worker->count; i++)
            open += metric_get(worker->threads[i]->loop.context.metrics, METRIC_connections_open);
        worker_shed(worker, SHORTAGE_MEMORY, (uint32_t)(open / SHED_PART) + 1);
    }
    malloc_trim(0); /* the limit counts what the allocator keeps */
}

void worker_relieve(struct worker *worker)
{
    if (event_pending(worker->relief, EV_TIMEOUT, NULL) || worker->leaving || worker->stopping ||
        memory_left(&worker->context) == MEMORY_ENOUGH)
        return;
    free_some_memory(worker);
    loop_start_timer(worker->relief, RELIEF_MS);
}

void worker_set_memory(struct worker *worker, const struct message_memory *message)
{
    atomic_store_explicit(&worker->shortages.memory, (uint32_t)message->level,
                          memory_order_relaxed);
    if (worker->context.cache != NULL)
        cache_allow(worker->context.cache, message->cache_bytes);
    worker_relieve(worker);
}

/* False if new connections wait because the control group has no memory for another one. */
static bool memory_admits_connection(const struct worker *worker)
{
    if (memory_left(&worker->context) != MEMORY_EXHAUSTED)
        return true;
    for (uint32_t i = 0; i < worker->count; i++)
        if (memory_admits(&worker->threads[i]->loop.context))
            return true;
    return false;
}

/* Connections */

/* Not an acceptor. NULL: there is none. */
static struct serving_thread *least_loaded_thread(const struct worker *worker)
{
    struct serving_thread *best = NULL;
    uint64_t best_load = UINT64_MAX;

    for (uint32_t i = worker->queue != NULL; i < worker->count; i++) {
        uint64_t load = thread_load(worker->threads[i]);

        if (load < best_load) {
            best = worker->threads[i];
            best_load = load;
        }
    }
    return best;
}

static bool offer_to_threads(struct worker *worker, struct arrival *arrival)
{
    struct serving_thread *best = least_loaded_thread(worker);

    if (best != NULL &&
        mailbox_offer(&best->loop.mailbox, &arrival->item, connection_adopt_arrival))
        return true;
    for (uint32_t i = 0; i < worker->count; i++)
        if (mailbox_offer(&worker->threads[i]->loop.mailbox, &arrival->item,
                          connection_adopt_arrival))
            return true;
    return false;
}

/* The acceptor answers those that are dropped. */
static void enqueue_arrival(struct worker *worker, struct arrival *arrival)
{
    struct arrival *dropped;
    struct mailbox_item *item;

    if (connection_queue_wants_size(worker->queue))
        arrival_find_size(arrival, &http1_protocol, &worker->context);
    dropped = connection_queue_put(worker->queue, arrival, clock_monotonic_ns());
    item = dropped != NULL ? &dropped->item : NULL;

    while (item != NULL) {
        struct mailbox_item *next = item->next;

        mailbox_post(&worker->threads[0]->loop.mailbox, item, connection_adopt_arrival);
        item = next;
    }
}

/*
 * The order to leave or finish comes on the channel of the connections, after them: until it is
 * read, the worker takes all of them, also those for which the queue has no place.
 */
static bool is_to_leave(const struct worker *worker)
{
    return atomic_load_explicit(
               &segment_worker_slot(worker->context.segment, worker->context.worker_slot)->state,
               memory_order_relaxed) == WORKER_LEAVING;
}

/* Returns false if all threads, or their queue, are at their limit. */
static bool offer_arrival(struct worker *worker, struct arrival *arrival)
{
    if (worker->queue == NULL)
        return offer_to_threads(worker, arrival);
    if (worker->count == 0 ||
        (!connection_queue_admits(worker->queue, NULL) && !is_to_leave(worker)))
        return false;
    enqueue_arrival(worker, arrival);
    return true;
}

static void return_arrival(struct worker *worker, struct arrival *arrival)
{
    _Alignas(struct message_connection) char
        buffer[sizeof(struct message_connection) + PASSED_BYTES_MAX];
    struct message_connection *message = (struct message_connection *)buffer;
    size_t length = sizeof(*message) + arrival->length;

    if (arrival->length > PASSED_BYTES_MAX) { /* too large for a message */
        close(arrival->fd);
        free(arrival);
        return;
    }
    message->requests = arrival->requests;
    message->length = arrival->length;
    message->admitted = arrival->admitted;
    message->idle = arrival->idle;
    message->opening = arrival->opening;
    message->proxied = arrival->proxied;
    memcpy(message->address, arrival->address, sizeof(message->address));
    memcpy(message->bytes, arrival->bytes, arrival->length);
    if (channel_send(worker->connections, MESSAGE_CONNECTION_RETURNED, message, length, arrival->fd,
                     true) != 0) {
        event_log(LEVEL_ERROR, "cannot return a connection to the master: %s", strerror(errno));
        close(arrival->fd);
    }
    free(arrival);
}

static void place_arrival(struct worker *worker, struct arrival *arrival)
{
    if (worker->leaving) {
        if (arrival->passed)
            connection_count_received(&worker->context);
        return_arrival(worker, arrival);
    } else if (!offer_arrival(worker, arrival)) {
        worker->deferred = arrival;
        channel_set_reading(worker->connections, false);
        loop_start_timer(worker->retry, DEFER_MS);
    }
}

void worker_retry_arrival(struct worker *worker)
{
    struct arrival *arrival = worker->deferred;

    if (arrival == NULL)
        return;
    worker->deferred = NULL;
    channel_set_reading(worker->connections, true);
    place_arrival(worker, arrival);
}

/*
 * Connections stay in the channel until there is memory for the next one, or until the control
 * group has some. For memory, the cache shrinks, then idle connections are closed. The spare one
 * stays while there is memory for others, so that a message to stop needs none.
 */
bool worker_ready_for_connection(void *owner)
{
    struct worker *worker = owner;

    if (worker->spare == NULL)
        worker->spare = malloc(sizeof(*worker->spare) + PASSED_BYTES_MAX);
    if (worker->spare != NULL)
        return memory_admits_connection(worker);
    if (worker->context.cache == NULL || cache_shed(worker->context.cache) == 0)
        worker_shed(worker, SHORTAGE_MEMORY, 1);
    worker_sweep_evicted(worker);
    return false;
}

void worker_no_descriptor_for_connection(void *owner)
{
    worker_shed(owner, SHORTAGE_DESCRIPTORS, 1);
}

void worker_receive_connection(struct worker *worker, const struct message_connection *message,
                               int fd)
{
    struct arrival *arrival = malloc(sizeof(*arrival) + message->length);

    if (arrival == NULL) {
        arrival = worker->spare;
        worker->spare = NULL;
    }
    arrival->passed = true;
    arrival->fd = fd;
    arrival->requests = message->requests;
    arrival->length = message->length;
    arrival->admitted = message->admitted != 0;
    arrival->idle = message->idle != 0;
    arrival->opening = message->opening & OPENING_ALL;
    arrival->proxied = message->proxied != 0;
    memcpy(arrival->address, message->address, sizeof(arrival->address));
    memcpy(arrival->bytes, message->bytes, message->length);
    place_arrival(worker, arrival);
}

/*
 * True if it is too late for a connection to change the worker: after the order to finish, workers
 * take no connections, and may have exited.
 */
static bool stays_here(const struct worker *worker)
{
    return !worker->leaving && (worker->stopping || is_to_leave(worker));
}

void worker_pass_connection(struct mailbox_item *item, void *receiver)
{
    struct connection *connection = CONTAINER_OF(item, struct connection, item);
    struct worker *worker = receiver;
    uint32_t destination = connection->destination;
    struct serving_thread *sibling = NULL;
    struct arrival *arrival;

    if (worker->queue != NULL && !worker->leaving && worker->count > 0) {
        connection_queue_return(worker->queue, connection, thread_deliver_connection);
        return;
    }
    if (destination < worker->count)
        sibling = worker->threads[destination];
    else if (destination != DESTINATION_MASTER || stays_here(worker))
        sibling = least_loaded_thread(worker);
    if (sibling != NULL) {
        thread_pass(sibling, connection);
        worker->balancer.moved++;
        return;
    }
    arrival = connection_to_arrival(connection, &worker->context);
    if (arrival != NULL)
        return_arrival(worker, arrival);
}

void worker_return_queue(struct worker *worker)
{
    struct mailbox_item *item;

    while ((item = connection_queue_take(worker->queue, &worker->waiter, 0)) != NULL) {
        if (item->deliver == connection_adopt_arrival)
            place_arrival(worker, CONTAINER_OF(item, struct arrival, item));
        else
            worker_pass_connection(item, worker);
    }
    connection_queue_leave(worker->queue, &worker->waiter);
}
