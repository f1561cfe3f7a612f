#include "daemon/master/slots.h"

#include "common/clock.h"
#include "common/segment_writer.h"

#include <errno.h>

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

/* Returns a free thread slot with reserved memory, or SEGMENT_NO_WORKER and an errno in *FAILED. */
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

uint32_t slots_assign(struct segment *segment, uint32_t worker, uint32_t has, uint32_t wanted,
                      uint32_t *slots, int *failed)
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

void slots_release(struct segment *segment, uint32_t worker, uint32_t first)
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

void slots_clear(struct segment *segment, uint32_t worker)
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
    slots_release(segment, worker, 0);
}

int slots_reserve(struct segment *segment, uint32_t count)
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
