/* The live view of wsload on a terminal, and its last frame at the end. */
#include "common/macros.h"
#include "terminal.h"
#include "tests/test.h"
#include "wsload_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const struct test_fixture test_group_fixture = {wsload_server_start, wsload_server_stop};

enum { WORDS_MAX = 20 };

static const char *const no_environment[] = {NULL};

/*
 * Runs wsload with the words of OPTIONS, and the URL of the server, on ROWS x COLUMNS. It waits for
 * all responses. With a duration they are slow: the view needs time, not requests.
 */
static struct terminal *start(int rows, int columns, const char *options,
                              const char *const *environment)
{
    static char url[64], words[512];
    const char *arguments[WORDS_MAX] = {WSLOAD_PROGRAM, "--grace", "1m", "--connect-timeout", "1m"};
    size_t count = 5;

    snprintf(url, sizeof(url), "http://127.0.0.1:%u/%s", wsload_server_port(),
             strstr(options, "-d ") != NULL ? "slow" : "ok");
    snprintf(words, sizeof(words), "%s", options);
    for (char *rest, *word = strtok_r(words, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        arguments[count++] = word;
    arguments[count] = url;
    return terminal_start(rows, columns, arguments, environment);
}

static void expect(struct terminal *terminal, const char *words)
{
    if (!terminal_shows(terminal, words))
        fail_msg("no '%s' in\n%s", words, terminal_text(terminal));
}

static void expect_end(struct terminal *terminal, int status)
{
    int ended = terminal_wait_end(terminal);

    assert_true(WIFEXITED(ended));
    assert_int_equal(WEXITSTATUS(ended), status);
    terminal_take(terminal);
}

static unsigned count(struct terminal *terminal, const char *words)
{
    unsigned found = 0;

    for (const char *at = terminal_text(terminal); (at = strstr(at, words)) != NULL; at++)
        found++;
    return found;
}

TEST(live_view_is_replaced_by_report)
{
    struct terminal *terminal = start(24, 80, "-c 20 -t 2 -d 1h", no_environment);

    expect(terminal, "20 of 20 up, 2 threads");
    expect(terminal, "% p50"); /* in the distribution */
    expect(terminal, "59m ");
    expect(terminal, "█");
    assert_true(terminal_has_colour(terminal));
    assert_false(terminal_echoes(terminal));
    terminal_save(terminal, "load-live");
    terminal_type(terminal, "C");
    expect(terminal, "now 22 connections, 2 threads");
    expect(terminal, "22 of 22 up");
    terminal_type(terminal, "-T");
    expect(terminal, "now 20 connections, 3 threads");
    terminal_type(terminal, "q");
    expect_end(terminal, 0);
    assert_int_equal(count(terminal, "requests/s  "), 0);
    assert_int_equal(count(terminal, "  Statuses     200"), 1);
    assert_int_equal(count(terminal, "% p50"), 1);
    assert_true(terminal_echoes(terminal));
    terminal_save(terminal, "load-report");
    terminal_stop(terminal);
}

/* If the report goes elsewhere, the last frame remains. */
TEST(last_frame_stays_if_report_goes_elsewhere)
{
    struct terminal *terminal = start(24, 80, "-c 3 -n 300 -o /dev/null", no_environment);

    expect(terminal, "100%");
    expect_end(terminal, 0);
    assert_int_equal(count(terminal, "done\n"), 1);
    assert_int_equal(count(terminal, "answered     300\n"), 1);
    assert_int_equal(count(terminal, "latency "), 1);
    assert_int_equal(count(terminal, "q end"), 0);
    terminal_stop(terminal);
}

/* After a resize there is one frame of the new size. */
TEST(resize_redraws_one_frame)
{
    static const struct {
        int rows, columns;
        const char *words;
    } sizes[] = {
        {50, 200, "─────────────────────────────────────────────────────────────"},
        {16, 40, "─── "},
        {24, 80, "p99.9"},
        {8, 80, "req/s"},
        {30, 30, "req/s"},
        {12, 60, "connections"},
    };
    struct terminal *terminal = start(24, 80, "-c 5 -d 1h", no_environment);

    expect(terminal, "5 of 5 up");
    for (size_t i = 0; i < ARRAY_LENGTH(sizes); i++) {
        terminal_resize(terminal, sizes[i].rows, sizes[i].columns);
        expect(terminal, sizes[i].words);
        expect(terminal, "req");
        if (count(terminal, "req") != 1)
            assert_true(terminal_shows_no_more(terminal, "requests/s"));
    }
    terminal_type(terminal, "q");
    expect_end(terminal, 0);
    terminal_stop(terminal);
}

TEST(plain_terminal_gets_ascii_frames)
{
    static const char *const no_color[] = {"NO_COLOR=1", NULL}, *const ascii[] = {"LC_ALL=C", NULL};
    static const struct {
        const char *options;
        const char *const *environment;
        bool colour, other_than_ascii;
    } cases[] = {
        {"-c 5 -d 1h", no_environment, true, true},
        {"-c 5 -d 1h", no_color, false, true},
        {"-c 5 -d 1h", ascii, true, false},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct terminal *terminal = start(24, 80, cases[i].options, cases[i].environment);

        expect(terminal, "5 of 5 up");
        expect(terminal, "% p50");
        assert_int_equal(terminal_has_colour(terminal), cases[i].colour);
        assert_int_equal(terminal_has_non_ascii(terminal), cases[i].other_than_ascii);
        terminal_type(terminal, "q");
        expect_end(terminal, 0);
        expect(terminal, "  Statuses     200");
        assert_int_equal(terminal_has_non_ascii(terminal), cases[i].other_than_ascii);
        terminal_stop(terminal);
    }
}

TEST(small_terminal_gets_one_line)
{
    struct terminal *terminal = start(9, 130, "-c 5 -d 1h", no_environment);

    expect(terminal, "up 5/5  + - load");
    assert_int_equal(count(terminal, "requests/s"), 0);
    kill(terminal_pid(terminal), SIGINT);
    expect_end(terminal, 130);
    assert_int_equal(count(terminal, "up 5/5"), 0);
    terminal_stop(terminal);
}

/* A dumb terminal and --quiet get only the report. */
TEST(quiet_and_dumb_terminal_get_report_only)
{
    static const char *const dumb[] = {"TERM=dumb", NULL};
    static const struct {
        const char *options;
        const char *const *environment;
    } cases[] = {{"-c 5 -n 5000", dumb}, {"-c 5 -n 5000 --quiet", no_environment}};

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        struct terminal *terminal = start(40, 80, cases[i].options, cases[i].environment);

        expect(terminal, "  Statuses     200         5,000");
        expect_end(terminal, 0);
        assert_memory_equal(terminal_line(terminal, 0), "GET http://", 11);
        terminal_stop(terminal);
    }
}
