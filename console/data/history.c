#include "console/data/history.h"

#include "common/clock.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* One second. VALUES is the whole state of the counters then; a difference needs the one before. */
struct second {
    bool present;    /* false: a gap */
    bool continuous; /* the one before it is the same daemon's */
    struct sample_copy sample;
    char letters[HISTORY_LETTERS];
};

struct history {
    struct second *ring;
    uint64_t next; /* number of the next second; its place is number % SEGMENT_HISTORY_SAMPLES */
    bool broken;
    uint64_t back; /* seconds by which it ends earlier */
};

struct history *history_create(void)
{
    struct history *history = calloc(1, sizeof(*history));

    if (history == NULL)
        return NULL;
    history->ring = calloc(SEGMENT_HISTORY_SAMPLES, sizeof(*history->ring));
    if (history->ring == NULL) {
        free(history);
        return NULL;
    }
    return history;
}

void history_destroy(struct history *history)
{
    if (history == NULL)
        return;
    free(history->ring);
    free(history);
}

static struct second *second_at(const struct history *history, uint64_t number)
{
    return &history->ring[number % SEGMENT_HISTORY_SAMPLES];
}

/* Whole seconds that are missing between the last sample and one at TIME_NS. */
static uint64_t missing_seconds(const struct history *history, uint64_t time_ns)
{
    uint64_t last = second_at(history, history->next - 1)->sample.time_ns;
    uint64_t missing = time_ns > last + NS_PER_S ? (time_ns - last) / NS_PER_S - 1 : 0;

    return missing < SEGMENT_HISTORY_SAMPLES ? missing : SEGMENT_HISTORY_SAMPLES;
}

void history_push(struct history *history, const struct sample_copy *sample, const char *letters)
{
    bool first = history->next == 0;
    uint64_t missing = first || !history->broken ? 0 : missing_seconds(history, sample->time_ns);
    struct second *second;

    for (uint64_t i = 0; i < missing; i++)
        second_at(history, history->next++)->present = false;
    second = second_at(history, history->next++);
    second->present = true;
    second->continuous = !first && !history->broken;
    second->sample = *sample;
    memset(second->letters, 0, sizeof(second->letters));
    if (letters != NULL)
        memcpy(second->letters, letters, sizeof(second->letters));
    history->broken = false;
}

void history_break(struct history *history)
{
    history->broken = true;
}

size_t history_length(const struct history *history)
{
    return history->next < SEGMENT_HISTORY_SAMPLES ? (size_t)history->next
                                                   : SEGMENT_HISTORY_SAMPLES;
}

void history_look_back(struct history *history, size_t back)
{
    history->back = back;
}

bool history_second(const struct history *history, size_t back, const struct sample_copy **sample,
                    const char **letters, const struct sample_copy **before)
{
    const struct second *second, *last;

    if (history->ring == NULL || back >= history_length(history))
        return false;
    second = second_at(history, history->next - 1 - back);
    last = back + 1 < history_length(history) ? second_at(history, history->next - 2 - back) : NULL;
    *sample = &second->sample;
    *letters = second->letters;
    *before = last != NULL && last->present && second->continuous ? &last->sample : NULL;
    return second->present;
}

/* What METRIC grew by from BEFORE to NOW, per second; NAN where there is no second before. */
static double rate(const struct second *before, const struct second *now, enum metric metric)
{
    uint64_t then, took;

    if (!now->continuous || before == NULL || !before->present)
        return NAN;
    then = before->sample.values[metric];
    took = now->sample.time_ns - before->sample.time_ns;
    if (now->sample.time_ns <= before->sample.time_ns || took > 10 * NS_PER_S)
        took = NS_PER_S; /* the wall clock was set */
    if (now->sample.values[metric] < then)
        return 0;
    return (double)(now->sample.values[metric] - then) * (double)NS_PER_S / (double)took;
}

static double hit_ratio(const struct second *before, const struct second *now)
{
    double hits = rate(before, now, METRIC_cache_hits);
    double lookups = hits + rate(before, now, METRIC_cache_misses);

    return lookups > 0 ? hits / lookups : NAN;
}

static double percentile(const struct second *now, double percent)
{
    uint64_t value = sample_percentile(&now->sample, percent);

    return value > 0 ? (double)value : NAN;
}

static double value_of(const struct second *before, const struct second *now, enum series series)
{
    if (!now->present)
        return HISTORY_GAP;
    switch (series) {
    case SERIES_REQUESTS:
        return rate(before, now, METRIC_requests);
    case SERIES_BYTES_SENT:
        return rate(before, now, METRIC_bytes_sent);
    case SERIES_LATENCY_P50:
        return percentile(now, 50);
    case SERIES_LATENCY_P99:
        return percentile(now, 99);
    case SERIES_LATENCY_MAX:
        return percentile(now, 100);
    case SERIES_CONNECTIONS:
        return (double)now->sample.values[METRIC_connections_open];
    case SERIES_ERRORS:
        return rate(before, now, METRIC_responses_4xx) + rate(before, now, METRIC_responses_5xx);
    case SERIES_HIT_RATIO:
        return hit_ratio(before, now);
    case SERIES_COUNT:
        break;
    }
    return NAN;
}

/* The COUNT seconds before the one with number END. */
static void fill_series(const struct history *history, uint64_t end, enum series series,
                        double *values, size_t count)
{
    uint64_t oldest = history->next - history_length(history);

    for (size_t i = 0; i < count; i++) {
        uint64_t back = count - i;

        values[i] = end < oldest + back
                        ? NAN
                        : value_of(end == oldest + back ? NULL : second_at(history, end - back - 1),
                                   second_at(history, end - back), series);
    }
}

void history_series(const struct history *history, enum series series, double *values, size_t count)
{
    fill_series(history, history->next - history->back, series, values, count);
}

void history_whole(const struct history *history, enum series series, double *values, size_t count)
{
    fill_series(history, history->next, series, values, count);
}
