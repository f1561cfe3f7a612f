#include "daemon/connection/listen_socket.h"

#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/network.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/transaction/admission.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPTS_PER_EVENT = 64 }; /* so that open connections are served in between */

struct listen_socket {
    struct mailbox_item add, drop; /* posted by the main thread */
    LIST_ENTRY(listen_socket) link;
    struct event_loop *loop;
    struct event event;
    int fd;
    bool paused;   /* out of descriptors or memory */
    bool at_limit; /* [connections] max is reached */
};

/* accept() would keep failing; stop polling until the next tick. */
static void pause_accepting(struct listen_socket *listener)
{
    metric_add(listener->loop->context.metrics, METRIC_accept_errors, 1);
    event_log(LEVEL_WARN, "cannot accept a connection: %s; retrying in one second",
              strerror(errno));
    event_del(&listener->event);
    listener->paused = true;
}

/*
 * New connections stay in the accept queue until a thread of any worker closes one; a timer checks
 * for that.
 */
static void pause_at_limit(struct listen_socket *listener)
{
    static const struct timeval soon = {.tv_usec = 10000};
    struct event_loop *loop = listener->loop;

    metric_add(loop->context.metrics, METRIC_accept_pauses, 1);
    event_del(&listener->event);
    listener->at_limit = true;
    event_add(loop->listen_retry, &soon);
}

static bool is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_readable(evutil_socket_t fd, short what, void *argument)
{
    struct listen_socket *listener = argument;
    struct event_loop *loop = listener->loop;

    (void)what;
    loop_enter(loop);
    segment_activity_state(loop->context.activity, THREAD_STATE_ACCEPT, loop->context.loop_now_ns);
    for (int i = 0; i < ACCEPTS_PER_EVENT; i++) {
        struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
        socklen_t length = sizeof(peer);
        uint8_t address[CLIENT_ADDRESS_BYTES];
        int client;

        if (UNLIKELY(!admission_has_room(loop->context.worker))) {
            pause_at_limit(listener);
            return;
        }
        client = accept4(fd, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (client < 0 && is_shortage(errno))
            pause_accepting(listener);
        if (client < 0 && errno != ECONNABORTED && errno != EINTR)
            return;
        if (client < 0)
            continue;
        network_socket_address(&peer, address);
        connection_accept(loop, client, address);
    }
}

struct listen_socket *listen_socket_assign(struct event_loop *loop, int fd)
{
    struct listen_socket *listener = calloc(1, sizeof(*listener));

    if (listener == NULL) {
        close(fd);
        return NULL;
    }
    listener->fd = fd;
    mailbox_post(&loop->mailbox, &listener->add, ITEM_LISTEN_SOCKET_ADD);
    return listener;
}

void listen_socket_revoke(struct event_loop *loop, struct listen_socket *listener)
{
    mailbox_post(&loop->mailbox, &listener->drop, ITEM_LISTEN_SOCKET_DROP);
}

void listen_socket_add(struct event_loop *loop, struct mailbox_item *item)
{
    struct listen_socket *listener = CONTAINER_OF(item, struct listen_socket, add);

    listener->loop = loop;
    LIST_INSERT_HEAD(&loop->listen_sockets, listener, link);
    event_assign(&listener->event, loop->base, listener->fd, EV_READ | EV_PERSIST, on_readable,
                 listener);
    metric_add(loop->context.metrics, METRIC_listen_sockets, 1);
    listener->paused = event_add(&listener->event, NULL) != 0;
}

/*
 * event_del() before close(): the master keeps the socket open, so epoll would keep reporting it.
 */
static void drop(struct listen_socket *listener)
{
    LIST_REMOVE(listener, link);
    event_del(&listener->event);
    close(listener->fd);
    metric_sub(listener->loop->context.metrics, METRIC_listen_sockets, 1);
    free(listener);
}

void listen_socket_drop(struct mailbox_item *item)
{
    drop(CONTAINER_OF(item, struct listen_socket, drop));
}

void listen_sockets_drop(struct event_loop *loop)
{
    while (!LIST_EMPTY(&loop->listen_sockets))
        drop(LIST_FIRST(&loop->listen_sockets));
}

void listen_sockets_retry(struct event_loop *loop)
{
    static const struct timeval soon = {.tv_usec = 10000};
    bool room = admission_has_room(loop->context.worker);
    struct listen_socket *listener;

    LIST_FOREACH(listener, &loop->listen_sockets, link)
    {
        if (!listener->at_limit)
            continue;
        if (room && event_add(&listener->event, NULL) == 0)
            listener->at_limit = false;
        else
            event_add(loop->listen_retry, &soon);
    }
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
