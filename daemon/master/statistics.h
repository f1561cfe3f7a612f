/*
 * The past, for consoles that come later: once a second the master stores the sums of all metrics,
 * one state letter for each thread slot and the second's latency in the segment. The master.
 */
#ifndef DAEMON_HISTORY_H
#define DAEMON_HISTORY_H

#include "common/segment.h"

struct history;

/* SEGMENT is borrowed. NULL: out of memory. */
struct history *history_new(struct segment *segment);
void history_free(struct history *history);

/* Stores one sample. NOW_NS is the wall clock. */
void history_sample(struct history *history, uint64_t now_ns);

#endif
