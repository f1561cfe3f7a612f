/*
 * The past, second by second, as the server's own history section told it: one ring of samples that
 * every graph is made from. Pure; the console's only thread.
 */
#ifndef CONSOLE_HISTORY_H
#define CONSOLE_HISTORY_H

#include "common/segment_reader.h"
#include "console/data/model.h"

#include <math.h>
#include <stdbool.h>
#include <stddef.h>

/* What a graph can show. Rates are per second; latencies ns; the hit ratio 0 to 1. */
enum series {
    SERIES_REQUESTS,
    SERIES_BYTES_SENT,
    SERIES_LATENCY_P50,
    SERIES_LATENCY_P99,
    SERIES_LATENCY_MAX,
    SERIES_CONNECTIONS,
    SERIES_ERRORS, /* answers of 400 and above */
    SERIES_HIT_RATIO,
    SERIES_COUNT
};

struct history;

struct history *history_create(void);
void history_destroy(struct history *history);

/* Adds the newest second, with a state letter for each thread slot (HISTORY_LETTERS bytes; 0: no
 * such slot); NULL: not known. */
enum { HISTORY_LETTERS = 1024 };
void history_push(struct history *history, const struct sample_copy *sample, const char *letters);

/*
 * Another daemon has taken over: the next sample does not continue the last one. The seconds
 * between become a gap.
 */
void history_break(struct history *history);

/* Seconds that are kept, gaps included. */
size_t history_length(const struct history *history);

/* The same for all COUNT = history_length() seconds, however far is looked back. */
void history_whole(const struct history *history, enum series series, double *values, size_t count);

/*
 * From now on the history ends BACK seconds before its newest one; 0: it ends there. Pushing does
 * not change that: look back again.
 */
void history_look_back(struct history *history, size_t back);

/*
 * The second BACK seconds before the newest one: its sample and letters, and in BEFORE the sample
 * of the second before (NULL where the same daemon has none). False in a gap and past the oldest.
 * Valid until the next push.
 */
bool history_second(const struct history *history, size_t back, const struct sample_copy **sample,
                    const char **letters, const struct sample_copy **before);

/* A second in which no daemon ran, between two that did. */
#define HISTORY_GAP (-INFINITY)

/*
 * The last COUNT seconds of SERIES, oldest first. NAN is a second without a value (before the first
 * sample, or a ratio of nothing).
 */
void history_series(const struct history *history, enum series series, double *values,
                    size_t count);

struct past;

struct past *past_create(void);
void past_destroy(struct past *past);

/*
 * Goes to the second BACK seconds before HISTORY's newest one, or to the nearest one after it that
 * is no gap. Returns how far back that is; 0: there is none, and the model is not to be used.
 */
size_t past_set(struct past *past, const struct history *history, const struct snapshot *present,
                size_t back);

/* Valid until the next push to the history. */
const struct model *past_model(const struct past *past);

#endif
