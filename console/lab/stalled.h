/*
 * Clients that stall: each connects, sends half a request head, and says no more. One that is closed
 * by the server comes again. They come from 127.0.0.2, so that they can be told from others. The
 * console's only thread.
 */
#ifndef CONSOLE_LAB_STALLED_H
#define CONSOLE_LAB_STALLED_H

#include <stdint.h>

enum { LAB_STALLED_MAX = 100 };

struct lab_stalled {
    int count; /* that there should be */
    uint64_t next_ns;
    int fds[LAB_STALLED_MAX]; /* -1: to be connected */
};

/* From now on there are COUNT of them; they come with the next updates. */
void lab_stalled_set(struct lab_stalled *stalled, int count);

/* Looks after them; to be called some times a second. */
void lab_stalled_update(struct lab_stalled *stalled, uint16_t port, uint64_t now_ns);

#endif
