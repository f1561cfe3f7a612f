/*
 * The past, second by second, as the server's own history section told it: one ring of samples that
 * every graph is made from. Pure; the console's only thread.
 */
#ifndef CONSOLE_HISTORY_H
#define CONSOLE_HISTORY_H

#include "common/segment_reader.h"

#include <math.h>
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

/* Adds the newest second. */
void history_push(struct history *history, const struct sample_copy *sample);

/*
 * Another daemon has taken over: the next sample does not continue the last one. The seconds
 * between become a gap.
 */
void history_break(struct history *history);

/* Seconds that are kept, gaps included. */
size_t history_length(const struct history *history);

/* A second in which no daemon ran, between two that did. */
#define HISTORY_GAP (-INFINITY)

/*
 * The last COUNT seconds of SERIES, oldest first. NAN is a second without a value (before the first
 * sample, or a ratio of nothing).
 */
void history_series(const struct history *history, enum series series, double *values,
                    size_t count);

#endif
