/* What all views share: time, filter, commands, dialogs, the mouse; random input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "stage.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *const log_view[] = {"log", NULL};
static const char *const readonly[] = {"--readonly", NULL};

/* Sends COUNT left clicks at once, in SGR coordinates. */
static void clicks(int count, int row, int column)
{
    char text[256];
    size_t used = 0;

    for (int i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, sizeof(text) - used, "\x1b[<0;%d;%dM\x1b[<0;%d;%dm",
                                 column + 1, row + 1, column + 1, row + 1);
    terminal_type(terminal, text);
}

static void click(int row, int column)
{
    clicks(1, row, column);
}

static void history_is_shown_by_second(void **state)
{
    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    terminal_type(terminal, "\x1bOD");
    ASSERT_SHOWS(" 1s before", "requests/s  100");
    assert_null(strstr(terminal_text(terminal),
                       "of 0")); /* no "of N": the history does not record wanted numbers */
    /* To the second with the peak: 5000 requests, in sum (120 - 30) * 100 + 4900. */
    for (int i = 1; i < FIXTURE_PEAK_BACK; i++)
        terminal_type(terminal, "\x1bOD");
    ASSERT_SHOWS(" 30s before", "requests/s  5.00k", "13.9k total");
    terminal_type(terminal, "\x1bOC");
    ASSERT_SHOWS(" 29s before", "requests/s  100");
    terminal_type(terminal, "[[[");
    ASSERT_SHOWS("1m 59s before"); /* the oldest second */
    terminal_type(terminal, " ");
    assert_true(terminal_shows_no_more(terminal, "before"));
    ASSERT_SHOWS("10.0k total");
}

static void filter_applies_to_all_views(void **state)
{
    (void)state;
    stage_fixture();
    stage_console(24, 80, log_view, NULL);
    ASSERT_SHOWS("/page-39", "of 40");
    terminal_type(terminal, "/status:4xx");
    ASSERT_SHOWS("filter: status:4xx", "/page-27", "/page-7 "); /* applied while typed */
    assert_true(terminal_shows_no_more(terminal, "/page-39"));
    terminal_type(terminal, "\r");
    ASSERT_SHOWS("2 of 40 shown");
    terminal_type(terminal, "2\t\x1b[Z5");
    ASSERT_SHOWS("[5 log]", "2 of 40 shown", "filter: status:4xx");
    terminal_type(terminal, "/\x15took>fast\r");
    ASSERT_SHOWS("not done: 'fast' in the filter is not a number");
    terminal_type(terminal, "\x1b");
    ASSERT_SHOWS("/page-39");
    assert_true(terminal_shows_no_more(terminal, "filter:"));
}

static void selected_row_shows_details_and_sets_filter(void **state)
{
    (void)state;
    stage_fixture();
    stage_console(24, 80, log_view, NULL);
    ASSERT_SHOWS("/page-39");
    terminal_type(terminal, "k\r");
    ASSERT_SHOWS("GET /page-39 HTTP/1.1", "fixture", "Esc closes");
    terminal_type(terminal, "\x1b");
    assert_true(terminal_shows_no_more(terminal, "Esc closes"));
    terminal_type(terminal, "f");
    ASSERT_SHOWS("filter: ", "of 40 shown");
}

static void keys_faster_than_frames_all_act(void **state)
{
    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    terminal_type(terminal, "5k\r");
    ASSERT_SHOWS("GET /page-39 HTTP/1.1", "fixture", "Esc closes");
}

static void command_line_completes_and_sends(void **state)
{
    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    terminal_type(terminal, ":thr");
    ASSERT_SHOWS(":thr", "threads");
    terminal_type(terminal, "\t3");
    ASSERT_SHOWS("threads [N]: Show or set");
    terminal_type(terminal, "\r");
    ASSERT_SHOWS("threads: wanted 3, actual 3");
    terminal_type(terminal, ":");
    terminal_type(terminal, "\x1bOA"); /* previous line of the history */
    ASSERT_SHOWS(":threads 3");
    terminal_type(terminal, "\x15nonsense\r");
    ASSERT_SHOWS("not done: unknown command 'nonsense'");
    terminal_type(terminal, ":view log\t\r");
    ASSERT_SHOWS("[5 log]");
    terminal_type(terminal, ":quit\r");
    stage_ended_well();
}

static void destructive_command_asks_for_confirmation(void **state)
{
    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    terminal_type(terminal, ":stop\r");
    ASSERT_SHOWS("Stop the server?", "y yes  n no");
    terminal_type(terminal, "n");
    assert_true(terminal_shows_no_more(terminal, "Stop the server?"));
    assert_int_equal(fixture_commands(fixture), 0);
    terminal_type(terminal, ":stop\r");
    ASSERT_SHOWS("Stop the server?");
    terminal_resize(terminal, 30, 100); /* the dialog stays open */
    ASSERT_SHOWS("Stop the server?");
    terminal_type(terminal, "y");
    ASSERT_SHOWS("the fixture knows only threads N");
    assert_int_equal(fixture_commands(fixture), 1);
}

static void load_form_accepts_clicks(void **state)
{
    static const char *const load_view[] = {"load", NULL};

    (void)state;
    stage_fixture();
    stage_console(24, 80, load_view, NULL);
    ASSERT_SHOWS("connections  50", "r runs");
    click(5, 20);
    ASSERT_SHOWS(">requests");
    click(5, 20);
    ASSERT_SHOWS("requests:");
    terminal_type(terminal, "70\r");
    ASSERT_SHOWS("requests     70");
    click(2, 40); /* on a hint */
    ASSERT_SHOWS("past runs:");
    click(2, 36);
    ASSERT_SHOWS("r runs");
}

static void readonly_rejects_typed_changes(void **state)
{
    static const char *const lines[] = {":threads 3\r",      ":stop\r", ":cache-flush\r", "+", "w",
                                        ":log-level debug\r"};
    (void)state;
    stage_fixture();
    stage_console(24, 80, readonly, NULL);
    ASSERT_SHOWS("10.0k total", "read-only");
    for (size_t i = 0; i < COUNT(lines); i++) {
        terminal_type(terminal, lines[i]);
        ASSERT_SHOWS("not done: this console is read-only (--readonly)");
    }
    terminal_type(terminal, ":threads\r"); /* a query is allowed */
    ASSERT_SHOWS("the fixture knows only threads N");
    assert_int_equal(fixture_commands(fixture), 1);
}

static void mouse_acts_like_keys(void **state)
{
    static const char *const without[] = {"--no-mouse", NULL};
    (void)state;
    stage_fixture();
    stage_console(24, 120, NULL, NULL);
    ASSERT_SHOWS("[1 overview]");
    click(0, 28); /* the second tab: the bar begins with the program's name */
    ASSERT_SHOWS("[2 threads]");
    terminal_type(terminal, "5");
    ASSERT_SHOWS("[5 log]", "/page-39", "/page-38");
    click(10, 5);
    ASSERT_SHOWS("paused");
    click(10, 5);
    ASSERT_SHOWS("Esc closes");
    click(15, 5);
    assert_true(terminal_shows_no_more(terminal, "Esc closes"));
    clicks(2, 12, 5); /* the first click selects, the second opens */
    ASSERT_SHOWS("Esc closes");
    clicks(3, 15, 5); /* first click closes, second selects, third opens */
    ASSERT_SHOWS("Esc closes");
    terminal_type(terminal, "\x1b");
    assert_true(terminal_shows_no_more(terminal, "Esc closes"));
    for (int i = 0; i < 30; i++)
        terminal_type(terminal, "\x1b[<64;20;10M"); /* the wheel, up */
    ASSERT_SHOWS("/page-0 ");
    stage_end_console();
    stage_console(24, 120, without, NULL);
    ASSERT_SHOWS("[1 overview]");
    click(0, 28);
    terminal_type(terminal, "5");
    ASSERT_SHOWS("[5 log]");
}

static void dialog_accepts_clicks(void **state)
{
    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    terminal_type(terminal, ":stop\r");
    ASSERT_SHOWS("Stop the server?");
    click(10, 20); /* elsewhere: it stays open */
    click(23, 77); /* no */
    assert_true(terminal_shows_no_more(terminal, "Stop the server?"));
    assert_int_equal(fixture_commands(fixture), 0);
    terminal_type(terminal, ":stop\r");
    ASSERT_SHOWS("Stop the server?");
    click(23, 70); /* yes */
    ASSERT_SHOWS("the fixture knows only threads N");
    assert_int_equal(fixture_commands(fixture), 1);
}

static void recorded_session_is_replayed(void **state)
{
    char path[64];
    const char *record[] = {"--record", path, NULL}, *replay[] = {"--replay", path, NULL};

    (void)state;
    snprintf(path, sizeof(path), "/tmp/%s.rec", stage_name());
    unlink(path);
    stage_fixture();
    stage_console(24, 80, record, NULL);
    ASSERT_SHOWS("REC ", "10.0k total");
    terminal_type(terminal, "+");
    ASSERT_SHOWS("threads 6 of 6");
    terminal_type(terminal, "q");
    stage_ended_well();
    stage_end_console();
    stage_console(24, 80, record, NULL); /* an existing file is not overwritten */
    assert_int_equal(WEXITSTATUS(terminal_wait_end(terminal)), 1);
    stage_end_console();
    stage_end_fixture(); /* the replay needs no daemon */
    stage_console(24, 80, replay, NULL);
    ASSERT_SHOWS("REPLAY paused", "threads 6 of 6", "10.0k total"); /* paused at the end */
    terminal_type(terminal, "[");
    ASSERT_SHOWS("threads 4 of 4");
    terminal_type(terminal, "+");
    ASSERT_SHOWS("a recording cannot be changed");
    terminal_type(terminal, "q");
    stage_ended_well();
    unlink(path);
}

/* Moves the selection to NAME; other servers on the machine may be in the menu, too. */
static void go_to(const char *name)
{
    char wanted[64], before[64];

    snprintf(wanted, sizeof(wanted), " %s ", name);
    for (int i = 0; i < 64; i++) {
        const char *mark, *there;

        assert_true(terminal_shows(terminal, "> ")); /* the menu is redrawn when a server starts */
        mark = strstr(terminal_text(terminal), "> ");
        assert_non_null(mark);
        if (strncmp(mark + 1, wanted, strlen(wanted)) == 0)
            return;
        there = strstr(terminal_text(terminal), wanted);
        snprintf(before, sizeof(before), "%.*s ", (int)strcspn(mark + 2, " ") + 2, mark);
        terminal_type(terminal, there != NULL && there < mark ? "\x1bOA" : "\x1bOB");
        assert_true(terminal_shows_no_more(terminal, before));
    }
    fail_msg("%s is not selected", name);
}

/* The number of the line that contains NAME as a word. */
static int line_of(const char *name)
{
    char word[64];
    int row = 0;

    snprintf(word, sizeof(word), " %s ", name);
    while (row < 23 && strstr(terminal_line(terminal, row), word) == NULL)
        row++;
    return row;
}

static void menu_selects_one_of_several_servers(void **state)
{
    static const char *const none[] = {"TERM=xterm-256color", NULL};
    char other[48];
    struct fixture *second;

    (void)state;
    stage_fixture();
    snprintf(other, sizeof(other), "%.40s-b", stage_name());
    second = fixture_start(other, false);
    assert_non_null(second);
    terminal = terminal_start(24, 100, (const char *const[]){WSCONSOLE, NULL}, none);
    ASSERT_SHOWS("running servers. Select one:");
    assert_true(terminal_shows(terminal, stage_name()));
    assert_true(terminal_shows(terminal, other));
    go_to(other);
    clicks(2, line_of(other), 5);
    ASSERT_SHOWS("10.0k total");
    assert_true(terminal_shows(terminal, other));
    terminal_type(terminal, "2I");
    ASSERT_SHOWS("Select one:", "q returns");
    terminal_type(terminal, "q");
    ASSERT_SHOWS("[2 threads]");
    assert_true(terminal_shows(terminal, other));
    terminal_type(terminal, ":instance ");
    terminal_type(terminal, stage_name());
    terminal_type(terminal, "\r");
    assert_true(terminal_shows_no_more(terminal, other));
    assert_true(terminal_shows(terminal, stage_name()));
    ASSERT_SHOWS("[2 threads]");
    terminal_type(terminal, ":instance scr-nobody\r");
    ASSERT_SHOWS("no webserverd named 'scr-nobody' is running");
    terminal_type(terminal, "I");
    ASSERT_SHOWS("Select one:");
    fixture_stop(second);
    kill(terminal_pid(terminal), SIGTERM);
    stage_ended_well();
}

static void settings_are_read_from_console_ini(void **state)
{
    char folder[64], file[128], command[96];
    const char *environment[] = {command, NULL};
    FILE *out;

    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/%s-config", stage_name());
    snprintf(command, sizeof(command), "XDG_CONFIG_HOME=%s", folder);
    mkdir(folder, 0700);
    snprintf(file, sizeof(file), "%s/webserverd", folder);
    mkdir(file, 0700);
    snprintf(file, sizeof(file), "%s/webserverd/console.ini", folder);
    out = fopen(file, "w");
    fputs("# mine\n[console]\nview = log\nascii = on\ntheme = mono\n", out);
    fclose(out);
    stage_fixture();
    stage_console(24, 80, NULL, environment);
    ASSERT_SHOWS("[5 log]", "/page-39");
    assert_false(terminal_has_colour(terminal));
    assert_false(terminal_has_non_ascii(terminal));
    stage_end_console();
    out = fopen(file, "w");
    fputs("view = log\nthme = light\nfps = many\n", out);
    fclose(out);
    stage_console(24, 160, NULL, environment);
    ASSERT_SHOWS("console.ini:2: unknown setting 'thme'; did you mean 'theme'?",
                 "console.ini:3: invalid rate 'many'");
    assert_int_equal(WEXITSTATUS(terminal_wait_end(terminal)), 2);
    unlink(file);
    *strrchr(file, '/') = '\0';
    rmdir(file);
    rmdir(folder);
}

/* The text of FILE; "" if it cannot be read. */
static const char *content_of(const char *file)
{
    static char text[1024];
    FILE *in = fopen(file, "r");
    size_t length = in != NULL ? fread(text, 1, sizeof(text) - 1, in) : 0;

    text[length] = '\0';
    if (in != NULL)
        fclose(in);
    return text;
}

static void settings_are_saved_on_request(void **state)
{
    char folder[64], file[128], command[96];
    const char *environment[] = {command, NULL};
    const char *readonly_too[] = {"--readonly", NULL};
    FILE *out;

    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/%s-saved", stage_name());
    snprintf(command, sizeof(command), "XDG_CONFIG_HOME=%s", folder);
    snprintf(file, sizeof(file), "%s/webserverd/console.ini", folder);
    unlink(file);
    stage_fixture();
    stage_console(24, 100, NULL, environment);
    ASSERT_SHOWS("10.0k total");
    terminal_type(terminal, ":set theme mo\t\r");
    ASSERT_SHOWS("theme = mono; :save stores it");
    assert_false(terminal_has_colour(terminal));
    terminal_type(terminal, ":set ascii on\r");
    ASSERT_SHOWS("ascii = on");
    assert_false(terminal_has_non_ascii(terminal));
    terminal_type(terminal, ":set them\r");
    ASSERT_SHOWS("unknown setting 'them'; did you mean 'theme'?");
    terminal_type(terminal, ":set fps many\r");
    ASSERT_SHOWS("invalid rate 'many' (1-60");
    terminal_type(terminal, ":set fps\r");
    ASSERT_SHOWS("fps = (default)");
    terminal_type(terminal, "g:save\r");
    ASSERT_SHOWS("saved in /tmp/", "theme, ascii, span");
    /* The fixture's name is saved, because it is not the default. */
    assert_non_null(strstr(content_of(file), "theme = mono\nascii = on\nspan = 5m\n"));
    stage_end_console();
    out = fopen(file, "w");
    fputs("# mine\nfps=5\n\n; no colours\ntheme   = light\nascii = off", out);
    fclose(out);
    stage_console(24, 100, NULL, environment);
    ASSERT_SHOWS("10.0k total");
    terminal_type(terminal, ":set theme mono\r:save\r");
    ASSERT_SHOWS("saved in ");
    assert_non_null(strstr(content_of(file), "# mine\nfps = 5\n\n; no colours\ntheme = mono\n"));
    assert_null(strstr(content_of(file), "ascii"));
    stage_end_console();
    stage_console(24, 100, readonly_too, environment);
    ASSERT_SHOWS("10.0k total");
    terminal_type(terminal, ":set theme dark\r:save\r");
    ASSERT_SHOWS("not done: this console is read-only (--readonly)");
    terminal_type(terminal, ":set readonly off\r");
    ASSERT_SHOWS("not done: restart the console without --readonly");
    assert_non_null(strstr(content_of(file), "theme = mono\n"));
    stage_end_console();
    unlink(file);
    snprintf(command, sizeof(command), "XDG_CONFIG_HOME=/proc/nowhere");
    stage_console(24, 100, NULL, environment);
    ASSERT_SHOWS("10.0k total");
    terminal_type(terminal, ":save\r");
    ASSERT_SHOWS("cannot write /proc/nowhere/webserverd/console.ini: No such file");
}

static void all_terminal_types_work(void **state)
{
    static const char *const types[] = {"TERM=xterm-256color", "TERM=screen", "TERM=vt100",
                                        "TERM=linux"};
    (void)state;
    stage_fixture();
    for (size_t i = 0; i < COUNT(types); i++) {
        /* For some terminal types curses keeps a few bytes until exit. */
        const char *const environment[] = {types[i], "ASAN_OPTIONS=detect_leaks=0", NULL};

        stage_console(24, 80, NULL, environment);
        ASSERT_SHOWS("10.0k total");
        for (const char *key = "123456789"; *key != '\0'; key++) {
            const char text[] = {*key, '\0'};
            char tab[4];

            snprintf(tab, sizeof(tab), "[%c ", *key);
            terminal_type(terminal, text);
            assert_true(terminal_shows(terminal, tab));
        }
        terminal_type(terminal, "q");
        stage_ended_well();
        stage_end_console();
    }
}

/* A fixed seed makes a failure reproducible. */
static uint32_t dice(uint32_t *random)
{
    *random = *random * 1664525 + 1013904223;
    return *random >> 8;
}

static void overlays_survive_resizes(void **state)
{
    static const char *const openings[] = {"1", "2", "3",  "4",   "5",       "6",    "8",
                                           "9", "?", "/x", ":th", ":stop\r", "5k\r", " "};
    uint32_t random = 7;

    (void)state;
    stage_fixture();
    stage_console(24, 80, NULL, NULL);
    ASSERT_SHOWS("10.0k total");
    for (int i = 0; i < 100; i++) {
        terminal_type(terminal, openings[dice(&random) % COUNT(openings)]);
        terminal_resize(terminal, 1 + (int)(dice(&random) % 70), 1 + (int)(dice(&random) % 250));
        terminal_take(terminal);
        terminal_type(terminal, "\x07"); /* Ctrl-G cancels a dialog */
    }
    terminal_resize(terminal, 24, 80);
    terminal_type(terminal, "\x07"
                            "1");
    ASSERT_SHOWS("[1 overview]", "requests/s");
}

static const char *random_event(uint32_t *random)
{
    static const char *const keys[] = {
        "1",           "2",          "3",      "4",        "5",
        "6",           "8",          "9",      "\t",       "\x1b[Z",
        "+",           "-",          " ",      "g",        "\x1bOA",
        "\x1bOB",      "\x1bOC",     "\x1bOD", "\x1b[5~",  "\x1b[6~",
        "?",           "\x1bOH",     "\x1bOF", "\f",       "\x1b",
        "[",           "]",          "s",      "S",        "f",
        "\r",          "/",          ":",      "y",        "n",
        "m",           "d",          "e",      "x",        "c",
        "w",           "W",          "o",      "O",        "status:4xx\r",
        "threads 3\r", "view log\r", "\x15",   "\x17",     "\x7f",
        "\x80",        "\xff",       "\x1b[M", "\x1b[99~", "~",
        "\x07"};
    static char event[64];

    if (dice(random) % 4 != 0)
        return keys[dice(random) % COUNT(keys)];
    snprintf(event, sizeof(event), "\x1b[<%u;%u;%u%c",
             dice(random) % 3 == 0 ? 0 : 64 + dice(random) % 2, 1 + dice(random) % 130,
             1 + dice(random) % 45, dice(random) % 5 ? 'M' : 'm');
    return event;
}

static void shake(const char *const *options, uint32_t seed, int events)
{
    uint32_t random = seed;

    stage_console(24, 80, options, NULL);
    ASSERT_SHOWS("10.0k total");
    for (int i = 0; i < events; i++) {
        if (dice(&random) % 200 == 0)
            terminal_resize(terminal, 1 + (int)(dice(&random) % 60),
                            1 + (int)(dice(&random) % 210));
        terminal_type(terminal, random_event(&random));
        terminal_take(terminal);
    }
    terminal_resize(terminal, 24, 80);
    for (int i = 0; i < 3; i++)
        terminal_type(terminal, "\x07");
    terminal_type(terminal, "1");
    if (!terminal_shows(terminal, "[1 overview]"))
        fail_msg("after %d events of seed %u the overview can't be reached", events, seed);
    kill(terminal_pid(terminal), SIGTERM);
    stage_ended_well();
    stage_end_console();
}

/* Prints the seed; WSCONSOLE_SEED sets it. */
static void random_keys_and_clicks_do_no_harm(void **state)
{
    const char *given = getenv("WSCONSOLE_SEED");
    uint32_t seed = given != NULL ? (uint32_t)strtoul(given, NULL, 10) : 20261121;

    (void)state;
    print_message("seed %u\n", seed);
    stage_fixture();
    shake(NULL, seed, 10000);
    stage_end_fixture();
    /* As above, with --readonly: no command arrives. */
    stage_fixture();
    shake(readonly, seed + 1, 3000);
    assert_int_equal(fixture_commands(fixture), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(history_is_shown_by_second, stage_teardown),
        cmocka_unit_test_teardown(filter_applies_to_all_views, stage_teardown),
        cmocka_unit_test_teardown(selected_row_shows_details_and_sets_filter, stage_teardown),
        cmocka_unit_test_teardown(keys_faster_than_frames_all_act, stage_teardown),
        cmocka_unit_test_teardown(command_line_completes_and_sends, stage_teardown),
        cmocka_unit_test_teardown(destructive_command_asks_for_confirmation, stage_teardown),
        cmocka_unit_test_teardown(load_form_accepts_clicks, stage_teardown),
        cmocka_unit_test_teardown(readonly_rejects_typed_changes, stage_teardown),
        cmocka_unit_test_teardown(mouse_acts_like_keys, stage_teardown),
        cmocka_unit_test_teardown(dialog_accepts_clicks, stage_teardown),
        cmocka_unit_test_teardown(recorded_session_is_replayed, stage_teardown),
        cmocka_unit_test_teardown(menu_selects_one_of_several_servers, stage_teardown),
        cmocka_unit_test_teardown(settings_are_read_from_console_ini, stage_teardown),
        cmocka_unit_test_teardown(settings_are_saved_on_request, stage_teardown),
        cmocka_unit_test_teardown(all_terminal_types_work, stage_teardown),
        cmocka_unit_test_teardown(overlays_survive_resizes, stage_teardown),
        cmocka_unit_test_teardown(random_keys_and_clicks_do_no_harm, stage_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
