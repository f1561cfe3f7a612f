/* The error log: which events of a segment it writes. */
#include "daemon/logger/error_log.h"

#include "common/clock.h"
#include "daemon/base/events.h"
#include "tests/unit/own_segment.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    EVENTS = 1000,
    AT_A_TIME = 32, /* fit the ring */
    BURST = 256,    /* of a worker */
    PER_S = 20,     /* the same, afterwards */
    FLOOD_S = 2,
    PATIENCE_MS = 60000,
    STEP_MS = 10,
};

static struct segment segment;
static struct error_log *error_log;
static int file;

static void on_lost(void *context, uint32_t log)
{
    (void)context, (void)log;
    fail_msg("the log is lost");
}

static const struct log_owner owner = {.lost = on_lost};

static int set_up(void **state)
{
    struct log_sink sink;

    (void)state;
    if (own_segment_create(&segment, (struct segment_plan){.max_workers = 2}) != 0 ||
        segment_reserve(&segment, 0, 1) != 0 || segment_reserve(&segment, 1, 1) != 0)
        return -1;
    file = memfd_create("error log", MFD_CLOEXEC);
    error_log = error_log_new(&segment, &owner);
    if (file < 0 || error_log == NULL)
        return -1;
    sink = log_sink_make("/error.log", dup(file), "test");
    error_log_use(error_log, &sink);
    events_attach(&segment, SEGMENT_RING_LOGGER);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    events_attach(NULL, 0);
    error_log_free(error_log);
    close(file);
    segment_destroy(&segment);
    return 0;
}

static void append(uint32_t ring_number, const char *words, int number)
{
    struct event_ring ring = segment_event_ring(&segment, ring_number);
    struct event_record event = {
        .level = LEVEL_INFO, .role = ROLE_WORKER, .pid = getpid(), .time_ns = clock_wall_ns()};

    snprintf(event.text, sizeof(event.text), "%s %d.", words, number);
    event_ring_append(&ring, &event);
}

/* EVENTS events, with their numbers as text. */
static void flood(uint32_t ring)
{
    for (int i = 0; i < EVENTS; i++) {
        append(ring, "flood", i);
        if (i % AT_A_TIME == AT_A_TIME - 1)
            assert_true(error_log_drain(error_log));
    }
    assert_true(error_log_drain(error_log));
}

/* The caller frees it. */
static char *written(void)
{
    off_t length = lseek(file, 0, SEEK_END);
    char *text = calloc(1, (size_t)length + 1);

    assert_non_null(text);
    assert_int_equal(pread(file, text, (size_t)length, 0), length);
    return text;
}

static uint64_t count_lines(const char *words)
{
    char *text = written();
    uint64_t count = 0;

    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        count++;
    free(text);
    return count;
}

/* The sum of all reports about the worker. */
static uint64_t count_suppressed(uint32_t worker)
{
    char *text = written(), words[64];
    uint64_t sum = 0;

    snprintf(words, sizeof(words), "worker slot %u logs too fast: ", worker);
    for (const char *at = text; (at = strstr(at, words)) != NULL; at++)
        sum += strtoull(at + strlen(words), NULL, 10);
    free(text);
    return sum;
}

static void await_suppressed(uint32_t worker, uint64_t expected)
{
    for (int waited = 0; count_suppressed(worker) != expected; waited += STEP_MS) {
        assert_true(waited < PATIENCE_MS);
        usleep(STEP_MS * 1000);
        error_log_drain(error_log);
    }
}

static void events_of_the_master_have_no_quota(void **state)
{
    (void)state;
    flood(SEGMENT_RING_MASTER);
    assert_int_equal(count_lines("flood "), EVENTS);
    assert_int_equal(count_lines("logs too fast"), 0);
}

/* A report per second leaves room for the events. The last flood takes what the quota has by then. */
static void worker_that_logs_on_and_on_is_reported_once_per_second(void **state)
{
    uint64_t begun_ns = clock_monotonic_ns(), lasted_s;

    (void)state;
    do {
        lasted_s = (clock_monotonic_ns() - begun_ns) / NS_PER_S;
        flood(SEGMENT_RING_WORKERS);
    } while (lasted_s < FLOOD_S);
    lasted_s = (clock_monotonic_ns() - begun_ns) / NS_PER_S;
    assert_in_range(count_lines("logs too fast"), 1, lasted_s + 1);
    assert_true(count_lines("flood ") > BURST + PER_S);
}

/* As at the end of the logger. */
static void events_not_logged_are_reported_on_request(void **state)
{
    uint64_t events;

    (void)state;
    flood(SEGMENT_RING_WORKERS);
    error_log_report_suppressed(error_log);
    events = count_lines("flood ");
    assert_true(error_log_drain(error_log));
    assert_int_equal(count_suppressed(0), EVENTS - events);
}

/* The count is reported once. Another worker has a quota of its own. */
static void events_of_a_worker_beyond_its_quota_are_counted(void **state)
{
    uint64_t begun_ns = clock_monotonic_ns(), events, most;

    (void)state;
    flood(SEGMENT_RING_WORKERS);
    events = count_lines("flood ");
    most = BURST + 1 + PER_S * (clock_monotonic_ns() - begun_ns) / NS_PER_S;
    assert_in_range(events, BURST, most);
    assert_int_equal(count_lines(" flood 0.\n"), 1);
    await_suppressed(0, EVENTS - events);
    usleep(2 * 1000 * 1000 / PER_S); /* for two events */
    error_log_report_suppressed(error_log);
    append(SEGMENT_RING_WORKERS, "later", 0);
    assert_true(error_log_drain(error_log));
    assert_int_equal(count_lines("later "), 1);
    assert_int_equal(count_suppressed(0), EVENTS - events);
    flood(SEGMENT_RING_WORKERS + 1);
    assert_true(count_lines("flood ") >= events + BURST);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(events_of_the_master_have_no_quota),
        TEST(worker_that_logs_on_and_on_is_reported_once_per_second),
        TEST(events_not_logged_are_reported_on_request),
        TEST(events_of_a_worker_beyond_its_quota_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
