#include "daemon/connection/listen_socket.h"

#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/connection/connection.h"
#include "daemon/connection/loop.h"
#include "daemon/transaction/admission.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPTS_A_TURN = 64 }; /* then connections that are open already get their turn */

struct lane {
    struct mailbox_item add, drop; /* from the main thread */
    LIST_ENTRY(lane) link;
    struct serving_thread *thread;
    struct event event;
    int fd;
    bool paused; /* out of descriptors or memory */
    bool held;   /* as many connections are open as may be */
};

void lane_address(const struct sockaddr_storage *peer, uint8_t address[CLIENT_ADDRESS_BYTES])
{
    memset(address, 0, CLIENT_ADDRESS_BYTES);
    if (peer->ss_family == AF_INET) {
        address[10] = address[11] = 0xff;
        memcpy(address + 12, &((const struct sockaddr_in *)peer)->sin_addr, 4);
    } else if (peer->ss_family == AF_INET6) {
        memcpy(address, &((const struct sockaddr_in6 *)peer)->sin6_addr, CLIENT_ADDRESS_BYTES);
    }
}

/* accept() would fail at once again and again: look away until the next tick. */
static void pause_lane(struct lane *lane)
{
    struct serving_thread *thread = lane->thread;

    metric_add(thread->metrics, METRIC_accept_errors, 1);
    event_log(LEVEL_WARN, "cannot accept a connection: %s; trying again in a second",
              strerror(errno));
    event_del(&lane->event);
    lane->paused = true;
}

/* The others wait in the socket until one is closed, by any thread of any worker: look again soon. */
static void hold_lane(struct lane *lane)
{
    static const struct timeval soon = {.tv_usec = 10000};
    struct serving_thread *thread = lane->thread;

    metric_add(thread->metrics, METRIC_accept_pauses, 1);
    event_del(&lane->event);
    lane->held = true;
    event_add(thread->lane_retry, &soon);
}

static bool out_of_something(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM;
}

static void on_readable(evutil_socket_t listener, short what, void *argument)
{
    struct lane *lane = argument;
    struct serving_thread *thread = lane->thread;

    (void)what;
    turn_enter(thread);
    segment_activity_state(thread->activity, THREAD_STATE_ACCEPT, thread->turn_ns);
    for (int i = 0; i < ACCEPTS_A_TURN; i++) {
        struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
        socklen_t length = sizeof(peer);
        uint8_t address[CLIENT_ADDRESS_BYTES];
        int fd;

        if (UNLIKELY(!admission_has_room(thread))) {
            hold_lane(lane);
            return;
        }
        fd = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0 && out_of_something(errno))
            pause_lane(lane);
        if (fd < 0 && errno != ECONNABORTED && errno != EINTR)
            return;
        if (fd < 0)
            continue;
        lane_address(&peer, address);
        connection_accept(thread, fd, address);
    }
}

struct lane *lane_give(struct serving_thread *thread, int fd)
{
    struct lane *lane = calloc(1, sizeof(*lane));

    if (lane == NULL) {
        close(fd);
        return NULL;
    }
    lane->fd = fd;
    mailbox_post(&thread->mailbox, &lane->add, ITEM_LANE_ADD);
    return lane;
}

void lane_take_back(struct serving_thread *thread, struct lane *lane)
{
    mailbox_post(&thread->mailbox, &lane->drop, ITEM_LANE_DROP);
}

void lane_take(struct serving_thread *thread, struct mailbox_item *item)
{
    struct lane *lane = CONTAINER_OF(item, struct lane, add);

    lane->thread = thread;
    LIST_INSERT_HEAD(&thread->lanes, lane, link);
    event_assign(&lane->event, thread->base, lane->fd, EV_READ | EV_PERSIST, on_readable, lane);
    metric_add(thread->metrics, METRIC_listen_sockets, 1);
    lane->paused = event_add(&lane->event, NULL) != 0;
}

/* event_del comes before close: the socket lives on in the master, and epoll would go on telling.
 */
static void drop(struct lane *lane)
{
    LIST_REMOVE(lane, link);
    event_del(&lane->event);
    close(lane->fd);
    metric_sub(lane->thread->metrics, METRIC_listen_sockets, 1);
    free(lane);
}

void lane_drop(struct mailbox_item *item)
{
    drop(CONTAINER_OF(item, struct lane, drop));
}

void lanes_drop_all(struct serving_thread *thread)
{
    while (!LIST_EMPTY(&thread->lanes))
        drop(LIST_FIRST(&thread->lanes));
}

void lanes_look_again(struct serving_thread *thread)
{
    static const struct timeval soon = {.tv_usec = 10000};
    bool room = admission_has_room(thread);
    struct lane *lane;

    LIST_FOREACH(lane, &thread->lanes, link)
    {
        if (!lane->held)
            continue;
        if (room && event_add(&lane->event, NULL) == 0)
            lane->held = false;
        else
            event_add(thread->lane_retry, &soon);
    }
}

void lanes_resume(struct serving_thread *thread)
{
    struct lane *lane;

    LIST_FOREACH(lane, &thread->lanes, link)
    {
        if (lane->paused && event_add(&lane->event, NULL) == 0)
            lane->paused = false;
    }
}
