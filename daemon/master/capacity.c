/*
 * Room for workers and threads: slots of the segment, shared memory, descriptors, listen sockets.
 */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "common/units.h"
#include "daemon/config/load.h"
#include "daemon/worker/worker.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum {
    FIXED_DESCRIPTORS = 48, /* standard streams, logs, sockets, event loop, and a reserve */
    CONNECTIONS_MIN = 8,    /* minimum for a worker, however low the limit is */
};

/* A dead worker cannot reset its own gauges. */
static void zero_gauges(_Atomic uint64_t *metrics)
{
    for (int i = 0; i < METRIC_COUNT; i++)
        if (metric_table[i].kind == KIND_GAUGE)
            metric_set(metrics, (enum metric)i, 0);
}

void capacity_clear_cache(const struct segment *segment, uint32_t worker)
{
    struct segment_cache_entry *table = segment_cache(segment, worker);

    for (uint32_t i = 0; i < segment->header.cache_entries; i++)
        if (atomic_load_explicit(&table[i].state, memory_order_relaxed) != CACHE_SLOT_FREE)
            segment_cache_state(&table[i], CACHE_SLOT_FREE);
}

static void clear_clients(const struct segment *segment, uint32_t worker)
{
    struct segment_client *table = segment_clients(segment, worker);

    for (uint32_t i = 0; i < SEGMENT_CLIENTS_PER_WORKER; i++)
        atomic_store_explicit(&table[i].count, 0, memory_order_relaxed);
}

void capacity_clear_slot(struct segment *segment, uint32_t worker)
{
    struct segment_worker *block = segment_worker(segment, worker);
    uint32_t threads = segment_threads_per_worker(segment), first = worker * threads;
    uint64_t now = clock_monotonic_ns();

    for (uint32_t i = first; i < first + threads; i++)
        if (segment_thread_reserved(segment, i)) {
            zero_gauges(segment_thread(segment, i)->metrics);
            segment_activity_clear(&segment_thread(segment, i)->activity, now);
        }
    zero_gauges(block->metrics);
    for (uint32_t i = 0; i < SEGMENT_OFFLOAD_THREADS; i++)
        segment_activity_clear(&block->offload[i], now);
    atomic_store_explicit(&block->threads_actual, 0, memory_order_relaxed);
    atomic_store_explicit(&block->acceptors, 0, memory_order_relaxed);
    atomic_store_explicit(&block->queue_since_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&block->offload_actual, 0, memory_order_relaxed);
    atomic_store_explicit(&block->connections_open, 0, memory_order_relaxed);
    clear_clients(segment, worker);
    segment_use_threads(segment, worker, 0);
}

/* Room for more */

void capacity_raise_descriptors(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* Number of threads of a worker with THREADS that accept connections. */
static uint32_t listening_threads(const struct config *config, uint32_t threads)
{
    return config->workers_model == MODEL_EVENTS ? threads : MODEL_ACCEPTORS(config->workers_model);
}

uint32_t capacity_listen_sockets(const struct config *config)
{
    return config->workers_dispatch == DISPATCH_MASTER
               ? 1
               : config->workers_processes * listening_threads(config, config->workers_threads);
}

/*
 * Per thread: event loop with the pipe of its signals, mailbox, twice a listen socket of each
 * address, and, over TLS, twice a link to the keys process.
 */
static uint64_t descriptors_of_worker(const struct config *config, uint32_t threads)
{
    uint32_t links = config->tls_keys_process && config_needs_tls(config) ? 2 : 0;

    return FIXED_DESCRIPTORS + threads * (4 + links) +
           2 * (uint64_t)listening_threads(config, threads) * config->server_listen.count;
}

uint64_t capacity_of_worker(const struct config *config, const struct rlimit *limit)
{
    uint64_t own =
        descriptors_of_worker(config, config->workers_threads) + worker_cache_descriptors(limit);

    return own + CONNECTIONS_MIN < limit->rlim_cur ? limit->rlim_cur - own : CONNECTIONS_MIN;
}

static int check_descriptors(const struct config *config, uint32_t count, uint32_t threads,
                             char *why, size_t size)
{
    uint64_t addresses = config->server_listen.count;
    uint64_t of_worker = descriptors_of_worker(config, threads);
    uint64_t of_master = FIXED_DESCRIPTORS + 2 * (uint64_t)count +
                         addresses * count * listening_threads(config, threads) +
                         config->host_count + LOG_FILES_DESCRIPTORS * log_targets_count(config);
    uint64_t needed = of_worker > of_master ? of_worker : of_master;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return 0;
    snprintf(why, size,
             "%u %s with %u %s each: a process needs %" PRIu64 " descriptors, but %" PRIu64
             " are allowed (raise the limit: ulimit -n)",
             count, units_plural(count, "worker", "workers"), threads,
             units_plural(threads, "thread", "threads"), needed, (uint64_t)limit.rlim_cur);
    return -1;
}

static bool is_slot_active(const struct segment *segment, uint32_t slot)
{
    uint32_t state = atomic_load(&segment_worker_slot(segment, slot)->state);

    return state == WORKER_STARTING || state == WORKER_SERVING;
}

/*
 * Reserves the slots of COUNT workers: first those in use, so that their workers can have THREADS
 * threads, and can be replaced in their own slots if there is no memory for others.
 */
static int reserve_memory(struct segment *segment, uint32_t count, uint32_t threads, char *why,
                          size_t size)
{
    uint32_t slots = segment_count(segment, SEGMENT_WORKERS), found = 0;
    int failed = 0;

    for (uint32_t i = 0; i < slots && found < count && failed == 0; i++)
        if (is_slot_active(segment, i)) {
            failed = segment_reserve(segment, i, threads);
            found++;
        }
    for (uint32_t i = 0; i < slots && found < count && failed == 0; i++)
        if (!is_slot_active(segment, i)) {
            failed = segment_reserve(segment, i, threads);
            found++;
        }
    if (failed == 0)
        return 0;
    snprintf(why, size, "no shared memory for %u %s: %s (enlarge /dev/shm or reduce log.ring)",
             count * threads, units_plural(count * threads, "thread", "threads"), strerror(failed));
    return -1;
}

int capacity_prepare(struct master *master, uint32_t count, uint32_t threads, char *why,
                     size_t size)
{
    const struct config *config = master->config;
    uint32_t slots = threads + MODEL_ACCEPTORS(config->workers_model);

    assert(count <= segment_count(&master->segment, SEGMENT_WORKERS) &&
           slots <= segment_threads_per_worker(&master->segment));
    if (check_descriptors(config, count, threads, why, size) != 0 ||
        reserve_memory(&master->segment, count, slots, why, size) != 0)
        return -1;
    if (config->workers_dispatch == DISPATCH_KERNEL &&
        listeners_grow(master->listeners, count * listening_threads(config, threads)) != 0) {
        snprintf(why, size, "cannot open listen sockets for %u %s: %s", count * threads,
                 units_plural(count * threads, "thread", "threads"), strerror(errno));
        return -1;
    }
    return 0;
}
