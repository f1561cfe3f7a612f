/*
 * Waiting for what must happen: asked again every few milliseconds, and given up only when it would
 * never come. How long that is decides nothing about speed: a test that passes never waits it out.
 */
#ifndef TESTS_PATIENCE_H
#define TESTS_PATIENCE_H

#include "common/clock.h"

#include <stdbool.h>
#include <unistd.h>

enum { PATIENCE_S = 90, ASK_AGAIN_MS = 10 };

/* Fails the test when CONDITION stays false. The including file has cmocka's headers. */
#define WAIT_UNTIL(condition)                                                                      \
    do {                                                                                           \
        uint64_t give_up_ns = clock_monotonic_ns() + PATIENCE_S * NS_PER_S;                        \
                                                                                                   \
        while (!(condition)) {                                                                     \
            if (clock_monotonic_ns() > give_up_ns)                                                 \
                fail_msg("waited %d s in vain for: %s", PATIENCE_S, #condition);                   \
            usleep(ASK_AGAIN_MS * 1000);                                                           \
        }                                                                                          \
    } while (0)

#endif
