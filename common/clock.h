/*
 * The two clocks. Durations and deadlines come from the monotonic one, log lines from the wall.
 * All times are nanoseconds in a uint64_t. Any thread.
 */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

/* Since an arbitrary start; never goes back; the same for all processes of this machine. */
uint64_t clock_monotonic_ns(void);

/* Since 1970-01-01 00:00 UTC; may jump. */
uint64_t clock_wall_ns(void);

#endif
