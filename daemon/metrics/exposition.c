#include "daemon/metrics/exposition.h"

#include "common/clock.h"
#include "common/segment_reader.h"
#include "common/server_status.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define PREFIX "webserverd_"

enum { NAME_MAX_BYTES = 80 };

const char *const exposition_types[EXPOSITION_FORMATS] = {
    [EXPOSITION_PROMETHEUS] = "text/plain; version=0.0.4; charset=utf-8",
    [EXPOSITION_OPENMETRICS] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
};

struct exposition {
    FILE *out;
    const struct segment *segment;
    enum exposition_format format;
};

/* Families */

static const char *unit_name(enum metric_unit unit)
{
    return unit == UNIT_BYTES ? "bytes" : unit == UNIT_NANOSECONDS ? "seconds" : "";
}

static bool text_ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);

    return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

/* The name of a family without _total: its unit is the last word, once. */
static void name_family(char *family, const struct metric_info *metric)
{
    const char *unit = unit_name(metric->unit), *name = metric->name;
    bool begins = metric->unit == UNIT_BYTES && strncmp(name, "bytes_", strlen("bytes_")) == 0;

    snprintf(family, NAME_MAX_BYTES, PREFIX "%s", name + (begins ? strlen("bytes_") : 0));
    if (*unit != '\0' && !text_ends_with(family, unit))
        snprintf(family + strlen(family), NAME_MAX_BYTES - strlen(family), "_%s", unit);
}

/*
 * The comments before the samples of FAMILY. A counter of OpenMetrics is named without the _total
 * of its samples.
 */
static void describe(const struct exposition *to, const char *family, const char *type,
                     enum metric_unit unit, const char *help)
{
    bool open = to->format == EXPOSITION_OPENMETRICS;
    bool info = strcmp(type, "info") == 0;
    const char *suffix = open ? "" : strcmp(type, "counter") == 0 ? "_total" : info ? "_info" : "";

    fprintf(to->out, "# TYPE %s%s %s\n", family, suffix, info && !open ? "gauge" : type);
    if (open && unit != UNIT_COUNT)
        fprintf(to->out, "# UNIT %s %s\n", family, unit_name(unit));
    fprintf(to->out, "# HELP %s%s %s\n", family, suffix, help);
}

/* Nanoseconds as seconds, exactly. */
static void put_value(FILE *out, enum metric_unit unit, uint64_t value)
{
    if (unit == UNIT_NANOSECONDS)
        fprintf(out, " %" PRIu64 ".%09" PRIu64 "\n", value / NS_PER_S, value % NS_PER_S);
    else
        fprintf(out, " %" PRIu64 "\n", value);
}

/* Blocks */

/*
 * A position in the blocks of a scope. The last one of the scopes THREAD and WORKER is for the slots
 * that only an earlier master had.
 */
struct block {
    const _Atomic uint64_t *metrics; /* NULL: this master has not used the slot */
    int32_t earlier;                 /* entry of EARLIER; -1: none */
    char labels[64];                 /* 'worker="0",thread="1"', or empty */
};

static uint32_t count_blocks(const struct segment *segment, enum metric_scope scope)
{
    return scope == SCOPE_THREAD   ? segment_count(segment, SEGMENT_THREADS) + 1
           : scope == SCOPE_WORKER ? segment_count(segment, SEGMENT_WORKERS) + 1
                                   : 1;
}

static void label_slot(const struct segment *segment, uint32_t worker, const uint32_t *thread,
                       struct block *block)
{
    size_t room = sizeof(block->labels);
    int length = worker < segment_count(segment, SEGMENT_WORKERS)
                     ? snprintf(block->labels, room, "worker=\"%u\"", worker)
                     : snprintf(block->labels, room, "worker=\"other\"");

    if (thread != NULL && block->earlier != 0)
        snprintf(block->labels + length, room - (size_t)length, ",thread=\"%u\"", *thread);
    else if (thread != NULL)
        snprintf(block->labels + length, room - (size_t)length, ",thread=\"other\"");
}

/* Returns false if block NUMBER has no memory. */
static bool get_block(const struct segment *segment, enum metric_scope scope, uint32_t number,
                      struct block *block)
{
    uint32_t threads = segment_threads_per_worker(segment);
    bool is_last = number + 1 == count_blocks(segment, scope); /* also of one */
    uint32_t entry = is_last ? 0 : number * (scope == SCOPE_WORKER ? threads : 1) + 1;

    assert(threads > 0);
    *block = (struct block){.earlier = segment_has_earlier(segment, entry) ? (int32_t)entry : -1};
    if (scope == SCOPE_MASTER)
        block->metrics = segment_master(segment)->metrics;
    else if (scope == SCOPE_LOGGER)
        block->metrics = segment_logger(segment)->metrics;
    else if (!is_last && scope == SCOPE_WORKER && segment_worker_reserved(segment, number))
        block->metrics = segment_worker(segment, number)->metrics;
    else if (!is_last && scope == SCOPE_THREAD && segment_thread_reserved(segment, number))
        block->metrics = segment_thread(segment, number)->metrics;
    if (scope == SCOPE_WORKER)
        label_slot(segment, number, NULL, block);
    if (scope == SCOPE_THREAD)
        label_slot(segment, number / threads, &(uint32_t){number % threads}, block);
    return block->metrics != NULL || block->earlier >= 0;
}

/* Metrics */

/*
 * One sample per block. LABEL, such as 'code="200"', follows those of the block; it may be empty.
 */
static void put_samples(const struct exposition *to, const char *family, enum metric metric,
                        const char *label)
{
    const struct metric_info *info = &metric_table[metric];
    const char *suffix = info->kind == KIND_COUNTER ? "_total" : "";
    struct block block;

    for (uint32_t i = 0; i < count_blocks(to->segment, info->scope); i++) {
        uint64_t value;
        bool labels;

        if (!get_block(to->segment, info->scope, i, &block))
            continue;
        value = block.metrics != NULL ? metric_get(block.metrics, metric) : 0;
        if (block.earlier >= 0)
            value += metric_get(segment_earlier(to->segment, (uint32_t)block.earlier), metric);
        if (block.metrics == NULL &&
            (info->kind != KIND_COUNTER || (block.earlier == 0 && value == 0)))
            continue;
        labels = block.labels[0] != '\0' || *label != '\0';
        fprintf(to->out, "%s%s%s%s%s%s%s", family, suffix, labels ? "{" : "", block.labels,
                block.labels[0] != '\0' && *label != '\0' ? "," : "", label, labels ? "}" : "");
        put_value(to->out, info->unit, value);
    }
}

static void put_metric(const struct exposition *to, enum metric metric)
{
    const struct metric_info *info = &metric_table[metric];
    char family[NAME_MAX_BYTES];

    name_family(family, info);
    describe(to, family, info->kind == KIND_COUNTER ? "counter" : "gauge", info->unit, info->help);
    put_samples(to, family, metric, "");
}

static const struct {
    enum metric metric;
    const char *label;
} statuses[] = {
#define HTTP_STATUS(code, name, reason) {METRIC_responses_##code, "code=\"" #code "\""},
#include "common/http_status.def"
#undef HTTP_STATUS
};

static bool is_status(enum metric metric)
{
    for (size_t i = 0; i < ARRAY_LENGTH(statuses); i++)
        if (statuses[i].metric == metric)
            return true;
    return false;
}

/* A status that no response has had is left out. */
static void put_statuses(const struct exposition *to)
{
    static const char family[] = PREFIX "responses";

    describe(to, family, "counter", UNIT_COUNT, "Responses by status");
    for (size_t i = 0; i < ARRAY_LENGTH(statuses); i++)
        if (segment_sum(to->segment, statuses[i].metric) > 0)
            put_samples(to, family, statuses[i].metric, statuses[i].label);
}

/* Latency */

/* Upper bounds of the buckets in seconds, and in nanoseconds. */
static const struct {
    const char *text;
    uint64_t ns;
} bounds[] = {
    {"0.00001", 10000},    {"0.000025", 25000},     {"0.00005", 50000},    {"0.0001", 100000},
    {"0.00025", 250000},   {"0.0005", 500000},      {"0.001", 1000000},    {"0.0025", 2500000},
    {"0.005", 5000000},    {"0.01", 10000000},      {"0.025", 25000000},   {"0.05", 50000000},
    {"0.1", 100000000},    {"0.25", 250000000},     {"0.5", 500000000},    {"1.0", 1000000000},
    {"2.5", 2500000000},   {"5.0", 5000000000},     {"10.0", 10000000000}, {"25.0", 25000000000},
    {"50.0", 50000000000}, {"100.0", 100000000000},
};

/*
 * HISTOGRAM is a private copy, so that the buckets are cumulative and the last one is the count. Of
 * the values in the bucket that a bound divides, none count below it.
 */
static void put_histogram(FILE *out, const char *family, const char *labels,
                          const struct histogram *histogram)
{
    uint64_t below = 0;
    uint32_t next = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(bounds); i++) {
        for (; next < HISTOGRAM_BUCKETS - 1 && histogram_highest(next) <= bounds[i].ns; next++)
            below += atomic_load_explicit(&histogram->bucket[next], memory_order_relaxed);
        fprintf(out, "%s_bucket{%s,le=\"%s\"} %" PRIu64 "\n", family, labels, bounds[i].text,
                below);
    }
    for (; next < HISTOGRAM_BUCKETS; next++)
        below += atomic_load_explicit(&histogram->bucket[next], memory_order_relaxed);
    fprintf(out, "%s_bucket{%s,le=\"+Inf\"} %" PRIu64 "\n", family, labels, below);
    fprintf(out, "%s_sum{%s}", family, labels);
    put_value(out, UNIT_NANOSECONDS, atomic_load_explicit(&histogram->sum, memory_order_relaxed));
    fprintf(out, "%s_count{%s} %" PRIu64 "\n", family, labels, below);
}

/* A thread's outcome without a request is left out. */
static void put_latency(const struct exposition *to)
{
    static const char family[] = PREFIX "request_duration_seconds";
    struct histogram copy = {0};
    struct block block;

    describe(to, family, "histogram", UNIT_NANOSECONDS,
             "Time from the start of each request to the end of its response");
    for (uint32_t i = 0; i < count_blocks(to->segment, SCOPE_THREAD); i++) {
        if (!get_block(to->segment, SCOPE_THREAD, i, &block))
            continue;
        for (int outcome = 0; outcome < OUTCOME_COUNT; outcome++) {
            char labels[128];

            histogram_reset(&copy);
            if (block.metrics != NULL)
                histogram_add(&copy, &segment_latency_of(to->segment, i)[outcome]);
            if (block.earlier >= 0)
                histogram_add(
                    &copy, &segment_earlier_latency(to->segment, (uint32_t)block.earlier)[outcome]);
            if (histogram_count(&copy) == 0)
                continue;
            snprintf(labels, sizeof(labels), "%s,outcome=\"%s\"", block.labels,
                     outcome_names[outcome]);
            put_histogram(to->out, family, labels, &copy);
        }
    }
}

/* A worker without a connection that was taken from its queue is left out. */
static void put_queue_waits(const struct exposition *to)
{
    static const char family[] = PREFIX "queue_duration_seconds";
    struct histogram copy = {0};
    struct block block;

    describe(to, family, "histogram", UNIT_NANOSECONDS,
             "Time that each connection was in the queue of its worker");
    for (uint32_t i = 0; i < count_blocks(to->segment, SCOPE_WORKER); i++) {
        if (!get_block(to->segment, SCOPE_WORKER, i, &block))
            continue;
        histogram_reset(&copy);
        if (block.metrics != NULL)
            histogram_add(&copy, segment_queue_waits_of(to->segment, i));
        if (block.earlier >= 0)
            histogram_add(&copy, segment_earlier_latency(to->segment, (uint32_t)block.earlier) +
                                     OUTCOME_COUNT);
        if (histogram_count(&copy) > 0)
            put_histogram(to->out, family, block.labels, &copy);
    }
}

/* Hosts */

/*
 * The bounds are powers of two, at which a coarse bucket ends. Fewer than for threads, because
 * there may be a thousand hosts.
 */
static void put_host_histogram(FILE *out, const char *family, const struct host_totals *host)
{
    static const struct {
        const char *text;
        uint32_t bit;
    } ends[] = {{"0.000032768", 15}, {"0.000131072", 17}, {"0.000524288", 19}, {"0.002097152", 21},
                {"0.008388608", 23}, {"0.033554432", 25}, {"0.134217728", 27}, {"0.536870912", 29},
                {"2.147483648", 31}, {"8.589934592", 33}, {"34.359738368", 35}};
    uint64_t below = 0;
    uint32_t next = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(ends); i++) {
        uint32_t end = histogram_index(UINT64_C(1) << ends[i].bit) >> HISTOGRAM_COARSE_SHIFT;

        for (; next < end; next++)
            below += host->latency[next];
        fprintf(out, "%s_bucket{host=\"%s\",le=\"%s\"} %" PRIu64 "\n", family, host->name,
                ends[i].text, below);
    }
    for (; next < HISTOGRAM_COARSE_BUCKETS; next++)
        below += host->latency[next];
    fprintf(out, "%s_bucket{host=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", family, host->name, below);
    fprintf(out, "%s_sum{host=\"%s\"}", family, host->name);
    put_value(out, UNIT_NANOSECONDS, host->values[HOST_METRIC_response_time]);
    fprintf(out, "%s_count{host=\"%s\"} %" PRIu64 "\n", family, host->name, below);
}

/* A name of the configuration has no character that a label escapes. */
static void put_hosts(const struct exposition *to)
{
    static const char responses[] = PREFIX "host_responses", bytes[] = PREFIX "host_body_bytes",
                      duration[] = PREFIX "host_request_duration_seconds";
    size_t count;
    struct host_totals *host = host_totals_read_all(to->segment, &count);

    if (count == 0) {
        free(host);
        return;
    }
    describe(to, responses, "counter", UNIT_COUNT, "Responses by host and class of status");
    for (size_t i = 0; i < count; i++)
        for (int metric = HOST_METRIC_responses_2xx; metric <= HOST_METRIC_responses_5xx; metric++)
            fprintf(to->out, "%s_total{host=\"%s\",class=\"%s\"} %" PRIu64 "\n", responses,
                    host[i].name, host_metric_table[metric].label, host[i].values[metric]);
    describe(to, bytes, "counter", UNIT_BYTES, host_metric_table[HOST_METRIC_body_bytes].help);
    for (size_t i = 0; i < count; i++)
        fprintf(to->out, "%s_total{host=\"%s\"} %" PRIu64 "\n", bytes, host[i].name,
                host[i].values[HOST_METRIC_body_bytes]);
    describe(to, duration, "histogram", UNIT_NANOSECONDS,
             host_metric_table[HOST_METRIC_response_time].help);
    for (size_t i = 0; i < count; i++)
        if (host_totals_requests(&host[i]) > 0) /* else it is left out */
            put_host_histogram(to->out, duration, &host[i]);
    free(host);
}

/* The server */

static void put_gauge(const struct exposition *to, const char *name, enum metric_unit unit,
                      uint64_t value, const char *help)
{
    char family[NAME_MAX_BYTES];

    snprintf(family, sizeof(family), PREFIX "%s", name);
    describe(to, family, "gauge", unit, help);
    fputs(family, to->out);
    put_value(to->out, unit, value);
}

/* The name of an instance has no character that a label would escape. */
static void put_server(const struct exposition *to)
{
    const struct segment *segment = to->segment;
    const struct segment_master *master = segment_master(segment);
    const struct segment_header *header = &segment->header;
    uint64_t beat = atomic_load(&master->heartbeat_ns), now = clock_monotonic_ns();

    describe(to, PREFIX "build", "info", UNIT_COUNT, "Version, and name of the instance");
    fprintf(to->out, PREFIX "build_info{version=\"%s\",name=\"%s\"} 1\n", header->version,
            header->name);
    put_gauge(to, "start_time_seconds", UNIT_NANOSECONDS, segment_counted_since_ns(segment),
              "Start of the server, in seconds since 1970; a binary upgrade does not change it");
    put_gauge(to, "master_start_time_seconds", UNIT_NANOSECONDS, header->started_ns,
              "Start of the master, in seconds since 1970; a binary upgrade starts another one");
    put_gauge(to, "heartbeat_age_seconds", UNIT_NANOSECONDS, now > beat ? now - beat : 0,
              "Time since the last heartbeat of the master, which has one each second");
    put_gauge(to, "stopping", UNIT_COUNT, atomic_load(&master->stopping),
              "1 while the server stops, else 0");
    put_gauge(to, "config_generation", UNIT_COUNT, atomic_load(&master->generation),
              "Number of the configuration in force; a reload increases it");
    put_gauge(to, "workers_wanted", UNIT_COUNT, atomic_load(&master->workers_wanted),
              "Configured number of workers");
    put_gauge(to, "workers", UNIT_COUNT, server_workers(segment),
              "Worker processes, including starting and leaving ones");
    put_gauge(to, "workers_serving", UNIT_COUNT, server_workers_serving(segment),
              "Worker processes that accept connections");
    put_gauge(to, "threads_wanted", UNIT_COUNT, atomic_load(&master->threads_wanted),
              "Configured number of serving threads per worker");
    put_gauge(to, "threads", UNIT_COUNT, atomic_load(&master->threads_actual),
              "Serving threads per worker");
}

/* Processes */

static const char *const process_names[] = {[SEGMENT_PROCESS_MASTER] = "master",
                                            [SEGMENT_PROCESS_LOGGER] = "logger",
                                            [SEGMENT_PROCESS_KEYS] = "keys",
                                            [SEGMENT_PROCESS_METRICS] = "metrics",
                                            [SEGMENT_PROCESS_ACME] = "acme"};

enum process_value { PROCESS_RESIDENT, PROCESS_DESCRIPTORS, PROCESS_DESCRIPTORS_MAX };

static uint64_t read_process(const struct segment_process *process, enum process_value value)
{
    const _Atomic uint64_t *const values[] = {&process->resident_bytes, &process->descriptors,
                                              &process->descriptors_max};

    return atomic_load_explicit(&process->pid, memory_order_relaxed) > 0
               ? atomic_load_explicit(values[value], memory_order_relaxed)
               : 0;
}

/* One sample for each process; one without, or whose value is unknown, is left out. */
static void put_process_value(const struct exposition *to, const char *name, enum metric_unit unit,
                              enum process_value value, const char *help)
{
    char family[NAME_MAX_BYTES];

    snprintf(family, sizeof(family), PREFIX "process_%s", name);
    describe(to, family, "gauge", unit, help);
    for (uint32_t i = 0; i < segment_count(to->segment, SEGMENT_PROCESSES); i++) {
        uint64_t number = read_process(segment_process(to->segment, i), value);

        if (number == 0)
            continue;
        if (i < SEGMENT_PROCESS_WORKERS)
            fprintf(to->out, "%s{process=\"%s\"}", family, process_names[i]);
        else
            fprintf(to->out, "%s{process=\"worker %u\"}", family, i - SEGMENT_PROCESS_WORKERS);
        put_value(to->out, unit, number);
    }
}

static void put_processes(const struct exposition *to)
{
    put_process_value(to, "resident_memory_bytes", UNIT_BYTES, PROCESS_RESIDENT,
                      "Memory of a process in RAM, with what it shares with others");
    put_process_value(to, "open_fds", UNIT_COUNT, PROCESS_DESCRIPTORS,
                      "Open descriptors of a process");
    put_process_value(to, "max_fds", UNIT_COUNT, PROCESS_DESCRIPTORS_MAX,
                      "Limit of the open descriptors of a process");
}

/* Certificates */

/*
 * One sample for each name; a host may have several certificates. A name comes from a certificate,
 * so it may contain anything but a blank.
 */
static void put_certificates(const struct exposition *to)
{
    static const char family[] = PREFIX "certificate_not_after_seconds";
    struct certificate_copy copy;

    if (!segment_read_certificate(to->segment, 0, &copy))
        return;
    describe(to, family, "gauge", UNIT_NANOSECONDS,
             "End of a certificate in use, in seconds since 1970");
    for (uint32_t i = 0; segment_read_certificate(to->segment, i, &copy); i++)
        for (const char *name = copy.names; *name != '\0'; name += strspn(name, " ")) {
            fprintf(to->out, "%s{certificate=\"%u\",host=\"", family, i);
            for (; *name != '\0' && *name != ' '; name++) {
                if (*name == '"' || *name == '\\')
                    fputc('\\', to->out);
                fputc(*name > ' ' && *name <= '~' ? *name : '?', to->out);
            }
            fprintf(to->out, "\"} %" PRIu64 "\n", copy.not_after_s);
        }
}

void exposition_write(FILE *out, const struct segment *segment, enum exposition_format format)
{
    const struct exposition to = {out, segment, format};

    put_server(&to);
    put_processes(&to);
    for (int i = 0; i < METRIC_COUNT; i++)
        if (!is_status((enum metric)i))
            put_metric(&to, (enum metric)i);
    put_statuses(&to);
    put_latency(&to);
    put_queue_waits(&to);
    put_hosts(&to);
    put_certificates(&to);
    if (format == EXPOSITION_OPENMETRICS)
        fputs("# EOF\n", out);
}
