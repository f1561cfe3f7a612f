/* The histogram compared with exact quantiles, and at the limits of its range. */
#include "common/histogram.h"
#include "common/macros.h"
#include "tests/test.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define RANGE_END (UINT64_C(1) << (HISTOGRAM_LARGEST_BIT + 1))

static struct histogram first, second, third;

static int empty_all(void **state)
{
    (void)state;
    memset(&first, 0, sizeof(first));
    memset(&second, 0, sizeof(second));
    memset(&third, 0, sizeof(third));
    return 0;
}

const struct test_fixture test_fixture = {empty_all, NULL};

/* A pseudo-random generator with the same values on every machine. */
static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static int ascending(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;

    return (left > right) - (left < right);
}

/* A single coarse bucket: every percentile is its largest value, or the maximum if that is less. */
TEST(coarse_percentile_is_the_end_of_its_bucket)
{
    for (uint32_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++) {
        uint64_t bucket[HISTOGRAM_COARSE_BUCKETS] = {0}, highest = 0;

        for (uint32_t fine = 0; fine < HISTOGRAM_BUCKETS; fine++)
            if (fine >> HISTOGRAM_COARSE_SHIFT == i)
                highest = histogram_highest(fine);
        bucket[i] = 3;
        assert_int_equal(histogram_coarse_percentile(bucket, 0, 50), highest);
        assert_int_equal(histogram_coarse_percentile(bucket, highest + 1, 99), highest);
        if (highest > 1)
            assert_int_equal(histogram_coarse_percentile(bucket, highest - 1, 100), highest - 1);
    }
}

TEST(value_is_within_its_bucket)
{
    uint64_t random = 88172645463325252;

    for (int i = 0; i < 1000000; i++) {
        uint64_t value = next_random(&random) >> (26 + random % 38);
        uint32_t index = histogram_index(value);

        assert_true(index < HISTOGRAM_BUCKETS);
        assert_true(histogram_lowest(index) <= value && value <= histogram_highest(index));
    }
}

TEST(buckets_are_contiguous)
{
    assert_int_equal(histogram_lowest(0), 0);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t lowest = histogram_lowest(i), highest = histogram_highest(i);

        assert_int_equal(histogram_index(lowest), i);
        assert_int_equal(histogram_index(highest), i);
        assert_true((highest - lowest) * HISTOGRAM_SUB_BUCKETS <= lowest);
        if (i + 1 < HISTOGRAM_BUCKETS)
            assert_int_equal(histogram_lowest(i + 1), highest + 1);
    }
    assert_int_equal(histogram_highest(HISTOGRAM_BUCKETS - 1), RANGE_END - 1);
}

TEST(index_of_known_values)
{
    static const struct {
        uint64_t value;
        uint32_t index;
    } cases[] = {
        {0, 0},
        {1, 1},
        {127, 127},
        {128, 128},
        {129, 128},
        {130, 129},
        {254, 191},
        {255, 191},
        {256, 192},
        {259, 192},
        {260, 193},
        {511, 255},
        {512, 256},
        {519, 256},
        {520, 257},
        {RANGE_END - 1, HISTOGRAM_BUCKETS - 1},
        {RANGE_END, HISTOGRAM_BUCKETS - 1},
        {UINT64_MAX, HISTOGRAM_BUCKETS - 1},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        assert_int_equal(histogram_index(cases[i].value), cases[i].index);
}

/* Four distributions: uniform, log-uniform, bimodal, constant. */
static uint64_t draw(int shape, uint64_t *random)
{
    uint64_t word = next_random(random);

    switch (shape) {
    case 0:
        return word % 50000000;
    case 1:
        return (word >> 28) >> (word % 34);
    case 2:
        return word % 100 < 97 ? 20000 + word % 1000 : 900000000 + word % 1000000;
    default:
        return 123456789;
    }
}

/* Exact percentile. */
static uint64_t exact_percentile(const uint64_t *sorted, size_t count, double percent)
{
    double rank = ceil((double)count * percent / 100 - 1e-6);

    return sorted[rank < 1 ? 0 : (size_t)rank - 1];
}

TEST(percentiles_match_exact_quantiles)
{
    static const double percents[] = {0,  0.01, 1,  10,   25,    50,     75,
                                      90, 95,   99, 99.9, 99.99, 99.999, 100};
    enum { SAMPLES = 200000 };
    static uint64_t values[SAMPLES];
    uint64_t random = 2463534242;

    for (int shape = 0; shape < 4; shape++) {
        empty_all(state);
        for (size_t i = 0; i < SAMPLES; i++) {
            values[i] = draw(shape, &random);
            histogram_record(&first, values[i]);
        }
        qsort(values, SAMPLES, sizeof(values[0]), ascending);
        for (size_t i = 0; i < ARRAY_LENGTH(percents); i++) {
            uint64_t exact = exact_percentile(values, SAMPLES, percents[i]);
            uint64_t found = histogram_percentile(&first, percents[i]);

            assert_true(found >= exact);
            assert_true(found - exact <= exact / HISTOGRAM_SUB_BUCKETS);
        }
        assert_int_equal(histogram_percentile(&first, 100), values[SAMPLES - 1]);
        assert_int_equal(histogram_count(&first), SAMPLES);
    }
}

TEST(percentiles_of_few_values)
{
    /* The rank is rounded up: the median of two values is the first. */
    static const struct {
        size_t count;
        uint64_t values[4];
        double percent;
        uint64_t expected;
    } cases[] = {
        {1, {7}, 0, 7},           {1, {7}, 50, 7},          {1, {7}, 100, 7},
        {2, {10, 20}, 50, 10},    {2, {10, 20}, 50.1, 20},  {2, {10, 20}, 0, 10},
        {3, {1, 2, 3}, 33, 1},    {3, {1, 2, 3}, 34, 2},    {3, {1, 2, 3}, 99, 3},
        {4, {0, 0, 0, 9}, 75, 0}, {4, {0, 0, 0, 9}, 76, 9}, {4, {5, 5, 5, 5}, 99, 5},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        empty_all(state);
        for (size_t v = 0; v < cases[i].count; v++)
            histogram_record(&first, cases[i].values[v]);
        assert_int_equal(histogram_percentile(&first, cases[i].percent), cases[i].expected);
    }
}

TEST(empty_histogram_is_zero)
{
    assert_int_equal(histogram_count(&first), 0);
    assert_int_equal(histogram_max(&first), 0);
    assert_true(histogram_mean(&first) == 0);
    assert_int_equal(histogram_percentile(&first, 0), 0);
    assert_int_equal(histogram_percentile(&first, 50), 0);
    assert_int_equal(histogram_percentile(&first, 100), 0);
    histogram_add(&first, &second);
    histogram_subtract(&first, &second);
    histogram_reset(&first);
    assert_int_equal(histogram_count(&first), 0);
}

TEST(mean_and_maximum_are_exact)
{
    histogram_record(&first, 1000003);
    histogram_record(&first, 1);
    histogram_record(&first, 2000003);
    assert_true(histogram_mean(&first) == 3000007.0 / 3);
    assert_int_equal(histogram_max(&first), 2000003);
}

TEST(large_values_are_in_last_bucket)
{
    histogram_record(&first, 5);
    histogram_record(&first, RANGE_END + 12345);
    histogram_record(&first, UINT64_C(1) << 50);
    assert_int_equal(histogram_count(&first), 3);
    assert_int_equal(histogram_max(&first), UINT64_C(1) << 50);
    assert_int_equal(histogram_percentile(&first, 100), UINT64_C(1) << 50);
    assert_int_equal(histogram_percentile(&first, 10), 5);
}

TEST(add_equals_recording_all)
{
    uint64_t random = 521288629;

    for (int i = 0; i < 5000; i++) {
        uint64_t value = draw(1, &random);

        histogram_record(i % 3 == 0 ? &first : &second, value);
        histogram_record(&third, value);
    }
    histogram_add(&first, &second);
    assert_memory_equal(&first, &third, sizeof(first));
}

TEST(subtract_leaves_later_values)
{
    histogram_record(&first, 1000);
    histogram_record(&first, 90000000);
    histogram_add(&second, &first); /* the earlier copy */
    histogram_record(&first, 2000);
    histogram_record(&first, 3000);
    histogram_subtract(&first, &second);
    assert_int_equal(histogram_count(&first), 2);
    assert_true(histogram_mean(&first) == 2500);
    /* The maximum becomes the upper bound of the highest bucket, not the old 90 ms. */
    assert_int_equal(histogram_max(&first), histogram_highest(histogram_index(3000)));
    assert_int_equal(histogram_percentile(&first, 50), histogram_highest(histogram_index(2000)));
}

TEST(subtract_keeps_lower_maximum)
{
    histogram_record(&first, 100);
    histogram_add(&second, &first);
    histogram_record(&first, 1000001);
    histogram_subtract(&first, &second);
    assert_int_equal(histogram_max(&first), 1000001);
}

TEST(subtract_all_is_empty)
{
    histogram_record(&first, 17);
    histogram_record(&first, RANGE_END * 2);
    histogram_add(&second, &first);
    histogram_subtract(&first, &second);
    assert_int_equal(histogram_count(&first), 0);
    assert_int_equal(histogram_max(&first), 0);
    assert_true(histogram_mean(&first) == 0);
    assert_int_equal(histogram_percentile(&first, 99), 0);
}

TEST(subtract_in_last_bucket_keeps_maximum)
{
    histogram_record(&first, 17);
    histogram_add(&second, &first);
    histogram_record(&first, RANGE_END * 2);
    histogram_subtract(&first, &second);
    assert_int_equal(histogram_percentile(&first, 50), RANGE_END * 2);
}

TEST(reset_empties)
{
    histogram_record(&first, 3);
    histogram_record(&first, 1 << 30);
    histogram_record(&first, UINT64_MAX);
    histogram_reset(&first);
    assert_memory_equal(&first, &second, sizeof(first));
    histogram_record(&first, 40);
    assert_int_equal(histogram_percentile(&first, 50), 40);
}

TEST(invalid_bounds_are_not_trusted)
{
    histogram_record(&first, 40);
    atomic_store(&first.used_to, UINT32_MAX);
    histogram_add(&second, &first);
    assert_int_equal(histogram_count(&first), 1);
    assert_int_equal(histogram_count(&second), 1);
    atomic_store(&first.used_from, UINT32_MAX);
    assert_int_equal(histogram_count(&first), 0);
}

enum { RECORDED = 200000 };

static void *record_many(void *unused)
{
    for (uint64_t i = 0; i < RECORDED; i++)
        histogram_record(&first, i * 97);
    return unused;
}

/* While one thread writes, the count of a reader only grows and no bucket is too high. */
TEST(concurrent_reads_are_consistent)
{
    pthread_t writer;
    uint64_t before = 0;

    assert_int_equal(pthread_create(&writer, NULL, record_many, NULL), 0);
    while (before < RECORDED) {
        uint64_t count = histogram_count(&first);

        assert_true(count >= before && count <= RECORDED);
        assert_true(histogram_percentile(&first, 99) <= UINT64_C(97) * RECORDED);
        before = count;
    }
    pthread_join(writer, NULL);
    assert_int_equal(histogram_max(&first), 97 * (RECORDED - 1));
}
