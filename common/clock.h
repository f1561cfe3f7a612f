/*
 * The clocks: monotonic for durations and deadlines, wall clock for timestamps. Times are
 * nanoseconds in a uint64_t. Any thread.
 */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

/* Time since an arbitrary start; never decreases; the same in all processes of the machine. */
uint64_t clock_monotonic_ns(void);

/* Time since 1970-01-01 00:00 UTC; may jump. */
uint64_t clock_wall_ns(void);

#endif
