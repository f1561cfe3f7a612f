/*
 * A log-linear histogram after HdrHistogram (Tene, https://hdrhistogram.org): every power of two is
 * cut into 64 equal buckets, so a value is kept to within 1/64 of itself from 0 to 2^38, in constant
 * memory. Values are nanoseconds throughout this project, so the range ends at about 275 seconds;
 * larger ones fall into the last bucket, and the largest is kept exactly.
 *
 *   value   0 1 2 … 127 | 128 130 132 … 254 | 256 260 … 508 | 512 520 …
 *   index   0 1 2 … 127 | 128 129 130 … 191 | 192 193 … 255 | 256 257 …
 *           exact         steps of 2          steps of 4      steps of 8
 *
 * One thread writes a histogram; its stores are relaxed atomics, so any thread or process may read
 * while it does. A reader sees each bucket whole, and the buckets within a few requests of each other.
 */
#ifndef COMMON_HISTOGRAM_H
#define COMMON_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

enum {
    HISTOGRAM_SUB_BITS = 6,
    HISTOGRAM_SUB_BUCKETS = 1 << HISTOGRAM_SUB_BITS,
    HISTOGRAM_LARGEST_BIT = 37,
    HISTOGRAM_BUCKETS =
        (HISTOGRAM_LARGEST_BIT - HISTOGRAM_SUB_BITS + 2) * HISTOGRAM_SUB_BUCKETS, /* 2112 */
    /* The coarse form of the history: four buckets for each power of two. */
    HISTOGRAM_COARSE_SHIFT = 4,
    HISTOGRAM_COARSE_BUCKETS = HISTOGRAM_BUCKETS >> HISTOGRAM_COARSE_SHIFT, /* 132 */
};

struct histogram {
    _Atomic uint64_t sum;       /* of all values; the mean is sum / count */
    _Atomic uint64_t max;       /* exact */
    _Atomic uint32_t used_from; /* buckets below used_from and at or above used_to are empty */
    _Atomic uint32_t used_to;
    _Atomic uint64_t bucket[HISTOGRAM_BUCKETS];
};

/* All bytes zero is an empty histogram; this makes any one so. Writer's thread. */
void histogram_reset(struct histogram *h);

/* Bucket of VALUE. */
static inline uint32_t histogram_index(uint64_t value)
{
    uint32_t largest_bit, shift;

    if (value < 2 * HISTOGRAM_SUB_BUCKETS)
        return (uint32_t)value;
    largest_bit = 63 - (uint32_t)__builtin_clzll(value);
    if (largest_bit > HISTOGRAM_LARGEST_BIT)
        return HISTOGRAM_BUCKETS - 1;
    shift = largest_bit - HISTOGRAM_SUB_BITS;
    return shift * HISTOGRAM_SUB_BUCKETS + (uint32_t)(value >> shift);
}

/* Least and greatest value of a bucket. */
uint64_t histogram_lowest(uint32_t index);
uint64_t histogram_highest(uint32_t index);

void histogram_widen(struct histogram *h, uint32_t index);

/* Counts one value. Writer's thread. */
static inline void histogram_record(struct histogram *h, uint64_t value)
{
    uint32_t index = histogram_index(value);
    uint64_t n = atomic_load_explicit(&h->bucket[index], memory_order_relaxed);
    uint64_t sum = atomic_load_explicit(&h->sum, memory_order_relaxed);

    atomic_store_explicit(&h->bucket[index], n + 1, memory_order_relaxed);
    atomic_store_explicit(&h->sum, sum + value, memory_order_relaxed);
    if (n == 0)
        histogram_widen(h, index);
    if (value > atomic_load_explicit(&h->max, memory_order_relaxed))
        atomic_store_explicit(&h->max, value, memory_order_relaxed);
}

/* Adds all of FROM to INTO. INTO's thread; FROM may be written meanwhile. */
void histogram_add(struct histogram *into, const struct histogram *from);

/*
 * Takes an earlier state of the same histogram away: what is left is what came since. The maximum
 * of an interval is not known exactly; it becomes the top of the highest bucket left, or INTO's own
 * where that is lower or the bucket is the last, which has no top.
 */
void histogram_subtract(struct histogram *into, const struct histogram *earlier);

uint64_t histogram_count(const struct histogram *h);
double histogram_mean(const struct histogram *h);
uint64_t histogram_max(const struct histogram *h);

/*
 * The value that PERCENT (0 to 100) of all values do not exceed: the top of its bucket, so never
 * too small and too large by 1/64 at the most. 0 when empty.
 */
uint64_t histogram_percentile(const struct histogram *h, double percent);

#endif
