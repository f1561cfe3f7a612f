/* The status of a server as JSON, read from a segment of this process. */
#include "common/server_status.h"

#include "common/clock.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

enum { RATE = 300 };

static struct segment segment;

static int make_segment(void **state)
{
    (void)state;
    return own_segment_create(&segment, (struct segment_plan){.max_workers = 2});
}

static int remove_segment(void **state)
{
    (void)state;
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {make_segment, remove_segment};

/* Sample NUMBER of the history, a second after the one before, with RATE more requests. */
static void store_sample(uint64_t number)
{
    struct segment_sample *sample = segment_sample(&segment, number);

    atomic_store(&sample->time_ns, (number + 1) * NS_PER_S);
    atomic_store(&sample->values[METRIC_requests], (number + 1) * RATE);
    atomic_store(&sample->number, number + 1);
    atomic_store(&segment_master(&segment)->history_next, number + 1);
}

static void expect_rate(json_t *expected)
{
    json_t *status = server_status(&segment);

    assert_non_null(status);
    assert_true(json_equal(json_object_get(status, "requests_per_s"), expected));
    json_decref(expected);
    json_decref(status);
}

TEST(rate_is_that_between_the_last_two_samples)
{
    expect_rate(json_null());
    store_sample(0);
    expect_rate(json_null());
    store_sample(1);
    expect_rate(json_integer(RATE));
}

/* The master sets the number of a sample to 0 before it changes the values. */
TEST(rate_is_null_while_a_sample_is_written)
{
    for (uint64_t written = 0; written < 2; written++) {
        store_sample(0);
        store_sample(1);
        atomic_store(&segment_sample(&segment, written)->number, 0);
        expect_rate(json_null());
    }
}

TEST(queue_waits_are_those_of_all_workers)
{
    json_t *status = server_status(&segment);

    assert_true(json_is_null(json_object_get(json_object_get(status, "queue_wait_ns"), "p99")));
    json_decref(status);
    for (uint32_t i = 0; i < 2; i++) {
        assert_int_equal(segment_reserve_worker(&segment, i), 0);
        histogram_record(segment_queue_waits_of(&segment, i), 100 + i);
        metric_set(segment_worker(&segment, i)->metrics, METRIC_queue_oldest, 7 + i);
        metric_set(segment_worker(&segment, i)->metrics, METRIC_queue_length, 1);
    }
    status = server_status(&segment);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(status, "queue_wait_ns"), "p50")), 100);
    assert_int_equal(
        json_integer_value(json_object_get(json_object_get(status, "queue_wait_ns"), "max")), 101);
    /* Of two workers: the longest wait, and the sum of the lengths. */
    assert_int_equal(segment_sum(&segment, METRIC_queue_oldest), 8);
    assert_int_equal(segment_sum(&segment, METRIC_queue_length), 2);
    json_decref(status);
}
