/*
 * Kills hung processes, so that the supervisor replaces them: a worker without heartbeat (its main
 * thread stores one per second while all its serving threads run their loops), a worker that does
 * not begin to serve or does not exit after it was drained, and other processes that give no sign of
 * life. The master's loop, once a second.
 */
#ifndef DAEMON_WATCHDOG_H
#define DAEMON_WATCHDOG_H

#include "daemon/master/auxiliary.h"

/* In addition to workers.drain_timeout to leave, and to workers.heartbeat_timeout to begin to serve. */
enum { WATCHDOG_GRACE_MS = 5000 };

/* Times of the monotonic clock; initially zero. */
struct watchdog {
    uint64_t checked_ns;
    uint64_t
        resumed_ns; /* time of the last late check, before which the processes were suspended */
};

void watchdog_check(struct watchdog *watchdog, const struct server *server, struct workers *workers,
                    struct auxiliary *auxiliary, uint64_t now_ns);

#endif
