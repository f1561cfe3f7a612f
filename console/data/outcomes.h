/*
 * Latency by outcome (cache hit, miss, offload, error): per second in coarse buckets for the heat map,
 * and with a precision of 1/64 for the last few seconds. The server's history does not separate the
 * outcomes, so seconds from before the attachment are known only as a total. Pure; the console's only
 * thread.
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

/* Another daemon: its histograms restart at zero. The seconds so far are kept. */
void outcomes_break(struct outcomes *outcomes);

/* Adds a second of the server's history, without outcomes; ignored if they are known. */
void outcomes_push_sample(struct outcomes *outcomes, const struct sample_copy *sample);

/*
 * LATENCY: histograms since the start of the daemon, by outcome (OUTCOME_COUNT of them), at WALL_NS.
 * The increase since the last call is counted in the second of WALL_NS. Call it about twice a second.
 */
void outcomes_push(struct outcomes *outcomes, uint64_t wall_ns, const struct histogram *latency);

/*
 * Adds the buckets of OUTCOME (or OUTCOME_ALL) of the second SECOND (wall clock, s) to BUCKETS
 * (HISTOGRAM_COARSE_BUCKETS of them). False if it is unknown: no daemon ran, or OUTCOME is not known
 * separately.
 */
bool outcomes_second(const struct outcomes *outcomes, uint64_t second, int outcome,
                     uint64_t *buckets);

/* The latency of the last 5 to 10 s; empty at first. */
const struct histogram *outcomes_recent(const struct outcomes *outcomes, int outcome);

/* The length of that interval, ns. */
uint64_t outcomes_recent_ns(const struct outcomes *outcomes);

/* The percentile PERCENT of coarse BUCKETS, ns; NAN if they are empty. */
double outcomes_percentile(const uint64_t *buckets, double percent);

#endif
