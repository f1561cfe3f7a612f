/*
 * The limits of clients, in tables in the segment: requests per second of an address, open
 * connections of an address, and what the command limit-client sets for single clients and
 * networks. All workers share them, so a limit holds at once in all of them, also in later ones.
 */
#ifndef DAEMON_TRANSACTION_LIMITS_H
#define DAEMON_TRANSACTION_LIMITS_H

#include "common/client_address.h"
#include "common/segment.h"
#include "daemon/base/network.h"

#include <stdbool.h>
#include <stdint.h>

/*
 * Requests per second: a rate limit of client addresses by the generic cell rate algorithm (GCRA),
 * a token bucket in one word: the theoretical arrival time. All workers share the table, which is
 * in the segment; see struct segment_rate_bucket.
 *
 * In any time t, at most burst + rate * t requests of a client in the table are accepted, and no
 * request within that limit is rejected. The table has room for about 20,000 addresses that use
 * their burst at the same time; with more, those that have used the least are dropped. A request
 * whose address cannot be added at once, because another thread adds one, is accepted. The /48 of
 * an IPv6 client has CLIENT_SITE_FACTOR times the limit.
 */

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
 * Every worker writes that table, so one that is compromised can reject requests in all of them, or
 * accept any. So each worker also remembers, in its own memory, what it has accepted. It accepts
 * at least an equal share of a client's limit whatever the table says, and at most the limit. A
 * client that uses several workers may so have more than its burst at once, at most twice.
 */
struct rate_guard;

/* NULL: out of memory. */
struct rate_guard *rate_guard_new(const struct segment *segment);
void rate_guard_free(struct rate_guard *guard);

/*
 * Charges one request at NOW_NS (monotonic) to KEY, which is not 0. Returns 0 if it is within the
 * limit, or the time in ns until the next request will be. Any serving thread of the worker.
 */
uint64_t rate_guard_charge(const struct rate_guard *guard, uint64_t key, uint64_t now_ns);

/*
 * The same with a rate of its own, at least 1, whose burst is that of one second; also while the
 * limit is off.
 */
uint64_t rate_guard_charge_at(const struct rate_guard *guard, uint64_t key,
                              uint32_t requests_per_second, uint64_t now_ns);

/* Counts a rejected request of KEY. */
void rate_limit_count(const struct segment *segment, uint64_t key, uint64_t now_ns);

/* Rejected requests of KEY; 0 if it is not in the table. Any process. */
uint64_t rate_limit_rejected(const struct segment *segment, uint64_t key);

/*
 * Connections: [connections] max_per_ip limits the open ones of a client address. A worker
 * counts its own in a table in the segment; the sum over all tables is compared with the limit.
 * Each table has one writing process, so that the master can clear the table of a dead worker. The
 * /48 of an IPv6 client has CLIENT_SITE_FACTOR times the limit.
 *
 * A worker that is compromised can claim any number of connections. So each worker admits an equal
 * share of the limit, at least one, whatever the others count; a client that uses several workers
 * may so have more than MAX, at most twice (MAX and one for each worker if that is more).
 */

struct client_limit;

/* Uses the table of worker slot WORKER, which must be all zero. NULL: out of memory. */
struct client_limit *client_limit_new(const struct segment *segment, uint32_t worker);
void client_limit_free(struct client_limit *limit);

enum client_limit_verdict {
    CLIENT_LIMIT_COUNTED,   /* admitted; the caller must call client_limit_leave() */
    CLIENT_LIMIT_UNCOUNTED, /* admitted; not limited, or the table is full */
    CLIENT_LIMIT_EXCEEDED,  /* the address has the maximum number of connections */
};

/*
 * Counts a connection of the address KEY (see client_key(); not 0) if all workers count fewer than
 * MAX, or this one fewer than its share. Of two concurrent calls for the last place, beyond the
 * share, both may be rejected, but never both admitted. Any serving thread of the worker.
 */
enum client_limit_verdict client_limit_enter(struct client_limit *limit, uint64_t key,
                                             uint32_t max);
void client_limit_leave(struct client_limit *limit, uint64_t key);

/* Connections that all workers count for KEY, which may be a site's. Any thread. */
uint64_t client_limit_count(const struct segment *segment, uint64_t key);

/*
 * True if all workers count more than MAX connections for KEY, and this one more than its share. Any
 * serving thread of the worker.
 */
bool client_limit_exceeds(struct client_limit *limit, uint64_t key, uint32_t max);

/*
 * Limits of single clients and networks, which the command limit-client sets for some time. The
 * master writes them into its pages of the segment (daemon/master/address_limits.c); workers read
 * them there, so that they hold at once in all workers, also in later ones.
 */

struct address_limit {
    struct network network;
    uint64_t id;
    uint64_t until_ns;            /* monotonic clock */
    uint32_t requests_per_second; /* all clients of the network share them; 0: blocked */
};

/* True if there are limits. Without any, a request costs this one load. */
static inline bool address_limits_exist(const struct segment *segment)
{
    return atomic_load_explicit(&segment_address_limits(segment)->count, memory_order_relaxed) != 0;
}

/*
 * Copies entry I, below SEGMENT_ADDRESS_LIMITS_MAX. Returns false if it is not in use. Any process.
 */
bool address_limit_read(const struct segment *segment, uint32_t i, struct address_limit *limit);

/*
 * The limit of ADDRESS at NOW_NS (monotonic): of several that contain it, the one of the smallest
 * network. False: none. Any thread.
 */
bool address_limit_find(const struct segment *segment, const uint8_t address[CLIENT_ADDRESS_BYTES],
                        uint64_t now_ns, struct address_limit *limit);

#endif
