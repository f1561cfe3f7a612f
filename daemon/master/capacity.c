#include "daemon/master/capacity.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/worker/context.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

enum {
    FIXED_DESCRIPTORS = 48, /* standard streams, logs, sockets, event loop, and a reserve */
    CONNECTIONS_MIN = 8,    /* minimum for a worker, however low the limit is */
};

/* Thread slots */

static uint32_t slot_count(const struct segment *segment)
{
    return segment_count(segment, SEGMENT_THREADS);
}

static uint32_t worker_of(const struct segment *segment, uint32_t slot)
{
    const struct segment_slot *entry = segment_thread_slot(segment, slot);

    if (!segment_slot_reserved(entry))
        return SEGMENT_NO_WORKER;
    return atomic_load_explicit(&entry->worker, memory_order_relaxed);
}

static uint32_t thread_of(const struct segment *segment, uint32_t slot)
{
    return atomic_load_explicit(&segment_thread_slot(segment, slot)->thread, memory_order_relaxed);
}

static void set_worker(struct segment *segment, uint32_t slot, uint32_t worker, uint32_t thread)
{
    struct segment_slot *entry = segment_thread_slot(segment, slot);

    atomic_store_explicit(&entry->thread, thread, memory_order_relaxed);
    atomic_store_explicit(&entry->worker, worker, memory_order_relaxed);
}

/*
 * Returns a free thread slot with reserved memory; or SEGMENT_NO_WORKER with an errno in *FAILED.
 */
static uint32_t find_free(struct segment *segment, int *failed)
{
    *failed = ENOBUFS;
    for (uint32_t i = 0; i < slot_count(segment); i++) {
        if (worker_of(segment, i) != SEGMENT_NO_WORKER)
            continue;
        *failed = segment_reserve_thread(segment, i);
        return *failed == 0 ? i : SEGMENT_NO_WORKER;
    }
    return SEGMENT_NO_WORKER;
}

uint32_t capacity_assign_slots(struct segment *segment, uint32_t worker, uint32_t has,
                               uint32_t wanted, uint32_t *slots, int *failed)
{
    *failed = 0;
    for (uint32_t i = 0; i < slot_count(segment); i++)
        if (worker_of(segment, i) == worker)
            slots[thread_of(segment, i)] = i;
    for (; has < wanted; has++) {
        slots[has] = find_free(segment, failed);
        if (slots[has] == SEGMENT_NO_WORKER)
            return has;
        set_worker(segment, slots[has], worker, has);
    }
    return wanted;
}

void capacity_release_slots(struct segment *segment, uint32_t worker, uint32_t first)
{
    for (uint32_t i = 0; i < slot_count(segment); i++)
        if (worker_of(segment, i) == worker && thread_of(segment, i) >= first)
            set_worker(segment, i, SEGMENT_NO_WORKER, 0);
}

/* A dead worker cannot reset its own gauges. */
static void zero_gauges(_Atomic uint64_t *metrics)
{
    for (int i = 0; i < METRIC_COUNT; i++)
        if (metric_table[i].kind == KIND_GAUGE)
            metric_set(metrics, (enum metric)i, 0);
}

static void clear_cache_table(const struct segment *segment, uint32_t worker)
{
    struct segment_cache_entry *table = segment_cache(segment, worker);

    for (uint32_t i = 0; i < segment->header->cache_entries; i++)
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
    uint64_t now = clock_monotonic_ns();

    for (uint32_t i = 0; i < slot_count(segment); i++)
        if (worker_of(segment, i) == worker) {
            zero_gauges(segment_thread(segment, i)->metrics);
            segment_activity_clear(&segment_thread(segment, i)->activity, now);
        }
    zero_gauges(block->metrics);
    for (uint32_t i = 0; i < SEGMENT_OFFLOAD_THREADS; i++)
        segment_activity_clear(&block->offload[i], now);
    atomic_store_explicit(&block->threads_actual, 0, memory_order_relaxed);
    atomic_store_explicit(&block->offload_actual, 0, memory_order_relaxed);
    clear_cache_table(segment, worker);
    clear_clients(segment, worker);
    capacity_release_slots(segment, worker, 0);
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

uint32_t capacity_listen_sockets(const struct config *config)
{
    return config->workers_dispatch == DISPATCH_MASTER
               ? 1
               : config->workers_processes * config->workers_threads;
}

/* Per thread: event loop, mailbox, and twice a listen socket of each address. */
static uint64_t descriptors_of_worker(const struct config *config, uint32_t threads)
{
    return FIXED_DESCRIPTORS + threads * (2 + 2 * config->server_listen.count);
}

uint64_t capacity_of_worker(const struct config *config, const struct rlimit *limit)
{
    uint64_t own = descriptors_of_worker(config, config->workers_threads) +
                   worker_context_cache_descriptors(limit);

    return own + CONNECTIONS_MIN < limit->rlim_cur ? limit->rlim_cur - own : CONNECTIONS_MIN;
}

static int check_descriptors(const struct config *config, uint32_t count, uint32_t threads,
                             char *why, size_t size)
{
    uint64_t addresses = config->server_listen.count;
    uint64_t of_worker = descriptors_of_worker(config, threads);
    uint64_t of_master = FIXED_DESCRIPTORS + 2 * (uint64_t)count + addresses * count * threads;
    uint64_t needed = of_worker > of_master ? of_worker : of_master;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= needed)
        return 0;
    snprintf(why, size,
             "%u workers with %u threads each need %" PRIu64
             " descriptors per process, but %" PRIu64 " are allowed (raise the limit: ulimit -n)",
             count, threads, needed, (uint64_t)limit.rlim_cur);
    return -1;
}

static int check_tables(const struct segment *segment, uint32_t count, uint32_t threads, char *why,
                        size_t size)
{
    uint32_t workers_max = segment_count(segment, SEGMENT_WORKERS);
    uint32_t threads_max = segment_count(segment, SEGMENT_THREADS);

    if (count > workers_max) {
        snprintf(why, size, "%u workers exceed workers.max_processes = %u", count, workers_max);
        return -1;
    }
    if ((uint64_t)count * threads > threads_max) {
        snprintf(why, size, "%u workers with %u threads each exceed workers.max_threads = %u",
                 count, threads, threads_max);
        return -1;
    }
    return 0;
}

/* Reserves memory until COUNT thread slots have it. Returns 0 or an errno. */
static int reserve_slots(struct segment *segment, uint32_t count)
{
    uint32_t reserved = 0;

    for (uint32_t i = 0; i < slot_count(segment); i++)
        reserved += segment_slot_reserved(segment_thread_slot(segment, i));
    for (uint32_t i = 0; i < slot_count(segment) && reserved < count; i++) {
        int failed;

        if (segment_slot_reserved(segment_thread_slot(segment, i)))
            continue;
        failed = segment_reserve_thread(segment, i);
        if (failed != 0)
            return failed;
        reserved++;
    }
    return 0;
}

static int reserve_memory(struct segment *segment, uint32_t count, uint32_t threads, char *why,
                          size_t size)
{
    int failed = 0;

    for (uint32_t i = 0; i < count && failed == 0; i++)
        failed = segment_reserve_worker(segment, i);
    if (failed == 0)
        failed = reserve_slots(segment, count * threads);
    if (failed == 0)
        return 0;
    snprintf(why, size, "no shared memory for %u threads: %s (enlarge /dev/shm or reduce log.ring)",
             count * threads, strerror(failed));
    return -1;
}

int capacity_prepare(struct server *server, uint32_t count, uint32_t threads, char *why,
                     size_t size)
{
    if (check_tables(&server->segment, count, threads, why, size) != 0 ||
        check_descriptors(server->config, count, threads, why, size) != 0 ||
        reserve_memory(&server->segment, count, threads, why, size) != 0)
        return -1;
    if (server->config->workers_dispatch == DISPATCH_KERNEL &&
        listeners_grow(server->listeners, count * threads) != 0) {
        snprintf(why, size, "cannot open listen sockets for %u threads: %s", count * threads,
                 strerror(errno));
        return -1;
    }
    return 0;
}
