#include "daemon/worker/listeners.h"

#include "daemon/base/events.h"
#include "daemon/connection/listen_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOBODY = UINT32_MAX };

struct held_lane {
    uint32_t id, row;
    int fd; /* the worker's own; the thread has a duplicate */
    uint32_t thread;
    struct lane *lane; /* the thread's, while there is one */
};

static void take_back(struct held_lane *held, struct serving_thread **serving, uint32_t count)
{
    if (held->thread < count)
        lane_take_back(serving[held->thread], held->lane);
    held->thread = NOBODY;
}

static void deal(struct held_lane *held, struct serving_thread **serving, uint32_t count,
                 uint32_t thread)
{
    int copy;

    if (held->thread == thread)
        return;
    take_back(held, serving, count);
    copy = fcntl(held->fd, F_DUPFD_CLOEXEC, 0);
    held->lane = copy >= 0 ? lane_give(serving[thread], copy) : NULL;
    if (held->lane != NULL)
        held->thread = thread;
    else
        event_log(LEVEL_ERROR, "cannot give a listening socket to a thread: %s", strerror(errno));
}

void held_lanes_deal(struct held_lanes *held, struct serving_thread **serving, uint32_t count)
{
    uint32_t rank = 0; /* of the row among the rows that we hold */

    for (uint32_t i = 0; i < held->count && count > 0; i++) {
        if (held->lane[i].thread >= count)
            held->lane[i].thread = NOBODY; /* its holder drops it by its mode */
        if (i > 0 && held->lane[i].row != held->lane[i - 1].row)
            rank++;
        deal(&held->lane[i], serving, count, rank % count);
    }
}

static bool make_room(struct held_lanes *held)
{
    uint32_t room = held->room == 0 ? 16 : held->room * 2;
    struct held_lane *lane;

    if (held->count < held->room)
        return true;
    lane = realloc(held->lane, room * sizeof(*lane));
    if (lane == NULL)
        return false;
    held->lane = lane;
    held->room = room;
    return true;
}

/* Rows stand together, and in a row the lanes by id. */
static bool stands_behind(const struct held_lane *lane, const struct message_listen_socket *message)
{
    return lane->row != message->row ? lane->row > message->row : lane->id > message->id;
}

bool held_lanes_add(struct held_lanes *held, const struct message_listen_socket *message, int fd)
{
    uint32_t at = held->count;

    if (!make_room(held)) {
        event_log(LEVEL_ERROR, "cannot take a listening socket: out of memory");
        close(fd);
        return false;
    }
    while (at > 0 && stands_behind(&held->lane[at - 1], message))
        at--;
    memmove(&held->lane[at + 1], &held->lane[at], (held->count - at) * sizeof(struct held_lane));
    held->lane[at] =
        (struct held_lane){.id = message->id, .row = message->row, .fd = fd, .thread = NOBODY};
    held->count++;
    return true;
}

void held_lanes_drop(struct held_lanes *held, uint32_t id, struct serving_thread **serving,
                     uint32_t count)
{
    for (uint32_t i = 0; i < held->count; i++) {
        struct held_lane *lane = &held->lane[i];

        if (lane->id != id)
            continue;
        take_back(lane, serving, count);
        close(lane->fd);
        held->count--;
        memmove(lane, lane + 1, (held->count - i) * sizeof(*lane));
        return;
    }
}

void held_lanes_drop_all(struct held_lanes *held)
{
    while (held->count > 0)
        close(held->lane[--held->count].fd);
}
