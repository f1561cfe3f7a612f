#include "daemon/master/summary.h"

#include "common/clock.h"
#include "common/tables.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct summary {
    struct segment *segment;
    struct event *timer;
    uint32_t interval_ms;
    uint64_t since_ns;               /* monotonic clock */
    uint64_t before[METRIC_COUNT];   /* sums at the last summary */
    struct histogram_window latency; /* of all responses */
    struct histogram now;
};

/* What a line is about: the increase of the sums from THEN to NOW. */
struct period {
    double seconds;
    const uint64_t *then, *now;
    const struct histogram *latency;
};

static double growth(const void *period, enum metric metric)
{
    const struct period *own = period;

    return (double)(own->now[metric] - own->then[metric]);
}

/* "cache hits 97.5 %, ", or nothing without a lookup. */
static const char *cache_text(const struct period *period, char *buffer, size_t size)
{
    double ratio = figure_value(FIGURE_cache_hit_ratio, growth, period);

    buffer[0] = '\0';
    if (!isnan(ratio))
        snprintf(buffer, size, "cache hits %.1f %%, ", 100 * ratio);
    return buffer;
}

static const char *requests_text(const struct period *period, char *buffer, size_t size)
{
    double requests = growth(period, METRIC_requests);
    char mean[UNITS_TEXT], p50[UNITS_TEXT], p99[UNITS_TEXT], max[UNITS_TEXT], sent[UNITS_TEXT];
    char cache[UNITS_TEXT];

    if (!(requests > 0))
        return "no requests, ";
    snprintf(buffer, size,
             "%.0f requests (%.1f/s), mean %s p50 %s p99 %s max %s, 4xx %.0f, 5xx %.0f, "
             "limited %.0f, sent %s, %s",
             requests, figure_quotient(requests, period->seconds),
             units_format_ns(mean, sizeof(mean),
                             figure_value(FIGURE_response_time_mean, growth, period)),
             units_format_ns(p50, sizeof(p50), (double)histogram_percentile(period->latency, 50)),
             units_format_ns(p99, sizeof(p99), (double)histogram_percentile(period->latency, 99)),
             units_format_ns(max, sizeof(max), (double)histogram_max(period->latency)),
             figure_value(FIGURE_responses_4xx, growth, period),
             figure_value(FIGURE_responses_5xx, growth, period),
             growth(period, METRIC_requests_limited),
             units_format_bytes(sent, sizeof(sent), growth(period, METRIC_bytes_sent)),
             cache_text(period, cache, sizeof(cache)));
    return buffer;
}

static void log_interval(const struct period *period)
{
    char text[EVENT_TEXT_BYTES];

    event_log(LEVEL_INFO, "summary of %.1f s: %sconnections %" PRIu64 ", log lines dropped %.0f",
              period->seconds, requests_text(period, text, sizeof(text)),
              period->now[METRIC_connections_open], growth(period, METRIC_log_dropped));
}

static void log_total(const struct period *period)
{
    char text[EVENT_TEXT_BYTES], age[UNITS_TEXT];

    event_log(LEVEL_INFO, "summary since the start, %s: %sconnections accepted %" PRIu64,
              units_format_age(age, sizeof(age), (uint64_t)(period->seconds * (double)NS_PER_S)),
              requests_text(period, text, sizeof(text)), period->now[METRIC_connections_accepted]);
}

/* Reads all sums and latencies; those of the last reading are then in BEFORE and the window. */
static void read_all(struct summary *summary, uint64_t sums[METRIC_COUNT])
{
    segment_sum_all(summary->segment, sums);
    histogram_reset(&summary->now);
    segment_add_all_latency(summary->segment, &summary->now);
    histogram_window_move(&summary->latency, &summary->now);
}

void summary_log(struct summary *summary)
{
    static const uint64_t zero[METRIC_COUNT];
    uint64_t now[METRIC_COUNT], now_ns = clock_monotonic_ns();
    uint64_t up_ns = clock_wall_ns() - summary->segment->header.started_ns;

    read_all(summary, now);
    log_interval(&(struct period){.seconds = (double)(now_ns - summary->since_ns) / NS_PER_S,
                                  .then = summary->before,
                                  .now = now,
                                  .latency = &summary->latency.since});
    log_total(&(struct period){.seconds = (double)up_ns / NS_PER_S,
                               .then = zero,
                               .now = now,
                               .latency = &summary->latency.before});
    memcpy(summary->before, now, sizeof(now));
    summary->since_ns = now_ns;
}

static void on_timer(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    summary_log(argument);
}

void summary_set_interval(struct summary *summary, uint32_t interval_ms)
{
    struct timeval interval = {.tv_sec = interval_ms / 1000, .tv_usec = interval_ms % 1000 * 1000};

    if (interval_ms == summary->interval_ms)
        return;
    summary->interval_ms = interval_ms;
    event_del(summary->timer);
    if (interval_ms == 0)
        return;
    read_all(summary, summary->before);
    summary->since_ns = clock_monotonic_ns();
    event_add(summary->timer, &interval);
}

void summary_finish(struct summary *summary)
{
    if (summary->interval_ms != 0)
        summary_log(summary);
    summary_set_interval(summary, 0);
}

struct summary *summary_new(struct event_base *base, struct segment *segment)
{
    struct summary *summary = calloc(1, sizeof(*summary));

    if (summary == NULL)
        return NULL;
    summary->segment = segment;
    summary->timer = event_new(base, -1, EV_PERSIST, on_timer, summary);
    if (summary->timer == NULL) {
        free(summary);
        return NULL;
    }
    return summary;
}

void summary_free(struct summary *summary)
{
    if (summary == NULL)
        return;
    event_free(summary->timer);
    free(summary);
}
