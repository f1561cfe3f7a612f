/*
 * The rate limit for client addresses, by the generic cell rate algorithm: a token bucket in one
 * word. The table is in the segment, so all workers share it; see struct segment_rate_bucket.
 *
 * A client that the table tracks never gets more than burst + rate * t requests through in any time
 * t, and none is refused that keeps to it. The table has room for some 20,000 addresses that are
 * using their burst at the same time; beyond that those that have used the least are forgotten.
 */
#ifndef DAEMON_RATE_LIMIT_H
#define DAEMON_RATE_LIMIT_H

#include "common/segment.h"

/* Sets the limit in force. RATE and BURST are at least 1. The master. */
void rate_limit_set(const struct segment *segment, bool enabled, uint32_t requests_per_second,
                    uint32_t burst);

/* Draws the seed. The master, before the segment is published. */
void rate_limit_prepare(const struct segment *segment);

static inline bool rate_limit_is_on(const struct segment *segment)
{
    return atomic_load_explicit(&segment_rate(segment)->enabled, memory_order_relaxed) != 0;
}

/*
 * Takes one request of KEY's bucket, not 0, at NOW_NS (monotonic). Returns 0 when it may go, or how
 * many ns the client has to wait until one may. Any thread of any worker.
 */
uint64_t rate_limit_take(const struct segment *segment, uint64_t key, uint64_t now_ns);

#endif
