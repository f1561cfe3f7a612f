/*
 * Processes that live but do nothing: a worker whose heartbeat has stopped (its main thread stores
 * it once a second, as long as all its serving threads turn their loops), one that does not leave,
 * a logger that writes no more. They are killed, and so replaced. The master's loop, once a second.
 */
#ifndef DAEMON_WATCHDOG_H
#define DAEMON_WATCHDOG_H

#include <stdint.h>

struct master;

struct watchdog {
    uint64_t looked_ns;  /* the last time, monotonic clock */
    uint64_t resumed_ns; /* when it was last late itself: nobody's silence counts from before */
};

void watchdog_look(struct watchdog *watchdog, struct master *master, uint64_t now_ns);

#endif
