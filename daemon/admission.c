#include "daemon/admission.h"

#include "common/clock.h"
#include "daemon/address.h"
#include "daemon/rate_limit.h"
#include "daemon/thread.h"

static bool is_exempt(const struct config *config, const uint8_t *address)
{
    for (size_t i = 0; i < config->ratelimit_exempt.count; i++)
        if (network_contains(&config->ratelimit_exempt.item[i], address))
            return true;
    return false;
}

bool admission_of_request(struct exchange *exchange)
{
    const struct site *site = exchange->thread->site;
    const uint8_t *address = exchange->connection->address;
    uint64_t key = address_key(address), wait_ns;

    if (exchange->connection->began_ns != 0 || key == 0 || is_exempt(site->config, address))
        return true; /* it was counted when it began; it has no address; it has no limit */
    wait_ns = rate_limit_take(site->segment, key, exchange->thread->turn_ns);
    if (wait_ns == 0)
        return true;
    metric_add(exchange->thread->metrics, METRIC_requests_limited, 1);
    exchange->retry_after_s = (uint32_t)((wait_ns + NS_PER_S - 1) / NS_PER_S);
    return false;
}
