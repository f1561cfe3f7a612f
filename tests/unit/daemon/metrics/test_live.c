/* The events of the live page, from a segment of this process. */
#include "daemon/metrics/live.h"

#include "common/clock.h"
#include "common/tables.h"
#include "tests/unit/own_segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 2, THREADS = 2 };

static struct segment segment;

static int begin(void **state)
{
    (void)state;
    return own_segment_create(
        &segment, (struct segment_plan){.max_workers = WORKERS, .max_threads = THREADS});
}

static int end(void **state)
{
    (void)state;
    segment_destroy(&segment);
    return 0;
}

/* The next event. The caller releases it. */
static json_t *next_event(void)
{
    char *text;
    size_t length;
    FILE *out = open_memstream(&text, &length);
    json_t *event;

    assert_non_null(out);
    live_write(out, &segment);
    assert_int_equal(fclose(out), 0);
    assert_memory_equal(text, "data: ", 6);
    assert_string_equal(text + length - 3, "}\n\n");
    event = json_loads(text + 6, 0, NULL);
    free(text);
    assert_non_null(event);
    return event;
}

static json_int_t integer(const json_t *object, const char *member)
{
    assert_true(json_is_integer(json_object_get(object, member)));
    return json_integer_value(json_object_get(object, member));
}

static const char *string(const json_t *object, const char *member)
{
    assert_true(json_is_string(json_object_get(object, member)));
    return json_string_value(json_object_get(object, member));
}

static void server_is_described(void **state)
{
    struct segment_master *master = segment_master(&segment);
    json_t *event;

    (void)state;
    segment.header.started_ns = clock_wall_ns() - 200 * NS_PER_S;
    atomic_store(&master->generation, 3);
    atomic_store(&master->workers_wanted, 2);
    event = next_event();
    assert_string_equal(string(event, "name"), segment.header.name);
    assert_string_equal(string(event, "version"), segment.header.version);
    assert_true(integer(event, "uptime_s") >= 100);
    assert_int_equal(integer(event, "generation"), 3);
    assert_int_equal(integer(event, "workers_wanted"), 2);
    assert_int_equal(integer(event, "workers"), 0);
    assert_true(json_is_false(json_object_get(event, "stopping")));
    json_decref(event);
    atomic_store(&master->stopping, 1);
    event = next_event();
    assert_true(json_is_true(json_object_get(event, "stopping")));
    json_decref(event);
}

static void responses_are_counted_by_class(void **state)
{
    json_t *event, *expected = json_pack("[i, i, i, i]", 5, 1, 6, 2);
    segment_metrics *metrics;

    (void)state;
    assert_int_equal(segment_reserve_thread(&segment, 0), 0);
    metrics = &segment_thread(&segment, 0)->metrics;
    metric_add(*metrics, METRIC_responses_200, 5);
    metric_add(*metrics, METRIC_responses_304, 1);
    metric_add(*metrics, METRIC_responses_404, 4);
    metric_add(*metrics, METRIC_responses_429, 2);
    metric_add(*metrics, METRIC_responses_503, 2);
    metric_add(*metrics, METRIC_requests, 14);
    event = next_event();
    assert_true(json_equal(json_object_get(event, "responses"), expected));
    assert_int_equal(integer(json_object_get(event, "counters"), "requests"), 14);
    assert_int_equal(integer(json_object_get(event, "counters"), "cache_hits"), 0);
    json_decref(expected);
    json_decref(event);
}

static void latency_is_that_of_the_last_sample(void **state)
{
    struct segment_sample *sample = segment_sample(&segment, 4);
    uint32_t bucket = histogram_index(NS_PER_MS) >> HISTOGRAM_COARSE_SHIFT;
    json_t *event, *latency;

    (void)state;
    atomic_store(&sample->latency[bucket], 98);
    atomic_store(&sample->latency[histogram_index(200 * NS_PER_S) >> HISTOGRAM_COARSE_SHIFT], 2);
    atomic_store(&sample->latency_max_ns, 200 * NS_PER_S);
    atomic_store(&segment_sample(&segment, UINT64_MAX)->latency[bucket], 1); /* before the first */
    event = next_event();
    assert_true(json_is_null(json_object_get(event, "latency_ns"))); /* no sample yet */
    json_decref(event);
    atomic_store(&segment_master(&segment)->history_next, 5);
    event = next_event();
    latency = json_object_get(event, "latency_ns");
    assert_in_range(integer(latency, "p50"), NS_PER_MS, NS_PER_MS * 5 / 4);
    assert_int_equal(integer(latency, "p90"), integer(latency, "p50"));
    assert_int_equal(integer(latency, "p99"), 200 * NS_PER_S);
    assert_int_equal(integer(latency, "max"), 200 * NS_PER_S);
    json_decref(event);
    atomic_store(&segment_master(&segment)->history_next, 6); /* a second without responses */
    event = next_event();
    assert_true(json_is_null(json_object_get(event, "latency_ns")));
    json_decref(event);
}

static void use_thread(uint32_t slot, uint32_t worker, uint32_t thread)
{
    assert_int_equal(segment_reserve_thread(&segment, slot), 0);
    atomic_store(&segment_thread_slot(&segment, slot)->worker, worker);
    atomic_store(&segment_thread_slot(&segment, slot)->thread, thread);
}

static json_t *thread_of(const json_t *event, size_t i)
{
    return json_array_get(json_object_get(event, "threads"), i);
}

/* Slot 0 has no memory, and slot 1 no thread. */
static void only_threads_in_use_are_listed(void **state)
{
    struct segment_thread *block;
    json_t *event;

    (void)state;
    use_thread(1, SEGMENT_NO_WORKER, 0);
    use_thread(3, 1, 1);
    block = segment_thread(&segment, 3);
    metric_add(block->metrics, METRIC_requests, 7);
    metric_set(block->metrics, METRIC_connections_open, 2);
    segment_activity_work(&block->activity, THREAD_STATE_STARTING,
                          clock_monotonic_ns() + 3600 * NS_PER_S, "/page", 5);
    event = next_event();
    assert_int_equal(json_array_size(json_object_get(event, "threads")), 1);
    assert_int_equal(integer(thread_of(event, 0), "worker"), 1);
    assert_int_equal(integer(thread_of(event, 0), "thread"), 1);
    assert_int_equal(integer(thread_of(event, 0), "requests"), 7);
    assert_int_equal(integer(thread_of(event, 0), "connections"), 2);
    assert_string_equal(string(thread_of(event, 0), "state"), "starting");
    assert_string_equal(string(thread_of(event, 0), "work"), "/page");
    assert_int_equal(integer(thread_of(event, 0), "since_ms"), 0); /* after the clock was read */
    json_decref(event);
}

/* The workers write them, and may have been taken over. */
static void invalid_activity_is_none(void **state)
{
    struct segment_activity *activity;
    json_t *event;

    (void)state;
    use_thread(0, 0, 0);
    activity = &segment_thread(&segment, 0)->activity;
    segment_activity_work(activity, THREAD_STATE_STARTING, 1, "/page", 5);
    atomic_store(&activity->state, THREAD_STATE_COUNT);
    event = next_event();
    assert_string_equal(string(thread_of(event, 0), "state"), thread_state_table[0].name);
    assert_true(integer(thread_of(event, 0), "since_ms") > 0);
    json_decref(event);
    atomic_store(&activity->state, THREAD_STATE_STARTING);
    atomic_store(&activity->sequence, 1); /* a change that does not end */
    event = next_event();
    assert_string_equal(string(thread_of(event, 0), "state"), thread_state_table[0].name);
    assert_string_equal(string(thread_of(event, 0), "work"), "");
    json_decref(event);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(server_is_described),
        TEST(responses_are_counted_by_class),
        TEST(latency_is_that_of_the_last_sample),
        TEST(only_threads_in_use_are_listed),
        TEST(invalid_activity_is_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
