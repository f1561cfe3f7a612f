/*
 * Waits for an event by polling, first every few milliseconds, then less often, because a look costs CPU
 * time. The limit only detects an event that never happens; a passing test never waits that long.
 */
#ifndef TESTS_PATIENCE_H
#define TESTS_PATIENCE_H

#include "common/clock.h"

#include <stdbool.h>
#include <unistd.h>

#ifndef PATIENCE_S
#define PATIENCE_S 90
#endif
enum { ASK_AGAIN_MS = 10, ASK_AGAIN_MOST_MS = 100 };

/* Waits before the next look. *PAUSE_MS begins with ASK_AGAIN_MS. */
static inline void patience_pause(unsigned *pause_ms)
{
    usleep(*pause_ms * 1000);
    *pause_ms += *pause_ms / 4;
    if (*pause_ms > ASK_AGAIN_MOST_MS)
        *pause_ms = ASK_AGAIN_MOST_MS;
}

/* For what no event shows. Too short a pause tests less, but never fails. */
static inline void let_others_act(void)
{
    usleep(300 * 1000);
}

/* Fails the test if CONDITION does not become true. Needs tests/test.h. */
#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        uint64_t give_up_ns = clock_monotonic_ns() + PATIENCE_S * NS_PER_S;                        \
        unsigned pause_ms = ASK_AGAIN_MS;                                                          \
                                                                                                   \
        while (!(condition)) {                                                                     \
            if (clock_monotonic_ns() > give_up_ns)                                                 \
                fail_msg("timeout after %d s waiting for: %s", PATIENCE_S, #condition);            \
            patience_pause(&pause_ms);                                                             \
        }                                                                                          \
    } while (0)

#endif
