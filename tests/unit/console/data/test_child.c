/* Child processes: progress lines, output, end. */
#include "console/data/child.h"

#include "tests/test.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct child process;
static char lines[1024];

static int begin(void **state)
{
    (void)state;
    child_init(&process);
    lines[0] = '\0';
    return 0;
}

static int end(void **state)
{
    (void)state;
    child_release(&process);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static void take(void *context, const char *line)
{
    (void)context;
    strncat(lines, line, sizeof(lines) - strlen(lines) - 1);
    strncat(lines, "|", sizeof(lines) - strlen(lines) - 1);
}

static void start(const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    char why[256];

    assert_int_equal(child_start(&process, argv, why, sizeof(why)), 0);
}

static int wait_for_end(void)
{
    int status = -1;

    while (!child_update(&process, take, NULL, &status)) {
        struct pollfd wait = {.fd = child_descriptor(&process), .events = POLLIN};

        poll(&wait, 1, 10);
    }
    return status;
}

TEST(child_gives_lines_output_and_status)
{
    start("echo one >&2; printf 'two\\nthr' >&2; echo ee >&2; echo '{\"report\":1}'; exit 3");
    assert_int_equal(wait_for_end(), 3);
    assert_string_equal(lines, "one|two|three|");
    assert_int_equal(process.output_length, strlen("{\"report\":1}\n"));
    assert_memory_equal(process.text, "{\"report\":1}\n", process.output_length);
    assert_int_equal(child_descriptor(&process), -1);
}

TEST(last_line_without_newline_is_passed_on)
{
    start("printf 'cut off' >&2");
    assert_int_equal(wait_for_end(), 0);
    assert_string_equal(lines, "cut off|");
}

TEST(stopped_child_can_still_write)
{
    start("trap 'echo done; exit 5' INT; echo ready >&2; while :; do sleep 0.05; done");
    while (lines[0] == '\0')
        child_update(&process, take, NULL, NULL);
    child_stop(&process);
    assert_int_equal(wait_for_end(), 5);
    assert_memory_equal(process.text, "done\n", 5);
}

TEST(killed_child_has_status_128_plus_signal)
{
    start("kill -KILL $$");
    assert_int_equal(wait_for_end(), 128 + 9);
}

TEST(missing_program_reports_an_error)
{
    const char *const argv[] = {"no-such-program-here", NULL};
    char why[256];

    setenv("PATH", "/usr/bin:/bin", 1); /* without directories that this user cannot read */
    assert_int_equal(child_start(&process, argv, why, sizeof(why)), 0);
    assert_int_equal(wait_for_end(), 127);
    assert_string_equal(lines, "cannot start no-such-program-here: No such file or directory|");
}

TEST(excess_output_is_read_and_dropped)
{
    start("head -c 1000000 /dev/zero; head -c 100000 /dev/zero >&2; echo >&2; echo end >&2");
    assert_int_equal(wait_for_end(), 0);
    assert_int_equal(process.output_length, CHILD_OUTPUT_BYTES);
    assert_non_null(strstr(lines, "end|"));
}

TEST(release_kills_a_running_child)
{
    start("while :; do echo x >&2; done");
    child_release(&process);
    assert_int_equal(process.pid, 0);
}
