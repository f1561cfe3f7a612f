/*
 * What is kept of dead workers: which threads and requests, how many of them, and what fits a
 * reply.
 */
#include "daemon/master/internal.h"

#include "common/control_client.h"
#include "common/log_record.h"

#include "tests/test.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/wrapped.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WORKERS = 2,
    THREADS = 3,
    RING_BYTES = 64 * 1024,
    NOW_S = 1000000000, /* wall clock */
    UP_S = 5000,        /* monotonic clock */
    LINE_MAX_BYTES = 200,
};

static struct {
    bool clock_stands;
    struct segment segment;
    json_t *deaths;
} scene;

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    if (!scene.clock_stands)
        return __real_clock_gettime(clock, now);
    *now = (struct timespec){.tv_sec = clock == CLOCK_MONOTONIC ? UP_S : NOW_S};
    return 0;
}

static int begin(void **state)
{
    const struct segment_plan plan = {
        .max_workers = WORKERS, .max_threads = THREADS, .ring_bytes = RING_BYTES};

    (void)state;
    memset(&scene, 0, sizeof(scene));
    if (setenv("TZ", "UTC", 1) != 0 || own_segment_create(&scene.segment, plan) != 0)
        return -1;
    for (uint32_t i = 0; i < WORKERS; i++)
        if (segment_reserve(&scene.segment, i, THREADS) != 0)
            return -1;
    scene.clock_stands = true;
    return 0;
}

static int end(void **state)
{
    (void)state;
    json_decref(scene.deaths);
    scene.deaths = NULL;
    segment_destroy(&scene.segment);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static struct segment_thread *thread_of(uint32_t worker, uint32_t thread)
{
    return segment_thread(&scene.segment, worker * THREADS + thread);
}

/* It has done WORK for a second. */
static void set_work(struct segment_activity *activity, enum thread_state state, const char *work)
{
    atomic_store(&activity->tid, 4711);
    segment_activity_work(activity, state, (UP_S - 1) * NS_PER_S, work, strlen(work));
}

static void append_request(uint32_t worker, uint32_t thread, const char *request_line)
{
    const struct log_ring ring = segment_ring(&scene.segment, worker * THREADS + thread);
    const struct log_record record = {
        .time_ns = NOW_S * NS_PER_S,
        .status = 200,
        .body_bytes = 5,
        .address = {[10] = 0xff, [11] = 0xff, 192, 0, 2, 7},
        .request_line = {.start = request_line, .length = strlen(request_line)}};
    uint64_t words[LOG_RECORD_WORDS_MAX];

    log_ring_append(&ring, words, log_record_pack(&record, words));
}

static void append_request_number(uint32_t number)
{
    char line[32];

    snprintf(line, sizeof(line), "GET /%u HTTP/1.1", number);
    append_request(0, 0, line);
}

static void record(uint32_t worker, int pid)
{
    post_mortem_record(&scene.deaths, &scene.segment, worker, pid, "was killed");
}

/* Death NUMBER; 0 is the newest. Borrowed. */
static json_t *death(size_t number)
{
    return json_array_get(scene.deaths, number);
}

static json_t *threads_of(const json_t *of)
{
    return json_object_get(of, "threads");
}

static json_t *requests_of_first_thread(void)
{
    return json_object_get(json_array_get(threads_of(death(0)), 0), "last");
}

static void expect_text(const json_t *object, const char *key, const char *text)
{
    assert_string_equal(json_string_value(json_object_get(object, key)), text);
}

static void expect_number(const json_t *object, const char *key, json_int_t number)
{
    assert_int_equal(json_integer_value(json_object_get(object, key)), number);
}

static void expect_second(const json_t *thread)
{
    assert_float_equal(json_real_value(json_object_get(thread, "since_s")), 1.0, 0.001);
}

/* --- The death and its threads --- */

TEST(death_has_time_age_and_cause)
{
    atomic_store(&segment_worker_slot(&scene.segment, 1)->started_ns,
                 (NOW_S - 90) * NS_PER_S + NS_PER_S / 2);
    record(1, 77);
    expect_number(death(0), "worker", 1);
    expect_number(death(0), "pid", 77);
    expect_text(death(0), "time", "2001-09-09 01:46:40");
    expect_number(death(0), "lived_s", 89);
    expect_text(death(0), "how", "was killed");
    assert_int_equal(json_array_size(threads_of(death(0))), 0);
    assert_int_equal(json_array_size(json_object_get(death(0), "offload")), 0);
}

TEST(threads_of_the_dead_worker_are_listed)
{
    const json_t *threads;

    for (uint32_t i = 0; i < WORKERS; i++) {
        set_work(&thread_of(i, 0)->activity, THREAD_STATE_READ, i == 0 ? "a" : "b");
        set_work(&thread_of(i, 2)->activity, THREAD_STATE_WRITE, i == 0 ? "c" : "d");
        metric_set(thread_of(i, 2)->metrics, METRIC_connections_open, 10 + i);
    }
    record(0, 77);
    threads = threads_of(death(0));
    assert_int_equal(json_array_size(threads), 2);
    expect_text(json_array_get(threads, 0), "work", "a");
    expect_text(json_array_get(threads, 1), "work", "c");
    record(1, 78);
    threads = threads_of(death(0));
    assert_int_equal(json_array_size(threads), 2);
    expect_number(json_array_get(threads, 0), "thread", 0);
    expect_text(json_array_get(threads, 0), "state", "read");
    expect_number(json_array_get(threads, 0), "connections", 0);
    expect_number(json_array_get(threads, 1), "thread", 2);
    expect_number(json_array_get(threads, 1), "tid", 4711);
    expect_text(json_array_get(threads, 1), "state", "write");
    expect_text(json_array_get(threads, 1), "work", "d");
    expect_number(json_array_get(threads, 1), "connections", 11);
    expect_second(json_array_get(threads, 1));
}

TEST(offload_threads_are_listed)
{
    struct segment_worker *block = segment_worker(&scene.segment, 1);
    struct segment_activity *offload = block->offload;
    const json_t *list;

    for (int i = 0; i < METRIC_COUNT; i++) /* they follow the threads in memory */
        metric_set(block->metrics, (enum metric)i, THREAD_STATE_FILE);
    set_work(&offload[0], THREAD_STATE_FILE, "/a");
    set_work(&offload[SEGMENT_OFFLOAD_THREADS - 1], THREAD_STATE_COMPRESS, "/b");
    record(1, 77);
    list = json_object_get(death(0), "offload");
    assert_int_equal(json_array_size(list), 2);
    expect_number(json_array_get(list, 0), "offload", 0);
    expect_text(json_array_get(list, 0), "state", "file");
    expect_number(json_array_get(list, 1), "offload", SEGMENT_OFFLOAD_THREADS - 1);
    expect_text(json_array_get(list, 1), "work", "/b");
    expect_second(json_array_get(list, 1));
}

/* A worker may have written anything. */
TEST(unknown_state_is_not_listed)
{
    set_work(&thread_of(0, 0)->activity, THREAD_STATE_READ, "");
    atomic_store(&thread_of(0, 0)->activity.state, THREAD_STATE_COUNT);
    atomic_store(&segment_worker(&scene.segment, 0)->offload[0].state, UINT32_MAX);
    record(0, 77);
    assert_int_equal(json_array_size(threads_of(death(0))), 0);
    assert_int_equal(json_array_size(json_object_get(death(0), "offload")), 0);
}

TEST(work_is_printable)
{
    set_work(&thread_of(0, 0)->activity, THREAD_STATE_READ, "\x1b[2J\xff");
    record(0, 77);
    expect_text(json_array_get(threads_of(death(0)), 0), "work", "\\x1b[2J\\xff");
}

TEST(thread_without_memory_is_not_listed)
{
    for (uint32_t i = 0; i < THREADS; i++)
        set_work(&thread_of(0, i)->activity, THREAD_STATE_READ, "");
    atomic_store(&segment_thread_slot(&scene.segment, 1)->reserved, 0);
    record(0, 77);
    assert_int_equal(json_array_size(threads_of(death(0))), THREADS - 1);
    expect_number(json_array_get(threads_of(death(0)), 1), "thread", 2);
}

/* --- The last requests --- */

TEST(requests_are_log_lines)
{
    set_work(&thread_of(0, 0)->activity, THREAD_STATE_READ, "");
    append_request(0, 0, "GET /a HTTP/1.1");
    append_request(0, 1, "GET /other-thread HTTP/1.1");
    append_request(1, 0, "GET /other-worker HTTP/1.1");
    record(0, 77);
    assert_int_equal(json_array_size(requests_of_first_thread()), 1);
    assert_string_equal(json_string_value(json_array_get(requests_of_first_thread(), 0)),
                        "192.0.2.7 - - [09/Sep/2001:01:46:40 +0000] \"GET /a HTTP/1.1\" 200 5");
}

static void expect_request(size_t at, uint32_t number)
{
    const char *line = json_string_value(json_array_get(requests_of_first_thread(), at));
    char part[32];

    snprintf(part, sizeof(part), "GET /%u HTTP", number);
    assert_non_null(line);
    assert_non_null(strstr(line, part));
}

TEST(last_requests_are_kept_oldest_first)
{
    set_work(&thread_of(0, 0)->activity, THREAD_STATE_READ, "");
    for (uint32_t i = 1; i <= POST_MORTEM_REQUESTS; i++)
        append_request_number(i);
    record(0, 77);
    assert_int_equal(json_array_size(requests_of_first_thread()), POST_MORTEM_REQUESTS);
    expect_request(0, 1);
    expect_request(POST_MORTEM_REQUESTS - 1, POST_MORTEM_REQUESTS);
    append_request_number(POST_MORTEM_REQUESTS + 1);
    record(0, 78);
    assert_int_equal(json_array_size(requests_of_first_thread()), POST_MORTEM_REQUESTS);
    expect_request(0, 2);
    expect_request(POST_MORTEM_REQUESTS - 1, POST_MORTEM_REQUESTS + 1);
}

TEST(last_requests_are_found_in_a_ring_that_was_full)
{
    enum { MANY = 10000 };

    set_work(&thread_of(0, 0)->activity, THREAD_STATE_READ, "");
    for (uint32_t i = 1; i <= MANY; i++)
        append_request_number(i);
    record(0, 77);
    assert_int_equal(json_array_size(requests_of_first_thread()), POST_MORTEM_REQUESTS);
    expect_request(0, MANY - POST_MORTEM_REQUESTS + 1);
    expect_request(POST_MORTEM_REQUESTS - 1, MANY);
}

TEST(long_request_is_cut)
{
    char line[4 * LINE_MAX_BYTES] = "GET /";

    memset(line + 5, 'x', sizeof(line) - 6);
    set_work(&thread_of(0, 0)->activity, THREAD_STATE_READ, "");
    append_request(0, 0, line);
    record(0, 77);
    assert_int_equal(json_string_length(json_array_get(requests_of_first_thread(), 0)),
                     LINE_MAX_BYTES);
}

/* So many records before it are valid that they are taken for records. */
TEST(invalid_record_is_left_out)
{
    enum { BEFORE = 70 };
    const struct log_ring ring = segment_ring(&scene.segment, 0);
    uint64_t at;

    set_work(&thread_of(0, 0)->activity, THREAD_STATE_READ, "");
    for (uint32_t i = 1; i <= BEFORE; i++)
        append_request_number(i);
    at = atomic_load(&ring.words->head);
    append_request_number(BEFORE + 1);
    append_request_number(BEFORE + 2);
    atomic_fetch_or(&ring.words->word[at], UINT64_C(0xff) << 32); /* another version */
    record(0, 77);
    assert_int_equal(json_array_size(requests_of_first_thread()), POST_MORTEM_REQUESTS);
    expect_request(POST_MORTEM_REQUESTS - 2, BEFORE);
    expect_request(POST_MORTEM_REQUESTS - 1, BEFORE + 2);
}

/* --- Several deaths --- */

TEST(newest_deaths_are_kept)
{
    for (int i = 1; i <= POST_MORTEM_DEATHS; i++)
        record(0, i);
    assert_int_equal(json_array_size(scene.deaths), POST_MORTEM_DEATHS);
    expect_number(death(POST_MORTEM_DEATHS - 1), "pid", 1);
    record(0, POST_MORTEM_DEATHS + 1);
    assert_int_equal(json_array_size(scene.deaths), POST_MORTEM_DEATHS);
    expect_number(death(0), "pid", POST_MORTEM_DEATHS + 1);
    expect_number(death(POST_MORTEM_DEATHS - 1), "pid", 2);
}

static void expect_listed(size_t count, size_t expected)
{
    json_t *list = post_mortem_list(scene.deaths, count);

    assert_int_equal(json_array_size(list), expected);
    for (size_t i = 0; i < expected; i++)
        assert_ptr_equal(json_array_get(list, i), death(i));
    assert_true(json_dumpb(list, NULL, 0, JSON_COMPACT) < CONTROL_REPLY_MAX);
    json_decref(list);
}

TEST(newest_deaths_are_listed)
{
    expect_listed(3, 0);
    for (int i = 0; i < 3; i++)
        record(0, i);
    expect_listed(0, 0);
    expect_listed(2, 2);
    expect_listed(3, 3);
    expect_listed(POST_MORTEM_DEATHS, 3);
}

TEST(deaths_that_do_not_fit_a_reply_are_left_out)
{
    enum { BYTES = CONTROL_REPLY_MAX * 2 / 5 };
    char *text = malloc(BYTES);

    assert_non_null(text);
    memset(text, 'x', BYTES);
    scene.deaths = json_array();
    for (int i = 0; i < 3; i++)
        json_array_append_new(scene.deaths, json_pack("[s#]", text, (int)BYTES));
    free(text);
    expect_listed(1, 1);
    expect_listed(3, 2);
}

TEST(nothing_is_left_after_free)
{
    json_t *deaths;

    record(0, 1);
    deaths = json_incref(scene.deaths);
    json_decref(scene.deaths);
    scene.deaths = NULL;
    assert_int_equal(deaths->refcount, 1);
    json_decref(deaths);
    assert_null(scene.deaths);
    expect_listed(1, 0);
}
