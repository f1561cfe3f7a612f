#include "daemon/logger/journal.h"

#include "common/clock.h"
#include "tests/unit/open_descriptors.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LINES = 6000 };

static struct log_journal journal;
static int ends[2]; /* of the pipe that is the log */
static char expected[LOG_BATCH_BYTES], got[LOG_BATCH_BYTES];
static size_t length;

/* A batch of lines of all lengths up to 99 bytes, and an empty pipe as the log. */
static int set_up(void **state)
{
    size_t used = 0;

    (void)state;
    assert_int_equal(log_journal_open(&journal), 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    for (int i = 0; i < LINES; i++)
        used += (size_t)sprintf(expected + used, "%0*d\n", 1 + i % 99, i);
    memcpy(journal.batch->text, expected, used);
    log_journal_begin(&journal, used);
    length = 0;
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_journal_close(&journal);
    close(ends[0]);
    close(ends[1]);
    return 0;
}

static void take(size_t most)
{
    ssize_t part = 1;

    if (most > sizeof(got) - length)
        most = sizeof(got) - length;
    while (part > 0 && most > 0) {
        part = read(ends[0], got + length, most);
        length += part > 0 ? (size_t)part : 0;
        most -= part > 0 ? (size_t)part : 0;
    }
}

static struct log_sink sink_of(int fd)
{
    return log_sink_make("-", fd, "test");
}

static void check_all(void)
{
    size_t used = atomic_load(&journal.batch->used);

    take(sizeof(got));
    assert_int_equal(length, used);
    assert_memory_equal(got, expected, used);
    assert_int_equal(log_journal_lines_done(&journal), LINES);
}

static void full_pipe_is_continued_when_it_has_room(void **state)
{
    struct log_sink sink = sink_of(ends[1]);

    (void)state;
    while (!log_journal_write(&journal, &sink, 0)) {
        assert_int_equal(errno, EAGAIN);
        take(5000);
    }
    assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0); /* others share the flags */
    check_all();
}

static void batch_that_fits_the_pipe_is_written_at_once(void **state)
{
    struct log_sink sink = sink_of(ends[1]);

    (void)state;
    log_journal_begin(&journal, 100);
    assert_true(log_journal_write(&journal, &sink, 0));
    take(sizeof(got));
    assert_int_equal(length, 100);
    assert_memory_equal(got, expected, 100);
}

/* Every part that a pipe takes ends with a line, so that other writers cannot split one. */
static void pipe_gets_whole_lines(void **state)
{
    struct log_sink sink = sink_of(ends[1]);
    bool all;

    (void)state;
    do {
        all = log_journal_write(&journal, &sink, 0);
        take(sizeof(got));
        assert_int_equal(got[length - 1], '\n');
    } while (!all);
    check_all();
}

/*
 * A logger that dies leaves the counts of its last store: earlier ones than the pipes show. Each
 * state of the counts that it can leave is made from what was true before each write.
 */
static void counts_of_a_dead_logger_are_corrected(void **state)
{
    struct log_sink sink = sink_of(ends[1]);
    struct log_batch *batch = journal.batch;
    bool all;

    (void)state;
    do {
        uint64_t done = atomic_load(&batch->done), fed = atomic_load(&batch->fed);

        all = log_journal_write(&journal, &sink, 0);
        if (!all && fed > done)
            atomic_store(&batch->done, done); /* it died before it counted what it moved */
        assert_true(log_journal_check(&journal));
        take(3000);
    } while (!all);
    check_all();
}

/* It died between feeding the journal's pipe and counting that. */
static void bytes_fed_but_not_counted_are_written_once(void **state)
{
    struct log_sink sink = sink_of(ends[1]);
    const char *text = journal.batch->text;

    (void)state;
    atomic_store(&journal.batch->stream, 1);
    assert_int_equal(write(journal.in, text, 100), 100);
    assert_true(log_journal_check(&journal));
    assert_int_equal(atomic_load(&journal.batch->fed), 100);
    assert_int_equal(atomic_load(&journal.batch->done), 0);
    while (!log_journal_write(&journal, &sink, 0))
        take(sizeof(got));
    check_all();
}

static void other_target_gets_the_cut_line_again(void **state)
{
    struct log_sink sink = sink_of(ends[1]);

    (void)state;
    assert_false(log_journal_write(&journal, &sink, 0));
    take(sizeof(got));
    length = (size_t)atomic_load(&journal.batch->done);
    log_journal_set_done(&journal, length + 5);
    assert_int_not_equal(expected[length + 4], '\n');
    assert_int_equal(log_journal_step_back(&journal, length + 2), length + 2);
    assert_int_equal(log_journal_step_back(&journal, 0), length);
    assert_int_equal(atomic_load(&journal.batch->done), length);
    while (!log_journal_write(&journal, &sink, 0))
        take(sizeof(got));
    check_all();
}

static void reader_that_has_gone_is_an_error(void **state)
{
    struct log_sink sink = sink_of(ends[1]);

    (void)state;
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    assert_false(log_journal_write(&journal, &sink, clock_monotonic_ns() + NS_PER_S));
    assert_int_equal(errno, EPIPE);
    ends[0] = -1;
}

/* A logger that was taken over may have stored anything. */
static void forged_counts_are_invalid(void **state)
{
    static const uint64_t forged[][4] = {
        /* used, begin, done, fed */
        {sizeof(((struct log_batch *)NULL)->text) + 1, 0, 0, 0},
        {UINT64_MAX, 0, 0, 0},
        {100, 0, 101, 101},
        {100, 0, 0, 101},
        {100, 60, 50, 50},
        {100, 0, 60, 50},
    };
    struct log_batch *batch = journal.batch;

    (void)state;
    for (size_t i = 0; i < sizeof(forged) / sizeof(forged[0]); i++) {
        atomic_store(&batch->used, forged[i][0]);
        atomic_store(&batch->begin, forged[i][1]);
        atomic_store(&batch->done, forged[i][2]);
        atomic_store(&batch->fed, forged[i][3]);
        if (log_journal_check(&journal))
            fail_msg("case %zu is valid", i);
    }
    log_journal_begin(&journal, 100);
    assert_true(log_journal_check(&journal));
    assert_int_equal(write(journal.in, expected, 101), 101);
    assert_false(log_journal_check(&journal));
}

static void extreme_counts_are_valid(void **state)
{
    struct log_batch *batch = journal.batch;

    (void)state;
    log_journal_begin(&journal, sizeof(batch->text));
    assert_true(log_journal_check(&journal));
    log_journal_set_done(&journal, sizeof(batch->text));
    atomic_store(&batch->begin, sizeof(batch->text));
    assert_true(log_journal_check(&journal));
}

static void closed_journal_keeps_nothing_open(void **state)
{
    int descriptors = open_descriptors();
    struct log_journal other;

    (void)state;
    assert_int_equal(log_journal_open(&other), 0);
    assert_int_equal(open_descriptors(), descriptors + 2);
    for (int i = 0; i < 2; i++) {
        log_journal_close(&other);
        assert_int_equal(open_descriptors(), descriptors);
        assert_null(other.batch);
        assert_int_equal(other.in, -1);
        assert_int_equal(other.out, -1);
    }
}

static void failed_open_leaves_the_journal_closed(void **state)
{
    int descriptors = open_descriptors();
    struct log_journal other = journal;
    struct rlimit before, none;

    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(log_journal_open(&other), -1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_null(other.batch);
    assert_int_equal(other.in, -1);
    assert_int_equal(other.out, -1);
    assert_int_equal(open_descriptors(), descriptors);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(full_pipe_is_continued_when_it_has_room),
        TEST(batch_that_fits_the_pipe_is_written_at_once),
        TEST(pipe_gets_whole_lines),
        TEST(counts_of_a_dead_logger_are_corrected),
        TEST(bytes_fed_but_not_counted_are_written_once),
        TEST(other_target_gets_the_cut_line_again),
        TEST(reader_that_has_gone_is_an_error),
        TEST(forged_counts_are_invalid),
        TEST(extreme_counts_are_valid),
        TEST(closed_journal_keeps_nothing_open),
        TEST(failed_open_leaves_the_journal_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
