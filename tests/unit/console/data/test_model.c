/* Rates and percentiles of the last interval. */
#include "common/clock.h"
#include "console/data/model.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

enum { THREADS = 2 };

/* A snapshot of one worker with two threads. */
struct server_data {
    struct snapshot snapshot;
    struct worker_sample worker;
    struct thread_sample threads[THREADS];
    struct histogram latency[4];
    struct histogram queue_waits;
};

static struct server_data data;
static struct model *model;

static int begin(void **state)
{
    (void)state;
    memset(&data, 0, sizeof(data));
    data.snapshot = (struct snapshot){.time_ns = 1000 * NS_PER_S,
                                      .workers = &data.worker,
                                      .worker_count = 1,
                                      .worker_room = 1,
                                      .threads = data.threads,
                                      .thread_count = THREADS,
                                      .thread_room = 4,
                                      .latency = data.latency,
                                      .queue_waits = &data.queue_waits};
    data.threads[1].slot = 3; /* slots 1 and 2 are not reserved */
    model = model_create();
    return model == NULL;
}

static int end(void **state)
{
    (void)state;
    model_destroy(model);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static void take_after(uint64_t ms)
{
    bool with_latency;

    data.snapshot.time_ns += ms * NS_PER_MS;
    data.snapshot.sums[METRIC_requests] =
        data.threads[0].values[METRIC_requests] + data.threads[1].values[METRIC_requests];
    with_latency = model_wants_latency(model, data.snapshot.time_ns);
    assert_int_equal(model_take(model, &data.snapshot, with_latency), 0);
}

static void serve(int thread, uint64_t requests, uint64_t latency_ns)
{
    data.threads[thread].values[METRIC_requests] += requests;
    for (uint64_t i = 0; i < requests; i++)
        histogram_record(&data.latency[data.threads[thread].slot], latency_ns);
}

TEST(empty_model_has_no_values)
{
    assert_null(model_now(model));
    assert_true(isnan(model_rate(model, METRIC_requests)));
    take_after(0);
    assert_true(isnan(model_rate(model, METRIC_requests)));
    assert_true(isnan(model_percentile(model, 50)));
    assert_int_equal(model_interval_ns(model), 0);
}

/* However often samples are taken. */
TEST(numbers_of_the_interval_change_together)
{
    int changes = 0;

    for (int i = 0; i < 40; i++) {
        double rate = model_rate(model, METRIC_requests), p99 = model_percentile(model, 99);
        double total;

        serve(0, 10 + (uint64_t)i, 1000000 + 100000 * (uint64_t)i);
        take_after(100);
        total = model_steady_value(model, METRIC_requests);
        if (i < 10)
            continue; /* there is no whole interval yet */
        if (total < (double)data.snapshot.sums[METRIC_requests]) {
            assert_float_equal(model_rate(model, METRIC_requests), rate, 1e-9);
            assert_float_equal(model_percentile(model, 99), p99, 1e-9);
        } else {
            assert_true(model_rate(model, METRIC_requests) > rate);
            assert_true(model_percentile(model, 99) > p99);
            changes++;
        }
    }
    assert_in_range(changes, 5, 7); /* in 3 s */
}

TEST(interval_excludes_older_requests)
{
    take_after(0);
    serve(0, 1000, 1000);
    for (int i = 0; i < 20; i++)
        take_after(100);
    assert_float_equal(model_rate(model, METRIC_requests), 0, 1e-9);
    assert_true(isnan(model_percentile(model, 99)));
}

TEST(queue_waits_are_of_the_interval)
{
    histogram_record(&data.queue_waits, 9 * NS_PER_S);
    take_after(0);
    assert_true(isnan(model_wait_percentile(model, NULL, 99)));
    for (int i = 0; i < 10; i++)
        histogram_record(&data.queue_waits, NS_PER_MS);
    take_after(500);
    assert_in_range((uint64_t)model_wait_percentile(model, NULL, 99), 1000000, 1016000);
    assert_in_range((uint64_t)model_wait_percentile(model, &data.worker, 50), 1000000, 1016000);
}

TEST(new_slot_counts_from_zero)
{
    data.snapshot.thread_count = 1;
    take_after(0);
    take_after(500);
    data.snapshot.thread_count = 2;
    serve(1, 50, 1000);
    take_after(500); /* only this half second is in the interval */
    assert_float_equal(model_thread_rate(model, &data.threads[1], METRIC_requests), 100, 0.5);
}

TEST(reset_clears_the_model)
{
    serve(0, 1000, 1000);
    take_after(0);
    take_after(1000);
    model_reset(model);
    assert_null(model_now(model));
    memset(data.threads, 0, sizeof(data.threads));
    take_after(0);
    assert_true(isnan(model_rate(model, METRIC_requests)));
    serve(0, 10, 1000);
    take_after(1000);
    assert_float_equal(model_rate(model, METRIC_requests), 10, 0.1);
}
