#include "common/host_totals.h"

#include <stdlib.h>
#include <string.h>

static uint64_t load(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void add_counts(struct host_totals *totals, const struct segment_host_counts *counts)
{
    uint64_t max = load(&counts->latency_max_ns);

    if (atomic_load_explicit(&counts->id, memory_order_acquire) != totals->id)
        return;
    for (int i = 0; i < HOST_METRIC_COUNT; i++)
        totals->values[i] += load(&counts->values[i]);
    for (int i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        totals->latency[i] += load(&counts->latency[i]);
    if (max > totals->latency_max_ns)
        totals->latency_max_ns = max;
}

uint64_t host_name_read(const struct segment *segment, uint32_t entry, char *name)
{
    const struct segment_host *host;
    uint64_t id;

    if (entry >= segment_count(segment, SEGMENT_HOSTS))
        return 0;
    host = segment_host(segment, entry);
    id = atomic_load_explicit(&host->id, memory_order_acquire);
    if (id == 0)
        return 0;
    segment_load_text(host->name, SEGMENT_HOST_NAME_WORDS, name);
    /* otherwise a reload has given the entry to another host meanwhile */
    return atomic_load_explicit(&host->id, memory_order_relaxed) == id ? id : 0;
}

bool host_totals_read(const struct segment *segment, uint32_t entry, struct host_totals *totals)
{
    *totals = (struct host_totals){.entry = entry};
    totals->id = host_name_read(segment, entry, totals->name);
    if (totals->id == 0)
        return false;
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_HOST_COUNTS); i++)
        if (segment_thread_reserved(segment, i))
            add_counts(totals, &segment_host_counts_of(segment, i)[entry]);
    return true;
}

static size_t count_hosts(const struct segment *segment)
{
    size_t count = 0;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_HOSTS); i++)
        count += load(&segment_host(segment, i)->id) != 0;
    return count;
}

struct host_totals *host_totals_read_all(const struct segment *segment, size_t *count)
{
    size_t room = count_hosts(segment);
    struct host_totals *all = room > 0 ? malloc(room * sizeof(*all)) : NULL;

    *count = 0;
    for (uint32_t i = 0; all != NULL && i < segment_count(segment, SEGMENT_HOSTS) && *count < room;
         i++)
        *count += host_totals_read(segment, i, &all[*count]);
    return all;
}

uint64_t host_totals_requests(const struct host_totals *totals)
{
    return totals->values[HOST_METRIC_responses_2xx] + totals->values[HOST_METRIC_responses_3xx] +
           totals->values[HOST_METRIC_responses_4xx] + totals->values[HOST_METRIC_responses_5xx];
}

uint64_t host_totals_percentile(const struct host_totals *totals, double percent)
{
    return histogram_coarse_percentile(totals->latency, totals->latency_max_ns, percent);
}
