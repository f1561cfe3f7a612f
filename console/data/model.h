/*
 * Rates and percentiles of about the last second, computed from snapshots. Counters only grow, so a
 * rate is the difference of two snapshots, and the latency of an interval is the difference of two
 * histograms. Pure: the time is part of the snapshot. The console's only thread.
 *
 * The interval starts at the older of two bases. Every half second the newer base becomes the older
 * one and the current snapshot the newer one, so the interval is half a second to one second long:
 * short enough to react, long enough not to flicker.
 */
#ifndef CONSOLE_MODEL_H
#define CONSOLE_MODEL_H

#include "common/segment_reader.h"
#include "common/tables.h"
#include "console/data/snapshot.h"

#include <stdbool.h>
#include <stdint.h>

struct model;

struct model *model_create(void);
void model_destroy(struct model *model);

/* Clears the model. Call when another daemon is attached. */
void model_reset(struct model *model);

/*
 * True if the snapshot at NOW_NS must have its histograms, because model_take() will make it a
 * base.
 */
bool model_wants_latency(const struct model *model, uint64_t now_ns);

/*
 * Makes SNAPSHOT the current one; it is borrowed and must not change until the next call. It
 * becomes a base only with its latency. Returns 0, or -1: out of memory.
 */
int model_take(struct model *model, const struct snapshot *snapshot, bool with_latency);

/*
 * What the history keeps of one thread: its place, its CPU time, and the values and rates that the
 * threads view shows.
 */
enum { PAST_VALUES = 11, PAST_RATES = 6 };

struct past_thread {
    uint32_t slot, worker, thread;
    int32_t tid;
    float cores, p99_ns; /* NAN: unknown */
    float rate[PAST_RATES];
    uint64_t value[PAST_VALUES];
};

/* Copies them from a thread of the current snapshot. */
void model_keep_thread(const struct model *model, const struct thread_sample *thread, double cores,
                       struct past_thread *past);

/*
 * Takes a past second instead: SNAPSHOT has its sums and states, NOW is its sample, BEFORE the
 * sample of the previous second (NULL: rates are unknown). THREADS, in the order of their slots,
 * have the recorded values; others are NAN. All are borrowed and must not change until the next
 * call.
 */
void model_take_past(struct model *model, const struct snapshot *snapshot,
                     const struct sample_copy *before, const struct sample_copy *now,
                     const struct past_thread *threads, uint32_t thread_count);

/* A value of the snapshot: of all, of one thread or worker. NAN: unknown, or not published. */
double model_value(const struct model *model, enum metric metric);
double model_thread_value(const struct model *model, const struct thread_sample *thread,
                          enum metric metric);
double model_worker_value(const struct model *model, const struct worker_sample *worker,
                          enum metric metric);

/* The same at the end of the interval: it changes together with the rates and percentiles. */
double model_steady_value(const struct model *model, enum metric metric);

/* The current snapshot, or NULL. */
const struct snapshot *model_now(const struct model *model);

/* Length of the interval, ns; 0: none yet. */
uint64_t model_interval_ns(const struct model *model);

/*
 * Increase of a counter per second, over all slots, in the interval of the percentiles; NAN until
 * there is an interval, and if it is not published.
 */
double model_rate(const struct model *model, enum metric metric);

/* model_rate() of one thread or worker of the current snapshot. */
double model_thread_rate(const struct model *model, const struct thread_sample *thread,
                         enum metric metric);
double model_worker_rate(const struct model *model, const struct worker_sample *worker,
                         enum metric metric);

/* A figure of the interval; a count is per second. NAN: undefined, or no interval yet. */
double model_figure(const struct model *model, enum figure figure);

/* A percentile of the latency in the interval, ns; NAN without a response. */
double model_percentile(const struct model *model, double percent);
double model_thread_percentile(const struct model *model, const struct thread_sample *thread,
                               double percent);

/* The same of the waits in the queue of one worker; of all if WORKER is NULL. */
double model_wait_percentile(const struct model *model, const struct worker_sample *worker,
                             double percent);

/*
 * Latency by outcome (cache hit, miss, offload, error): per second in coarse buckets for the heat
 * map, and with a precision of 1/64 for the last few seconds. The server's history does not
 * separate the outcomes, so seconds from before the attachment are known only as a total. Pure; the
 * console's only thread.
 */

enum { OUTCOME_ALL = OUTCOME_COUNT, OUTCOMES_SECONDS = SEGMENT_HISTORY_SAMPLES };

struct outcomes;

struct outcomes *outcomes_create(void);
void outcomes_destroy(struct outcomes *outcomes);

/*
 * Call when another daemon is attached, whose histograms start at zero. Earlier seconds are kept.
 */
void outcomes_break(struct outcomes *outcomes);

/*
 * Adds a second of the server's history, which has no outcomes; ignored if the second is known by
 * outcome.
 */
void outcomes_push_sample(struct outcomes *outcomes, const struct sample_copy *sample);

/*
 * LATENCY: histograms since the start of the daemon, by outcome (OUTCOME_COUNT of them), at
 * WALL_NS. The increase since the last call is counted in the second of WALL_NS. Call it about
 * twice a second.
 */
void outcomes_push(struct outcomes *outcomes, uint64_t wall_ns, const struct histogram *latency);

/*
 * Adds the buckets of OUTCOME (or OUTCOME_ALL) of the second SECOND (wall clock, s) to BUCKETS
 * (HISTOGRAM_COARSE_BUCKETS of them). False if they are unknown: no daemon ran, or the second is
 * not split by outcome.
 */
bool outcomes_second(const struct outcomes *outcomes, uint64_t second, int outcome,
                     uint64_t *buckets);

/* The latency of the last 5 to 10 s; empty at first. */
const struct histogram *outcomes_recent(const struct outcomes *outcomes, int outcome);

/* The length of that interval, ns. */
uint64_t outcomes_recent_ns(const struct outcomes *outcomes);

/*
 * The percentile PERCENT of coarse BUCKETS, and their mean (of the middles of the buckets), ns; NAN
 * if they are empty.
 */
double outcomes_percentile(const uint64_t *buckets, double percent);
double outcomes_mean(const uint64_t *buckets);

#endif
