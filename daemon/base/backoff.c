#include "daemon/base/backoff.h"

#include "common/clock.h"

/* A process that ends sooner than this counts as a failure to start. */
static const uint64_t STEADY_NS = 1 * NS_PER_S;
static const uint64_t FIRST_NS = 200 * NS_PER_MS;
static const uint64_t MOST_NS = 10 * NS_PER_S;

void backoff_count(struct backoff *backoff, uint64_t lived_ns, uint64_t now_ns)
{
    if (lived_ns >= STEADY_NS) {
        backoff->wait_ns = 0;
        backoff->failures = 0;
        return;
    }
    backoff->failures++;
    backoff->wait_ns = backoff->wait_ns == 0 ? FIRST_NS : 2 * backoff->wait_ns;
    if (backoff->wait_ns > MOST_NS)
        backoff->wait_ns = MOST_NS;
    backoff->not_before_ns = now_ns + backoff->wait_ns;
}
