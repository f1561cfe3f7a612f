/*
 * The lanes that a worker holds, and which of its threads accepts from each: those of the i-th row
 * belong to thread i modulo their number. The worker's main thread.
 */
#ifndef DAEMON_HELD_LANES_H
#define DAEMON_HELD_LANES_H

#include "daemon/base/messages.h"
#include "daemon/worker/thread.h"

struct held_lanes {
    struct held_lane *lane; /* by row */
    uint32_t count, room;
};

/* Takes FD, which becomes the holder's. False when memory is short: then it is closed. */
bool held_lanes_add(struct held_lanes *held, const struct message_listen_socket *message, int fd);

/* Lets go of one lane, which its thread is told, or of all: the threads drop theirs by their mode. */
void held_lanes_drop(struct held_lanes *held, uint32_t id, struct serving_thread **serving,
                     uint32_t count);
void held_lanes_drop_all(struct held_lanes *held);

/* Deals the lanes to the COUNT threads of SERVING. What could not be dealt (no descriptor) is tried
 * again the next time. */
void held_lanes_deal(struct held_lanes *held, struct serving_thread **serving, uint32_t count);

#endif
