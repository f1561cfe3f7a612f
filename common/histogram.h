/*
 * A log-linear histogram after HdrHistogram (Tene, https://hdrhistogram.org): each power of two
 * has 64 equal buckets, so the error of a value from 0 to 2^38 is at most 1/64 of it, in constant
 * memory. All values here are nanoseconds, so the range is about 275 seconds; the last bucket takes
 * larger values. The maximum is exact.
 *
 *   value   0 1 2 … 127 | 128 130 132 … 254 | 256 260 … 508 | 512 520 …
 *   index   0 1 2 … 127 | 128 129 130 … 191 | 192 193 … 255 | 256 257 …
 *           exact         steps of 2          steps of 4      steps of 8
 *
 * One thread writes a histogram with relaxed atomic stores; any thread or process may read it
 * meanwhile. Such a read is consistent per bucket, not across buckets.
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
    /* Coarse buckets of the history: four per power of two. */
    HISTOGRAM_COARSE_SHIFT = 4,
    HISTOGRAM_COARSE_BUCKETS = HISTOGRAM_BUCKETS >> HISTOGRAM_COARSE_SHIFT, /* 132 */
};

struct histogram {
    _Atomic uint64_t sum;       /* the mean is this by the number of values */
    _Atomic uint64_t max;       /* exact */
    _Atomic uint32_t used_from; /* buckets below used_from and at or above used_to are empty */
    _Atomic uint32_t used_to;
    _Atomic uint64_t bucket[HISTOGRAM_BUCKETS];
};

/* Makes H empty. All bytes zero is an empty histogram, too. Writer thread. */
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

/* Smallest and largest value of a bucket. */
uint64_t histogram_lowest(uint32_t index);
uint64_t histogram_highest(uint32_t index);

/* Extends the used range to INDEX; for histogram_record() only. */
void histogram_widen(struct histogram *h, uint32_t index);

/* Adds one value. Writer thread. */
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

/*
 * Adds COUNT values to bucket INDEX, and SUM and MAX of values that were counted so: restores a
 * histogram from a file. Writer thread.
 */
void histogram_restore_bucket(struct histogram *h, uint32_t index, uint64_t count);
void histogram_restore_sum(struct histogram *h, uint64_t sum, uint64_t max);

/* Adds FROM to INTO. Writer thread of INTO; FROM may be written meanwhile. */
void histogram_add(struct histogram *into, const struct histogram *from);

/*
 * Subtracts an earlier copy of the same histogram: INTO then contains the values added since. Their
 * exact maximum is unknown. INTO->max becomes the upper bound of the highest bucket left, but stays
 * if it is lower, or if that is the last bucket, which has no upper bound.
 */
void histogram_subtract(struct histogram *into, const struct histogram *earlier);

/* The values that were added to a growing histogram between two readings of it. */
struct histogram_window {
    struct histogram since;  /* the values between the last two readings */
    struct histogram before; /* all values up to the last reading */
};

/* The next reading: NOW is the growing histogram. Writer thread of WINDOW. */
void histogram_window_move(struct histogram_window *window, const struct histogram *now);

uint64_t histogram_count(const struct histogram *h);
double histogram_mean(const struct histogram *h);
uint64_t histogram_max(const struct histogram *h);

/*
 * Value at percentile PERCENT (0 to 100): the upper bound of its bucket, so never too low and at
 * most 1/64 too high. 0 if the histogram is empty.
 */
uint64_t histogram_percentile(const struct histogram *h, double percent);

/*
 * The same for coarse buckets: at most 25 % too high. MAX: upper bound of the result; 0: unknown.
 */
uint64_t histogram_coarse_percentile(const uint64_t bucket[HISTOGRAM_COARSE_BUCKETS], uint64_t max,
                                     double percent);

#endif
