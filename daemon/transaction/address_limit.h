/*
 * Limits of single clients and networks, which the command limit-client sets for some time. The
 * master writes them into its pages of the segment (daemon/master/address_limits.h); workers read
 * them there, so that they hold at once in all workers, also in later ones.
 */
#ifndef DAEMON_TRANSACTION_ADDRESS_LIMIT_H
#define DAEMON_TRANSACTION_ADDRESS_LIMIT_H

#include "common/client_address.h"
#include "common/segment.h"
#include "daemon/base/network.h"

#include <stdbool.h>
#include <stdint.h>

struct address_limit {
    struct network network;
    uint64_t id;
    uint64_t until_ns;            /* monotonic clock */
    uint32_t requests_per_second; /* of all clients of the network; 0: blocked */
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
