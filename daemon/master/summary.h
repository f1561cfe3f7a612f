/*
 * The summary in the error log: requests, response times and cache of each interval of
 * log.summary_interval and of the last one at the end, and the totals since the start. The master.
 */
#ifndef DAEMON_SUMMARY_H
#define DAEMON_SUMMARY_H

#include "common/segment.h"

#include <event2/event.h>

struct summary;

/* SEGMENT and BASE are borrowed. Logs nothing until it has an interval. NULL: out of memory. */
struct summary *summary_new(struct event_base *base, struct segment *segment);
void summary_free(struct summary *summary); /* NULL is allowed */

/* Logs a summary every INTERVAL_MS; 0: never. The same interval again changes nothing. */
void summary_set_interval(struct summary *summary, uint32_t interval_ms);

/* Logs the period since the last summary, and the totals. */
void summary_log(struct summary *summary);

/* Logs the last summary, unless the interval is 0, and stops the timer. No worker is left. */
void summary_finish(struct summary *summary);

#endif
