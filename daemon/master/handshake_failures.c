#include "daemon/master/handshake_failures.h"

#include "common/clock.h"
#include "daemon/base/events.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
