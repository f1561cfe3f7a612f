#include "console/data/outcomes.h"

#include "common/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define BASE_EVERY_NS (5 * NS_PER_S) /* period of a new base for the recent latency */
#define LONG_PAUSE_NS (3 * NS_PER_S) /* longer: the second of a value is unknown */

struct second {
    uint64_t number; /* wall clock, s; 0: never used */
    bool split;      /* by outcome; else all in OUTCOME_ALL */
    uint32_t bucket[OUTCOME_COUNT + 1][HISTOGRAM_COARSE_BUCKETS];
};

struct outcomes {
    struct second second[OUTCOMES_SECONDS];
    bool begun;
    uint64_t last_ns, older_ns, newer_ns; /* wall clock */
    struct histogram last[OUTCOME_COUNT];
    struct histogram older[OUTCOME_COUNT], newer[OUTCOME_COUNT]; /* bases of `recent` */
    struct histogram recent[OUTCOME_COUNT + 1];
};

struct outcomes *outcomes_create(void)
{
    return calloc(1, sizeof(struct outcomes));
}

void outcomes_destroy(struct outcomes *outcomes)
{
    free(outcomes);
}

static void reset_recent(struct outcomes *outcomes)
{
    for (int i = 0; i <= OUTCOME_COUNT; i++)
        histogram_reset(&outcomes->recent[i]);
}

void outcomes_break(struct outcomes *outcomes)
{
    outcomes->begun = false;
    reset_recent(outcomes);
}

static struct second *second_at(struct outcomes *outcomes, uint64_t number)
{
    struct second *second = &outcomes->second[number % OUTCOMES_SECONDS];

    if (second->number != number) {
        memset(second, 0, sizeof(*second));
        second->number = number;
    }
    return second;
}

void outcomes_push_sample(struct outcomes *outcomes, const struct sample_copy *sample)
{
    struct second *second = second_at(outcomes, sample->time_ns / NS_PER_S);

    if (!second->split)
        memcpy(second->bucket[OUTCOME_ALL], sample->latency, sizeof(sample->latency));
}

static uint64_t bucket_of(const struct histogram *histogram, uint32_t i)
{
    return atomic_load_explicit(&histogram->bucket[i], memory_order_relaxed);
}

/* Adds the increase from THEN to NOW to the coarse buckets INTO. */
static void add_growth(uint32_t *into, const struct histogram *now, const struct histogram *then)
{
    uint32_t from = atomic_load_explicit(&now->used_from, memory_order_relaxed);
    uint32_t to = atomic_load_explicit(&now->used_to, memory_order_relaxed);

    for (uint32_t i = from; i < to && i < HISTOGRAM_BUCKETS; i++) {
        uint64_t growth = bucket_of(now, i) - bucket_of(then, i);

        if (growth > 0 && growth <= UINT32_MAX)
            into[i >> HISTOGRAM_COARSE_SHIFT] += (uint32_t)growth;
    }
}

static void copy(struct histogram *into, const struct histogram *from)
{
    memcpy((void *)into, (const void *)from, OUTCOME_COUNT * sizeof(*into));
}

static void begin(struct outcomes *outcomes, uint64_t wall_ns, const struct histogram *latency)
{
    outcomes->begun = true;
    outcomes->last_ns = outcomes->older_ns = outcomes->newer_ns = wall_ns;
    copy(outcomes->last, latency);
    copy(outcomes->older, latency);
    copy(outcomes->newer, latency);
    reset_recent(outcomes);
}

static void update_recent(struct outcomes *outcomes, const struct histogram *latency)
{
    reset_recent(outcomes);
    for (int i = 0; i < OUTCOME_COUNT; i++) {
        histogram_add(&outcomes->recent[i], &latency[i]);
        histogram_subtract(&outcomes->recent[i], &outcomes->older[i]);
        histogram_add(&outcomes->recent[OUTCOME_ALL], &outcomes->recent[i]);
    }
}

void outcomes_push(struct outcomes *outcomes, uint64_t wall_ns, const struct histogram *latency)
{
    struct second *second;

    if (!outcomes->begun || wall_ns < outcomes->last_ns ||
        wall_ns - outcomes->last_ns > LONG_PAUSE_NS) {
        begin(outcomes, wall_ns, latency);
        return;
    }
    second = second_at(outcomes, wall_ns / NS_PER_S);
    second->split = true;
    memset(second->bucket[OUTCOME_ALL], 0, sizeof(second->bucket[OUTCOME_ALL]));
    for (int i = 0; i < OUTCOME_COUNT; i++)
        add_growth(second->bucket[i], &latency[i], &outcomes->last[i]);
    update_recent(outcomes, latency);
    copy(outcomes->last, latency);
    outcomes->last_ns = wall_ns;
    if (wall_ns - outcomes->newer_ns < BASE_EVERY_NS)
        return;
    copy(outcomes->older, outcomes->newer);
    copy(outcomes->newer, latency);
    outcomes->older_ns = outcomes->newer_ns;
    outcomes->newer_ns = wall_ns;
}

bool outcomes_second(const struct outcomes *outcomes, uint64_t number, int outcome,
                     uint64_t *buckets)
{
    const struct second *second = &outcomes->second[number % OUTCOMES_SECONDS];

    if (second->number != number || (!second->split && outcome != OUTCOME_ALL))
        return false;
    for (int i = 0; i <= OUTCOME_COUNT; i++)
        for (int j = 0; (i == outcome || outcome == OUTCOME_ALL) && j < HISTOGRAM_COARSE_BUCKETS;
             j++)
            buckets[j] += second->bucket[i][j];
    return true;
}

const struct histogram *outcomes_recent(const struct outcomes *outcomes, int outcome)
{
    return &outcomes->recent[outcome];
}

uint64_t outcomes_recent_ns(const struct outcomes *outcomes)
{
    return outcomes->last_ns - outcomes->older_ns;
}

double outcomes_percentile(const uint64_t *buckets, double percent)
{
    uint64_t count = 0, seen = 0;

    for (int i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        count += buckets[i];
    for (uint32_t i = 0; i < HISTOGRAM_COARSE_BUCKETS && count > 0; i++) {
        seen += buckets[i];
        if ((double)seen >= (double)count * percent / 100)
            return (double)histogram_highest(((i + 1) << HISTOGRAM_COARSE_SHIFT) - 1);
    }
    return NAN;
}
