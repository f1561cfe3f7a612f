/*
 * Now and then a line in the error log that sums up what was served since the last one: for those
 * who read logs and have no console open. The master.
 */
#ifndef DAEMON_SUMMARY_H
#define DAEMON_SUMMARY_H

#include "common/segment.h"

struct summary;

/* SEGMENT is borrowed. NULL: out of memory. */
struct summary *summary_new(const struct segment *segment, uint64_t now_ns);
void summary_free(struct summary *summary);

/*
 * To be called once a second: says the line when INTERVAL_MS (0: never) have passed since the last.
 * NOW_NS is the monotonic clock.
 */
void summary_tick(struct summary *summary, uint32_t interval_ms, uint64_t now_ns);

#endif
