/*
 * The counters that a worker or the logger leaves. They may be false, and its successors continue
 * them. So the master keeps the counters as of its start, and a counter that has grown more than
 * its process can have counted in its time gets its old value back.
 */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/units.h"
#include "daemon/base/events.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* No thread counts faster; of all that wait at once, each has a descriptor. */
static const double counts_per_s = 10e6, bytes_per_s = 25e9;

/* A row for the block of the worker, then one for each of its threads; after all, one for the logger. */
static uint32_t rows_per_worker(const struct segment *segment)
{
    return 1 + segment_threads_per_worker(segment);
}

static _Atomic uint64_t *metrics_of_row(const struct segment *segment, uint32_t slot, uint32_t row)
{
    uint32_t thread = slot * segment_threads_per_worker(segment) + row - 1;

    if (row == 0)
        return segment_worker_reserved(segment, slot) ? segment_worker(segment, slot)->metrics
                                                      : NULL;
    return segment_thread_reserved(segment, thread) ? segment_thread(segment, thread)->metrics
                                                    : NULL;
}

static uint64_t *remembered(const struct workers *workers, const struct segment *segment,
                            uint32_t slot, uint32_t row)
{
    return workers->totals + ((size_t)slot * rows_per_worker(segment) + row) * (size_t)METRIC_COUNT;
}

int totals_init(struct master *master)
{
    size_t rows = (size_t)segment_count(&master->segment, SEGMENT_WORKERS) *
                      rows_per_worker(&master->segment) +
                  1;

    master->workers.totals = calloc(rows * METRIC_COUNT, sizeof(uint64_t));
    return master->workers.totals != NULL ? 0 : -1;
}

static void remember_row(const _Atomic uint64_t *metrics, uint64_t *before)
{
    for (int i = 0; i < METRIC_COUNT; i++)
        before[i] = metrics != NULL ? metric_get(metrics, (enum metric)i) : 0;
}

void totals_remember(const struct worker_process *worker)
{
    const struct segment *segment = &worker->master->segment;

    for (uint32_t row = 0; row < rows_per_worker(segment); row++)
        remember_row(metrics_of_row(segment, worker->slot, row),
                     remembered(&worker->master->workers, segment, worker->slot, row));
}

static uint64_t *remembered_of_logger(const struct master *master)
{
    return remembered(&master->workers, &master->segment,
                      segment_count(&master->segment, SEGMENT_WORKERS), 0);
}

void totals_remember_logger(const struct master *master)
{
    if (master->workers.totals != NULL)
        remember_row(segment_logger(&master->segment)->metrics, remembered_of_logger(master));
}

static double most_in(enum metric_unit unit, double seconds, double descriptors)
{
    return unit == UNIT_COUNT   ? counts_per_s * seconds
           : unit == UNIT_BYTES ? bytes_per_s * seconds
                                : (double)NS_PER_S * seconds * descriptors;
}

/* Returns how many counters were impossible. */
static uint32_t limit_row(_Atomic uint64_t *metrics, const uint64_t *before, double seconds,
                          double descriptors)
{
    uint32_t impossible = 0;

    for (int i = 0; i < METRIC_COUNT; i++) {
        const struct metric_info *info = &metric_table[i];
        uint64_t added = metric_get(metrics, (enum metric)i) - before[i];

        if (info->kind != KIND_COUNTER ||
            (double)added <= most_in(info->unit, seconds, descriptors))
            continue;
        metric_set(metrics, (enum metric)i, before[i]);
        impossible++;
    }
    return impossible;
}

/* It has at most MOST values, and none is longer than the server runs. */
static bool is_possible(const struct histogram *times, uint64_t most, uint64_t up_ns)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t more = atomic_load_explicit(&times->bucket[i], memory_order_relaxed);

        if (more > most - count)
            return false;
        count += more;
    }
    return histogram_max(times) <= up_ns &&
           (double)atomic_load_explicit(&times->sum, memory_order_relaxed) <=
               (double)count * (double)up_ns;
}

static uint32_t limit_queue_waits(const struct segment *segment, uint32_t slot, uint64_t up_ns)
{
    uint64_t taken = metric_get(segment_worker(segment, slot)->metrics, METRIC_queue_taken);
    struct histogram *waits = segment_queue_waits_of(segment, slot);

    if (is_possible(waits, taken, up_ns))
        return 0;
    memset(waits, 0, sizeof(*waits));
    return 1;
}

/* Each request is in one of the histograms of its thread. */

static uint32_t limit_latency(const struct segment *segment, uint32_t thread, uint64_t up_ns)
{
    struct histogram *latency = segment_latency_of(segment, thread);
    uint64_t requests = metric_get(segment_thread(segment, thread)->metrics, METRIC_requests);
    uint32_t impossible = 0;

    for (int i = 0; i < OUTCOME_COUNT; i++)
        if (!is_possible(&latency[i], requests, up_ns)) {
            memset(&latency[i], 0, sizeof(latency[i]));
            impossible++;
        }
    return impossible;
}

/* The counts of a host are a part of its thread's. An entry with id 0 does not count. */
static uint32_t limit_hosts(const struct segment *segment, uint32_t thread)
{
    const _Atomic uint64_t *metrics = segment_thread(segment, thread)->metrics;
    uint64_t most = 0;
    uint32_t impossible = 0;

    for (int i = 0; i < METRIC_COUNT; i++)
        if (metric_table[i].scope == SCOPE_THREAD && metric_get(metrics, (enum metric)i) > most)
            most = metric_get(metrics, (enum metric)i);
    for (uint32_t host = 0; host < segment->hosts_reserved; host++) {
        struct segment_host_counts *counts = &segment_host_counts_of(segment, thread)[host];
        bool possible = atomic_load(&counts->latency_max_ns) <= most;

        for (int i = 0; i < HOST_METRIC_COUNT; i++)
            possible &= atomic_load(&counts->values[i]) <= most;
        for (int i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
            possible &= atomic_load(&counts->latency[i]) <= most;
        if (possible)
            continue;
        atomic_store(&counts->id, 0);
        impossible++;
    }
    return impossible;
}

void totals_limit(const struct worker_process *worker, uint64_t now_ns)
{
    const struct segment *segment = &worker->master->segment;
    uint32_t first = worker->slot * segment_threads_per_worker(segment), impossible = 0;
    double seconds = 1 + (double)(now_ns - worker->started_ns) / (double)NS_PER_S;
    struct rlimit limit = {.rlim_cur = 1024};

    getrlimit(RLIMIT_NOFILE, &limit);
    for (uint32_t row = 0; row < rows_per_worker(segment); row++) {
        _Atomic uint64_t *metrics = metrics_of_row(segment, worker->slot, row);

        if (metrics == NULL)
            continue;
        impossible +=
            limit_row(metrics, remembered(&worker->master->workers, segment, worker->slot, row),
                      seconds, (double)limit.rlim_cur);
        if (row == 0) {
            impossible += limit_queue_waits(segment, worker->slot, now_ns);
            continue;
        }
        impossible += limit_latency(segment, first + row - 1, now_ns);
        impossible += limit_hosts(segment, first + row - 1);
    }
    if (impossible > 0)
        event_log(LEVEL_WARN, "worker %u left %u impossible %s, which the totals do not contain",
                  worker->slot, impossible, units_plural(impossible, "count", "counts"));
}

void totals_limit_logger(const struct master *master, uint64_t now_ns)
{
    double seconds =
        1 + (double)(now_ns - master->auxiliary.logger.child.started_ns) / (double)NS_PER_S;
    uint32_t impossible = master->workers.totals == NULL
                              ? 0
                              : limit_row(segment_logger(&master->segment)->metrics,
                                          remembered_of_logger(master), seconds, 1);

    if (impossible > 0)
        event_log(LEVEL_WARN, "the logger left %u impossible %s, which the totals do not contain",
                  impossible, units_plural(impossible, "count", "counts"));
}
