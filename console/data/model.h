/*
 * What the numbers mean: rates and percentiles of about the last second, from snapshots. Counters
 * only grow, so a rate is a difference between two snapshots; latency of an interval is the
 * difference of two histograms. Pure: time comes in with the snapshots. The console's only thread.
 *
 * The interval reaches from the older of two bases to the present. Every half second the newer base
 * becomes the older one and the present the newer, so the interval is half a second to a second
 * long: short enough to follow, long enough to be calm.
 */
#ifndef CONSOLE_MODEL_H
#define CONSOLE_MODEL_H

#include "console/data/snapshot.h"

#include <stdbool.h>
#include <stdint.h>

struct model;

struct model *model_create(void);
void model_destroy(struct model *model);

/* Forgets everything: another daemon has been attached. */
void model_reset(struct model *model);

/* True when the snapshot of NOW_NS should have its latency: a base will be made from it. */
bool model_wants_latency(const struct model *model, uint64_t now_ns);

/*
 * Takes the present. SNAPSHOT stays the caller's and must stay unchanged until the next call. One
 * without its latency is never made a base. Returns 0, or -1 when memory is out.
 */
int model_take(struct model *model, const struct snapshot *snapshot, bool with_latency);

/*
 * Shows a second that has gone by instead: SNAPSHOT has the sums and states of then, NOW is the
 * sample of that second and BEFORE the one before it (NULL: there is none, so no rates). What is
 * known of single threads and workers is NAN. All stays the caller's, unchanged until the next call.
 */
void model_take_past(struct model *model, const struct snapshot *snapshot,
                     const struct sample_copy *before, const struct sample_copy *now);

/* A value of one thread or worker of the snapshot, as in its `values`; NAN where it is not known. */
double model_thread_value(const struct model *model, const struct thread_sample *thread,
                          enum metric metric);
double model_worker_value(const struct model *model, const struct worker_sample *worker,
                          enum metric metric);

/* The snapshot taken last, or NULL. */
const struct snapshot *model_now(const struct model *model);

/* Length of the interval, ns; 0 when there is none yet. */
uint64_t model_interval_ns(const struct model *model);

/* Growth per second of a counter, over all slots. NAN until there is an interval. */
double model_rate(const struct model *model, enum metric metric);

/* The same for one thread or worker of the snapshot taken last. */
double model_thread_rate(const struct model *model, const struct thread_sample *thread,
                         enum metric metric);
double model_worker_rate(const struct model *model, const struct worker_sample *worker,
                         enum metric metric);

/* Hits of all cache look-ups of the interval, 0 to 1; NAN when there were none. */
double model_hit_ratio(const struct model *model);

/* A percentile of the latency of about the last second, ns; NAN when nothing was answered. */
double model_percentile(const struct model *model, double percent);
double model_thread_percentile(const struct model *model, const struct thread_sample *thread,
                               double percent);

#endif
