/* The screens of the real console on a pseudo-terminal, with a fake daemon. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct size {
    int rows, columns;
};

static const struct size sizes[] = {{24, 80}, {50, 200}};

static void save(const char *view, struct size size)
{
    char name[64];

    snprintf(name, sizeof(name), "%s-%dx%d", view, size.columns, size.rows);
    terminal_save(terminal, name);
}

static void overview_shows_metrics(void **state)
{
    (void)state;
    stage_fixture();
    for (size_t i = 0; i < 2; i++) {
        stage_console(sizes[i].rows, sizes[i].columns, NULL, NULL);
        ASSERT_SHOWS("[1 overview]", "? help", "threads 4 of 4 (2 in each)  workers 2 of 2",
                     "up 1h 02m");
        /* 1000 + 2000 + 3000 + 4000 requests; idle now; one peak in the history. */
        ASSERT_SHOWS("requests/s  0", "10.0k total", "peak 5.00k", "latency p99  -",
                     "p50 -  p90 -  max -", "sent/s  0", "9.54 MiB total", "connections  10",
                     "peak 14", "errors/s (4xx, 5xx)  0", "2xx 0  3xx 0  4xx 0  5xx 0",
                     "cache hits  -", "25 entries, 3.00 MiB", "1m └", "▲", "+ more threads");
        save("overview", sizes[i]);
        terminal_type(terminal, "q");
        stage_ended_well();
        stage_end_console();
    }
}

/* The peak was 30 s ago: its mark is below that column. */
static void graph_marks_peak(void **state)
{
    const char *axis, *mark;

    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("peak 5.00k", "▲", "25 entries", "+ more threads");
    axis = terminal_line(terminal, 7); /* panel: title, detail, three lines of graph, axis */
    assert_non_null(strstr(axis, "1m └"));
    mark = strstr(strstr(axis, "└"), "▲");
    assert_non_null(mark);
    /* 29 columns for 60 seconds, second 29 of them: column 14; each character takes 3 bytes. */
    assert_int_equal((mark - strstr(axis, "└")) / 3 - 1, 14);
    terminal_type(terminal, "g"); /* five minutes: the samples begin at two fifths */
    ASSERT_SHOWS("5m └");
}

static void threads_view_shows_every_thread(void **state)
{
    static const char *const view[] = {"threads", NULL};

    (void)state;
    stage_fixture();
    for (size_t i = 0; i < 2; i++) {
        stage_console(sizes[i].rows, sizes[i].columns, view, NULL);
        ASSERT_SHOWS("[2 threads]", "threads  0 WK  1 R_", "W write", "K keep-alive", "G leaving",
                     "THREAD     STATE", "SINCE", "REQ/S", "CONN", "P99", "WORKS ON",
                     "worker 0   serving", "worker 1   serving", "threads 2/2", "GET /index.html",
                     "/downloads/disk.iso", "  0.0 ", "  0.1 ", "  1.0 ", "  1.1 ", "  1.q1 ",
                     "  1.queue  1 waiting");
        save("threads", sizes[i]);
        stage_end_console();
    }
}

static void log_merges_rings_by_time(void **state)
{
    static const char *const view[] = {"log", NULL};

    (void)state;
    stage_fixture();
    for (size_t i = 0; i < 2; i++) {
        stage_console(sizes[i].rows, sizes[i].columns, view, NULL);
        ASSERT_SHOWS("[5 log]", "following", "TIME", "STATUS", "TOOK", "REQUEST", "192.0.2.7",
                     "GET /page-39", "503", "GET /page-38", "404", "301");
        save("log", sizes[i]);
        /* Two log rings, one list, the newest record at the bottom. */
        assert_non_null(strstr(terminal_line(terminal, i == 0 ? 22 : 43), "GET /page-39"));
        assert_non_null(strstr(terminal_line(terminal, i == 0 ? 21 : 42), "GET /page-38"));
        stage_end_console();
    }
}

static void log_scrolls_back_and_follows_again(void **state)
{
    static const char *const view[] = {"log", NULL};

    (void)state;
    stage_fixture();
    stage_console(24, 80, view, NULL);
    ASSERT_SHOWS("GET /page-39");
    terminal_type(terminal, "\x1bOH"); /* Home */
    ASSERT_SHOWS("paused (End follows)", "GET /page-0 ");
    assert_true(terminal_shows_no_more(terminal, "GET /page-39"));
    terminal_type(terminal, "\x1bOF"); /* End */
    ASSERT_SHOWS("following", "GET /page-39");
}

static void attaches_when_daemon_starts(void **state)
{
    (void)state;
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("no webserverd named 'scr-", "is running", "webserverd -f FILE",
                 "attaches when it runs");
    terminal_save(terminal, "absent-80x24");
    stage_fixture();
    ASSERT_SHOWS("10.0k total");
}

static void attaches_again_after_restart(void **state)
{
    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    stage_end_fixture();
    ASSERT_SHOWS("has stopped; this is its last sample", "10.0k total",
                 "attaches when it runs again");
    terminal_save(terminal, "stopped-80x24");
    stage_fixture();
    assert_true(terminal_shows_no_more(terminal, "has stopped"));
    ASSERT_SHOWS("threads 4 of 4 (2 in each)  workers 2 of 2");
    /* The console follows the new daemon: its changes appear. */
    terminal_type(terminal, "+");
    ASSERT_SHOWS("threads 6 of 6 (3 in each)");
}

static void plus_and_minus_change_thread_count(void **state)
{
    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("threads 4 of 4 (2 in each)");
    terminal_type(terminal, "+");
    ASSERT_SHOWS("threads: wanted 3, actual 3", "threads 6 of 6 (3 in each)");
    terminal_type(terminal, "-");
    ASSERT_SHOWS("threads: wanted 2, actual 2", "threads 4 of 4 (2 in each)");
    terminal_type(terminal, "-");
    ASSERT_SHOWS("threads: wanted 1, actual 1");
    terminal_type(terminal, "-");
    ASSERT_SHOWS("not done: the minimum is one serving thread per worker");
}

static void screen_updates_while_daemon_is_slow(void **state)
{
    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("threads 4 of 4 (2 in each)");
    fixture_hold_answers(fixture, true);
    terminal_type(terminal, "+");
    ASSERT_SHOWS("threads 3 requested, 2 in force", "waiting for the daemon");
    terminal_type(terminal, "++2"); /* two more threads, then another view */
    ASSERT_SHOWS("threads 5 requested, 2 in force", "[2 threads]");
    terminal_save(terminal, "asked-80x24");
    fixture_hold_answers(fixture, false);
    ASSERT_SHOWS("threads: wanted 5, actual 5", "threads 10 of 10 (5 in each)");
    assert_int_equal(fixture_commands(fixture), 2);
}

static void rejected_change_is_shown(void **state)
{
    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("threads 4 of 4 (2 in each)");
    fixture_hold_answers(fixture, true);
    terminal_type(terminal, "+");
    ASSERT_SHOWS("threads 3 requested");
    terminal_type(terminal, "++++++++++++++++++++");
    ASSERT_SHOWS("threads 23 requested");
    fixture_hold_answers(fixture, false);
    ASSERT_SHOWS("not done: at most 16 threads fit", "threads 6 of 6 (3 in each)");
}

static void readonly_changes_nothing(void **state)
{
    static const char *const readonly[] = {"--readonly", NULL};
    (void)state;
    stage_fixture();
    stage_console(24, 80, readonly, NULL);
    ASSERT_SHOWS("threads 4 of 4 (2 in each)", "read-only");
    terminal_type(terminal, "+");
    ASSERT_SHOWS("not done: this console is read-only (--readonly)");
    assert_int_equal(fixture_commands(fixture), 0);
}

static void help_lists_every_key(void **state)
{
    static const char *const sentences[] = {
#define KEY(request, group, shown, brief, first, second, help) help,
#include "console/ui/keys.def"
#undef KEY
        "keep-alive: waiting for events, connections open", "Help, lines 1 to"};
    (void)state;
    stage_fixture();
    stage_console(75, 120, NULL, NULL);
    terminal_type(terminal, "?");
    stage_shows(sentences, sizeof(sentences) / sizeof(sentences[0]));
    terminal_save(terminal, "help-120x75");
    terminal_type(terminal, "\x1b");
    assert_true(terminal_shows_no_more(terminal, "Help, lines"));
    ASSERT_SHOWS("[1 overview]", "requests/s");
}

static void keys_move_between_views(void **state)
{
    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("[1 overview]");
    terminal_type(terminal, "\t");
    ASSERT_SHOWS("[2 threads]");
    terminal_type(terminal, "\t");
    ASSERT_SHOWS("[3 latency]");
    terminal_type(terminal, "1\x1b[Z");
    ASSERT_SHOWS("[9 events]");
    terminal_type(terminal, "\t");
    ASSERT_SHOWS("[1 overview]");
    terminal_type(terminal, "2");
    ASSERT_SHOWS("[2 threads]");
}

static void freeze_stops_updates(void **state)
{
    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("threads 4 of 4 (2 in each)");
    terminal_type(terminal, " ");
    ASSERT_SHOWS("FROZEN at");
    terminal_type(terminal, "+");
    ASSERT_SHOWS("threads: wanted 3, actual 3", "threads 4 of 4 (2 in each)");
    terminal_type(terminal, " ");
    ASSERT_SHOWS("threads 6 of 6 (3 in each)");
}

static void every_size_is_filled(void **state)
{
    static const struct size steps[] = {{50, 200}, {10, 40}, {24, 80}, {40, 120},
                                        {12, 300}, {60, 45}, {24, 80}};
    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("[1 overview]");
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        for (int view = 0; view < 3; view++) {
            static const char *const keys[] = {"1", "2", "5"};
            static const char *const tabs[] = {"[1 overview]", "[2 threads]", "[5 log]"};

            terminal_resize(terminal, steps[i].rows, steps[i].columns);
            terminal_type(terminal, keys[view]);
            assert_true(terminal_shows(terminal, tabs[view]));
            assert_true(terminal_shows(terminal, view == 0   ? "requests/s"
                                                 : view == 1 ? "0 WK  1 R_"
                                                             : "/page-39"));
        }
    }
    terminal_resize(terminal, 5, 30);
    ASSERT_SHOWS("0 req/s  threads 4/4");
    assert_true(terminal_shows_no_more(terminal, "[5 log]"));
    terminal_resize(terminal, 24, 80);
    ASSERT_SHOWS("[5 log]");
}

/* After a thousand random keys and sizes the console still runs and can be quit. */
static void random_keys_and_sizes_do_no_harm(void **state)
{
    static const char *const keys[] = {
        "1",    "2",       "3",        "4",    "5",      "6",    "7",      "8",       "9",
        "\t",   "\x1b[Z",  "+",        "-",    " ",      "g",    "\x1bOA", "\x1bOB",  "m",
        "n",    "c",       "s",        "S",    "f",      "e",    "d",      "\x1b[5~", "\x1b[6~",
        "?",    "m",       "w",        "o",    "\r",     "\x1b", "\x1bOH", "\x1bOF",  "\f",
        "\x1b", "\x1b[M",  "\x80",     "[",    "]",      "W",    "O",      "\x1b",    "\xff",
        "~",    "xyz\x1b", "\x1b[99~", "/a\r", "\x1bOD",
    };
    uint32_t random = 12345;

    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("[1 overview]");
    for (int i = 0; i < 3000; i++) {
        random = random * 1664525 + 1013904223;
        if (random >> 24 < 16)
            terminal_resize(terminal, 1 + (int)(random >> 8 & 63), 1 + (int)(random >> 14 & 255));
        terminal_type(terminal, keys[(random >> 16) % (sizeof(keys) / sizeof(keys[0]))]);
        terminal_take(terminal);
    }
    terminal_resize(terminal, 24, 80);
    terminal_type(terminal, "1");
    ASSERT_SHOWS("[1 overview]", "requests/s", "errors/s");
    terminal_type(terminal, "q");
    stage_ended_well();
}

static void mono_and_ascii_are_possible(void **state)
{
    static const char *const ascii[] = {"--ascii", "--no-color", NULL};
    static const char *const no_color[] = {"NO_COLOR=1", NULL};
    static const char *const vt100[] = {"TERM=vt100", NULL};
    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("1m └", "▲");
    assert_true(terminal_has_colour(terminal));
    assert_true(terminal_has_non_ascii(terminal));
    stage_end_console();
    stage_console(24, 80, ascii, NULL);
    ASSERT_SHOWS("1m +", "^", "|");
    assert_false(terminal_has_colour(terminal));
    assert_false(terminal_has_non_ascii(terminal));
    terminal_save(terminal, "overview-ascii-80x24");
    stage_end_console();
    stage_console(24, 80, NULL, no_color);
    ASSERT_SHOWS("1m └", "▲");
    assert_false(terminal_has_colour(terminal));
    stage_end_console();
    stage_console(24, 80, NULL, vt100);
    ASSERT_SHOWS("1m +", "^");
    assert_false(terminal_has_non_ascii(terminal));
}

static void signals_restore_the_terminal(void **state)
{
    static const int signals[] = {SIGTERM, SIGHUP, SIGINT};
    (void)state;
    stage_fixture();
    for (size_t i = 0; i < 3; i++) {
        stage_console(24, 80, NULL, NULL);
        ASSERT_SHOWS("[1 overview]");
        assert_true(terminal_in_full_screen(terminal));
        assert_false(terminal_echoes(terminal));
        kill(terminal_pid(terminal), signals[i]);
        stage_ended_well();
        stage_end_console();
    }
}

static void control_c_restores_the_terminal(void **state)
{
    (void)state;
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("is running");
    terminal_type(terminal, "\x03");
    stage_ended_well();
}

static void crash_restores_the_terminal(void **state)
{
    int status;

    (void)state;
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("is running");
    kill(terminal_pid(terminal), SIGSEGV);
    status = terminal_wait_end(terminal);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
    assert_false(terminal_in_full_screen(terminal));
    assert_true(terminal_cursor_visible(terminal));
    assert_true(terminal_echoes(terminal));
}

static void lost_terminal_ends_the_console(void **state)
{
    (void)state;
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("is running");
    terminal_hang_up(terminal);
    assert_true(WIFEXITED(terminal_wait_end(terminal)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(overview_shows_metrics, stage_teardown),
        cmocka_unit_test_teardown(graph_marks_peak, stage_teardown),
        cmocka_unit_test_teardown(threads_view_shows_every_thread, stage_teardown),
        cmocka_unit_test_teardown(log_merges_rings_by_time, stage_teardown),
        cmocka_unit_test_teardown(log_scrolls_back_and_follows_again, stage_teardown),
        cmocka_unit_test_teardown(attaches_when_daemon_starts, stage_teardown),
        cmocka_unit_test_teardown(attaches_again_after_restart, stage_teardown),
        cmocka_unit_test_teardown(plus_and_minus_change_thread_count, stage_teardown),
        cmocka_unit_test_teardown(screen_updates_while_daemon_is_slow, stage_teardown),
        cmocka_unit_test_teardown(rejected_change_is_shown, stage_teardown),
        cmocka_unit_test_teardown(readonly_changes_nothing, stage_teardown),
        cmocka_unit_test_teardown(help_lists_every_key, stage_teardown),
        cmocka_unit_test_teardown(keys_move_between_views, stage_teardown),
        cmocka_unit_test_teardown(freeze_stops_updates, stage_teardown),
        cmocka_unit_test_teardown(every_size_is_filled, stage_teardown),
        cmocka_unit_test_teardown(random_keys_and_sizes_do_no_harm, stage_teardown),
        cmocka_unit_test_teardown(mono_and_ascii_are_possible, stage_teardown),
        cmocka_unit_test_teardown(signals_restore_the_terminal, stage_teardown),
        cmocka_unit_test_teardown(control_c_restores_the_terminal, stage_teardown),
        cmocka_unit_test_teardown(crash_restores_the_terminal, stage_teardown),
        cmocka_unit_test_teardown(lost_terminal_ends_the_console, stage_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
