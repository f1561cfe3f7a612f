/*
 * Latency by where the answer came from (cache hit, miss, offload, error): second by second for the
 * heat map, in the coarse buckets of the history, and to 1/64 for the last few seconds. The server's own
 * history keeps all outcomes together, so seconds before the console came are known only as a whole.
 * Pure; the console's only thread.
 */
#ifndef CONSOLE_OUTCOMES_H
#define CONSOLE_OUTCOMES_H

#include "common/segment_reader.h"

#include <stdbool.h>
#include <stdint.h>

enum { OUTCOME_ALL = OUTCOME_COUNT, OUTCOMES_SECONDS = SEGMENT_HISTORY_SAMPLES };

struct outcomes;

struct outcomes *outcomes_create(void);
void outcomes_destroy(struct outcomes *outcomes);

/* Another daemon: its histograms begin anew. Seconds that are kept stay. */
void outcomes_break(struct outcomes *outcomes);

/* A second of the server's history, all outcomes together; passed over where more is known. */
void outcomes_push_sample(struct outcomes *outcomes, const struct sample_copy *sample);

/*
 * LATENCY: the histograms since the daemon's start by outcome (OUTCOME_COUNT of them) at WALL_NS. What
 * came since the last call counts for the second of WALL_NS. Called twice a second or so.
 */
void outcomes_push(struct outcomes *outcomes, uint64_t wall_ns, const struct histogram *latency);

/*
 * Adds the buckets of OUTCOME (or OUTCOME_ALL) of the second SECOND (wall clock, s) to BUCKETS
 * (HISTOGRAM_COARSE_BUCKETS of them). False when nothing is known of it: no daemon ran, or the
 * outcomes were not told apart then.
 */
bool outcomes_second(const struct outcomes *outcomes, uint64_t second, int outcome,
                     uint64_t *buckets);

/* The same of the last 5 to 10 s, exactly; an empty histogram before there is one. */
const struct histogram *outcomes_recent(const struct outcomes *outcomes, int outcome);

/* How long those seconds are, ns. */
uint64_t outcomes_recent_ns(const struct outcomes *outcomes);

/* PERCENT of the values in coarse BUCKETS do not exceed this, ns; NAN when they are empty. */
double outcomes_percentile(const uint64_t *buckets, double percent);

#endif
