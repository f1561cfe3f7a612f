/*
 * What the master publishes in the segment: configuration and history; and what it watches: figures
 * for the error log, failed handshakes, the memory of the control group.
 */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "common/tables.h"
#include "common/units.h"
#include "daemon/base/cgroup.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/config/load.h"
#include "daemon/content/cache.h"
#include "daemon/transaction/limits.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* The segment and the configuration in force */

/*
 * For cache.max_entries = auto: an entry for each ENTRY_BYTES of the cache. The upper limits bound
 * the shared memory: a worker's table has at most 4 MiB, and the tables in which its threads count
 * hits have HITS_BYTES together. The tables keep their size if cache.size changes.
 */
enum {
    ENTRY_BYTES = 8 * 1024,
    AUTO_ENTRIES_MIN = 4096,
    AUTO_ENTRIES_MAX = 16384,
    HITS_BYTES = 32 * 1024 * 1024,
};

static uint32_t cache_entries(const struct config *config)
{
    uint64_t entries = config->cache_size / ENTRY_BYTES;
    uint64_t counted = HITS_BYTES / sizeof(struct segment_hits) / config->workers_max_threads;

    if (config->cache_max_entries != 0)
        return config->cache_max_entries;
    if (entries < AUTO_ENTRIES_MIN)
        entries = AUTO_ENTRIES_MIN;
    if (entries > AUTO_ENTRIES_MAX)
        entries = AUTO_ENTRIES_MAX;
    return (uint32_t)(entries < counted ? entries : counted);
}

int publish_segment(struct master *master, bool beside, char *why, size_t size)
{
    const struct config *config = master->config;
    char listening[256];
    const struct segment_plan plan = {.name = config->server_name,
                                      .socket_path = config->control_socket,
                                      .listening = listening,
                                      .max_workers = config->workers_max_processes,
                                      .max_threads = config->workers_max_threads,
                                      .cache_entries = cache_slots(cache_entries(config)),
                                      .max_hosts = host_table_room(config),
                                      .ring_bytes = config->log_ring,
                                      .beside = beside};
    struct segment_master *block;

    listeners_describe(master->listeners, listening, sizeof(listening));
    if (segment_create(&master->segment, &plan, why, size) != 0)
        return -1;
    rate_limit_prepare(&master->segment);
    block = segment_master(&master->segment);
    atomic_store(&block->heartbeat_ns, clock_monotonic_ns());
    atomic_store(&block->generation, 1);
    reload_record(master, true);
    return 0;
}

/* Processes */

/* Without Linux 6.2 the size of the directory is 0. */
static uint64_t count_descriptors(pid_t pid)
{
    char path[32];
    struct stat status;

    snprintf(path, sizeof(path), "/proc/%d/fd", pid);
    return stat(path, &status) == 0 ? (uint64_t)status.st_size : 0;
}

static uint64_t resident_bytes(pid_t pid)
{
    char path[32];
    unsigned long pages = 0;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/statm", pid);
    file = fopen(path, "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* All processes have the limit of the master. */
static void publish_process(const struct segment *segment, uint32_t place, pid_t pid,
                            uint64_t descriptors_max)
{
    struct segment_process *entry = segment_process(segment, place);

    if (pid > 0) {
        atomic_store(&entry->resident_bytes, resident_bytes(pid));
        atomic_store(&entry->descriptors, count_descriptors(pid));
        atomic_store(&entry->descriptors_max, descriptors_max);
    }
    atomic_store(&entry->pid, pid);
}

void publish_processes(const struct master *master)
{
    const struct segment *segment = &master->segment;
    const struct auxiliary *auxiliary = &master->auxiliary;
    struct rlimit limit = {.rlim_cur = 0};

    getrlimit(RLIMIT_NOFILE, &limit);
    publish_process(segment, SEGMENT_PROCESS_MASTER, getpid(), limit.rlim_cur);
    publish_process(segment, SEGMENT_PROCESS_LOGGER, auxiliary->logger.child.pid, limit.rlim_cur);
    publish_process(segment, SEGMENT_PROCESS_KEYS, auxiliary->keys.child.pid, limit.rlim_cur);
    publish_process(segment, SEGMENT_PROCESS_METRICS, auxiliary->metrics.child.pid, limit.rlim_cur);
    publish_process(segment, SEGMENT_PROCESS_ACME, master->certificates.process.child.pid,
                    limit.rlim_cur);
    for (uint32_t i = 0; i < master->workers.count; i++)
        publish_process(segment, SEGMENT_PROCESS_WORKERS + i, master->workers.worker[i].pid,
                        limit.rlim_cur);
}

static void store_config_text(struct master *master)
{
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);

    if (memory == NULL)
        return;
    config_print(master->config, false, memory);
    fclose(memory);
    if (text != NULL)
        segment_store_config(&master->segment, text);
    free(text);
}

void publish_config(struct master *master)
{
    struct segment_master *block = segment_master(&master->segment);
    const struct config *config = master->config;
    char listening[sizeof(master->segment.header.listening)];

    atomic_store(&block->workers_wanted, config->workers_processes);
    atomic_store(&block->threads_wanted, config->workers_threads);
    atomic_store(&block->offload_min_wanted, config->workers_offload_threads.min);
    atomic_store(&block->offload_max_wanted, config->workers_offload_threads.max);
    atomic_store(&block->log_level, config->log_level);
    atomic_store(&block->dispatch_master, config->workers_dispatch == DISPATCH_MASTER);
    atomic_store(&block->model, config->workers_model);
    rate_limit_set(&master->segment, config->ratelimit_enabled,
                   config->ratelimit_requests_per_second, config->ratelimit_burst);
    listeners_describe(master->listeners, listening, sizeof(listening));
    segment_store_listening(&master->segment, listening);
    store_config_text(master);
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

        if (segment_thread_reserved(segment, i)) {
            uint32_t state = atomic_load_explicit(&segment_thread(segment, i)->activity.state,
                                                  memory_order_relaxed);

            letter = thread_state_table[state < THREAD_STATE_COUNT ? state : 0].letter;
        }
        atomic_store_explicit(&letters[i], letter, memory_order_release);
    }
}

void publish_sample(struct segment *segment, struct monitor *monitor, uint64_t now_ns)
{
    static struct histogram now; /* static, because it is large and the master has one thread */
    struct segment_master *master = segment_master(segment);
    uint64_t number = atomic_load_explicit(&master->history_next, memory_order_relaxed);
    struct segment_sample *sample = segment_sample(segment, number);
    uint64_t sums[METRIC_COUNT];

    histogram_reset(&now);
    segment_add_queue_waits(segment, &now);
    histogram_window_move(&monitor->queue_waits, &now);
    metric_set(master->metrics, METRIC_queue_wait_p99,
               histogram_percentile(&monitor->queue_waits.since, 99));
    segment_sum_all(segment, sums);
    histogram_reset(&now);
    segment_add_all_latency(segment, &now);
    histogram_window_move(&monitor->latency, &now);
    atomic_store_explicit(&sample->number, 0, memory_order_relaxed);
    atomic_store_explicit(&sample->time_ns, now_ns, memory_order_release);
    store_latency(&monitor->latency.since, sample);
    for (int i = 0; i < METRIC_COUNT; i++)
        atomic_store_explicit(&sample->values[i], sums[i], memory_order_release);
    store_states(segment, sample);
    atomic_store_explicit(&sample->number, number + 1, memory_order_release);
    atomic_store_explicit(&master->history_next, number + 1, memory_order_release);
}

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
    char text[EVENT_TEXT_BYTES], length[UNITS_TEXT];

    event_log(LEVEL_INFO, "summary of %s: %sconnections %" PRIu64 ", log lines dropped %.0f",
              units_format_ns(length, sizeof(length), period->seconds * (double)NS_PER_S),
              requests_text(period, text, sizeof(text)), period->now[METRIC_connections_open],
              growth(period, METRIC_log_dropped));
}

static void log_total(const struct period *period)
{
    char text[EVENT_TEXT_BYTES], age[UNITS_TEXT];

    event_log(LEVEL_INFO, "summary since the start, %s: %sconnections accepted %" PRIu64,
              units_format_age(age, sizeof(age), (uint64_t)(period->seconds * (double)NS_PER_S)),
              requests_text(period, text, sizeof(text)), period->now[METRIC_connections_accepted]);
}

/* Reads all sums and latencies; those of the last reading are then in BEFORE and the window. */
static void read_totals(struct summary *summary, const struct segment *segment,
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
    uint64_t up_ns = clock_wall_ns() - segment_counted_since_ns(segment);

    read_totals(summary, segment, now);
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

void summary_begin(struct master *master)
{
    struct summary *summary = &master->monitor.summary;

    read_totals(summary, &master->segment, summary->before);
    summary->since_ns = clock_monotonic_ns();
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
    summary_begin(master);
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

static void count_failures(const struct segment *segment, const struct handshake_kind *kind,
                           uint64_t count[HANDSHAKE_FAILURE_REASONS])
{
    uint64_t sums[METRIC_COUNT];

    segment_sum_all(segment, sums);
    for (size_t i = 0; kind->reason[i].text != NULL; i++)
        count[i] = sums[kind->reason[i].metric];
}

void handshake_failures_log(struct handshake_failures *failures, const struct handshake_kind *kind,
                            const struct segment *segment, uint64_t now_ns)
{
    uint64_t count[HANDSHAKE_FAILURE_REASONS] = {0};
    char text[256];

    count_failures(segment, kind, count);
    if (handshake_failures_text(failures, kind, count, now_ns, text, sizeof(text)))
        event_log(LEVEL_INFO, "%s: %s", kind->title, text);
}

void monitor_begin(struct monitor *monitor, const struct segment *segment)
{
    static struct histogram now; /* static, because it is large and the master has one thread */

    histogram_reset(&now);
    segment_add_all_latency(segment, &now);
    histogram_window_move(&monitor->latency, &now);
    count_failures(segment, &handshake_of_tls, monitor->tls_failures.logged);
    count_failures(segment, &handshake_of_proxy, monitor->proxy_failures.logged);
}

/* The memory of the control group */

enum {
    WATCH_MS = 200,
    SHARES = 8, /* the caches get an eighth of the remaining memory at a time */
};

/* In thousandths of the limit: a level begins at its first figure and ends below its second one. */
static const struct {
    uint32_t from, until;
} bounds[] = {
    [MEMORY_SHORT] = {850, 800},
    [MEMORY_EXHAUSTED] = {950, 900},
};

enum memory_level memory_level_next(enum memory_level level, uint32_t used)
{
    while (level < MEMORY_EXHAUSTED && used >= bounds[level + 1].from)
        level++;
    while (level > MEMORY_ENOUGH && used < bounds[level].until)
        level--;
    return level;
}

static void log_level_change(enum memory_level before, enum memory_level now, uint32_t used)
{
    static const char text[] = "the control group has used %u %% of its memory: %s";

    if (before == MEMORY_ENOUGH)
        event_log(LEVEL_WARN, text, used / 10,
                  "workers free their caches, then close idle connections");
    if (now == MEMORY_EXHAUSTED)
        event_log(LEVEL_WARN, text, used / 10, "workers accept no connections");
    if (now == MEMORY_ENOUGH)
        event_log(LEVEL_INFO, text, used / 10, "enough is free again");
}

/*
 * The bytes by which the cache of each worker may grow until the next message. A worker that is late
 * uses the previous share after the next one was computed, so all shares together are only a part of
 * the memory left until MEMORY_SHORT.
 */
static uint64_t cache_share(const struct workers *workers, struct cgroup_memory memory)
{
    uint64_t until = memory.limit_bytes / 1000 * bounds[MEMORY_SHORT].from;
    uint32_t count = workers_alive(workers);

    if (memory.limit_bytes == 0)
        return UINT64_MAX;
    return until > memory.used_bytes
               ? (until - memory.used_bytes) / SHARES / (count > 0 ? count : 1)
               : 0;
}

static void on_memory_timer(evutil_socket_t fd, short what, void *argument)
{
    struct master *master = argument;
    struct message_memory *last = &master->workers.memory, now;
    struct cgroup_memory memory = cgroup_memory(master->monitor.cgroup);
    uint32_t used = memory.limit_bytes > 0
                        ? (uint32_t)((double)memory.used_bytes * 1000 / (double)memory.limit_bytes)
                        : 0;

    (void)fd, (void)what;
    now = (struct message_memory){.level = memory_level_next((enum memory_level)last->level, used),
                                  .cache_bytes = cache_share(&master->workers, memory)};
    if (now.level != last->level)
        log_level_change((enum memory_level)last->level, (enum memory_level)now.level, used);
    if (now.level == last->level && now.cache_bytes == last->cache_bytes && memory.limit_bytes == 0)
        return;
    *last = now;
    workers_send_memory(&master->workers);
}

int memory_watch_start(struct master *master)
{
    static const struct timeval period = {.tv_usec = WATCH_MS * 1000};
    struct monitor *monitor = &master->monitor;

    master->workers.memory =
        (struct message_memory){.level = MEMORY_ENOUGH, .cache_bytes = UINT64_MAX};
    monitor->cgroup = cgroup_open("/proc/self/cgroup", "/sys/fs/cgroup");
    if (monitor->cgroup == NULL)
        return 0;
    monitor->memory_timer = event_new(master->base, -1, EV_PERSIST, on_memory_timer, master);
    if (monitor->memory_timer == NULL || event_add(monitor->memory_timer, &period) != 0)
        return -1;
    on_memory_timer(-1, 0, master);
    return 0;
}

void memory_watch_free(struct monitor *monitor)
{
    loop_free_event(monitor->memory_timer);
    cgroup_close(monitor->cgroup);
}
