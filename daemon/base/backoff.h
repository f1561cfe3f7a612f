/*
 * When the next fork of a process that keeps dying may be: a date, not a sleep. The first successor
 * of one that lived starts at once; the wait doubles with each one that hardly did. Pure.
 */
#ifndef DAEMON_BACKOFF_H
#define DAEMON_BACKOFF_H

#include <stdbool.h>
#include <stdint.h>

struct backoff {
    uint64_t not_before_ns; /* monotonic clock */
    uint64_t wait_ns;       /* the last wait; 0: the last one lived */
    uint32_t failures;      /* in a row; 0: the last one lived */
};

static inline bool backoff_over(const struct backoff *backoff, uint64_t now_ns)
{
    return now_ns >= backoff->not_before_ns;
}

/* A process has ended that should not have, after LIVED_NS. */
void backoff_count(struct backoff *backoff, uint64_t lived_ns, uint64_t now_ns);

#endif
