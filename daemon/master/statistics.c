#include "daemon/master/statistics.h"

#include <stdlib.h>

struct statistics {
    struct segment *segment;
    struct histogram_window latency; /* of all responses, since the last sample */
    struct histogram now;
};

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

static void move_latency(struct statistics *statistics)
{
    histogram_reset(&statistics->now);
    segment_add_all_latency(statistics->segment, &statistics->now);
    histogram_window_move(&statistics->latency, &statistics->now);
}

void statistics_store_sample(struct statistics *statistics, uint64_t now_ns)
{
    struct segment *segment = statistics->segment;
    struct segment_master *master = segment_master(segment);
    uint64_t number = atomic_load_explicit(&master->history_next, memory_order_relaxed);
    struct segment_sample *sample = segment_sample(segment, number);
    uint64_t sums[METRIC_COUNT];

    segment_sum_all(segment, sums);
    move_latency(statistics);
    atomic_store_explicit(&sample->number, 0, memory_order_relaxed);
    atomic_store_explicit(&sample->time_ns, now_ns, memory_order_release);
    store_latency(&statistics->latency.since, sample);
    for (int i = 0; i < METRIC_COUNT; i++)
        atomic_store_explicit(&sample->values[i], sums[i], memory_order_release);
    store_states(segment, sample);
    atomic_store_explicit(&sample->number, number + 1, memory_order_release);
    atomic_store_explicit(&master->history_next, number + 1, memory_order_release);
}

struct statistics *statistics_new(struct segment *segment)
{
    struct statistics *statistics = calloc(1, sizeof(*statistics));

    if (statistics != NULL)
        statistics->segment = segment;
    return statistics;
}

void statistics_free(struct statistics *statistics)
{
    free(statistics);
}
