#include "common/server_status.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/process.h"
#include "common/tables.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static uint32_t load_number(const _Atomic uint32_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static const char *model_name(const _Atomic uint32_t *word)
{
    uint32_t model = load_number(word);

    return worker_model_names[model < MODEL_COUNT ? model : MODEL_EVENTS];
}

static json_t *worker_json(const struct segment *segment, uint32_t number)
{
    const struct segment_worker *block = segment_worker(segment, number);
    const struct segment_worker_slot *slot = segment_worker_slot(segment, number);
    uint64_t up =
        process_age_ns(atomic_load(&slot->pid), atomic_load(&slot->started_ns)) / NS_PER_S;
    uint32_t state = load_number(&slot->state);

    return json_pack(
        "{s:i, s:i, s:s, s:s, s:{s:i, s:i}, s:i, s:i, s:I, s:i, s:i}", "slot", (int)number, "pid",
        (int)atomic_load(&slot->pid), "state",
        worker_state_names[state < WORKER_STATE_COUNT ? state : WORKER_NONE], "model",
        model_name(&block->model), "threads", "wanted", (int)load_number(&slot->threads_wanted),
        "actual", (int)load_number(&block->threads_actual), "acceptors",
        (int)load_number(&block->acceptors), "offload_threads",
        (int)load_number(&block->offload_actual), "uptime_s", (json_int_t)up, "starts",
        (int)load_number(&slot->starts), "generation", (int)load_number(&slot->generation));
}

static bool worker_exists(const struct segment *segment, uint32_t worker)
{
    return segment_worker_reserved(segment, worker) &&
           load_number(&segment_worker_slot(segment, worker)->state) != WORKER_NONE;
}

static json_t *workers_json(const struct segment *segment)
{
    json_t *list = json_array();

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_WORKERS); i++)
        if (worker_exists(segment, i))
            json_array_append_new(list, worker_json(segment, i));
    return list;
}

const char *server_model(const struct segment *segment)
{
    return model_name(&segment_master(segment)->model);
}

uint32_t server_workers(const struct segment *segment)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_WORKERS); i++)
        found += worker_exists(segment, i);
    return found;
}

uint32_t server_workers_serving(const struct segment *segment)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_WORKERS); i++)
        found += worker_exists(segment, i) &&
                 load_number(&segment_worker_slot(segment, i)->state) == WORKER_SERVING;
    return found;
}

/* Values */

static json_t *addresses_json(const struct segment *segment)
{
    json_t *list = json_array();
    char text[sizeof(segment->header.listening)];
    char *rest = text, *one;

    segment_listening(segment, text, sizeof(text));
    while ((one = strsep(&rest, " ")) != NULL)
        json_array_append_new(list, json_text(one));
    return list;
}

/* null for NAN; an integer if VALUE is one that a double represents exactly. */
static json_t *number_or_null(double value)
{
    if (!isfinite(value))
        return json_null();
    return value == floor(value) && fabs(value) < 0x1p53 ? json_integer((json_int_t)value)
                                                         : json_real(value);
}

/* The sums of all metrics; NAN: not published. */
struct sums {
    double of[METRIC_COUNT];
};

static json_t *metrics_json(const struct sums *sums)
{
    json_t *metrics = json_object();

    for (int i = 0; i < METRIC_COUNT; i++)
        if (!isnan(sums->of[i]))
            json_object_set_new(metrics, metric_table[i].name,
                                json_integer((json_int_t)sums->of[i]));
    return metrics;
}

/* A source of figures: the values since the start. */
static double value_since_start(const void *sums, enum metric metric)
{
    return ((const struct sums *)sums)->of[metric];
}

static json_t *figures_json(const struct sums *sums)
{
    json_t *figures = json_object();

    for (int i = 0; i < FIGURE_COUNT; i++)
        json_object_set_new(figures, figure_table[i].name,
                            number_or_null(figure_value((enum figure)i, value_since_start, sums)));
    return figures;
}

static const struct {
    const char *name;
    double percent;
} percentiles[] = {{"p50", 50}, {"p90", 90}, {"p99", 99}, {"max", 100}};

/* Of all values since the start that ADD has added; null without one. */
static json_t *percentiles_json(const struct segment *segment,
                                void (*add)(const struct segment *, struct histogram *))
{
    json_t *object = json_object();
    struct histogram all = {0};
    bool any;

    add(segment, &all);
    any = histogram_count(&all) > 0;
    for (size_t i = 0; i < ARRAY_LENGTH(percentiles); i++)
        json_object_set_new(
            object, percentiles[i].name,
            number_or_null(any ? (double)histogram_percentile(&all, percentiles[i].percent) : NAN));
    return object;
}

/* Hosts */

enum { HOSTS_LISTED = 1000 }; /* so that a reply stays below CONTROL_REPLY_MAX */

static int by_requests(const void *one, const void *other)
{
    uint64_t a = host_totals_requests(one), b = host_totals_requests(other);

    return a != b ? (a < b ? 1 : -1)
                  : strcmp(((const struct host_totals *)one)->name,
                           ((const struct host_totals *)other)->name);
}

static json_t *host_json(const struct host_totals *totals)
{
    json_t *host = json_object(), *latency = json_object();
    uint64_t requests = host_totals_requests(totals);

    json_object_set_new(host, "name", json_text(totals->name));
    json_object_set_new(host, "requests", json_integer((json_int_t)requests));
    for (int i = 0; i < HOST_METRIC_COUNT; i++)
        json_object_set_new(host, host_metric_table[i].name,
                            json_integer((json_int_t)totals->values[i]));
    for (size_t i = 0; i < ARRAY_LENGTH(percentiles); i++)
        json_object_set_new(latency, percentiles[i].name,
                            number_or_null(requests > 0 ? (double)host_totals_percentile(
                                                              totals, percentiles[i].percent)
                                                        : NAN));
    json_object_set_new(host, "latency_ns", latency);
    return host;
}

static json_t *host_list_json(const struct segment *segment)
{
    json_t *list = json_array();
    size_t count;
    struct host_totals *all = host_totals_read_all(segment, &count);

    if (count > 0)
        qsort(all, count, sizeof(*all), by_requests);
    for (size_t i = 0; i < count && i < HOSTS_LISTED; i++)
        json_array_append_new(list, host_json(&all[i]));
    free(all);
    return list;
}

json_t *server_hosts_in_maintenance(const struct segment *segment)
{
    json_t *list = json_array();
    bool published = segment_count(segment, SEGMENT_MAINTENANCE) > 0;
    char name[HOST_NAME_BYTES];

    if (published && load_number(&segment_maintenance(segment)->hosts) == UINT32_MAX)
        json_array_append_new(list, json_string("*"));
    else if (published && load_number(&segment_maintenance(segment)->hosts) != 0)
        for (uint32_t i = 0; i < segment_count(segment, SEGMENT_HOSTS); i++)
            if (segment_is_in_maintenance(segment, i) && host_name_read(segment, i, name) != 0)
                json_array_append_new(list, json_text(i == 0 ? "other hosts" : name));
    return list;
}

/* Time and value of METRIC in sample NUMBER of the history. Returns false while it is written. */
static bool read_sample(const struct segment *segment, uint64_t number, enum metric metric,
                        uint64_t *time_ns, uint64_t *value)
{
    const struct segment_sample *sample = segment_sample(segment, number);

    if (atomic_load_explicit(&sample->number, memory_order_acquire) != number + 1)
        return false;
    *time_ns = atomic_load_explicit(&sample->time_ns, memory_order_acquire);
    *value = atomic_load_explicit(&sample->values[metric], memory_order_acquire);
    return atomic_load_explicit(&sample->number, memory_order_relaxed) == number + 1;
}

/* Per second, between the last two samples of the history; null without two. */
static json_t *rate_json(const struct segment *segment, enum metric metric)
{
    uint64_t next =
        atomic_load_explicit(&segment_master(segment)->history_next, memory_order_acquire);
    uint64_t then_ns, now_ns, before, last;

    if (segment_count(segment, SEGMENT_HISTORY) == 0 || next < 2 ||
        !read_sample(segment, next - 2, metric, &then_ns, &before) ||
        !read_sample(segment, next - 1, metric, &now_ns, &last) || now_ns <= then_ns)
        return json_null();
    return number_or_null(figure_rate(before, last, now_ns - then_ns));
}

static json_t *status_json(const struct segment *segment, const struct sums *sums)
{
    const struct segment_master *master = segment_master(segment);
    const struct segment_header *header = &segment->header;
    uint64_t up_ns = process_age_ns(header->master_pid, segment_counted_since_ns(segment));
    uint64_t master_ns = process_age_ns(header->master_pid, header->started_ns);

    return json_pack(
        "{s:b, s:s, s:s, s:i, s:I, s:I, s:i, s:o, s:s, s:s, s:{s:i}, s:{s:i}, s:{s:i}, s:{s:i}, "
        "s:{s:i, "
        "s:i, "
        "s:o}, "
        "s:{s:i, s:i}, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
        "ok", 1, "name", header->name, "version", header->version, "pid", (int)header->master_pid,
        "uptime_s", (json_int_t)(up_ns / NS_PER_S), "master_uptime_s",
        (json_int_t)(master_ns / NS_PER_S), "generation", (int)load_number(&master->generation),
        "listening", addresses_json(segment), "model", server_model(segment), "dispatch",
        load_number(&master->dispatch_master) ? "master" : "kernel", "logger", "pid",
        (int)atomic_load(&master->logger_pid), "keys", "pid", (int)atomic_load(&master->keys_pid),
        "metrics_process", "pid", (int)atomic_load(&master->metrics_pid), "acme", "pid",
        (int)atomic_load(&master->acme_pid), "workers", "wanted",
        (int)load_number(&master->workers_wanted), "actual", (int)server_workers(segment), "list",
        workers_json(segment), "threads", "wanted", (int)load_number(&master->threads_wanted),
        "actual", (int)load_number(&master->threads_actual), "requests_per_s",
        rate_json(segment, METRIC_requests), "tls_handshakes_per_s",
        rate_json(segment, METRIC_tls_handshakes), "latency_ns",
        percentiles_json(segment, segment_add_all_latency), "queue_wait_ns",
        percentiles_json(segment, segment_add_queue_waits), "hosts", host_list_json(segment),
        "maintenance", server_hosts_in_maintenance(segment), "figures", figures_json(sums),
        "metrics", metrics_json(sums));
}

json_t *server_status(const struct segment *segment)
{
    uint64_t values[METRIC_COUNT];
    struct sums sums;

    segment_sum_all(segment, values);
    for (int i = 0; i < METRIC_COUNT; i++)
        sums.of[i] = (double)values[i];
    return status_json(segment, &sums);
}

/* Removes what only webserverd has. */
static void remove_own_members(json_t *status)
{
    static const char *const own[] = {"generation",      "model",          "dispatch",
                                      "logger",          "keys",           "hosts",
                                      "metrics_process", "acme",           "tls_handshakes_per_s",
                                      "maintenance",     "master_uptime_s"};
    json_t *workers = json_object_get(status, "workers"), *worker;
    json_int_t threads = 0;
    size_t i;

    for (i = 0; i < ARRAY_LENGTH(own); i++)
        json_object_del(status, own[i]);
    json_array_foreach(json_object_get(workers, "list"), i, worker) threads +=
        json_integer_value(json_object_get(json_object_get(worker, "threads"), "actual"));
    json_object_del(workers, "wanted");
    json_object_del(json_object_get(status, "threads"), "wanted");
    json_object_set_new(json_object_get(status, "threads"), "actual", json_integer(threads));
    json_array_foreach(json_object_get(workers, "list"), i, worker)
    {
        json_object_del(json_object_get(worker, "threads"), "wanted");
        json_object_del(worker, "model");
        json_object_del(worker, "acceptors");
        json_object_del(worker, "offload_threads");
        json_object_del(worker, "generation");
    }
}

json_t *server_status_read(const struct segment_reader *reader)
{
    uint64_t values[METRIC_COUNT];
    bool absent[METRIC_COUNT];
    struct sums sums;
    json_t *status;

    for (int i = 0; i < METRIC_COUNT; i++)
        values[i] = segment_reader_sum(reader, (enum metric)i);
    if (reader->metric[METRIC_connections_open].line < 0)
        values[METRIC_connections_open] = segment_connections_open(&reader->map);
    segment_reader_find_unpublished(reader, values, absent);
    for (int i = 0; i < METRIC_COUNT; i++)
        sums.of[i] = absent[i] ? NAN : (double)values[i];
    status = status_json(&reader->map, &sums);
    if (segment_count(&reader->map, SEGMENT_CONFIG) == 0)
        remove_own_members(status);
    if (segment_count(&reader->map, SEGMENT_QUEUE_WAITS) == 0)
        json_object_del(status, "queue_wait_ns");
    return status;
}
