#include "daemon/master/statistics.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"
#include "daemon/base/events.h"

#include <inttypes.h>
#include <stdlib.h>

/*
 * Latency of all responses between two calls of move_window(), from the segment's cumulative
 * histograms.
 */
struct latency_window {
    struct histogram since;  /* between the last two calls */
    struct histogram before; /* up to the last call */
    struct histogram now;
};

/* The counters of the summary. */
static const enum metric summed[] = {
    METRIC_requests,   METRIC_responses_4xx, METRIC_responses_5xx, METRIC_bytes_sent,
    METRIC_cache_hits, METRIC_cache_misses,  METRIC_log_dropped,   METRIC_requests_limited};

/* State of the periodic summary. */
struct summary {
    uint64_t since_ns;             /* monotonic clock */
    uint64_t before[METRIC_COUNT]; /* values of the `summed` counters then */
    uint64_t grown[METRIC_COUNT];
    struct latency_window latency;
};

struct statistics {
    struct segment *segment;
    struct latency_window latency; /* since the last sample */
    struct summary summary;
};

static void copy_histogram(struct histogram *to, const struct histogram *from)
{
    histogram_reset(to);
    histogram_add(to, from);
}

static void move_window(struct latency_window *window, const struct segment *segment)
{
    histogram_reset(&window->now);
    segment_add_all_latency(segment, &window->now);
    copy_histogram(&window->since, &window->now);
    histogram_subtract(&window->since, &window->before);
    copy_histogram(&window->before, &window->now);
}

/* The history */

static void store_latency(const struct histogram *latency, struct segment_sample *sample)
{
    uint32_t coarse[HISTOGRAM_COARSE_BUCKETS] = {0};

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        coarse[i >> HISTOGRAM_COARSE_SHIFT] += (uint32_t)latency->bucket[i];
    for (uint32_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        atomic_store_explicit(&sample->latency[i], coarse[i], memory_order_release);
    atomic_store_explicit(&sample->latency_max_ns, histogram_max(latency), memory_order_release);
}

/* One letter for each thread slot, after the metrics. */
static void store_states(const struct segment *segment, struct segment_sample *sample)
{
    _Atomic char *letters = (_Atomic char *)&sample->values[METRIC_COUNT];

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++) {
        char letter = thread_state_table[THREAD_STATE_NONE].letter;

        if (segment_slot_reserved(segment_thread_slot(segment, i))) {
            uint32_t state = atomic_load_explicit(&segment_thread(segment, i)->activity.state,
                                                  memory_order_relaxed);

            letter = thread_state_table[state < THREAD_STATE_COUNT ? state : 0].letter;
        }
        atomic_store_explicit(&letters[i], letter, memory_order_release);
    }
}

void statistics_store_sample(struct statistics *statistics, uint64_t now_ns)
{
    struct segment *segment = statistics->segment;
    struct segment_master *master = segment_master(segment);
    uint64_t number = atomic_load_explicit(&master->history_next, memory_order_relaxed);
    struct segment_sample *sample = segment_sample(segment, number);

    move_window(&statistics->latency, segment);
    atomic_store_explicit(&sample->number, 0, memory_order_relaxed);
    atomic_store_explicit(&sample->time_ns, now_ns, memory_order_release);
    store_latency(&statistics->latency.since, sample);
    for (int i = 0; i < METRIC_COUNT; i++)
        atomic_store_explicit(&sample->values[i], segment_sum(segment, (enum metric)i),
                              memory_order_release);
    store_states(segment, sample);
    atomic_store_explicit(&sample->number, number + 1, memory_order_release);
    atomic_store_explicit(&master->history_next, number + 1, memory_order_release);
}

/* The summary */

static void update_summary(struct summary *summary, const struct segment *segment)
{
    for (size_t i = 0; i < ARRAY_LENGTH(summed); i++) {
        uint64_t now = segment_sum(segment, summed[i]);

        summary->grown[summed[i]] = now - summary->before[summed[i]];
        summary->before[summed[i]] = now;
    }
    move_window(&summary->latency, segment);
}

static void log_summary(const struct summary *summary, const struct segment *segment,
                        uint64_t now_ns)
{
    double seconds = (double)(now_ns - summary->since_ns) / (double)NS_PER_S;
    const struct histogram *latency = &summary->latency.since;
    const uint64_t *grown = summary->grown;
    uint64_t hits = grown[METRIC_cache_hits], lookups = hits + grown[METRIC_cache_misses];
    double hit_percent = lookups > 0 ? 100.0 * (double)hits / (double)lookups : 0;
    char sent[UNITS_TEXT], p50[UNITS_TEXT], p99[UNITS_TEXT], max[UNITS_TEXT];

    event_log(LEVEL_INFO,
              "summary of %.0f s: %" PRIu64 " requests (%.1f/s), 4xx %" PRIu64 ", 5xx %" PRIu64
              ", limited %" PRIu64 ", sent %s, latency p50 %s p99 %s max %s, cache hits %.1f %%, "
              "connections %" PRIu64 ", log lines dropped %" PRIu64,
              seconds, grown[METRIC_requests], (double)grown[METRIC_requests] / seconds,
              grown[METRIC_responses_4xx], grown[METRIC_responses_5xx],
              grown[METRIC_requests_limited],
              units_format_bytes(sent, sizeof(sent), (double)grown[METRIC_bytes_sent]),
              units_format_ns(p50, sizeof(p50), (double)histogram_percentile(latency, 50)),
              units_format_ns(p99, sizeof(p99), (double)histogram_percentile(latency, 99)),
              units_format_ns(max, sizeof(max), (double)histogram_max(latency)), hit_percent,
              segment_sum(segment, METRIC_connections_open), grown[METRIC_log_dropped]);
}

void statistics_log_summary(struct statistics *statistics, uint32_t interval_ms, uint64_t now_ns)
{
    struct summary *summary = &statistics->summary;

    if (interval_ms == 0 || now_ns - summary->since_ns < interval_ms * NS_PER_MS)
        return;
    update_summary(summary, statistics->segment);
    log_summary(summary, statistics->segment, now_ns);
    summary->since_ns = now_ns;
}

struct statistics *statistics_new(struct segment *segment, uint64_t now_ns)
{
    struct statistics *statistics = calloc(1, sizeof(*statistics));

    if (statistics == NULL)
        return NULL;
    statistics->segment = segment;
    update_summary(&statistics->summary, segment);
    statistics->summary.since_ns = now_ns;
    return statistics;
}

void statistics_free(struct statistics *statistics)
{
    free(statistics);
}
