/*
 * The responses of the metrics address, and the events of the live page, from a segment of this
 * process.
 */
#include "daemon/metrics/answer.h"
#include "daemon/metrics/live.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/tables.h"
#include "daemon/http/date.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS = 2 };

static struct segment segment;
static struct answer_setup setup;

static int make_segment(void **state)
{
    (void)state;
    setup = (struct answer_setup){.segment = &segment, .hosts = "one.example two.example"};
    return own_segment_create(
        &segment, (struct segment_plan){.max_workers = WORKERS, .max_threads = WORKERS});
}

static int remove_segment(void **state)
{
    (void)state;
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {make_segment, remove_segment};

/* The response to REQUEST, which the caller frees. */
static char *response_to(const char *request, enum answer_kind expected)
{
    char *response = NULL;
    size_t length = 0;

    assert_int_equal(answer_request(&setup, request, strlen(request), &response, &length),
                     expected);
    assert_int_equal(strlen(response), length);
    return response;
}

static const char *body_of(const char *response)
{
    const char *end = strstr(response, "\r\n\r\n");

    assert_non_null(end);
    return end + 4;
}

static void expect_field(const char *response, const char *field)
{
    const char *found = strstr(response, field);

    if (found == NULL || found > body_of(response))
        fail_msg("'%s' is not in: %s", field, response);
}

static void expect_status(const char *response, int status)
{
    char line[32];

    snprintf(line, sizeof(line), "HTTP/1.1 %d ", status);
    if (strncmp(response, line, strlen(line)) != 0)
        fail_msg("not status %d: %s", status, response);
}

/* The whole response to REQUEST, which has STATUS. The caller frees it. */
static char *response_to_status(const char *request, int status)
{
    char *response = response_to(request, ANSWER_WHOLE);

    expect_status(response, status);
    return response;
}

/* REQUEST gets STATUS and BODY, whose length is in the head. */
static void expect(const char *request, int status, const char *body)
{
    char *response = response_to(request, ANSWER_WHOLE), field[64];

    expect_status(response, status);
    assert_string_equal(body_of(response), body);
    snprintf(field, sizeof(field), "\r\nContent-Length: %zu\r\n", strlen(body));
    expect_field(response, field);
    expect_field(response, "\r\nConnection: close\r\n");
    assert_null(strstr(response, "Retry-After"));
    assert_null(strstr(response, "WWW-Authenticate"));
    free(response);
}

static void expect_get(const char *target, int status, const char *body)
{
    char request[128];

    snprintf(request, sizeof(request), "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", target);
    expect(request, status, body);
}

TEST(health_is_the_heartbeat_of_the_master)
{
    _Atomic uint64_t *beat = &segment_master(&segment)->heartbeat_ns;

    atomic_store(beat, clock_monotonic_ns());
    expect_get("/healthz", 200, "ok\n");
    atomic_store(beat, clock_monotonic_ns() + 3600 * NS_PER_S); /* after the clock was read */
    expect_get("/healthz", 200, "ok\n");
    atomic_store(beat, clock_monotonic_ns() - 11 * NS_PER_S);
    expect_get("/healthz", 503, "the master has no heartbeat\n");
}

static void make_worker(uint32_t slot, enum worker_state state)
{
    struct segment_worker_slot *worker = segment_worker_slot(&segment, slot);

    assert_int_equal(segment_reserve_worker(&segment, slot), 0);
    atomic_store(&worker->state, state);
}

TEST(readiness_needs_one_worker_and_no_stop)
{
    expect_get("/readyz", 503, "no worker serves\n");
    make_worker(1, WORKER_STARTING);
    expect_get("/readyz", 503, "no worker serves\n");
    make_worker(1, WORKER_SERVING);
    expect_get("/readyz", 200, "ok\n");
    atomic_store(&segment_master(&segment)->stopping, 1);
    expect_get("/readyz", 503, "the server is stopping\n");
}

TEST(stream_has_no_length_and_begins_with_an_event)
{
    static const char get[] = "GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n";
    char *response;

    response = response_to(get, ANSWER_STREAM);
    expect_status(response, 200);
    expect_field(response, "\r\nContent-Type: text/event-stream\r\n");
    assert_null(strstr(response, "Content-Length"));
    assert_non_null(strstr(body_of(response), "data: {"));
    free(response);
    response = response_to("HEAD /events HTTP/1.1\r\nHost: localhost\r\n\r\n", ANSWER_WHOLE);
    assert_string_equal(body_of(response), "");
    free(response);
    setup.streams_full = true;
    expect(get, 503, "503 Service Unavailable\n");
    expect_get("/readyz", 503, "no worker serves\n");
}

TEST(date_has_the_format_of_http)
{
    char *response = response_to("GET /readyz HTTP/1.0\r\n\r\n", ANSWER_WHOLE);
    const char *date = strstr(response, "\r\nDate: ");

    assert_non_null(date);
    assert_memory_equal(date + strlen("\r\nDate: ") + HTTP_DATE_BYTES - 4, " GMT\r\n", 6);
    free(response);
}

/* Lengths around that of the longest text of an address. */
TEST(host_longer_than_an_address_is_not_one)
{
    char host[80], request[160];

    for (int length = 60; length <= 70; length++) {
        memset(host, '1', (size_t)length);
        host[length] = '\0';
        snprintf(request, sizeof(request), "GET /readyz HTTP/1.1\r\nHost: %s\r\n\r\n", host);
        setup.hosts = "one.example";
        free(response_to_status(request, 421));
        setup.hosts = host;
        free(response_to_status(request, 503));
    }
}

/* The buffer of a connection has no room for more. */
TEST(head_that_fills_the_buffer_is_431)
{
    static char request[ANSWER_REQUEST_MAX];
    char *response = NULL;
    size_t begin, length;

    begin = (size_t)snprintf(request, sizeof(request), "GET / HTTP/1.1\r\nHost: localhost\r\nX: ");
    memset(request + begin, 'x', sizeof(request) - begin);
    assert_int_equal(answer_request(&setup, request, sizeof(request) - 2, &response, &length),
                     ANSWER_INCOMPLETE);
    assert_int_equal(answer_request(&setup, request, sizeof(request), &response, &length),
                     ANSWER_WHOLE);
    expect_status(response, 431);
    free(response);
}

TEST(status_ends_with_a_line_end)
{
    char *response =
        response_to("GET /status.json HTTP/1.1\r\nHost: localhost\r\n\r\n", ANSWER_WHOLE);

    expect_status(response, 200);
    expect_field(response, "\r\nContent-Type: application/json\r\n");
    assert_string_equal(response + strlen(response) - 2, "}\n");
    assert_null(strstr(response, "\r\nAllow:"));
    free(response);
}

/* Events */

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

TEST(server_is_described)
{
    struct segment_master *master = segment_master(&segment);
    json_t *event;

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

TEST(responses_are_counted_by_class)
{
    json_t *event, *expected = json_pack("[i, i, i, i]", 5, 1, 6, 2);
    segment_metrics *metrics;

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

TEST(latency_is_that_of_the_last_sample)
{
    struct segment_sample *sample = segment_sample(&segment, 4);
    uint32_t bucket = histogram_index(NS_PER_MS) >> HISTOGRAM_COARSE_SHIFT;
    json_t *event, *latency;

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

TEST(history_has_complete_samples_only)
{
    char *response;
    json_t *history, *samples;

    for (uint64_t number = 0; number < 4; number++) {
        struct segment_sample *sample = segment_sample(&segment, number);

        atomic_store(&sample->time_ns, (number + 1) * NS_PER_S);
        /* the third is being written, the fourth is an older one */
        atomic_store(&sample->number, number < 2 ? number + 1 : number == 2 ? 0 : number);
    }
    atomic_store(&segment_master(&segment)->history_next, 4);
    response = response_to_status("GET /history.json HTTP/1.1\r\nHost: localhost\r\n\r\n", 200);
    history = json_loads(body_of(response), 0, NULL);
    samples = json_object_get(history, "samples");
    assert_int_equal(json_array_size(samples), 2);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(json_integer_value(json_array_get(json_array_get(samples, i), 0)),
                         1000 * (i + 1));
    json_decref(history);
    free(response);
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
TEST(only_threads_in_use_are_listed)
{
    struct segment_thread *block;
    json_t *event;

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
TEST(invalid_activity_is_none)
{
    struct segment_activity *activity;
    json_t *event;

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
