#include "daemon/logger/internal.h"

#include "common/clock.h"
#include "common/event_ring.h"
#include "common/units.h"
#include "daemon/base/events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum {
    WORKER_EVENTS_BURST = 256,
    WORKER_EVENTS_PER_S = 20,
    REPORT_INTERVAL_S = 1, /* between two reports about a worker; they do not count as its events */
};

/* Limits what a worker can write to the error log. */
struct event_quota {
    uint64_t time_ns;    /* monotonic clock; see may_log() */
    uint64_t suppressed; /* events since the last report */
    uint64_t report_ns;  /* monotonic clock; no report before */
};

struct error_log {
    const struct segment *segment;
    const struct log_owner *owner;
    struct log_sink sink;
    struct event_merge *events;
    struct event_quota *quota; /* of each event ring */
    char line[EVENT_LINE_MAX]; /* an event that is not yet written */
    enum level level;
    size_t length, done; /* bytes of line, and those of them that are written; length 0: none */
    uint32_t ring;       /* that had the event */
};

/* syslog and journald add time and level themselves. */
static void take_event(struct error_log *log, uint32_t ring, const struct event_record *event)
{
    log->ring = ring;
    log->done = 0;
    log->level = (enum level)event->level;
    if (log->sink.kind == LOG_TARGET_FILE)
        log->length = event_line_to(log->sink.fd, event, log->line, sizeof(log->line));
    else
        log->length = event_line_short(event, log->line, sizeof(log->line));
}

/* The event in LINE is written, or not to be written: a restarted logger continues behind it. */
static void advance_cursor(struct error_log *log, uint32_t ring)
{
    atomic_store_explicit(segment_event_cursor(log->segment, ring),
                          event_merge_position(log->events, ring), memory_order_relaxed);
}

/* Writes the rest of LINE. Returns false if it must wait. A file that is full loses it. */
static bool write_logged_event(struct error_log *log)
{
    struct log_sink *sink = &log->sink;

    if (log->length == 0)
        return true;
    log->done += log_sink_write(sink, log->level, log->line + log->done, log->length - log->done);
    if (log->done < log->length && !sink->regular) {
        if (errno != EAGAIN) {
            sink->lost = true;
            log->owner->lost(log->owner->context, LOG_ERROR);
        }
        return false;
    }
    log->length = 0;
    advance_cursor(log, log->ring);
    return true;
}

/* Generic cell rate algorithm: WORKER_EVENTS_BURST at once, WORKER_EVENTS_PER_S in the long run. */
static bool may_log(struct event_quota *quota, uint64_t now_ns)
{
    const uint64_t cost = NS_PER_S / WORKER_EVENTS_PER_S;
    uint64_t time = quota->time_ns > now_ns ? quota->time_ns : now_ns;

    if (time + cost > now_ns + WORKER_EVENTS_BURST * cost)
        return false;
    quota->time_ns = time + cost;
    return true;
}

/* Reports about the workers whose report is due at NOW_NS, or about all of them. */
static void report_suppressed(struct error_log *log, uint64_t now_ns, bool all)
{
    for (uint32_t i = SEGMENT_RING_WORKERS; i < segment_event_rings(log->segment); i++) {
        struct event_quota *quota = &log->quota[i];

        if (quota->suppressed == 0 || (!all && now_ns < quota->report_ns))
            continue;
        event_log(LEVEL_WARN, "worker %u logs too fast: %" PRIu64 " %s not logged",
                  i - SEGMENT_RING_WORKERS, quota->suppressed,
                  units_plural(quota->suppressed, "event was", "events were"));
        quota->suppressed = 0;
        quota->report_ns = now_ns + REPORT_INTERVAL_S * NS_PER_S;
    }
}

void error_log_report_suppressed(struct error_log *log)
{
    report_suppressed(log, clock_monotonic_ns(), true);
}

/* A worker cannot fill the disk with events: those beyond its quota are only counted. */
bool error_log_drain(struct error_log *log)
{
    struct event_record event;
    uint64_t now = clock_monotonic_ns();
    int ring;

    report_suppressed(log, now, false);
    event_merge_begin(log->events, log->segment);
    while (log_sink_is_open(&log->sink) && write_logged_event(log)) {
        ring = event_merge_take(log->events, clock_wall_ns(), &event);
        if (ring < 0)
            return true;
        if (ring < SEGMENT_RING_WORKERS || may_log(&log->quota[ring], now)) {
            take_event(log, (uint32_t)ring, &event);
        } else {
            log->quota[ring].suppressed++;
            advance_cursor(log, (uint32_t)ring);
        }
    }
    return false;
}

struct error_log *error_log_new(const struct segment *segment, const struct log_owner *owner)
{
    struct error_log *log = calloc(1, sizeof(*log));

    if (log == NULL)
        return NULL;
    log->segment = segment;
    log->owner = owner;
    log->sink.fd = -1;
    log->events = event_merge_new(segment_event_rings(segment), true);
    log->quota = calloc(segment_event_rings(segment), sizeof(*log->quota));
    if (log->events == NULL || log->quota == NULL) {
        error_log_free(log);
        return NULL;
    }
    for (uint32_t i = 0; i < segment_event_rings(segment); i++) /* behind the previous logger's */
        event_merge_seek(
            log->events, i,
            atomic_load_explicit(segment_event_cursor(segment, i), memory_order_relaxed));
    return log;
}

void error_log_use(struct error_log *log, const struct log_sink *sink)
{
    struct log_sink old = log->sink;

    log->sink = *sink;
    log->done = 0; /* a new receiver gets whole lines */
    log_sink_close(&old);
}

void error_log_free(struct error_log *log)
{
    if (log == NULL)
        return;
    log_sink_close(&log->sink);
    event_merge_free(log->events);
    free(log->quota);
    free(log);
}
