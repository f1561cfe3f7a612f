/*
 * The last 15 minutes second by second, from the history section of the segment, and 24 hours in
 * steps of 10 s, as long as the console runs: rings that all graphs are drawn from. Pure; the
 * console's only thread.
 */
#ifndef CONSOLE_HISTORY_H
#define CONSOLE_HISTORY_H

#include "common/segment_reader.h"
#include "console/data/model.h"
#include "console/data/processes.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* The series of graphs: rates per second, latencies in ns, the hit ratio from 0 to 1. */
enum series {
    SERIES_REQUESTS,
    SERIES_BYTES_SENT,
    SERIES_LATENCY_P50,
    SERIES_LATENCY_P99,
    SERIES_LATENCY_MAX,
    SERIES_CONNECTIONS,
    SERIES_ERRORS, /* responses with status 400 and above */
    SERIES_HIT_RATIO,
    SERIES_QUEUE,      /* items in the queue between threads */
    SERIES_QUEUE_WAIT, /* 99th percentile; if no wait has ended, the age of the oldest item */
    SERIES_REQUESTS_PER_CORE,
    SERIES_SWITCHES_PER_REQUEST,
    SERIES_COUNT
};

struct history;

struct history *history_create(void);
void history_destroy(struct history *history);

/* Appends a second. LETTERS: one state letter per thread slot (HISTORY_LETTERS bytes; 0: no such
 * slot); NULL: unknown. */
enum { HISTORY_LETTERS = 1024 };
void history_push(struct history *history, const struct sample_copy *sample, const char *letters);

/*
 * Adds to the newest second what the segment's history lacks: the threads of the snapshot of MODEL,
 * and the processes. Of more than HISTORY_THREADS threads it keeps as many fewer seconds; the same
 * with HISTORY_PROCESSES.
 */
enum { HISTORY_THREADS = 40, HISTORY_PROCESSES = 20 };
void history_add_threads(struct history *history, const struct model *model,
                         const struct process_table *processes);

/*
 * The next sample does not continue the last one, and the seconds between them become a gap.
 */
void history_break(struct history *history);

/*
 * The same, because another master is attached: PID has started at MASTER_NS, the server, whose
 * totals it continues, at SERVER_NS (wall clock).
 */
void history_begin(struct history *history, int32_t pid, uint64_t master_ns, uint64_t server_ns);

/* Seconds in the ring, gaps included. */
size_t history_length(const struct history *history);

/*
 * Makes history_series() end BACK seconds before the newest second. BACK is not adjusted by
 * history_push(); set it again afterwards.
 */
void history_look_back(struct history *history, size_t back);

/*
 * Seconds between the newest second and the oldest second or step: how far history_cursor_set() can
 * look back.
 */
size_t history_reach(const struct history *history);

/* The seconds by which to move from BACK to reach another second or step. */
size_t history_resolution(const struct history *history, size_t back);

/* The value of a second without a daemon, between seconds with one. */
#define HISTORY_GAP (-INFINITY)

/*
 * The last COUNT seconds of SERIES, oldest first. NAN: no value (before the first sample, or a
 * ratio without a denominator).
 */
void history_series(const struct history *history, enum series series, double *values,
                    size_t count);

/*
 * The same for the last SPAN_S seconds (at most HISTORY_SPAN_S): a value for each second, or for
 * each step if the span is longer than the seconds are kept. VALUES has HISTORY_VALUES places. Both
 * return the number of values.
 */
enum {
    HISTORY_STEP_S = 10,
    HISTORY_SPAN_S = 24 * 60 * 60,
    HISTORY_VALUES = HISTORY_SPAN_S / HISTORY_STEP_S
};
size_t history_values(int span_s);
size_t history_span(const struct history *history, enum series series, int span_s, double *values);

/* The ends of these seconds or steps (wall clock, ns); 0 in a gap and before the first. */
size_t history_span_times(const struct history *history, int span_s, uint64_t *times_ns);

/*
 * Adds the latency of the steps that begin in the seconds FROM_S to TO_S (wall clock) to BUCKETS,
 * all outcomes together. False if none is known.
 */
bool history_latency(const struct history *history, uint64_t from_s, uint64_t to_s,
                     uint64_t *buckets);

/* The values of all steps up to the newest second, regardless of history_look_back(). */
size_t history_all_steps(const struct history *history, enum series series, double *values);

/* history_series() for all COUNT = history_length() seconds, regardless of history_look_back(). */
void history_whole(const struct history *history, enum series series, double *values, size_t count);

/*
 * How many seconds before the newest second TIME_NS (wall clock) is: the second or step that ends
 * with it or just after it. 0 if it is newer than all, the oldest second if it is older.
 */
size_t history_back_of(const struct history *history, uint64_t time_ns);

/*
 * A cursor provides one second of the history as a snapshot and a model: sums, one state letter per
 * thread slot, latency, and what history_add_threads() kept. The description of the server, but for
 * its pid and its start, and the worker of each slot where nothing was kept, come from the current
 * snapshot.
 */
struct history_cursor;

struct history_cursor *history_cursor_create(void);
void history_cursor_destroy(struct history_cursor *cursor);

/*
 * Moves to the second or the step BACK seconds before the newest second; if that is in a gap, to
 * the first one after the gap. Returns how many seconds back that is; 0: there is none, and the
 * model is not valid.
 */
size_t history_cursor_set(struct history_cursor *cursor, const struct history *history,
                          const struct snapshot *present, size_t back);

/* Valid until the next push to the history. */
const struct model *history_cursor_model(const struct history_cursor *cursor);

/* The processes, and the CPU time of the threads; empty if they were not kept. Valid like that. */
const struct process_table *history_cursor_processes(const struct history_cursor *cursor);

#endif
