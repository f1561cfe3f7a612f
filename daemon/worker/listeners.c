#include "daemon/worker/listeners.h"

#include "daemon/base/events.h"
#include "daemon/connection/listen_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { UNASSIGNED = UINT32_MAX };

struct worker_listener {
    uint32_t id, row;
    int fd; /* the worker's; the thread has a duplicate */
    uint8_t opening;
    uint32_t thread;
    struct listen_socket *socket; /* the thread's, while assigned */
};

static void revoke_socket(struct worker_listener *listener, struct serving_thread **threads,
                          uint32_t count)
{
    if (listener->thread < count)
        listen_socket_revoke(&threads[listener->thread]->loop, listener->socket);
    listener->thread = UNASSIGNED;
}

static void assign(struct worker_listener *listener, struct serving_thread **threads,
                   uint32_t count, uint32_t thread)
{
    int copy;

    if (listener->thread == thread)
        return;
    revoke_socket(listener, threads, count);
    copy = fcntl(listener->fd, F_DUPFD_CLOEXEC, 0);
    listener->socket =
        copy >= 0 ? listen_socket_assign(&threads[thread]->loop, copy, listener->opening) : NULL;
    if (listener->socket != NULL)
        listener->thread = thread;
    else
        event_log(LEVEL_ERROR, "cannot assign a listen socket to a thread: %s", strerror(errno));
}

void worker_listeners_assign(struct worker_listeners *listeners, struct serving_thread **threads,
                             uint32_t count)
{
    uint32_t rank = 0; /* index of the row among the worker's rows */

    for (uint32_t i = 0; i < listeners->count && count > 0; i++) {
        struct worker_listener *listener = &listeners->item[i];

        if (listener->thread >= count)
            listener->thread = UNASSIGNED; /* its thread is exiting and closes it */
        if (i > 0 && listener->row != listener[-1].row)
            rank++;
        assign(listener, threads, count, rank % count);
    }
}

static bool reserve_one(struct worker_listeners *listeners)
{
    uint32_t capacity = listeners->capacity == 0 ? 16 : listeners->capacity * 2;
    struct worker_listener *item;

    if (listeners->count < listeners->capacity)
        return true;
    item = realloc(listeners->item, capacity * sizeof(*item));
    if (item == NULL)
        return false;
    listeners->item = item;
    listeners->capacity = capacity;
    return true;
}

static bool sorts_after(const struct worker_listener *listener,
                        const struct message_listen_socket *message)
{
    return listener->row != message->row ? listener->row > message->row
                                         : listener->id > message->id;
}

bool worker_listeners_add(struct worker_listeners *listeners,
                          const struct message_listen_socket *message, int fd)
{
    uint32_t at = listeners->count;
    struct worker_listener *item;

    if (!reserve_one(listeners)) {
        event_log(LEVEL_ERROR, "cannot add a listen socket: out of memory");
        close(fd);
        return false;
    }
    item = listeners->item;
    while (at > 0 && sorts_after(&item[at - 1], message))
        at--;
    memmove(&item[at + 1], &item[at], (listeners->count - at) * sizeof(*item));
    item[at] = (struct worker_listener){.id = message->id,
                                        .row = message->row,
                                        .fd = fd,
                                        .opening = message->opening & OPENING_ALL,
                                        .thread = UNASSIGNED};
    listeners->count++;
    return true;
}

void worker_listeners_drop(struct worker_listeners *listeners, uint32_t id,
                           struct serving_thread **threads, uint32_t count)
{
    for (uint32_t i = 0; i < listeners->count; i++) {
        struct worker_listener *listener = &listeners->item[i];

        if (listener->id != id)
            continue;
        revoke_socket(listener, threads, count);
        close(listener->fd);
        listeners->count--;
        memmove(listener, listener + 1, (listeners->count - i) * sizeof(*listener));
        return;
    }
}

void worker_listeners_drop_all(struct worker_listeners *listeners)
{
    while (listeners->count > 0)
        close(listeners->item[--listeners->count].fd);
}
