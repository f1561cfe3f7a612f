#include "daemon/connection/listen_socket.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/loop.h"
#include "daemon/base/network.h"
#include "daemon/connection/connection_queue.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/timeouts.h"
#include "daemon/transaction/admission.h"
#include "daemon/transaction/shortage.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPTS_PER_EVENT = 64, /* so that open connections are served in between */
    LIMIT_RETRY_MS = 10,
};

struct listen_socket {
    struct mailbox_item add, drop; /* posted by the main thread */
    LIST_ENTRY(listen_socket) link;
    struct event_loop *loop;
    struct event event;
    int fd;
    uint8_t opening; /* enum opening: what its connections begin with */
    bool paused;     /* out of descriptors or memory */
    bool at_limit;   /* [connections] max is reached */
    bool blocked;    /* the connection queue is full */
};

/*
 * Makes room for a connection: shrinks the cache if memory is short, or closes an idle connection.
 * If this thread has none, asks the others and returns false.
 */
static bool make_room_for_client(struct event_loop *loop, enum shortage reason)
{
    if (reason == SHORTAGE_MEMORY && memory_make_room(&loop->context))
        return true;
    if (shed_idle(loop, reason, 1) > 0)
        return true;
    shed_ask(loop, reason);
    return false;
}

/* accept() would keep failing; stop polling until the next tick. */
static void pause_listening(struct listen_socket *listener)
{
    event_del(&listener->event);
    listener->paused = true;
}

/*
 * New connections stay in the accept queue until a thread of any worker closes one; a timer checks
 * for that.
 */
static void pause_at_limit(struct listen_socket *listener)
{
    struct event_loop *loop = listener->loop;

    metric_add(loop->context.metrics, METRIC_accept_pauses, 1);
    event_del(&listener->event);
    listener->at_limit = true;
    loop_start_timer(loop->listen_retry, LIMIT_RETRY_MS);
}

static bool is_shortage(int error)
{
    return error == EXFULL || error == EMFILE || error == ENFILE || error == ENOBUFS ||
           error == ENOMEM;
}

/* Accepts one connection. Returns -1 with errno, or EXFULL if [connections] max is reached. */
static int accept_waiting_client(const struct listen_socket *listener,
                                 uint8_t address[CLIENT_ADDRESS_BYTES])
{
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof(peer);
    int client;

    if (UNLIKELY(!admission_has_room(listener->loop->context.worker))) {
        errno = EXFULL;
        return -1;
    }
    client = accept4(listener->fd, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (client >= 0)
        network_socket_address(&peer, address);
    return client;
}

/* A connection waits, and accept_waiting_client() failed with ERROR for lack of something. */
static void make_room_or_pause(struct listen_socket *listener, int error)
{
    if (error == EXFULL) {
        if (!make_room_for_client(listener->loop, SHORTAGE_CONNECTIONS))
            pause_at_limit(listener);
        return;
    }
    metric_add(listener->loop->context.metrics, METRIC_accept_errors, 1);
    if (!make_room_for_client(listener->loop, error == EMFILE || error == ENFILE
                                                  ? SHORTAGE_DESCRIPTORS
                                                  : SHORTAGE_MEMORY))
        pause_listening(listener);
}

/* Whether new connections wait because the control group has no memory for them. */
static bool must_wait(struct listen_socket *listener)
{
    const struct transaction_context *context = &listener->loop->context;

    if (LIKELY(memory_admits(context)))
        return false;
    metric_add(context->metrics, METRIC_accept_pauses, 1);
    pause_listening(listener);
    return true;
}

/* New connections stay in the accept queue of the kernel until the connection queue has room. */
static bool queue_is_full(struct listen_socket *listener)
{
    struct event_loop *loop = listener->loop;

    if (loop->queue == NULL || connection_queue_admits(loop->queue, &loop->waiter))
        return false;
    event_del(&listener->event);
    listener->blocked = true;
    return true;
}

static bool accept_or_enqueue(struct listen_socket *listener, int client, const uint8_t *address)
{
    if (listener->loop->queue != NULL)
        return connection_enqueue(listener->loop, client, address, listener->opening);
    return connection_accept(listener->loop, client, address, listener->opening);
}

/*
 * The first call finds a waiting connection; for the next ones nothing is closed, because maybe no
 * other one waits. If one does, this is called again.
 */
static void on_client_waiting(evutil_socket_t fd, short what, void *argument)
{
    struct listen_socket *listener = argument;
    struct event_loop *loop = listener->loop;
    bool waits = true;

    (void)fd, (void)what;
    loop_enter(loop);
    segment_activity_state(loop->context.activity, THREAD_STATE_ACCEPT, loop->context.loop_now_ns);
    for (int i = 0; i < ACCEPTS_PER_EVENT && !must_wait(listener) && !queue_is_full(listener);
         i++) {
        uint8_t address[CLIENT_ADDRESS_BYTES];
        int client = accept_waiting_client(listener, address), error = errno;

        if (client >= 0) {
            waits = false;
            if (!accept_or_enqueue(listener, client, address))
                make_room_for_client(loop, SHORTAGE_MEMORY);
        } else if (is_shortage(error)) {
            if (waits)
                make_room_or_pause(listener, error);
            return;
        } else if (error != ECONNABORTED && error != EINTR) {
            return;
        }
    }
}

static void deliver_added(struct mailbox_item *item, void *receiver)
{
    struct listen_socket *listener = CONTAINER_OF(item, struct listen_socket, add);
    struct event_loop *loop = receiver;

    listener->loop = loop;
    LIST_INSERT_HEAD(&loop->listen_sockets, listener, link);
    event_assign(&listener->event, loop->base, listener->fd, EV_READ | EV_PERSIST,
                 on_client_waiting, listener);
    metric_add(loop->context.metrics, METRIC_listen_sockets, 1);
    listener->paused = event_add(&listener->event, NULL) != 0;
}

/*
 * event_del() before close(): the master keeps the socket open, so epoll would keep reporting it.
 */
static void drop_listener(struct listen_socket *listener)
{
    LIST_REMOVE(listener, link);
    event_del(&listener->event);
    close(listener->fd);
    metric_sub(listener->loop->context.metrics, METRIC_listen_sockets, 1);
    free(listener);
}

static void deliver_dropped(struct mailbox_item *item, void *receiver)
{
    (void)receiver;
    drop_listener(CONTAINER_OF(item, struct listen_socket, drop));
}

struct listen_socket *listen_socket_assign(struct event_loop *loop, int fd, uint8_t opening)
{
    struct listen_socket *listener = calloc(1, sizeof(*listener));

    if (listener == NULL) {
        close(fd);
        return NULL;
    }
    listener->fd = fd;
    listener->opening = opening;
    mailbox_post(&loop->mailbox, &listener->add, deliver_added);
    return listener;
}

void listen_socket_revoke(struct event_loop *loop, struct listen_socket *listener)
{
    mailbox_post(&loop->mailbox, &listener->drop, deliver_dropped);
}

void listen_sockets_drop(struct event_loop *loop)
{
    while (!LIST_EMPTY(&loop->listen_sockets))
        drop_listener(LIST_FIRST(&loop->listen_sockets));
}

void listen_sockets_retry(struct event_loop *loop)
{
    struct listen_socket *listener;

    LIST_FOREACH(listener, &loop->listen_sockets, link)
    {
        if (!listener->at_limit)
            continue;
        if ((admission_has_room(loop->context.worker) ||
             make_room_for_client(loop, SHORTAGE_CONNECTIONS)) &&
            event_add(&listener->event, NULL) == 0)
            listener->at_limit = false;
        else
            loop_start_timer(loop->listen_retry, LIMIT_RETRY_MS);
    }
}

void listen_sockets_unblock(struct event_loop *loop)
{
    struct listen_socket *listener;

    LIST_FOREACH(listener, &loop->listen_sockets, link)
    {
        if (listener->blocked && event_add(&listener->event, NULL) == 0)
            listener->blocked = false;
    }
}

bool listen_sockets_are_blocked(const struct event_loop *loop)
{
    const struct listen_socket *listener;
    bool blocked = false;

    LIST_FOREACH(listener, &loop->listen_sockets, link)
    {
        blocked |= listener->blocked;
    }
    return blocked;
}

void listen_sockets_resume(struct event_loop *loop)
{
    struct listen_socket *listener;

    LIST_FOREACH(listener, &loop->listen_sockets, link)
    {
        if (listener->paused && event_add(&listener->event, NULL) == 0)
            listener->paused = false;
    }
}

/* Shedding */

enum {
    IDLE_MIN_MS = 2000,     /* the list of idle connections is ordered to within a second */
    ASK_AGAIN_MS = 250,     /* a request that found no idle connection is repeated then */
    LOOKED_AT_IN_VAIN = 16, /* connections with an unread request, per call */
};

static const enum metric shed_counters[SHORTAGE_COUNT] = {
    [SHORTAGE_CONNECTIONS] = METRIC_connections_shed_max,
    [SHORTAGE_DESCRIPTORS] = METRIC_connections_shed_descriptors,
    [SHORTAGE_MEMORY] = METRIC_connections_shed_memory,
};

/*
 * Closes up to WANTED connections of the list of DEADLINE, the oldest first. Counts each before its
 * descriptor is free for a new client. Returns their number.
 */
static uint32_t shed_from(struct event_loop *loop, enum deadline deadline, enum shortage reason,
                          uint32_t wanted)
{
    struct connection *connection = TAILQ_FIRST(&loop->connections[deadline]);
    uint32_t closed = 0, in_vain = 0;

    while (connection != NULL && closed < wanted && in_vain < LOOKED_AT_IN_VAIN &&
           loop->context.loop_now_ns >= connection->deadline_from_ns + IDLE_MIN_MS * NS_PER_MS) {
        struct connection *next = TAILQ_NEXT(connection, link);

        if (connection->client.jobs_out > 0 ||
            (deadline != DEADLINE_LINGER && connection_has_unread(connection))) {
            in_vain++;
        } else {
            metric_add(loop->context.metrics, shed_counters[reason], 1);
            connection_close(connection);
            closed++;
        }
        connection = next;
    }
    return closed;
}

uint32_t shed_idle(struct event_loop *loop, enum shortage reason, uint32_t wanted)
{
    static const enum deadline order[] = {DEADLINE_LINGER, DEADLINE_KEEPALIVE, DEADLINE_HEADER};
    uint32_t closed = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(order); i++)
        closed += shed_from(loop, order[i], reason, wanted - closed);
    shortage_note(loop->context.worker, reason, loop->context.loop_now_ns, closed);
    return closed;
}

void shed_ask(struct event_loop *loop, enum shortage reason)
{
    if (loop->shed_pending || loop->context.loop_now_ns < loop->shed_after_ns)
        return;
    loop->shed_pending = true;
    loop->shed = (struct shed_request){
        .pass = loop->pass_shed_request, .asker = &loop->mailbox, .reason = reason, .wanted = 1};
    mailbox_post(loop->context.worker->main, &loop->shed.item, loop->shed.pass);
}

void shed_visit(struct mailbox_item *item, void *receiver)
{
    struct shed_request *request = CONTAINER_OF(item, struct shed_request, item);
    struct event_loop *loop = receiver;

    request->closed += shed_idle(loop, request->reason, request->wanted - request->closed);
    mailbox_post(loop->context.worker->main, item, request->pass);
}

void shed_finish(struct mailbox_item *item, void *receiver)
{
    struct event_loop *loop = receiver;

    (void)item;
    loop->shed_pending = false;
    if (loop->shed.closed == 0) {
        loop->shed_after_ns = loop->context.loop_now_ns + ASK_AGAIN_MS * NS_PER_MS;
        return;
    }
    listen_sockets_resume(loop);
    listen_sockets_retry(loop);
}
