/*
 * Rate limit of client addresses by the generic cell rate algorithm (GCRA), a token bucket in one
 * word: the theoretical arrival time. All workers share the table, which is in the segment; see
 * struct segment_rate_bucket.
 *
 * In any time t, at most burst + rate * t requests of a client in the table are accepted, and no
 * request within that limit is rejected. The table has room for about 20,000 addresses that use
 * their burst at the same time; with more, those that have used the least are dropped. The /48 of
 * an IPv6 client has CLIENT_SITE_FACTOR times the limit.
 */
#ifndef DAEMON_TRANSACTION_RATE_LIMIT_H
#define DAEMON_TRANSACTION_RATE_LIMIT_H

#include "common/segment.h"

/* Sets the limit. REQUESTS_PER_SECOND and BURST are at least 1. Called by the master. */
void rate_limit_set(const struct segment *segment, bool enabled, uint32_t requests_per_second,
                    uint32_t burst);

/* Sets the random seed of the hash. Called by the master before the segment is published. */
void rate_limit_prepare(const struct segment *segment);

static inline bool rate_limit_is_on(const struct segment *segment)
{
    return atomic_load_explicit(&segment_rate(segment)->enabled, memory_order_relaxed) != 0;
}

/*
 * Charges one request at NOW_NS (monotonic) to KEY, which is not 0. Returns 0 if it is within the
 * limit, or the time in ns until the next request will be. Any thread of any worker.
 */
uint64_t rate_limit_charge(const struct segment *segment, uint64_t key, uint64_t now_ns);

/*
 * The same with a rate of its own, at least 1, whose burst is that of one second; also while the
 * limit is off.
 */
uint64_t rate_limit_charge_at(const struct segment *segment, uint64_t key,
                              uint32_t requests_per_second, uint64_t now_ns);

/* Counts a rejected request of KEY. */
void rate_limit_count(const struct segment *segment, uint64_t key, uint64_t now_ns);

/* Rejected requests of KEY; 0 if it is not in the table. Any process. */
uint64_t rate_limit_rejected(const struct segment *segment, uint64_t key);

#endif
