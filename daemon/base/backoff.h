/*
 * Restart delay of a process that keeps dying: a point in time, not a sleep. If the process ran
 * long enough, the restart is immediate; otherwise the delay doubles with each failure. Pure.
 */
#ifndef DAEMON_BACKOFF_H
#define DAEMON_BACKOFF_H

#include "common/clock.h"

#include <stdbool.h>
#include <stdint.h>

/* A process that lives less than this counts as failed to start. */
static const uint64_t BACKOFF_STEADY_NS = 1 * NS_PER_S;
static const uint64_t BACKOFF_FIRST_NS = 200 * NS_PER_MS;
static const uint64_t BACKOFF_MAX_NS = 10 * NS_PER_S;

struct backoff {
    uint64_t not_before_ns; /* monotonic clock */
    uint64_t wait_ns;       /* the last delay; 0 after a process that ran long enough */
    uint32_t failures;      /* consecutive */
};

static inline bool backoff_over(const struct backoff *backoff, uint64_t now_ns)
{
    return now_ns >= backoff->not_before_ns;
}

/* Records the unexpected end of a process that lived LIVED_NS. */
static inline void backoff_count(struct backoff *backoff, uint64_t lived_ns, uint64_t now_ns)
{
    if (lived_ns >= BACKOFF_STEADY_NS) {
        backoff->wait_ns = 0;
        backoff->failures = 0;
        return;
    }
    backoff->failures++;
    backoff->wait_ns = backoff->wait_ns == 0 ? BACKOFF_FIRST_NS : 2 * backoff->wait_ns;
    if (backoff->wait_ns > BACKOFF_MAX_NS)
        backoff->wait_ns = BACKOFF_MAX_NS;
    backoff->not_before_ns = now_ns + backoff->wait_ns;
}

#endif
