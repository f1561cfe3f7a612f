#include "daemon/master/summary.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/base/latency_window.h"

#include <inttypes.h>
#include <stdlib.h>

/* What the line counts. */
static const enum metric counted[] = {
    METRIC_requests,   METRIC_responses_4xx, METRIC_responses_5xx, METRIC_bytes_sent,
    METRIC_cache_hits, METRIC_cache_misses,  METRIC_log_dropped,   METRIC_requests_limited};

struct summary {
    const struct segment *segment;
    uint64_t since_ns;
    uint64_t before[METRIC_COUNT]; /* of those counted */
    uint64_t grown[METRIC_COUNT];
    struct latency_window latency;
};

static void take_counters(struct summary *summary)
{
    for (size_t i = 0; i < ARRAY_LENGTH(counted); i++) {
        uint64_t now = segment_sum(summary->segment, counted[i]);

        summary->grown[counted[i]] = now - summary->before[counted[i]];
        summary->before[counted[i]] = now;
    }
}

static void start_anew(struct summary *summary, uint64_t now_ns)
{
    take_counters(summary);
    latency_window_move(&summary->latency, summary->segment);
    summary->since_ns = now_ns;
}

struct summary *summary_new(const struct segment *segment, uint64_t now_ns)
{
    struct summary *summary = calloc(1, sizeof(*summary));

    if (summary == NULL)
        return NULL;
    summary->segment = segment;
    start_anew(summary, now_ns);
    return summary;
}

void summary_free(struct summary *summary)
{
    free(summary);
}

static double hit_percent(const struct summary *summary)
{
    uint64_t hits = summary->grown[METRIC_cache_hits];
    uint64_t looked = hits + summary->grown[METRIC_cache_misses];

    return looked > 0 ? 100.0 * (double)hits / (double)looked : 0;
}

static void say(const struct summary *summary, uint64_t now_ns)
{
    double seconds = (double)(now_ns - summary->since_ns) / (double)NS_PER_S;
    const struct histogram *latency = &summary->latency.since;
    const uint64_t *grown = summary->grown;
    char sent[UNITS_TEXT], p50[UNITS_TEXT], p99[UNITS_TEXT], most[UNITS_TEXT];

    event_log(
        LEVEL_INFO,
        "summary of %.0f s: %" PRIu64 " requests (%.1f/s), 4xx %" PRIu64 ", 5xx %" PRIu64
        ", limited %" PRIu64 ", sent %s, latency p50 %s p99 %s max %s, cache hits %.1f %%, "
        "connections %" PRIu64 ", log lines dropped %" PRIu64,
        seconds, grown[METRIC_requests], (double)grown[METRIC_requests] / seconds,
        grown[METRIC_responses_4xx], grown[METRIC_responses_5xx], grown[METRIC_requests_limited],
        units_format_bytes(sent, sizeof(sent), (double)grown[METRIC_bytes_sent]),
        units_format_ns(p50, sizeof(p50), (double)histogram_percentile(latency, 50)),
        units_format_ns(p99, sizeof(p99), (double)histogram_percentile(latency, 99)),
        units_format_ns(most, sizeof(most), (double)histogram_max(latency)), hit_percent(summary),
        segment_sum(summary->segment, METRIC_connections_open), grown[METRIC_log_dropped]);
}

void summary_tick(struct summary *summary, uint32_t interval_ms, uint64_t now_ns)
{
    if (interval_ms == 0 || now_ns - summary->since_ns < interval_ms * NS_PER_MS)
        return;
    take_counters(summary);
    latency_window_move(&summary->latency, summary->segment);
    say(summary, now_ns);
    summary->since_ns = now_ns;
}
