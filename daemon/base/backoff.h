/*
 * When a process that keeps dying may be restarted: a point in time, not a sleep. If the process
 * ran long enough the restart is immediate; otherwise the delay doubles with each failure. Pure.
 */
#ifndef DAEMON_BACKOFF_H
#define DAEMON_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct backoff {
    uint64_t not_before_ns; /* monotonic clock */
    uint64_t wait_ns;       /* the last delay; 0 after a process that ran long enough */
    uint32_t failures;      /* in a row */
};

static inline bool backoff_over(const struct backoff *backoff, uint64_t now_ns)
{
    return now_ns >= backoff->not_before_ns;
}

/* Counts a process that ended unexpectedly after LIVED_NS. */
void backoff_count(struct backoff *backoff, uint64_t lived_ns, uint64_t now_ns);

#endif
