/* The error log: which events of a segment it writes. */
#include "daemon/logger/internal.h"

#include "common/clock.h"
#include "daemon/base/events.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/wrapped.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
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
static int callocs_left = -1; /* number of calls of calloc() that succeed; -1: all */

void *__wrap_calloc(size_t count, size_t size)
{
    if (callocs_left == 0)
        return NULL;
    if (callocs_left > 0)
        callocs_left--;
    return __real_calloc(count, size);
}

static int lost_logs;

static void on_lost(void *context, uint32_t log)
{
    (void)context;
    assert_int_equal(log, LOG_ERROR);
    lost_logs++;
}

static const struct log_owner owner = {.lost = on_lost};

static int set_up(void **state)
{
    struct log_sink sink;

    (void)state;
    lost_logs = 0;
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
    assert_int_equal(lost_logs, 0);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

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

    snprintf(words, sizeof(words), "worker %u logs too fast: ", worker);
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

TEST(events_of_the_master_have_no_quota)
{
    flood(SEGMENT_RING_MASTER);
    assert_int_equal(count_lines("flood "), EVENTS);
    assert_int_equal(count_lines("logs too fast"), 0);
}

/*
 * A report per second leaves room for the events. The last flood takes what the quota has by then.
 */
TEST(worker_that_logs_on_and_on_is_reported_once_per_second)
{
    uint64_t begun_ns = clock_monotonic_ns(), lasted_s;

    do {
        lasted_s = (clock_monotonic_ns() - begun_ns) / NS_PER_S;
        flood(SEGMENT_RING_WORKERS);
    } while (lasted_s < FLOOD_S);
    lasted_s = (clock_monotonic_ns() - begun_ns) / NS_PER_S;
    assert_in_range(count_lines("logs too fast"), 1, lasted_s + 1);
    assert_true(count_lines("flood ") > BURST + PER_S);
}

/* As at the end of the logger. */
TEST(events_not_logged_are_reported_on_request)
{
    uint64_t events;

    flood(SEGMENT_RING_WORKERS);
    error_log_report_suppressed(error_log);
    events = count_lines("flood ");
    assert_true(error_log_drain(error_log));
    assert_int_equal(count_suppressed(0), EVENTS - events);
}

/* The count is reported once. Another worker has a quota of its own. */
TEST(events_of_a_worker_beyond_its_quota_are_counted)
{
    uint64_t begun_ns = clock_monotonic_ns(), events, most;

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

/* The log */

TEST(next_logger_continues_after_the_last_event)
{
    struct log_sink sink;

    append(SEGMENT_RING_MASTER, "event", 1);
    append(SEGMENT_RING_WORKERS + 1, "event", 2);
    assert_true(error_log_drain(error_log));
    append(SEGMENT_RING_WORKERS + 1, "event", 3);
    error_log_free(error_log);
    error_log = error_log_new(&segment, &owner);
    assert_non_null(error_log);
    assert_false(error_log_drain(error_log)); /* it has no sink yet */
    sink = log_sink_make("/error.log", dup(file), "test");
    error_log_use(error_log, &sink);
    assert_true(error_log_drain(error_log));
    assert_int_equal(count_lines(" event 1.\n"), 1);
    assert_int_equal(count_lines(" event 2.\n"), 1);
    assert_int_equal(count_lines(" event 3.\n"), 1);
    assert_int_equal(count_lines("\n"), 3);
}

TEST(line_that_does_not_fit_the_file_is_lost)
{
    struct rlimit before, none;

    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = (struct rlimit){.rlim_cur = 1, .rlim_max = before.rlim_max};
    append(SEGMENT_RING_MASTER, "event", 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    assert_true(error_log_drain(error_log));
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    append(SEGMENT_RING_MASTER, "event", 2);
    assert_true(error_log_drain(error_log));
    assert_int_equal(count_lines(" event 1.\n"), 0);
    assert_int_equal(count_lines(" event 2.\n"), 1);
}

/* Puts a pipe or socket in the place of the file, and returns its other end. */
static int use_other(int ends[2], const char *target)
{
    struct log_sink sink = log_sink_make(target, ends[1], "test");

    error_log_use(error_log, &sink);
    return ends[0];
}

TEST(slow_reader_gets_the_line_later)
{
    char bytes[4096] = {0};
    int ends[2], reader;

    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(ends[1], bytes, sizeof(bytes)) > 0)
        continue;
    reader = use_other(ends, "-");
    append(SEGMENT_RING_MASTER, "event", 1);
    assert_false(error_log_drain(error_log));
    assert_false(error_log_drain(error_log));
    while (read(reader, bytes, sizeof(bytes)) > 0)
        continue;
    assert_true(error_log_drain(error_log));
    memset(bytes, 0, sizeof(bytes));
    assert_true(read(reader, bytes, sizeof(bytes) - 1) > 0);
    assert_non_null(strstr(bytes, " event 1.\n"));
    close(reader);
}

TEST(reader_that_has_gone_is_reported_to_the_owner)
{
    struct log_sink sink;
    int ends[2];

    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    close(use_other(ends, "-"));
    append(SEGMENT_RING_MASTER, "event", 1);
    assert_false(error_log_drain(error_log));
    assert_int_equal(lost_logs, 1);
    assert_false(error_log_drain(error_log));
    assert_int_equal(lost_logs, 1);
    lost_logs = 0;
    sink = log_sink_make("/error.log", dup(file), "test");
    error_log_use(error_log, &sink);
    assert_int_equal(fcntl(ends[1], F_GETFD), -1); /* the old one is closed */
    assert_true(error_log_drain(error_log));
    assert_int_equal(count_lines(" event 1.\n"), 1);
}

TEST(journald_line_has_no_time_or_level)
{
    char message[512] = {0}, expected[64];
    int ends[2], receiver;

    assert_int_equal(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, ends), 0);
    receiver = use_other(ends, "journald:");
    append(SEGMENT_RING_MASTER, "event", 1);
    assert_true(error_log_drain(error_log));
    assert_true(recv(receiver, message, sizeof(message) - 1, MSG_DONTWAIT) > 0);
    assert_memory_equal(message, "PRIORITY=6\n", strlen("PRIORITY=6\n"));
    snprintf(expected, sizeof(expected), "\nMESSAGE=worker %d: event 1.\n", getpid());
    assert_non_null(strstr(message, expected));
    close(receiver);
}

TEST(log_without_memory_for_a_part_is_null)
{
    enum { PARTS = 3 };
    struct error_log *other;

    for (int parts = 0; parts < PARTS; parts++) {
        callocs_left = parts;
        assert_null(error_log_new(&segment, &owner));
    }
    callocs_left = PARTS;
    other = error_log_new(&segment, &owner);
    callocs_left = -1;
    assert_non_null(other);
    error_log_free(other);
}
