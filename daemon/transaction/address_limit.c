#include "daemon/transaction/address_limit.h"

#include <string.h>

bool address_limit_read(const struct segment *segment, uint32_t i, struct address_limit *limit)
{
    const struct segment_address_limit *entry = &segment_address_limits(segment)->entry[i];
    uint64_t address[2];

    *limit = (struct address_limit){
        .until_ns = atomic_load_explicit(&entry->until_ns, memory_order_acquire)};
    if (limit->until_ns == 0)
        return false;
    for (int word = 0; word < 2; word++)
        address[word] = atomic_load_explicit(&entry->address[word], memory_order_acquire);
    memcpy(limit->network.address, address, sizeof(address));
    limit->network.prefix = (uint8_t)atomic_load_explicit(&entry->prefix, memory_order_acquire);
    limit->id = atomic_load_explicit(&entry->id, memory_order_acquire);
    limit->requests_per_second =
        atomic_load_explicit(&entry->requests_per_second, memory_order_acquire);
    /* otherwise the master changes it just now */
    return atomic_load_explicit(&entry->until_ns, memory_order_relaxed) == limit->until_ns;
}

bool address_limit_find(const struct segment *segment, const uint8_t address[CLIENT_ADDRESS_BYTES],
                        uint64_t now_ns, struct address_limit *limit)
{
    struct address_limit other;
    bool found = false;

    for (uint32_t i = 0; i < SEGMENT_ADDRESS_LIMITS_MAX; i++) {
        if (!address_limit_read(segment, i, &other) || other.until_ns <= now_ns ||
            !network_contains(&other.network, address) ||
            (found && other.network.prefix < limit->network.prefix))
            continue;
        *limit = other;
        found = true;
    }
    return found;
}
