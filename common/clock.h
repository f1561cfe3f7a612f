/*
 * The clocks: monotonic for durations and deadlines, wall clock for timestamps. Times are
 * nanoseconds in a uint64_t. Any thread.
 */
#ifndef COMMON_CLOCK_H
#define COMMON_CLOCK_H

#include <stdint.h>
#include <time.h>

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S  UINT64_C(1000000000)

static inline uint64_t clock_read_ns(clockid_t id)
{
    struct timespec now;

    clock_gettime(id, &now);
    return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* Time since an arbitrary start; never decreases; the same in all processes of the machine. */
static inline uint64_t clock_monotonic_ns(void)
{
    return clock_read_ns(CLOCK_MONOTONIC);
}

/* Time since 1970-01-01 00:00 UTC; may jump. */
static inline uint64_t clock_wall_ns(void)
{
    return clock_read_ns(CLOCK_REALTIME);
}

/* A duration in whole seconds or milliseconds, rounded up. */
static inline uint64_t clock_ceil_s(uint64_t ns)
{
    return ns / NS_PER_S + (ns % NS_PER_S > 0);
}

static inline uint64_t clock_ceil_ms(uint64_t ns)
{
    return ns / NS_PER_MS + (ns % NS_PER_MS > 0);
}

#endif
