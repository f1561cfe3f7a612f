#include "daemon/master/statistics.h"

#include "daemon/base/latency_window.h"

#include <stdlib.h>
#include <string.h>

struct history {
    struct segment *segment;
    struct latency_window latency;
};

struct history *history_new(struct segment *segment)
{
    struct history *history = calloc(1, sizeof(*history));

    if (history != NULL)
        history->segment = segment;
    return history;
}

void history_free(struct history *history)
{
    free(history);
}

static void store_latency(const struct history *history, struct segment_sample *sample)
{
    uint32_t coarse[HISTOGRAM_COARSE_BUCKETS] = {0};

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        coarse[i >> HISTOGRAM_COARSE_SHIFT] += (uint32_t)history->latency.since.bucket[i];
    for (uint32_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        atomic_store_explicit(&sample->latency[i], coarse[i], memory_order_release);
    atomic_store_explicit(&sample->latency_max_ns, histogram_max(&history->latency.since),
                          memory_order_release);
}

static void store_letters(const struct segment *segment, struct segment_sample *sample)
{
    _Atomic char *letters = (_Atomic char *)&sample->values[METRIC_COUNT];

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++) {
        char letter = thread_state_table[THREAD_STATE_NONE].letter;

        if (segment_slot_reserved(segment_thread_slot(segment, i))) {
            uint32_t state = atomic_load_explicit(&segment_thread(segment, i)->activity.state,
                                                  memory_order_relaxed);

            letter = thread_state_table[state < THREAD_STATE_COUNT ? state : 0].letter;
        }
        atomic_store_explicit(&letters[i], letter, memory_order_release);
    }
}

void history_sample(struct history *history, uint64_t now_ns)
{
    struct segment *segment = history->segment;
    struct segment_master *master = segment_master(segment);
    uint64_t number = atomic_load_explicit(&master->history_next, memory_order_relaxed);
    struct segment_sample *sample = segment_sample(segment, number);

    latency_window_move(&history->latency, segment);
    atomic_store_explicit(&sample->number, 0, memory_order_relaxed);
    atomic_store_explicit(&sample->time_ns, now_ns, memory_order_release);
    store_latency(history, sample);
    for (int i = 0; i < METRIC_COUNT; i++)
        atomic_store_explicit(&sample->values[i], segment_sum(segment, (enum metric)i),
                              memory_order_release);
    store_letters(segment, sample);
    atomic_store_explicit(&sample->number, number + 1, memory_order_release);
    atomic_store_explicit(&master->history_next, number + 1, memory_order_release);
}
