/*
 * Figures in the error log: the summary of each interval of log.summary_interval, and what kept
 * connections from their first request.
 */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/tables.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The summary */

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
static void read_all(struct summary *summary, const struct segment *segment,
                     uint64_t sums[METRIC_COUNT])
{
    static struct histogram now; /* static, because it is large and the master has one thread */

    segment_sum_all(segment, sums);
    histogram_reset(&now);
    segment_add_all_latency(segment, &now);
    histogram_window_move(&summary->latency, &now);
}

void summary_log(struct summary *summary, const struct segment *segment)
{
    static const uint64_t zero[METRIC_COUNT];
    uint64_t now[METRIC_COUNT], now_ns = clock_monotonic_ns();
    uint64_t up_ns = clock_wall_ns() - segment->header.started_ns;

    read_all(summary, segment, now);
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

static void on_summary_timer(evutil_socket_t fd, short what, void *argument)
{
    struct master *master = argument;

    (void)fd, (void)what;
    summary_log(&master->monitor.summary, &master->segment);
}

void summary_set_interval(struct master *master, uint32_t interval_ms)
{
    struct timeval interval = {.tv_sec = interval_ms / 1000, .tv_usec = interval_ms % 1000 * 1000};
    struct summary *summary = &master->monitor.summary;

    if (interval_ms == summary->interval_ms)
        return;
    summary->interval_ms = interval_ms;
    event_del(summary->timer);
    if (interval_ms == 0)
        return;
    read_all(summary, &master->segment, summary->before);
    summary->since_ns = clock_monotonic_ns();
    event_add(summary->timer, &interval);
}

void summary_finish(struct master *master)
{
    if (master->monitor.summary.interval_ms != 0)
        summary_log(&master->monitor.summary, &master->segment);
    summary_set_interval(master, 0);
}

int summary_init(struct master *master)
{
    struct summary *summary = &master->monitor.summary;

    summary->timer = event_new(master->base, -1, EV_PERSIST, on_summary_timer, master);
    return summary->timer != NULL ? 0 : -1;
}

void summary_free(struct summary *summary)
{
    loop_free_event(summary->timer);
}

/* Failed handshakes */

static const uint64_t interval_min_ns = 60 * NS_PER_S, interval_max_ns = 3600 * NS_PER_S;

const struct handshake_kind handshake_of_tls = {
    "TLS handshakes failed",
    {{METRIC_tls_failed_version, "no common version"},
     {METRIC_tls_failed_cipher, "no common cipher, group or signature"},
     {METRIC_tls_failed_client, "ended by the client"},
     {METRIC_tls_failed_http, "request without TLS"},
     {METRIC_tls_failed_timeout, "header_timeout"},
     {METRIC_tls_failed_other, "other reasons"}},
};

const struct handshake_kind handshake_of_proxy = {
    "connections to an address of proxy.listen closed",
    {{METRIC_proxy_failed_untrusted, "peer not in proxy.trusted"},
     {METRIC_proxy_failed_invalid, "no valid PROXY header"},
     {METRIC_proxy_failed_timeout, "header_timeout"}},
};

static uint64_t next_interval(const struct handshake_failures *failures, uint64_t now_ns)
{
    uint64_t doubled = 2 * failures->interval_ns;

    if (failures->last_ns == 0 || now_ns - failures->last_ns > doubled) /* there was a pause */
        return interval_min_ns;
    return doubled < interval_max_ns ? doubled : interval_max_ns;
}

bool handshake_failures_text(struct handshake_failures *failures, const struct handshake_kind *kind,
                             const uint64_t count[HANDSHAKE_FAILURE_REASONS], uint64_t now_ns,
                             char *text, size_t size)
{
    size_t length = 0;

    if ((failures->last_ns != 0 && now_ns - failures->last_ns < failures->interval_ns) ||
        memcmp(failures->logged, count, sizeof(failures->logged)) == 0)
        return false;
    text[0] = '\0';
    for (size_t i = 0; kind->reason[i].text != NULL; i++)
        if (count[i] > failures->logged[i] && length < size)
            length += (size_t)snprintf(text + length, size - length, "%s%s: %" PRIu64,
                                       length > 0 ? "; " : "", kind->reason[i].text,
                                       count[i] - failures->logged[i]);
    failures->interval_ns = next_interval(failures, now_ns);
    failures->last_ns = now_ns;
    memcpy(failures->logged, count, sizeof(failures->logged));
    return true;
}

void handshake_failures_log(struct handshake_failures *failures, const struct handshake_kind *kind,
                            const struct segment *segment, uint64_t now_ns)
{
    uint64_t count[HANDSHAKE_FAILURE_REASONS] = {0}, sums[METRIC_COUNT];
    char text[256];

    segment_sum_all(segment, sums);
    for (size_t i = 0; kind->reason[i].text != NULL; i++)
        count[i] = sums[kind->reason[i].metric];
    if (handshake_failures_text(failures, kind, count, now_ns, text, sizeof(text)))
        event_log(LEVEL_INFO, "%s: %s", kind->title, text);
}
