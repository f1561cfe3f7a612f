/*
 * Statistics once a second: a sample of all metrics in the segment's history, so that a console
 * that starts later can show the past. The master.
 */
#ifndef DAEMON_STATISTICS_H
#define DAEMON_STATISTICS_H

#include "common/segment.h"

struct statistics;

/* SEGMENT is borrowed. NULL: out of memory. */
struct statistics *statistics_new(struct segment *segment);
void statistics_free(struct statistics *statistics);

/* Stores one sample: sums of all metrics, the state of each thread, the second's latency. NOW_NS is
 * the wall clock. */
void statistics_store_sample(struct statistics *statistics, uint64_t now_ns);

#endif
