/* The master's pages of the segment: its creation, the configuration in force, the history. */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/config/load.h"
#include "daemon/content/cache.h"
#include "daemon/transaction/limits.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * For cache.max_entries = auto: an entry for each ENTRY_BYTES of the cache. The upper limit bounds
 * the shared memory: with it, a worker's table has 4 MiB. The table keeps its size if cache.size
 * changes.
 */
enum { ENTRY_BYTES = 8 * 1024, AUTO_ENTRIES_MIN = 4096, AUTO_ENTRIES_MAX = 16384 };

static uint32_t cache_entries(const struct config *config)
{
    uint64_t entries = config->cache_size / ENTRY_BYTES;

    if (config->cache_max_entries != 0)
        return config->cache_max_entries;
    return entries < AUTO_ENTRIES_MIN   ? AUTO_ENTRIES_MIN
           : entries > AUTO_ENTRIES_MAX ? AUTO_ENTRIES_MAX
                                        : (uint32_t)entries;
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
    return 0;
}

static void store_config_text(struct master *master)
{
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);

    if (memory == NULL)
        return;
    config_print(master->config, memory);
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

void publish_sample(struct segment *segment, struct histogram_window *latency, uint64_t now_ns)
{
    static struct histogram now; /* static, because it is large and the master has one thread */
    struct segment_master *master = segment_master(segment);
    uint64_t number = atomic_load_explicit(&master->history_next, memory_order_relaxed);
    struct segment_sample *sample = segment_sample(segment, number);
    uint64_t sums[METRIC_COUNT];

    segment_sum_all(segment, sums);
    histogram_reset(&now);
    segment_add_all_latency(segment, &now);
    histogram_window_move(latency, &now);
    atomic_store_explicit(&sample->number, 0, memory_order_relaxed);
    atomic_store_explicit(&sample->time_ns, now_ns, memory_order_release);
    store_latency(&latency->since, sample);
    for (int i = 0; i < METRIC_COUNT; i++)
        atomic_store_explicit(&sample->values[i], sums[i], memory_order_release);
    store_states(segment, sample);
    atomic_store_explicit(&sample->number, number + 1, memory_order_release);
    atomic_store_explicit(&master->history_next, number + 1, memory_order_release);
}
