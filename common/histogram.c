#include "common/histogram.h"

#include <assert.h>
#include <string.h>

static_assert(HISTOGRAM_BUCKETS == 2112, "part of the segment layout: raise SEGMENT_MAJOR");

static uint64_t load_relaxed_word(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static void store_relaxed_word(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

static uint32_t used_from(const struct histogram *h)
{
    return atomic_load_explicit(&h->used_from, memory_order_relaxed);
}

/* The number comes from the shared memory of another process: limit it to the array. */
static uint32_t used_to(const struct histogram *h)
{
    uint32_t to = atomic_load_explicit(&h->used_to, memory_order_relaxed);

    return to < HISTOGRAM_BUCKETS ? to : HISTOGRAM_BUCKETS;
}

void histogram_reset(struct histogram *h)
{
    for (uint32_t i = used_from(h); i < used_to(h); i++)
        store_relaxed_word(&h->bucket[i], 0);
    store_relaxed_word(&h->sum, 0);
    store_relaxed_word(&h->max, 0);
    atomic_store_explicit(&h->used_from, 0, memory_order_relaxed);
    atomic_store_explicit(&h->used_to, 0, memory_order_relaxed);
}

uint64_t histogram_lowest(uint32_t index)
{
    uint32_t shift;

    if (index < 2 * HISTOGRAM_SUB_BUCKETS)
        return index;
    shift = index / HISTOGRAM_SUB_BUCKETS - 1;
    return (uint64_t)(index - shift * HISTOGRAM_SUB_BUCKETS) << shift;
}

uint64_t histogram_highest(uint32_t index)
{
    return histogram_lowest(index + 1) - 1;
}

void histogram_widen(struct histogram *h, uint32_t index)
{
    uint32_t from = used_from(h), to = used_to(h);

    if (to == 0 || index < from)
        atomic_store_explicit(&h->used_from, index, memory_order_relaxed);
    if (index >= to)
        atomic_store_explicit(&h->used_to, index + 1, memory_order_relaxed);
}

void histogram_restore_bucket(struct histogram *h, uint32_t index, uint64_t count)
{
    store_relaxed_word(&h->bucket[index], load_relaxed_word(&h->bucket[index]) + count);
    histogram_widen(h, index);
}

void histogram_restore_sum(struct histogram *h, uint64_t sum, uint64_t max)
{
    store_relaxed_word(&h->sum, load_relaxed_word(&h->sum) + sum);
    if (max > load_relaxed_word(&h->max))
        store_relaxed_word(&h->max, max);
}

void histogram_add(struct histogram *into, const struct histogram *from)
{
    for (uint32_t i = used_from(from); i < used_to(from); i++) {
        uint64_t n = load_relaxed_word(&from->bucket[i]);

        if (n > 0)
            histogram_restore_bucket(into, i, n);
    }
    histogram_restore_sum(into, load_relaxed_word(&from->sum), load_relaxed_word(&from->max));
}

void histogram_subtract(struct histogram *into, const struct histogram *earlier)
{
    uint32_t top = 0;

    for (uint32_t i = used_from(into); i < used_to(into); i++) {
        uint64_t now = load_relaxed_word(&into->bucket[i]),
                 then = load_relaxed_word(&earlier->bucket[i]);

        store_relaxed_word(&into->bucket[i], now > then ? now - then : 0);
        if (now > then)
            top = i;
    }
    uint64_t sum_now = load_relaxed_word(&into->sum), sum_then = load_relaxed_word(&earlier->sum);
    store_relaxed_word(&into->sum, sum_now > sum_then ? sum_now - sum_then : 0);
    if (top < HISTOGRAM_BUCKETS - 1 && histogram_highest(top) < load_relaxed_word(&into->max))
        store_relaxed_word(&into->max, histogram_count(into) > 0 ? histogram_highest(top) : 0);
}

void histogram_window_move(struct histogram_window *window, const struct histogram *now)
{
    histogram_reset(&window->since);
    histogram_add(&window->since, now);
    histogram_subtract(&window->since, &window->before);
    histogram_reset(&window->before);
    histogram_add(&window->before, now);
}

uint64_t histogram_count(const struct histogram *h)
{
    uint64_t count = 0;

    for (uint32_t i = used_from(h); i < used_to(h); i++)
        count += load_relaxed_word(&h->bucket[i]);
    return count;
}

double histogram_mean(const struct histogram *h)
{
    uint64_t count = histogram_count(h);

    return count > 0 ? (double)load_relaxed_word(&h->sum) / (double)count : 0;
}

uint64_t histogram_max(const struct histogram *h)
{
    return load_relaxed_word(&h->max);
}

/* Number of COUNT values at or below the percentile, rounded up, at least 1. */
static uint64_t rank_at_percent(uint64_t count, double percent)
{
    double exact = (double)count * percent / 100;
    uint64_t rank = (uint64_t)exact;

    if ((double)rank < exact - 1e-9 * exact)
        rank++;
    return rank < 1 ? 1 : rank > count ? count : rank;
}

uint64_t histogram_percentile(const struct histogram *h, double percent)
{
    uint64_t count = histogram_count(h), seen = 0, rank = rank_at_percent(count, percent);

    if (count == 0)
        return 0;
    for (uint32_t i = used_from(h); i < used_to(h); i++) {
        seen += load_relaxed_word(&h->bucket[i]);
        if (seen >= rank)
            return histogram_highest(i) < load_relaxed_word(&h->max) && i < HISTOGRAM_BUCKETS - 1
                       ? histogram_highest(i)
                       : load_relaxed_word(&h->max);
    }
    return load_relaxed_word(&h->max);
}

uint64_t histogram_coarse_percentile(const uint64_t bucket[HISTOGRAM_COARSE_BUCKETS], uint64_t max,
                                     double percent)
{
    uint64_t count = 0, seen = 0, rank;

    for (uint32_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        count += bucket[i];
    if (count == 0)
        return 0;
    rank = rank_at_percent(count, percent);
    for (uint32_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++) {
        seen += bucket[i];
        if (seen >= rank) {
            uint64_t top = histogram_highest(((i + 1) << HISTOGRAM_COARSE_SHIFT) - 1);

            return max != 0 && top > max ? max : top;
        }
    }
    return max;
}
