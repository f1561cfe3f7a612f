/* Lines of events in logs and on the terminal. */
#include "daemon/base/events.h"

#include "tests/test.h"

#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static struct event_record make_event(const char *text)
{
    struct event_record event = {.level = LEVEL_WARN, .role = ROLE_WORKER, .pid = 7};

    snprintf(event.text, sizeof(event.text), "%s", text);
    return event;
}

TEST(line_has_role_pid_and_text)
{
    struct event_record event = make_event("gr\xc3\xbc\xc3\x9f");
    char line[EVENT_LINE_MAX];
    size_t length = event_line_short(&event, line, sizeof(line));

    assert_int_equal(length, strlen(line));
    assert_string_equal(line, "worker 7: gr\xc3\xbc\xc3\x9f\n");
}

TEST(forged_event_is_one_printable_line)
{
    struct event_record event =
        make_event("x\n1970/01/01 00:00:00 [error] master 1: forged\r\x1b[2J\xc2\x9b\xe2\x80\xae");
    char line[EVENT_LINE_MAX];
    size_t length;

    event.level = 200;
    event.role = 201;
    event_line_short(&event, line, sizeof(line));
    assert_string_equal(line, "? 7: x\\x0a1970/01/01 00:00:00 [error] master 1: forged\\x0d\\x1b[2J"
                              "\\xc2\\x9b\\xe2\\x80\\xae\n");
    length = event_line_to(-1, &event, line, sizeof(line));
    assert_int_equal(length, strlen(line));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    assert_non_null(strstr(line, " [?] ? 7: x\\x0a"));
}

/* An event in shared memory need not end in NUL. */
TEST(longest_event_fits_the_line)
{
    struct event_record event = make_event("");
    char line[EVENT_LINE_MAX];
    size_t length;

    event.pid = INT32_MIN;
    event.time_ns = UINT64_MAX;
    memset(event.text, '\n', sizeof(event.text));
    length = event_line_to(-1, &event, line, sizeof(line));
    assert_int_equal(length, strlen(line));
    assert_true(length > 4 * sizeof(event.text));
    assert_string_equal(line + strlen(line) - 5, "\\x0a\n");
}

TEST(event_before_the_segment_exists_is_escaped)
{
    int pipe_fds[2], standard_error = dup(STDERR_FILENO);
    char line[EVENT_LINE_MAX] = "";

    assert_int_equal(pipe(pipe_fds), 0);
    dup2(pipe_fds[1], STDERR_FILENO);
    event_log(LEVEL_ERROR, "cannot open %s", "a\nb\x1b");
    dup2(standard_error, STDERR_FILENO);
    assert_true(read(pipe_fds[0], line, sizeof(line) - 1) > 0);
    assert_non_null(strstr(line, "cannot open a\\x0ab\\x1b\n"));
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    close(standard_error);
}

TEST(long_text_is_several_events)
{
    int pipe_fds[2], standard_error = dup(STDERR_FILENO);
    char lines[4096] = "", text[600] = "", *line = lines;
    const char *next = text;

    for (int i = 0; i < 100; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "w%d ", i);
    assert_int_equal(pipe(pipe_fds), 0);
    dup2(pipe_fds[1], STDERR_FILENO);
    event_log(LEVEL_ERROR, "%s", text);
    event_log(LEVEL_ERROR, "%0*d", EVENT_TEXT_BYTES - 1, 7);
    dup2(standard_error, STDERR_FILENO);
    assert_true(read(pipe_fds[0], lines, sizeof(lines) - 1) > 0);
    for (int part = 0; part < 2; part++) { /* no word is lost or divided */
        char *start = strstr(line, ": ") + 2, *end = strchr(line, '\n');

        *end = '\0';
        if (part > 0) {
            assert_memory_equal(start, "... ", 4);
            start += 4;
        }
        assert_memory_equal(start, next, strlen(start));
        next += strlen(start) + (part == 0);
        line = end + 1;
    }
    assert_string_equal(next, "");
    assert_int_equal(strlen(strstr(line, ": ") + 2), EVENT_TEXT_BYTES); /* with its '\n' */
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    close(standard_error);
}

/* As a service manager does it: standard error is a stream socket, which JOURNAL_STREAM names. */
TEST(line_to_the_journal_begins_with_its_priority)
{
    static const char *const priorities[LEVEL_COUNT] = {"<7>", "<6>", "<4>", "<3>"};
    struct event_record event = {.role = ROLE_MASTER, .pid = 7, .text = "text"};
    char line[EVENT_LINE_MAX], stream[64];
    struct stat status;
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    assert_int_equal(fstat(ends[1], &status), 0);
    snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)status.st_dev,
             (unsigned long long)status.st_ino);
    assert_int_equal(setenv("JOURNAL_STREAM", stream, true), 0);
    events_find_journal();
    for (int level = 0; level < LEVEL_COUNT; level++) {
        char expected[64];

        event.level = (uint8_t)level;
        snprintf(expected, sizeof(expected), "%smaster 7: text\n", priorities[level]);
        assert_int_equal(event_line_to(ends[1], &event, line, sizeof(line)), strlen(expected));
        assert_string_equal(line, expected);
        assert_string_equal(event_priority(ends[0], (enum level)level), "");
    }
    assert_string_equal(event_priority(ends[1], (enum level)77), "<3>");
    assert_int_equal(unsetenv("JOURNAL_STREAM"), 0);
    events_find_journal();
    event_line_to(ends[1], &event, line, sizeof(line));
    assert_non_null(strstr(line, " [error] master 7: text\n"));
    close(ends[0]);
    close(ends[1]);
}

/* The message of the child, which aborts, in place of that of the C library. */
TEST(failed_assertion_is_an_event)
{
    char text[512] = "";
    int fds[2], status;
    pid_t child;

    assert_int_equal(pipe(fds), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(fds[1], STDERR_FILENO);
        __assert_fail("1 == 2", "module.c", 7, "function");
    }
    close(fds[1]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(read(fds[0], text, sizeof(text) - 1) > 0);
    close(fds[0]);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, ": assertion failed: 1 == 2 (module.c:7, function)\n"));
}
