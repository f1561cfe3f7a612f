/* The screens of the real console on a pseudo-terminal, with a fake daemon. */
#include "stage.h"
#include "tests/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

const struct test_fixture test_fixture = {NULL, stage_teardown};

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

TEST(overview_shows_metrics)
{
    stage_fixture();
    for (size_t i = 0; i < 2; i++) {
        stage_console(sizes[i].rows, sizes[i].columns, NULL, NULL);
        ASSERT_SHOWS("[1 overview]", "? help", "threads 4 of 4 (2 in each)  workers 2 of 2",
                     "up 1h 02m");
        /* 1000 + 2000 + 3000 + 4000 requests; idle now; one peak in the history. */
        ASSERT_SHOWS("requests/s  0", "10.0k total", "peak 5.00k", "latency p99  -",
                     "p50 -  p90 -  max -", "sent/s  0", "9.54 MiB total", "connections  10",
                     "peak 14", "errors/s (4xx, 5xx)  0", "2xx 0/s  3xx 0/s  4xx 0/s  5xx 0/s",
                     "cache hit ratio  -", "25 entries, 3.00 MiB", "1m └", "▲", "+ more threads");
        save("overview", sizes[i]);
        terminal_type(terminal, "q");
        stage_ended_well();
        stage_end_console();
    }
}

TEST(threads_view_shows_every_thread)
{
    static const char *const view[] = {"threads", NULL};

    stage_fixture();
    for (size_t i = 0; i < 2; i++) {
        stage_console(sizes[i].rows, sizes[i].columns, view, NULL);
        ASSERT_SHOWS("[2 threads]", "threads  0 WK  1 R_", "W write", "K keep-alive", "G leaving",
                     "THREAD     STATE", "SINCE", "REQ/S", "CONN", "P99", "LAST WORK",
                     "worker 0   serving", "worker 1   serving", "threads 2/2", "GET /index.html",
                     "/downloads/disk.iso", "  0.0 ", "  0.1 ", "  1.0 ", "  1.1 ", "  1.q1 ",
                     "  1.queue  1 queued");
        save("threads", sizes[i]);
        stage_end_console();
    }
}

/* Nothing is taken from the queue: its threads keep the connections that they have. */
TEST(threads_view_shows_a_connection_queue)
{
    static const char *const view[] = {"threads", NULL};

    stage_fixture();
    fixture_make_pool(fixture, 90);
    stage_console(24, 80, view, NULL);
    ASSERT_SHOWS("model pool", "threads  0 BK  1 B_", " 0.accept  B blocked", "the queue is full",
                 "  0.queue  ████ 8/8", "  1.queue  ···· 0/8", "sff block", "locks",
                 "accept queue of the kernel", "queue wait p99",
                 "n model  e queue  d drain  r restart",
                 "8 others wait for a thread: +, :model events");
    TYPE_SHOWS("n", "Change the concurrency model to thread?");
    TYPE_HIDES("\x1b", "Change the concurrency model");
    TYPE_SHOWS(":model fork\r", "the fixture knows only threads N"); /* no question */
    TYPE_SHOWS("e", "queue (order, when full, places): sff block 8");
    stage_end_console();
    stage_console(10, 40, view, NULL);
    ASSERT_SHOWS("  0.queue  ████ 8/8", "8 wait for a thread: +, :model events");
    stage_end_console();
}

/* Idle offload threads are in the line of their queue; sorted, the list has only threads. */
TEST(threads_view_folds_and_sorts)
{
    static const char *const view[] = {"threads", NULL};

    stage_open(30, 120, view, NULL);
    ASSERT_SHOWS("  1.queue  1 queued", "idle 1/2", "  1.q1 ", "worker 1");
    assert_null(strstr(terminal_text(terminal), "  1.q0 "));
    TYPE_SHOWS("v", "  0.q0 ", "  1.q0 ", "  1.q1 ");
    TYPE_HIDES("v", "THREAD     STATE");
    TYPE_HIDES("v:sort requests\r", "worker 1 "); /* 1000, 2000, 3000 and 4000 requests */
    assert_true(terminal_shows_no_more(terminal, ".queue"));
    ASSERT_SHOWS("  1.1 ", "  0.0 ");
    assert_true(strstr(terminal_text(terminal), "  1.1 ") <
                strstr(terminal_text(terminal), "  0.0 "));
}

/* What does not fit is counted: threads of the strip, processes of the line below it. */
TEST(overview_counts_what_is_cut)
{
    stage_open(12, 40, NULL, NULL);
    ASSERT_SHOWS("threads  0 WK  1 R_", "cpu mem  +");
    for (int i = 0; i < 14; i++)
        terminal_type(terminal, "+");
    TYPE_SHOWS(AGREE, "threads 32 of 32", " +17 threads");
}

TEST(log_merges_rings_by_time)
{
    static const char *const view[] = {"log", NULL};

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

TEST(log_scrolls_back_and_follows_again)
{
    static const char *const view[] = {"log", NULL};

    stage_open(24, 80, view, NULL);
    ASSERT_SHOWS("GET /page-39");
    TYPE_SHOWS("\x1bOH", "paused (End follows)", "GET /page-0 "); /* Home */
    assert_true(terminal_shows_no_more(terminal, "GET /page-39"));
    TYPE_SHOWS("\x1bOF", "following", "GET /page-39"); /* End */
}

/* However busy the server is: the selected row stays where it is. */
TEST(held_log_keeps_its_rows)
{
    static const char *const view[] = {"log", NULL};
    const char *newer, *start;
    char row[256];
    double count = 0;

    fixture = fixture_start(stage_name(), true);
    assert_non_null(fixture);
    stage_console(24, 80, view, NULL);
    ASSERT_SHOWS("following", "GET /page-");
    TYPE_SHOWS("kkkkk", "paused (End follows)", " newer");
    snprintf(row, sizeof(row), "%s", terminal_line(terminal, 12));
    while (count < 4200) { /* more than the list has */
        assert_true(terminal_shows(terminal, "k newer"));
        terminal_take(terminal);
        newer = strstr(terminal_text(terminal), "k newer");
        for (start = newer; newer != NULL && start[-1] != ' ';)
            start--;
        count = newer != NULL ? strtod(start, NULL) * 1000 : 0;
    }
    assert_string_equal(terminal_line(terminal, 12), row);
    TYPE_SHOWS("\x1bOF", "following");
}

TEST(attaches_when_daemon_starts)
{
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("no webserverd named 'scr-", "is running", "webserverd -f FILE",
                 "attaches when it runs", " m menu  : command");
    terminal_save(terminal, "absent-80x24");
    stage_fixture();
    ASSERT_SHOWS("10.0k total");
}

TEST(attaches_again_after_restart)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    fixture_log_event(fixture, 0, "fixture: last words");
    stage_end_fixture();
    ASSERT_SHOWS("has stopped; this is its last sample", "10.0k total",
                 "attaches when it runs again");
    terminal_save(terminal, "stopped-80x24");
    stage_fixture();
    assert_true(terminal_shows_no_more(terminal, "has stopped"));
    ASSERT_SHOWS("threads 4 of 4 (2 in each)  workers 2 of 2");
    /* The console follows the new daemon: its changes appear. */
    TYPE_SHOWS("+" AGREE, "threads 6 of 6 (3 in each)");
    TYPE_SHOWS("9", "[9 events]", "has stopped", "another master (pid ", "fixture: last words");
}

TEST(plus_and_minus_change_thread_count)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("threads 4 of 4 (2 in each)");
    TYPE_SHOWS("+", "Raise the serving threads per worker from 2 to 3?", "+ -  Enter yes  n no");
    assert_int_equal(fixture_commands(fixture), 0);
    TYPE_SHOWS(AGREE, "threads: 3 in force", "threads 6 of 6 (3 in each)");
    TYPE_SHOWS("-", "Reduce the serving threads per worker from 3 to 2?");
    TYPE_HIDES("n", "Reduce");
    assert_int_equal(fixture_commands(fixture), 1);
    TYPE_SHOWS("--" AGREE, "threads: 1 in force");
    TYPE_SHOWS("-", "not done: the minimum is one serving thread per worker");
    assert_int_equal(fixture_commands(fixture), 2);
}

/* The keys change the number in the open question; back at the number in force there is none. */
TEST(question_is_adjusted_by_the_same_keys)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("threads 4 of 4 (2 in each)");
    TYPE_SHOWS("+++-", "Raise the serving threads per worker from 2 to 4?");
    terminal_type(terminal, "w"); /* another number: ignored */
    TYPE_HIDES("--", "serving threads per worker from");
    TYPE_SHOWS("+++", "from 2 to 5?");
    assert_int_equal(fixture_commands(fixture), 0);
    TYPE_SHOWS(AGREE, "threads: 5 in force", "threads 10 of 10 (5 in each)");
    assert_int_equal(fixture_commands(fixture), 1);
}

/* Threads 1 and 3 of the fixture have 2 and 4 connections: they are the second of each worker. */
TEST(question_names_what_is_lost)
{
    stage_open(24, 100, NULL, NULL);
    ASSERT_SHOWS("threads 4 of 4 (2 in each)");
    TYPE_SHOWS("-",
               "Reduce the serving threads per worker from 2 to 1? 6 open connections move to the");
    TYPE_SHOWS("nW", "Reduce the workers from 2 to 1? 7 open connections move to the others.");
    TYPE_SHOWS("n:drain 0\r", "Drain worker 0? 3 open connections move to the others.",
               "y yes  n no");
    TYPE_SHOWS("\r", "Drain worker 0?"); /* only y agrees */
    TYPE_SHOWS("n:restart all\r", "Restart all workers? 10 open connections move to the new ones.");
    TYPE_SHOWS("n:stop now\r", "Stop the server at once? 10 open connections are cut.");
    TYPE_SHOWS("n:cache-flush\r", "Empty the caches? They lose 25 entries (3.00 MiB).");
    TYPE_HIDES("n", "Empty the caches?");
    assert_int_equal(fixture_commands(fixture), 0);
}

TEST(locked_session_changes_nothing)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("threads 4 of 4 (2 in each)");
    TYPE_SHOWS("K", "locked: nothing here changes the server; K unlocks");
    TYPE_SHOWS("+", "not done: this session is locked; K unlocks it");
    TYPE_HIDES(":stop\r", ":stop");
    assert_null(strstr(terminal_text(terminal), "Stop the server?"));
    TYPE_SHOWS("K", "Unlock this session?");
    TYPE_SHOWS("n+", "not done: this session is locked");
    TYPE_SHOWS("K" AGREE "+", "Raise the serving threads");
    assert_int_equal(fixture_commands(fixture), 0);
}

/* A user who may read the segment but not write to the control socket. */
TEST(console_without_permission_is_read_only)
{
    stage_fixture();
    if (geteuid() == 0)
        stage_console_as_nobody(24, 80);
    else {
        assert_int_equal(chmod(fixture_socket(fixture), 0), 0);
        stage_console(24, 80, NULL, NULL);
    }
    ASSERT_SHOWS("threads 4 of 4 (2 in each)", "read-only");
    TYPE_SHOWS("+", "not done: this console is read-only: no permission for the control socket");
    assert_int_equal(fixture_commands(fixture), 0);
}

TEST(alert_is_shown_until_acknowledged)
{
    char script[64], facts[64], option[80], text[4096];
    const char *more[] = {"--alert-command", script, NULL};
    FILE *file;
    int rest;

    snprintf(script, sizeof(script), "/tmp/%s.sh", stage_name());
    snprintf(facts, sizeof(facts), "/tmp/%s.facts", stage_name());
    snprintf(option, sizeof(option), "FACTS=%s", facts);
    unlink(facts);
    file = fopen(script, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\nenv >> $FACTS.part\nmv $FACTS.part $FACTS\n");
    fclose(file);
    chmod(script, 0700);
    stage_open(24, 100, more, (const char *const[]){option, NULL});
    ASSERT_SHOWS("healthy", "threads 4 of 4 (2 in each)");
    TYPE_SHOWS(":alert connection > 5\r",
               "not done: unknown metric 'connection'; did you mean 'connections'?");
    TYPE_SHOWS(":alert connections>5 for 200ms\r", " connections > 5 for 200ms: 10: 9 events",
               "a acknowledges", "9 events(1)");
    assert_non_null(strstr(terminal_line(terminal, 1), stage_name()));
    TYPE_HIDES("a", "a acknowledges");
    ASSERT_SHOWS(" connections > 5 for 200ms: 10: 9 events");
    assert_true(terminal_shows_no_more(terminal, "events("));
    TYPE_SHOWS("a", "connections > 5 for 200ms: now 10, active",
               "History:", "began: ", "worker died: now 0");
    TYPE_HIDES("\x1b", "History:");
    TYPE_SHOWS("9", "alert began: connections > 5 for", "console ");
    TYPE_SHOWS(":alert off\r", "0 alerts", "healthy");
    for (rest = 3000; rest > 0 && access(facts, F_OK) != 0; rest--)
        usleep(10000);
    file = fopen(facts, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    fclose(file);
    assert_non_null(strstr(text, "WSCONSOLE_ALERT=connections > 5 for 200ms\n"));
    assert_non_null(strstr(text, "WSCONSOLE_STATE=began\n"));
    assert_non_null(strstr(text, "WSCONSOLE_VALUE=10\n"));
    unlink(facts);
    unlink(script);
}

TEST(screen_updates_while_daemon_is_slow)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("threads 4 of 4 (2 in each)");
    fixture_hold_answers(fixture, true);
    TYPE_SHOWS("+" AGREE, "threads 3 requested, 2 in force", "waiting for the daemon");
    TYPE_SHOWS("++" AGREE "2", "threads 5 requested, 2 in force",
               "[2 threads]"); /* two more threads, then another view */
    terminal_save(terminal, "asked-80x24");
    fixture_hold_answers(fixture, false);
    ASSERT_SHOWS("threads: 5 in force", "threads 10 of 10 (5 in each)");
    assert_int_equal(fixture_commands(fixture), 2);
}

TEST(rejected_change_is_shown)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("threads 4 of 4 (2 in each)");
    fixture_hold_answers(fixture, true);
    TYPE_SHOWS("+" AGREE, "threads 3 requested");
    TYPE_SHOWS("++++++++++++++++++++" AGREE, "threads 23 requested");
    fixture_hold_answers(fixture, false);
    ASSERT_SHOWS("not done: at most 16 threads fit", "threads 6 of 6 (3 in each)");
}

/* A paste, an unknown sequence and Alt are no keys: no command, no question, no other view. */
TEST(stray_input_does_nothing)
{
    static const char *const stray[] = {
        "\x1b[200~hello-w+WoO:stop\ry\x1b[201~",
        "\x1bw",
        "\x1b+",
        "\x1b[1;3w",
        "\x1b]0;www\x07",
        "\x1bPwww\x1b\\",
        "\x1b[99~",
        "\x1b[1;5+w",
    };

    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("threads 4 of 4 (2 in each)");
    TYPE_SHOWS(stray[0], "pasted text is ignored outside a text field");
    for (size_t i = 1; i < sizeof(stray) / sizeof(stray[0]); i++)
        terminal_type(terminal, stray[i]);
    TYPE_SHOWS("\t", "[2 threads]", "threads 4 of 4 (2 in each)"); /* acts after all of these */
    assert_int_equal(fixture_commands(fixture), 0);
    TYPE_SHOWS(":\x1b[200~view\nlog\x1b[201~\r", "[5 log]"); /* a text field takes a paste */
    TYPE_SHOWS("\x1b[1~", "paused (End follows)", "GET /page-0 ");
    TYPE_SHOWS("\x1b[4~", "following", "GET /page-39");
}

TEST(long_question_is_shown_whole)
{
    stage_open(10, 40, NULL, NULL);
    ASSERT_SHOWS("[1 overview]");
    TYPE_SHOWS(":reload\r", "Reload the file? Values set by",
               "commands return to those of the file.", "y yes  n no");
}

TEST(empty_view_says_all_on_a_small_screen)
{
    static const char *const view[] = {"events", NULL};

    stage_open(10, 40, view, NULL);
    ASSERT_SHOWS("[9 events]", "No events yet: no error, no warning, no", "change.");
}

TEST(dumb_terminal_is_refused)
{
    static const char *const dumb[] = {"TERM=dumb", NULL};
    int status;

    stage_open(24, 80, NULL, dumb);
    ASSERT_SHOWS("terminal type 'dumb' cannot show a full screen");
    status = terminal_wait_end(terminal);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 1);
}

TEST(help_lists_every_key)
{
    static const char *const sentences[] = {
#define KEY(request, group, shown, brief, first, second, help) help,
#include "console/ui/keys.def"
#undef KEY
        "keep-alive: waiting for events, connections open", "Help, lines 1 to"};

    stage_open(110, 120, NULL, NULL);
    terminal_type(terminal, "?");
    stage_shows(sentences, sizeof(sentences) / sizeof(sentences[0]));
    terminal_save(terminal, "help-120x110");
    TYPE_HIDES("\x1b", "Help, lines");
    ASSERT_SHOWS("[1 overview]", "requests/s");
}

TEST(freeze_stops_updates)
{
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("threads 4 of 4 (2 in each)");
    TYPE_SHOWS(" ", "FROZEN at");
    TYPE_SHOWS("+" AGREE, "threads: 3 in force", "threads 4 of 4 (2 in each)");
    TYPE_SHOWS(" ", "threads 6 of 6 (3 in each)");
}

TEST(every_size_is_filled)
{
    static const struct size steps[] = {{50, 200}, {10, 40}, {24, 80}, {40, 120},
                                        {12, 300}, {60, 45}, {24, 80}};
    stage_open(24, 80, NULL, NULL);
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
    ASSERT_SHOWS("0 requests/s  threads 4/4");
    assert_true(terminal_shows_no_more(terminal, "[5 log]"));
    terminal_resize(terminal, 24, 80);
    ASSERT_SHOWS("[5 log]");
}

TEST(mono_and_ascii_are_possible)
{
    static const char *const ascii[] = {"--ascii", "--no-color", NULL};
    static const char *const no_color[] = {"NO_COLOR=1", NULL};
    static const char *const vt100[] = {"TERM=vt100", NULL};

    stage_open(24, 80, NULL, NULL);
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
    ASSERT_SHOWS("1m └", "▲", "errors/s", "peak 250");
    assert_false(terminal_has_colour(terminal));
    assert_true(terminal_has_reverse(terminal, 23, 23));
    assert_false(terminal_has_reverse(terminal, 1, 22)); /* graphs are no boxes */
    TYPE_SHOWS("3", "[3 latency]", "over time", "█");
    assert_false(terminal_has_reverse(terminal, 1, 22));
    stage_end_console();
    stage_console(24, 80, NULL, vt100);
    ASSERT_SHOWS("1m +", "^");
    assert_false(terminal_has_non_ascii(terminal));
}

/* Without a setting, the background that the terminal reports decides; 236 and 253 are the bars. */
TEST(theme_follows_the_background)
{
    static const char *const dark[] = {"--theme", "dark", NULL};

    terminal_set_background("ffff/ffff/ffff");
    stage_open(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    while (terminal_background(terminal, 23, 40) != 253)
        assert_true(terminal_settle(terminal));
    stage_end_console();
    stage_console(24, 80, dark, NULL);
    ASSERT_SHOWS("10.0k total");
    assert_int_equal(terminal_background(terminal, 23, 40), 236);
    stage_end_console();
    terminal_set_background("0000/0000/0000");
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    assert_int_equal(terminal_background(terminal, 23, 40), 236);
    terminal_set_background(NULL);
}

TEST(signals_restore_the_terminal)
{
    static const int signals[] = {SIGTERM, SIGHUP, SIGINT};

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

TEST(control_c_restores_the_terminal)
{
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("is running");
    terminal_type(terminal, "\x03");
    stage_ended_well();
}

TEST(crash_restores_the_terminal)
{
    int status;

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

TEST(lost_terminal_ends_the_console)
{
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("is running");
    terminal_hang_up(terminal);
    assert_true(WIFEXITED(terminal_wait_end(terminal)));
}
