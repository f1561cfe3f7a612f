/*
 * Waits for an event by polling every few milliseconds. The limit only detects an event that never
 * happens; a passing test never waits that long.
 */
#ifndef TESTS_PATIENCE_H
#define TESTS_PATIENCE_H

#include "common/clock.h"

#include <stdbool.h>
#include <unistd.h>

enum { PATIENCE_S = 90, ASK_AGAIN_MS = 10 };

/* Fails the test if CONDITION does not become true. The including file must include cmocka.h. */
#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        uint64_t give_up_ns = clock_monotonic_ns() + PATIENCE_S * NS_PER_S;                        \
                                                                                                   \
        while (!(condition)) {                                                                     \
            if (clock_monotonic_ns() > give_up_ns)                                                 \
                fail_msg("timeout after %d s waiting for: %s", PATIENCE_S, #condition);            \
            usleep(ASK_AGAIN_MS * 1000);                                                           \
        }                                                                                          \
    } while (0)

#endif
