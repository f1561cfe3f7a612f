/*
 * Statistics once a second: a sample of all metrics in the segment's history, so that a console
 * that starts later can show the past, and an occasional summary line in the error log. The master.
 */
#ifndef DAEMON_STATISTICS_H
#define DAEMON_STATISTICS_H

#include "common/segment.h"

struct statistics;

/* SEGMENT is borrowed. NOW_NS is the monotonic clock. NULL: out of memory. */
struct statistics *statistics_new(struct segment *segment, uint64_t now_ns);
void statistics_free(struct statistics *statistics);

/* Stores one sample: sums of all metrics, the state of each thread, the second's latency. NOW_NS is
 * the wall clock. */
void statistics_store_sample(struct statistics *statistics, uint64_t now_ns);

/*
 * Logs the summary if INTERVAL_MS (0: never) have passed since the last one. Call it once a second.
 * NOW_NS is the monotonic clock.
 */
void statistics_log_summary(struct statistics *statistics, uint32_t interval_ms, uint64_t now_ns);

#endif
