/* Latency by outcome: per second, totals, and the last few seconds. */
#include "common/clock.h"
#include "console/data/model.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct outcomes *outcomes;
static struct histogram *latency;

static int begin(void **state)
{
    (void)state;
    outcomes = outcomes_create();
    latency = calloc(OUTCOME_COUNT, sizeof(*latency));
    return outcomes == NULL || latency == NULL;
}

static int end(void **state)
{
    (void)state;
    outcomes_destroy(outcomes);
    free((void *)latency);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static void push(double second)
{
    outcomes_push(outcomes, (uint64_t)(second * 1e9), latency);
}

static void record(enum outcome outcome, uint64_t ns, int times)
{
    for (int i = 0; i < times; i++)
        histogram_record(&latency[outcome], ns);
}

static uint64_t count(uint64_t second, int outcome)
{
    uint64_t buckets[HISTOGRAM_COARSE_BUCKETS] = {0}, sum = 0;

    outcomes_second(outcomes, second, outcome, buckets);
    for (int i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        sum += buckets[i];
    return sum;
}

TEST(seconds_before_attachment_have_a_total)
{
    struct sample_copy sample = {.time_ns = 50 * NS_PER_S};
    uint64_t buckets[HISTOGRAM_COARSE_BUCKETS] = {0};

    sample.latency[40] = 7;
    outcomes_push_sample(outcomes, &sample);
    assert_int_equal(count(50, OUTCOME_ALL), 7);
    assert_false(outcomes_second(outcomes, 50, OUTCOME_HIT, buckets));
    push(51);
    record(OUTCOME_HIT, 1000, 3);
    push(51.5);
    sample.time_ns = 51 * NS_PER_S;
    outcomes_push_sample(outcomes, &sample);
    assert_int_equal(count(51, OUTCOME_ALL), 3);
}

TEST(pause_or_another_daemon_restarts_the_counts)
{
    push(50);
    record(OUTCOME_HIT, 1000, 3);
    push(60);
    assert_int_equal(count(60, OUTCOME_ALL), 0);
    outcomes_break(outcomes);
    memset((void *)latency, 0, OUTCOME_COUNT * sizeof(*latency));
    push(61);
    record(OUTCOME_MISS, 1000, 2);
    push(62);
    assert_int_equal(count(62, OUTCOME_MISS), 2);
    assert_int_equal(histogram_count(outcomes_recent(outcomes, OUTCOME_ALL)), 2);
}

TEST(recent_window_slides)
{
    push(50);
    record(OUTCOME_HIT, 1000, 3);
    for (int i = 1; i <= 6; i++)
        push(50 + i);
    assert_int_equal(histogram_count(outcomes_recent(outcomes, OUTCOME_HIT)), 3);
    assert_int_equal(outcomes_recent_ns(outcomes), 6 * NS_PER_S);
    for (int i = 7; i <= 11; i++)
        push(50 + i);
    assert_int_equal(histogram_count(outcomes_recent(outcomes, OUTCOME_HIT)), 0);
    assert_true(outcomes_recent_ns(outcomes) <= 10 * NS_PER_S);
}
