#include "daemon/metrics/live.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/macros.h"
#include "common/segment_reader.h"
#include "common/server_status.h"

#include <jansson.h>
#include <string.h>

static uint32_t load(const _Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static json_t *list_counters(const struct segment *segment)
{
    static const enum metric shown[] = {
        METRIC_requests,         METRIC_bytes_sent,       METRIC_bytes_received,
        METRIC_connections_open, METRIC_connections_busy, METRIC_connections_accepted,
        METRIC_cache_hits,       METRIC_cache_misses,     METRIC_cache_bytes,
        METRIC_cache_limit,      METRIC_cpu_time,         METRIC_log_dropped,
        METRIC_workers_died};
    json_t *counters = json_object();

    for (size_t i = 0; i < ARRAY_LENGTH(shown); i++)
        json_object_set_new(counters, metric_table[shown[i]].name,
                            json_integer((json_int_t)segment_sum(segment, shown[i])));
    return counters;
}

/* Responses by class: four numbers, from 2xx to 5xx. */
static json_t *list_classes(const struct segment *segment)
{
    static const struct {
        int status;
        enum metric metric;
    } statuses[] = {
#define HTTP_STATUS(code, name, reason) {code, METRIC_responses_##code},
#include "common/http_status.def"
#undef HTTP_STATUS
    };
    json_int_t classes[4] = {0};

    for (size_t i = 0; i < ARRAY_LENGTH(statuses); i++)
        classes[statuses[i].status / 100 - 2] +=
            (json_int_t)segment_sum(segment, statuses[i].metric);
    return json_pack("[I, I, I, I]", classes[0], classes[1], classes[2], classes[3]);
}

/* Of the responses of the last second; null if there were none. */
static json_t *list_latency(const struct segment *segment)
{
    uint64_t next =
        atomic_load_explicit(&segment_master(segment)->history_next, memory_order_acquire);
    const struct segment_sample *sample = next > 0 ? segment_sample(segment, next - 1) : NULL;
    uint64_t bucket[HISTOGRAM_COARSE_BUCKETS] = {0}, count = 0, max = 0;

    for (size_t i = 0; sample != NULL && i < HISTOGRAM_COARSE_BUCKETS; i++) {
        bucket[i] = load(&sample->latency[i]);
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

static json_t *describe_thread(const struct segment *segment, uint32_t slot)
{
    const struct segment_thread_slot *entry = segment_thread_slot(segment, slot);
    const struct segment_thread *block = segment_thread(segment, slot);
    uint64_t now = clock_monotonic_ns();
    struct activity_copy activity;
    const struct thread_state_info *state;

    if (!segment_read_activity(&block->activity, &activity))
        memset(&activity, 0, sizeof(activity));
    state = &thread_state_table[activity.state < THREAD_STATE_COUNT ? activity.state : 0];
    return json_pack(
        "{s:i, s:i, s:s, s:I, s:o, s:I, s:I}", "worker", (int)load(&entry->worker), "thread",
        (int)load(&entry->thread), "state", state->name, "since_ms",
        (json_int_t)(now > activity.since_ns ? (now - activity.since_ns) / NS_PER_MS : 0), "work",
        json_text(activity.work), "requests",
        (json_int_t)metric_get(block->metrics, METRIC_requests), "connections",
        (json_int_t)metric_get(block->metrics, METRIC_connections_open));
}

static json_t *list_threads(const struct segment *segment)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++)
        if (segment_thread_reserved(segment, i) &&
            load(&segment_thread_slot(segment, i)->worker) != SEGMENT_NO_WORKER)
            json_array_append_new(list, describe_thread(segment, i));
    return list;
}

void live_write(FILE *out, const struct segment *segment)
{
    const struct segment_header *header = &segment->header;
    const struct segment_master *master = segment_master(segment);
    uint64_t now = clock_wall_ns();
    json_t *event = json_pack(
        "{s:s, s:s, s:I, s:I, s:i, s:b, s:i, s:i, s:o, s:o, s:o, s:o}", "name", header->name,
        "version", header->version, "time_ms", (json_int_t)(now / NS_PER_MS), "uptime_s",
        (json_int_t)((now - header->started_ns) / NS_PER_S), "generation",
        (int)load(&master->generation), "stopping", load(&master->stopping) != 0, "workers",
        (int)server_workers_serving(segment), "workers_wanted", (int)load(&master->workers_wanted),
        "counters", list_counters(segment), "responses", list_classes(segment), "latency_ns",
        list_latency(segment), "threads", list_threads(segment));

    fputs("data: ", out);
    if (event == NULL || json_dumpf(event, out, JSON_COMPACT) != 0)
        fputs("{}", out);
    json_decref(event);
    fputs("\n\n", out);
}
