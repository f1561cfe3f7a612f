/*
 * Accounting: how a thread waits for space in its log ring, and when it drops records instead; what it
 * counts for each host, and which counts a slot keeps.
 */
#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/transaction/accounting.h"
#include "daemon/transaction/context.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

enum { RING_WORDS = 8192, TIMEOUT_MS = 100 };

static struct segment_thread block;
static struct config config;
static struct segment segment;
static struct worker_shortages shortages;
static struct worker_context worker = {
    .config = &config, .segment = &segment, .shortages = &shortages};
static struct transaction_context context;
static struct histogram latency[OUTCOME_COUNT];

/* A segment of which only the logger's block is used. */
static int set_up(void **state)
{
    static struct segment_logger logger;
    static struct log_ring_cursor cursor;
    static struct log_ring ring = {.cursor = &cursor, .capacity = RING_WORDS};

    (void)state;
    segment.base = (char *)&logger;
    free(ring.words);
    ring.words = aligned_alloc(CACHE_LINE, log_ring_bytes(RING_WORDS));
    assert_non_null(ring.words);
    memset(ring.words, 0, log_ring_bytes(RING_WORDS));
    atomic_store(&cursor.position, 0);
    config.log_when_full = WHEN_FULL_WAIT;
    config.log_wait_timeout = TIMEOUT_MS;
    context = (struct transaction_context){
        .worker = &worker, .metrics = block.metrics, .latency = latency, .ring = &ring};
    return 0;
}

const struct test_fixture test_fixture = {set_up, NULL};

static void at(unsigned ms)
{
    context.loop_now_ns = NS_PER_S + ms * NS_PER_MS;
}

/* Appends a record of COUNT words; the counters say whether it was dropped. */
static bool is_logged(uint64_t count)
{
    uint64_t record[LOG_RECORD_WORDS_MAX] = {count | (uint64_t)LOG_RECORD_VERSION << 32 |
                                             UINT64_C(200) << 48};
    uint64_t dropped = metric_get(block.metrics, METRIC_log_dropped);

    accounting_finish(&context, record, context.loop_now_ns);
    return metric_get(block.metrics, METRIC_log_dropped) == dropped;
}

static void fill(void)
{
    while (accounting_may_begin(&context))
        assert_true(is_logged(16));
    while (log_ring_has_room(context.ring, 16))
        assert_true(is_logged(16));
}

/* The logger has written WORDS. */
static void drain(uint64_t words)
{
    atomic_fetch_add(&context.ring->cursor->position, words);
}

TEST(wait_ends_with_space)
{
    fill();
    at(0);
    accounting_begin_wait(&context);
    at(TIMEOUT_MS - 1);
    accounting_check_wait(&context);
    assert_false(accounting_may_begin(&context));
    drain(RING_WORDS / 4);
    accounting_check_wait(&context);
    assert_true(accounting_may_begin(&context));
    assert_false(context.log_dropping);
    assert_true(is_logged(16));
}

/* The server answers for a host whose log is off, and counts it. */
TEST(record_of_a_host_without_a_log_is_counted_only)
{
    static const struct request request;
    struct client client = {.requests = 0};

    for (int logged = 0; logged <= 1; logged++) {
        const struct site site = {.logged = logged};
        const struct transaction transaction = {.context = &context,
                                                .client = &client,
                                                .address = client.address,
                                                .request = &request,
                                                .site = &site};
        uint64_t requests = metric_get(block.metrics, METRIC_requests);
        uint64_t head = atomic_load(&context.ring->words->head);

        context.output.record_words = 0;
        accounting_pack(&transaction, 200, OUTCOME_HIT, CODING_IDENTITY, 0);
        accounting_finish_all(&context, context.output.records, context.output.record_words);
        assert_int_equal(metric_get(block.metrics, METRIC_requests), requests + 1);
        assert_int_equal(atomic_load(&context.ring->words->head) > head, logged);
    }
}

TEST(wait_ends_after_timeout_and_records_are_dropped)
{
    fill();
    at(0);
    accounting_begin_wait(&context);
    for (unsigned ms = 1; ms < TIMEOUT_MS; ms++) {
        at(ms);
        accounting_check_wait(&context);
        assert_false(accounting_may_begin(&context));
        accounting_begin_wait(&context); /* the wait goes on */
    }
    at(TIMEOUT_MS);
    accounting_check_wait(&context);
    for (int i = 0; i < 1000; i++) { /* no second wait */
        assert_true(accounting_may_begin(&context));
        assert_false(is_logged(16));
    }
}

TEST(progress_restarts_the_wait)
{
    fill();
    for (unsigned i = 0; i < 10; i++) {
        at(i * (TIMEOUT_MS - 1));
        accounting_begin_wait(&context);
        drain(RING_WORDS / 4);
        accounting_check_wait(&context);
        assert_false(context.log_dropping);
        fill();
    }
}

TEST(dropping_ends_when_half_of_the_ring_is_free)
{
    fill();
    accounting_begin_wait(&context);
    at(TIMEOUT_MS + 1000);
    accounting_check_wait(&context);
    assert_true(context.log_dropping);
    drain(RING_WORDS / 4);
    accounting_check_dropping(&context);
    assert_true(context.log_dropping);
    assert_true(is_logged(16)); /* what has space is logged meanwhile */
    drain(RING_WORDS / 2);
    accounting_check_dropping(&context);
    assert_false(context.log_dropping);
}

/* Many slow downloads reserve space for their records. */
TEST(reservations_leave_a_quarter_of_the_ring)
{
    context.ring_reserved = 100 * RING_WORDS;
    assert_true(accounting_may_begin(&context));
}

/* More responses were held than the ring has space for, and end at once. */
TEST(records_of_held_responses_wait_for_space)
{
    uint64_t words;

    fill();
    words = atomic_load(&context.ring->words->head);
    at(0);
    for (int i = 0; i < 1000; i++, words += 16)
        assert_true(is_logged(16));
    accounting_begin_wait(&context);
    for (unsigned i = 1; context.first_waiting != NULL; i++) {
        drain(RING_WORDS / 4);
        assert_false(accounting_may_begin(&context));
        assert_true(is_logged(16)); /* after those that wait */
        words += 16;
        at(i * (TIMEOUT_MS - 1));
        accounting_check_wait(&context);
        assert_true(atomic_load(&context.ring->words->head) <= words);
    }
    assert_int_equal(atomic_load(&context.ring->words->head), words);
    drain(RING_WORDS / 2);
    assert_true(accounting_may_begin(&context));
}

TEST(records_that_wait_too_long_are_dropped)
{
    uint64_t dropped = metric_get(block.metrics, METRIC_log_dropped);

    fill();
    at(0);
    for (int i = 0; i < 5; i++)
        assert_true(is_logged(16));
    accounting_begin_wait(&context);
    at(TIMEOUT_MS);
    accounting_check_wait(&context);
    assert_true(context.log_dropping);
    assert_null(context.first_waiting);
    assert_int_equal(metric_get(block.metrics, METRIC_log_dropped), dropped + 5);
}

TEST(without_waiting_records_are_dropped_at_once)
{
    config.log_when_full = WHEN_FULL_DROP;
    while (log_ring_has_room(context.ring, 16))
        assert_true(is_logged(16));
    assert_false(is_logged(16));
    assert_null(context.first_waiting);
}

TEST_WITH(corrected_body_keeps_the_streams, NULL, NULL)
{
    const struct log_record record = {.body_bytes = 1000, .streams = 7};
    uint64_t words[LOG_RECORD_WORDS_MAX];
    struct log_record copy;

    log_record_pack(&record, words);
    accounting_correct(words, 10);
    assert_int_equal(log_record_unpack(words, &copy), 0);
    assert_int_equal(copy.body_bytes, 10);
    assert_int_equal(copy.streams, 7);
}

enum { ENTRIES = 4, FIRST_ID = 100 };

static struct segment_host_counts counts[ENTRIES];

/* Each entry is that of another host. */
static int set_up_counts(void **state)
{
    (void)state;
    memset(counts, 0, sizeof(counts));
    for (uint32_t i = 0; i < ENTRIES; i++) {
        const struct host_place place = {.entry = i, .id = FIRST_ID + i};

        host_counts_claim(counts, &place, 1);
    }
    return 0;
}

static uint64_t value(uint32_t entry, int metric)
{
    return atomic_load(&counts[entry].values[metric]);
}

static uint64_t longest_ns(uint32_t entry)
{
    return atomic_load(&counts[entry].latency_max_ns);
}

static uint64_t in_bucket_of(uint32_t entry, uint64_t duration_ns)
{
    return atomic_load(
        &counts[entry].latency[histogram_index(duration_ns) >> HISTOGRAM_COARSE_SHIFT]);
}

/* The number of durations in all buckets. */
static uint64_t in_all_buckets(uint32_t entry)
{
    uint64_t sum = 0;

    for (int i = 0; i < HISTOGRAM_COARSE_BUCKETS; i++)
        sum += atomic_load(&counts[entry].latency[i]);
    return sum;
}

static void expect_nothing(uint32_t entry)
{
    for (int i = 0; i < HOST_METRIC_COUNT; i++)
        assert_int_equal(value(entry, i), 0);
    assert_int_equal(in_all_buckets(entry), 0);
    assert_int_equal(longest_ns(entry), 0);
}

TEST_WITH(responses_are_counted_by_class, set_up_counts, NULL)
{
    static const struct {
        int first, last;
        int metric;
    } classes[] = {
        {200, 299, HOST_METRIC_responses_2xx},
        {300, 399, HOST_METRIC_responses_3xx},
        {400, 499, HOST_METRIC_responses_4xx},
        {500, 599, HOST_METRIC_responses_5xx},
    };

    for (uint32_t i = 0; i < ARRAY_LENGTH(classes); i++) {
        host_counts_add(&counts[i], classes[i].first, 0, 0);
        host_counts_add(&counts[i], classes[i].last, 0, 0);
        for (int metric = 0; metric < HOST_METRIC_COUNT; metric++)
            assert_int_equal(value(i, metric), metric == classes[i].metric ? 2 : 0);
    }
}

TEST_WITH(bytes_and_durations_are_added, set_up_counts, NULL)
{
    host_counts_add(&counts[1], 200, 10, 1000);
    host_counts_add(&counts[1], 404, 5, 50000000);
    host_counts_add(&counts[1], 200, 7, 1000);
    assert_int_equal(value(1, HOST_METRIC_body_bytes), 22);
    assert_int_equal(value(1, HOST_METRIC_response_time), 50002000);
    assert_int_equal(in_bucket_of(1, 1000), 2);
    assert_int_equal(in_bucket_of(1, 50000000), 1);
    assert_int_equal(in_all_buckets(1), 3);
    expect_nothing(0);
    expect_nothing(2);
}

TEST_WITH(longest_duration_is_kept, set_up_counts, NULL)
{
    host_counts_add(&counts[0], 200, 0, 700);
    assert_int_equal(longest_ns(0), 700);
    host_counts_add(&counts[0], 200, 0, 699);
    assert_int_equal(longest_ns(0), 700);
    host_counts_add(&counts[0], 200, 0, 701);
    assert_int_equal(longest_ns(0), 701);
}

/* The history has no larger bucket. */
TEST_WITH(last_bucket_takes_every_longer_duration, set_up_counts, NULL)
{
    host_counts_add(&counts[0], 200, 0, UINT64_MAX);
    assert_int_equal(atomic_load(&counts[0].latency[HISTOGRAM_COARSE_BUCKETS - 1]), 1);
    assert_int_equal(longest_ns(0), UINT64_MAX);
}

TEST_WITH(next_thread_of_a_slot_continues_the_counts, set_up_counts, NULL)
{
    const struct host_place place[] = {{.entry = 2, .id = FIRST_ID + 2}};

    host_counts_add(&counts[2], 200, 10, 700);
    host_counts_claim(counts, place, 1);
    assert_int_equal(value(2, HOST_METRIC_responses_2xx), 1);
    assert_int_equal(in_all_buckets(2), 1);
    assert_int_equal(longest_ns(2), 700);
}

TEST_WITH(counts_of_another_host_are_forgotten, set_up_counts, NULL)
{
    const struct host_place place[] = {{.entry = 3, .id = FIRST_ID + 3},
                                       {.entry = 1, .id = FIRST_ID + ENTRIES},
                                       {.entry = 1, .id = FIRST_ID + ENTRIES}};

    for (uint32_t i = 0; i < ENTRIES; i++)
        for (int status = 200; status < 600; status += 100)
            host_counts_add(&counts[i], status, 10, UINT64_C(1) << (status / 20));
    host_counts_add(&counts[1], 200, 0, 0);
    host_counts_add(&counts[1], 200, 0, UINT64_MAX);
    host_counts_claim(counts, place, 2);
    expect_nothing(1);
    assert_int_equal(atomic_load(&counts[1].id), FIRST_ID + ENTRIES);
    assert_int_equal(value(3, HOST_METRIC_body_bytes), 40);
    assert_int_equal(value(2, HOST_METRIC_body_bytes), 40);
    assert_int_equal(atomic_load(&counts[2].id), FIRST_ID + 2);
}

/* Several sites may have the same entry. */
TEST_WITH(only_the_places_given_are_claimed, set_up_counts, NULL)
{
    const struct host_place place[] = {
        {.entry = 0, .id = 7}, {.entry = 0, .id = 7}, {.entry = 2, .id = 9}};

    host_counts_add(&counts[2], 200, 10, 700);
    host_counts_claim(counts, place, 2);
    assert_int_equal(atomic_load(&counts[0].id), 7);
    assert_int_equal(atomic_load(&counts[2].id), FIRST_ID + 2);
    assert_int_equal(value(2, HOST_METRIC_body_bytes), 10);
}
