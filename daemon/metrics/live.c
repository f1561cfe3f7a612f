/*
 * The data of the live page, as JSON from the segment: events, the history of 15 minutes, and what
 * changes less often.
 */
#include "daemon/metrics/live.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/event_ring.h"
#include "common/macros.h"
#include "common/segment_reader.h"
#include "common/server_status.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { HOSTS_SHOWN = 20, EVENTS_SHOWN = 50 };

/* Writes JSON, which it releases, in one line; {}: out of memory. */
static void write_json(FILE *out, json_t *json)
{
    if (json == NULL || json_dumpf(json, out, JSON_COMPACT) != 0)
        fputs("{}", out);
    json_decref(json);
}

/* Events */

static uint32_t read_segment_word(const _Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* What the page shows of them. */
static const enum metric shown[] = {
    METRIC_requests,         METRIC_bytes_sent,       METRIC_bytes_received,
    METRIC_connections_open, METRIC_connections_busy, METRIC_connections_accepted,
    METRIC_cache_hits,       METRIC_cache_misses,     METRIC_cache_bytes,
    METRIC_cache_limit,      METRIC_cpu_time,         METRIC_log_dropped,
    METRIC_workers_died,     METRIC_queue_length,     METRIC_queue_capacity,
    METRIC_queue_oldest,     METRIC_queue_taken,      METRIC_queue_wait,
    METRIC_queue_dropped,    METRIC_maintenance,      METRIC_bytes_saved};

/* A source of values: the sum of METRIC. */
typedef uint64_t value_of_metric(const void *source, enum metric metric);

static uint64_t value_now(const void *source, enum metric metric)
{
    return segment_sum(source, metric);
}

static json_t *list_counters(const struct segment *segment)
{
    json_t *counters = json_object();

    for (size_t i = 0; i < ARRAY_LENGTH(shown); i++)
        json_object_set_new(counters, metric_table[shown[i]].name,
                            json_integer((json_int_t)segment_sum(segment, shown[i])));
    return counters;
}

/* Responses by class: from 2xx to 5xx. */
static void add_classes(value_of_metric *value, const void *source, json_int_t classes[4])
{
    static const struct {
        int status;
        enum metric metric;
    } statuses[] = {
#define HTTP_STATUS(code, name, reason) {code, METRIC_responses_##code},
#include "common/http_status.def"
#undef HTTP_STATUS
    };

    for (size_t i = 0; i < ARRAY_LENGTH(statuses); i++)
        classes[statuses[i].status / 100 - 2] += (json_int_t)value(source, statuses[i].metric);
}

static json_t *list_classes(const struct segment *segment)
{
    json_int_t classes[4] = {0};

    add_classes(value_now, segment, classes);
    return json_pack("[I, I, I, I]", classes[0], classes[1], classes[2], classes[3]);
}

/* Of the responses of the last second; null if there were none. */
static json_t *list_last_latency(const struct segment *segment)
{
    uint64_t next =
        atomic_load_explicit(&segment_master(segment)->history_next, memory_order_acquire);
    const struct segment_sample *sample = next > 0 ? segment_sample(segment, next - 1) : NULL;
    uint64_t bucket[HISTOGRAM_COARSE_BUCKETS] = {0}, count = 0, max = 0;

    for (size_t i = 0; sample != NULL && i < HISTOGRAM_COARSE_BUCKETS; i++) {
        bucket[i] = read_segment_word(&sample->latency[i]);
        count += bucket[i];
    }
    if (count == 0)
        return json_null();
    max = atomic_load_explicit(&sample->latency_max_ns, memory_order_relaxed);
    return json_pack(
        "{s:I, s:I, s:I, s:I}", "p50", (json_int_t)histogram_coarse_percentile(bucket, max, 50),
        "p90", (json_int_t)histogram_coarse_percentile(bucket, max, 90), "p99",
        (json_int_t)histogram_coarse_percentile(bucket, max, 99), "max", (json_int_t)max);
}

/* Of all connections that threads have taken from queues; null if there were none. */
static json_t *list_queue_waits(const struct segment *segment)
{
    struct histogram all = {0};

    segment_add_queue_waits(segment, &all);
    if (histogram_count(&all) == 0)
        return json_null();
    return json_pack("{s:I, s:I, s:I}", "p50", (json_int_t)histogram_percentile(&all, 50), "p99",
                     (json_int_t)histogram_percentile(&all, 99), "max",
                     (json_int_t)histogram_max(&all));
}

static json_t *describe_serving_thread(const struct segment *segment, uint32_t slot)
{
    const struct segment_thread_slot *entry = segment_thread_slot(segment, slot);
    const struct segment_thread *block = segment_thread(segment, slot);
    uint32_t worker = slot / segment_threads_per_worker(segment);
    uint64_t now = clock_monotonic_ns();
    struct activity_copy activity;
    const struct thread_state_info *state;

    if (!segment_read_activity(&block->activity, &activity))
        memset(&activity, 0, sizeof(activity));
    state = &thread_state_table[activity.state < THREAD_STATE_COUNT ? activity.state : 0];
    return json_pack(
        "{s:i, s:i, s:b, s:s, s:I, s:o, s:I, s:I}", "worker",
        (int)read_segment_word(&entry->worker), "thread", (int)read_segment_word(&entry->thread),
        "acceptor",
        read_segment_word(&entry->thread) <
            read_segment_word(&segment_worker(segment, worker)->acceptors),
        "state", state->name, "since_ms",
        (json_int_t)(now > activity.since_ns ? (now - activity.since_ns) / NS_PER_MS : 0), "work",
        json_text(activity.work), "requests",
        (json_int_t)metric_get(block->metrics, METRIC_requests), "connections",
        (json_int_t)metric_get(block->metrics, METRIC_connections_open));
}

static json_t *list_serving_threads(const struct segment *segment)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++)
        if (segment_thread_reserved(segment, i) &&
            read_segment_word(&segment_thread_slot(segment, i)->worker) != SEGMENT_NO_WORKER)
            json_array_append_new(list, describe_serving_thread(segment, i));
    return list;
}

void live_write(FILE *out, const struct segment *segment)
{
    const struct segment_header *header = &segment->header;
    const struct segment_master *master = segment_master(segment);
    uint64_t now = clock_wall_ns();
    json_t *event = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:i, s:b, s:i, s:i, s:o, s:o, s:o, s:o, s:o}", "name",
        header->name, "version", header->version, "model", server_model(segment), "time_ms",
        (json_int_t)(now / NS_PER_MS), "uptime_s",
        (json_int_t)((now - segment_counted_since_ns(segment)) / NS_PER_S), "generation",
        (int)read_segment_word(&master->generation), "stopping",
        read_segment_word(&master->stopping) != 0, "workers", (int)server_workers_serving(segment),
        "workers_wanted", (int)read_segment_word(&master->workers_wanted), "counters",
        list_counters(segment), "responses", list_classes(segment), "latency_ns",
        list_last_latency(segment), "queue_wait_ns", list_queue_waits(segment), "threads",
        list_serving_threads(segment));

    fputs("data: ", out);
    write_json(out, event);
    fputs("\n\n", out);
}

/* History */

struct sample_values {
    uint64_t time_ns, latency_max_ns;
    uint64_t latency[HISTOGRAM_COARSE_BUCKETS];
    uint64_t of[METRIC_COUNT];
};

static uint64_t value_then(const void *source, enum metric metric)
{
    return ((const struct sample_values *)source)->of[metric];
}

/* Returns false if the sample is being written, or was overwritten. */
static bool read_values(const struct segment *segment, uint64_t number,
                        struct sample_values *values)
{
    const struct segment_sample *sample = segment_sample(segment, number);

    if (atomic_load_explicit(&sample->number, memory_order_acquire) != number + 1)
        return false;
    values->time_ns = atomic_load_explicit(&sample->time_ns, memory_order_acquire);
    values->latency_max_ns = atomic_load_explicit(&sample->latency_max_ns, memory_order_acquire);
    for (size_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        values->latency[i] = atomic_load_explicit(&sample->latency[i], memory_order_acquire);
    for (size_t i = 0; i < METRIC_COUNT; i++)
        values->of[i] = atomic_load_explicit(&sample->values[i], memory_order_acquire);
    return atomic_load_explicit(&sample->number, memory_order_relaxed) == number + 1;
}

/* Time in ms, the metrics of shown[], responses by class, percentiles of the latency or null. */
static json_t *describe_sample(const struct sample_values *values)
{
    json_t *numbers = json_array();
    json_int_t classes[4] = {0};
    uint64_t count = 0;

    json_array_append_new(numbers, json_integer((json_int_t)(values->time_ns / NS_PER_MS)));
    for (size_t i = 0; i < ARRAY_LENGTH(shown); i++)
        json_array_append_new(numbers, json_integer((json_int_t)values->of[shown[i]]));
    add_classes(value_then, values, classes);
    for (size_t i = 0; i < ARRAY_LENGTH(classes); i++)
        json_array_append_new(numbers, json_integer(classes[i]));
    for (size_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        count += values->latency[i];
    json_array_append_new(numbers, count == 0
                                       ? json_null()
                                       : json_integer((json_int_t)histogram_coarse_percentile(
                                             values->latency, values->latency_max_ns, 99)));
    return numbers;
}

void live_write_history(FILE *out, const struct segment *segment)
{
    uint64_t next =
        atomic_load_explicit(&segment_master(segment)->history_next, memory_order_acquire);
    uint64_t first = next > SEGMENT_HISTORY_SAMPLES ? next - SEGMENT_HISTORY_SAMPLES : 0;
    json_t *names = json_array(), *samples = json_array();
    struct sample_values values;

    for (size_t i = 0; i < ARRAY_LENGTH(shown); i++)
        json_array_append_new(names, json_string(metric_table[shown[i]].name));
    for (uint64_t number = first; number < next; number++)
        if (read_values(segment, number, &values))
            json_array_append_new(samples, describe_sample(&values));
    write_json(out, json_pack("{s:o, s:o}", "counters", names, "samples", samples));
}

/* Details */

static int by_requests_of_host(const void *one, const void *other)
{
    uint64_t a = host_totals_requests(one), b = host_totals_requests(other);

    return a == b ? 0 : a < b ? 1 : -1;
}

/* Those with most requests. */
static json_t *list_busy_hosts(const struct segment *segment)
{
    json_t *list = json_array();
    size_t count;
    struct host_totals *all = host_totals_read_all(segment, &count);

    if (count > 0)
        qsort(all, count, sizeof(*all), by_requests_of_host);
    for (size_t i = 0; i < count && i < HOSTS_SHOWN; i++)
        json_array_append_new(
            list, json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "name", json_text(all[i].name),
                            "requests", (json_int_t)host_totals_requests(&all[i]), "responses_4xx",
                            (json_int_t)all[i].values[HOST_METRIC_responses_4xx], "responses_5xx",
                            (json_int_t)all[i].values[HOST_METRIC_responses_5xx], "body_bytes",
                            (json_int_t)all[i].values[HOST_METRIC_body_bytes], "p99_ns",
                            (json_int_t)host_totals_percentile(&all[i], 99)));
    free(all);
    return list;
}

static json_t *list_certificates(const struct segment *segment)
{
    json_t *list = json_array();
    struct certificate_copy copy;

    for (uint32_t i = 0; segment_read_certificate(segment, i, &copy); i++)
        json_array_append_new(
            list, json_pack("{s:o, s:o, s:I, s:I, s:o}", "names", json_text(copy.names), "issuer",
                            json_text(copy.issuer), "not_after_s", (json_int_t)copy.not_after_s,
                            "next_attempt_s", (json_int_t)copy.next_attempt_s, "error",
                            json_text(copy.error)));
    return list;
}

/* The last ones, the oldest first. */
static json_t *list_last_events(const struct segment *segment)
{
    uint32_t rings = segment_event_rings(segment);
    struct event_merge *merge = event_merge_new(rings, false);
    json_t *list = json_array();
    struct event_record event;

    if (merge == NULL)
        return list;
    event_merge_begin(merge, segment);
    while (event_merge_take(merge, clock_wall_ns(), &event) >= 0) {
        json_array_append_new(
            list, json_pack("{s:I, s:s, s:s, s:i, s:o}", "time_ms",
                            (json_int_t)(event.time_ns / NS_PER_MS), "level",
                            event.level < LEVEL_COUNT ? level_names[event.level] : "?", "role",
                            event.role < ROLE_COUNT ? role_names[event.role] : "?", "pid",
                            event.pid, "text", json_text(event.text)));
        if (json_array_size(list) > EVENTS_SHOWN)
            json_array_remove(list, 0);
    }
    event_merge_free(merge);
    return list;
}

void live_write_details(FILE *out, const struct segment *segment)
{
    write_json(out, json_pack("{s:o, s:o, s:o}", "hosts", list_busy_hosts(segment), "certificates",
                              list_certificates(segment), "events", list_last_events(segment)));
}
