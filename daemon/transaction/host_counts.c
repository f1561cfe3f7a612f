#include "daemon/transaction/host_counts.h"

static void store(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static void add(_Atomic uint64_t *word, uint64_t more)
{
    store(word, atomic_load_explicit(word, memory_order_relaxed) + more);
}

static void reset(struct segment_host_counts *counts, uint64_t id)
{
    store(&counts->id, 0);
    store(&counts->latency_max_ns, 0);
    for (int i = 0; i < HOST_METRIC_COUNT; i++)
        store(&counts->values[i], 0);
    for (int i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        store(&counts->latency[i], 0);
    atomic_store_explicit(&counts->id, id, memory_order_release);
}

void host_counts_claim(struct segment_host_counts *counts, const struct host_place *place,
                       size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct segment_host_counts *own = &counts[place[i].entry];

        if (atomic_load_explicit(&own->id, memory_order_relaxed) != place[i].id)
            reset(own, place[i].id);
    }
}

void host_counts_add(struct segment_host_counts *counts, int status, uint64_t body_bytes,
                     uint64_t duration_ns)
{
    add(&counts->values[HOST_METRIC_responses_2xx + status / 100 - 2], 1);
    add(&counts->values[HOST_METRIC_body_bytes], body_bytes);
    add(&counts->values[HOST_METRIC_response_time], duration_ns);
    add(&counts->latency[histogram_index(duration_ns) >> HISTOGRAM_COARSE_SHIFT], 1);
    if (duration_ns > atomic_load_explicit(&counts->latency_max_ns, memory_order_relaxed))
        store(&counts->latency_max_ns, duration_ns);
}
