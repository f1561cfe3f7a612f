/*
 * What the master publishes and watches: the history, lines about failed handshakes, levels of
 * memory.
 */
#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/macros.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <string.h>

/* The history */

enum { THREADS = 3 };

static struct segment segment;
static struct monitor monitor;

/* Thread slot 1 is not reserved. */
static int set_up(void **state)
{
    (void)state;
    if (own_segment_create(&segment, (struct segment_plan){.max_threads = THREADS}) != 0 ||
        segment_reserve_worker(&segment, 0) != 0 || segment_reserve_thread(&segment, 0) != 0 ||
        segment_reserve_thread(&segment, 2) != 0)
        return -1;
    monitor = (struct monitor){0};
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    segment_destroy(&segment);
    return 0;
}

static uint32_t bucket_of(const struct segment_sample *sample, uint64_t latency_ns)
{
    return atomic_load(&sample->latency[histogram_index(latency_ns) >> HISTOGRAM_COARSE_SHIFT]);
}

static uint32_t responses_of(const struct segment_sample *sample)
{
    uint32_t sum = 0;

    for (uint32_t i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        sum += atomic_load(&sample->latency[i]);
    return sum;
}

TEST_WITH(samples_are_numbered, set_up, tear_down)
{
    struct segment_master *master = segment_master(&segment);

    for (uint64_t i = 0; i < 3; i++) {
        publish_sample(&segment, &monitor, 1000 + i);
        assert_int_equal(atomic_load(&master->history_next), i + 1);
        assert_int_equal(atomic_load(&segment_sample(&segment, i)->number), i + 1);
        assert_int_equal(atomic_load(&segment_sample(&segment, i)->time_ns), 1000 + i);
    }
}

TEST_WITH(sample_has_the_sums_of_all_threads, set_up, tear_down)
{
    const struct segment_sample *sample = segment_sample(&segment, 0);

    metric_add(segment_thread(&segment, 0)->metrics, METRIC_http2_resets, 3);
    metric_add(segment_thread(&segment, 2)->metrics, METRIC_http2_resets, 4);
    metric_add(segment_thread(&segment, 2)->metrics, METRIC_http2_floods_empty, 5);
    publish_sample(&segment, &monitor, 1);
    assert_int_equal(atomic_load(&sample->values[METRIC_http2_resets]), 7);
    assert_int_equal(atomic_load(&sample->values[METRIC_http2_floods_empty]), 5);
}

TEST_WITH(sample_has_the_state_of_each_thread, set_up, tear_down)
{
    const struct segment_sample *sample = segment_sample(&segment, 0);
    const _Atomic char *letters = (const _Atomic char *)&sample->values[METRIC_COUNT];

    atomic_store(&segment_thread(&segment, 0)->activity.state, THREAD_STATE_COUNT - 1);
    atomic_store(&segment_thread(&segment, 2)->activity.state, THREAD_STATE_COUNT); /* invalid */
    publish_sample(&segment, &monitor, 1);
    assert_int_equal(letters[0], thread_state_table[THREAD_STATE_COUNT - 1].letter);
    assert_int_equal(letters[1], thread_state_table[THREAD_STATE_NONE].letter);
    assert_int_equal(letters[2], thread_state_table[0].letter);
}

TEST_WITH(latency_is_that_since_the_sample_before, set_up, tear_down)
{
    const struct segment_sample *sample = segment_sample(&segment, 0);

    histogram_record(&segment_latency_of(&segment, 0)[0], 1000);
    histogram_record(&segment_latency_of(&segment, 0)[OUTCOME_COUNT - 1], 1000);
    histogram_record(&segment_latency_of(&segment, 2)[0], UINT64_MAX);
    publish_sample(&segment, &monitor, 1);
    assert_int_equal(responses_of(sample), 3);
    assert_int_equal(bucket_of(sample, 1000), 2);
    assert_int_equal(bucket_of(sample, UINT64_MAX), 1);
    histogram_record(&segment_latency_of(&segment, 2)[0], 5000);
    publish_sample(&segment, &monitor, 2);
    sample = segment_sample(&segment, 1);
    assert_int_equal(responses_of(sample), 1);
    assert_int_equal(bucket_of(sample, 5000), 1);
    assert_in_range(atomic_load(&sample->latency_max_ns), 4900, 5100);
    publish_sample(&segment, &monitor, 3);
    sample = segment_sample(&segment, 2);
    assert_int_equal(responses_of(sample), 0);
    assert_int_equal(atomic_load(&sample->latency_max_ns), 0);
}

TEST_WITH(queue_wait_is_of_those_that_ended_since_the_sample_before, set_up, tear_down)
{
    static const struct {
        uint64_t wait_ns[2]; /* 0: none */
        uint64_t least_ns, most_ns;
    } steps[] = {{{0, 0}, 0, 0}, {{1000, 9000}, 8900, 9200}, {{0, 0}, 0, 0}, {{0, 50}, 50, 50}};

    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        for (size_t j = 0; j < 2; j++)
            if (steps[i].wait_ns[j] > 0)
                histogram_record(segment_queue_waits_of(&segment, 0), steps[i].wait_ns[j]);
        publish_sample(&segment, &monitor, 1 + i);
        assert_in_range(atomic_load(&segment_sample(&segment, i)->values[METRIC_queue_wait_p99]),
                        steps[i].least_ns, steps[i].most_ns);
    }
}

/* Failed handshakes */

TEST(lines_get_rarer_while_handshakes_fail)
{
    static const struct {
        uint64_t second, version, client;
        const char *text; /* NULL: nothing is logged */
    } steps[] = {
        {1, 0, 0, NULL},
        {2, 1, 0, "no common version: 1"}, /* at once */
        {3, 2, 0, NULL},
        {61, 2, 5, NULL},
        {62, 2, 5, "no common version: 1; ended by the client: 5"}, /* after a minute */
        {63, 2, 6, NULL},
        {181, 2, 7, NULL},
        {182, 2, 7, "ended by the client: 2"}, /* then after two */
        {421, 2, 8, NULL},
        {422, 2, 8, "ended by the client: 1"}, /* and four */
        {902, 2, 8, NULL},                     /* nothing has failed since */
        {3000, 2, 8, NULL},
        {3001, 3, 8, "no common version: 1"}, /* after a pause at once */
        {3060, 4, 8, NULL},
        {3061, 4, 8, "no common version: 1"},
    };
    struct handshake_failures failures = {0};
    char text[256];

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        uint64_t count[HANDSHAKE_FAILURE_REASONS] = {steps[i].version, 0, steps[i].client};
        bool due = handshake_failures_text(&failures, &handshake_of_tls, count,
                                           steps[i].second * NS_PER_S, text, sizeof(text));

        assert_int_equal(due, steps[i].text != NULL);
        if (due)
            assert_string_equal(text, steps[i].text);
    }
}

TEST(there_is_at_least_one_line_an_hour)
{
    struct handshake_failures failures = {0};
    uint64_t count[HANDSHAKE_FAILURE_REASONS] = {0}, lines = 0;
    char text[256];

    for (uint64_t second = 1; second <= UINT64_C(100) * 3600; second++) {
        count[5]++;
        lines += handshake_failures_text(&failures, &handshake_of_tls, count, second * NS_PER_S,
                                         text, sizeof(text));
    }
    assert_in_range(lines, 100, 110);
}

TEST(long_text_is_cut)
{
    struct handshake_failures failures = {0};
    const uint64_t count[HANDSHAKE_FAILURE_REASONS] = {1, 2, 3, 4, 5, UINT64_MAX};
    char text[256], small[20];

    assert_true(
        handshake_failures_text(&failures, &handshake_of_tls, count, 1, text, sizeof(text)));
    assert_string_equal(text, "no common version: 1; no common cipher, group or signature: 2; "
                              "ended by the client: 3; request without TLS: 4; header_timeout: 5; "
                              "other reasons: 18446744073709551615");
    failures = (struct handshake_failures){0};
    assert_true(
        handshake_failures_text(&failures, &handshake_of_tls, count, 1, small, sizeof(small)));
    assert_string_equal(small, "no common version: ");
}

TEST(proxy_headers_have_reasons_of_their_own)
{
    struct handshake_failures failures = {0};
    const uint64_t count[HANDSHAKE_FAILURE_REASONS] = {1, 0, 3};
    char text[256];

    assert_true(
        handshake_failures_text(&failures, &handshake_of_proxy, count, 1, text, sizeof(text)));
    assert_string_equal(text, "peer not in proxy.trusted: 1; header_timeout: 3");
}

/* Memory */

TEST(level_follows_use_with_hysteresis)
{
    static const struct {
        uint32_t used;
        enum memory_level level;
    } steps[] = {
        {0, MEMORY_ENOUGH},      {849, MEMORY_ENOUGH},     {850, MEMORY_SHORT},
        {800, MEMORY_SHORT},     {949, MEMORY_SHORT},      {799, MEMORY_ENOUGH},
        {849, MEMORY_ENOUGH},    {950, MEMORY_EXHAUSTED},  {900, MEMORY_EXHAUSTED},
        {899, MEMORY_SHORT},     {1000, MEMORY_EXHAUSTED}, {850, MEMORY_SHORT},
        {960, MEMORY_EXHAUSTED}, {100, MEMORY_ENOUGH},
    };
    enum memory_level level = MEMORY_ENOUGH;

    for (size_t i = 0; i < ARRAY_LENGTH(steps); i++) {
        level = memory_level_next(level, steps[i].used);
        assert_int_equal(level, steps[i].level);
    }
}
