/* The status of a server as JSON, read from a segment of this process. */
#include "common/server_status.h"

#include "common/clock.h"
#include "tests/unit/own_segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { RATE = 300 };

static struct segment segment;

static int make_segment(void **state)
{
    (void)state;
    return own_segment_create(&segment, (struct segment_plan){.max_workers = 1});
}

static int remove_segment(void **state)
{
    (void)state;
    segment_destroy(&segment);
    return 0;
}

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

static void rate_is_that_between_the_last_two_samples(void **state)
{
    (void)state;
    expect_rate(json_null());
    store_sample(0);
    expect_rate(json_null());
    store_sample(1);
    expect_rate(json_integer(RATE));
}

/* The master sets the number of a sample to 0 before it changes the values. */
static void rate_is_null_while_a_sample_is_written(void **state)
{
    (void)state;
    for (uint64_t written = 0; written < 2; written++) {
        store_sample(0);
        store_sample(1);
        atomic_store(&segment_sample(&segment, written)->number, 0);
        expect_rate(json_null());
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rate_is_that_between_the_last_two_samples, make_segment,
                                        remove_segment),
        cmocka_unit_test_setup_teardown(rate_is_null_while_a_sample_is_written, make_segment,
                                        remove_segment),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
