/*
 * Plays each guided scenario with the keys it names: every step detects its completion, measures
 * and explains. No process and no file remains, however a scenario ends.
 */
#include "common/macros.h"
#include "console/lab/scenario.h"
#include "patience.h"
#include "scratch.h"
#include "server.h"
#include "terminal.h"
#include "tests/part.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

enum {
    ROWS = 40,
    COLUMNS = 120,
    PANEL_ROW = 2,
    PANEL_COLUMN = 80,
    PANEL_BYTES = 8192,
    MOST_KEYS = 12,
    STEPS_MOST = 6, /* with the end */
    NAME_BYTES = 64,
};

static struct terminal *terminal;
static char directory[SCRATCH_PATH_MAX]; /* temporary files of the console and its server */
static char instance[NAME_BYTES];        /* instance name */

/* Adopts orphaned children: one that still runs at the end is a leak. */
static int set_up(void **state)
{
    (void)state;
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    scratch_make(directory);
    instance[0] = '\0';
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    if (terminal != NULL)
        terminal_stop(terminal);
    terminal = NULL;
    scratch_remove(directory);
    return 0;
}

/* The stored panels have numbers of the default time, and of real work. */
static bool writes_panels(void)
{
    const char *golden = getenv("WSCONSOLE_GOLDEN");

    return golden != NULL && strcmp(golden, "write") == 0;
}

/*
 * The jobs of the servers sleep instead of computing: they occupy the threads for as long, but not
 * the processors. A sanitizer must be loaded first, so that its jobs compute.
 */
static void start(int rows, int columns, const char *const *arguments)
{
    static char temporary[SCRATCH_PATH_MAX + 16], home[SCRATCH_PATH_MAX + 16];
    const char *environment[] = {temporary, home, NULL, NULL, NULL};

#ifndef TEST_SANITIZER
    if (!writes_panels()) {
        environment[2] =
            "LD_LIBRARY_PATH=" SLEEPING_WORK_PATH; /* LD_PRELOAD is separated by blanks */
        environment[3] = "LD_PRELOAD=" SLEEPING_WORK;
    }
#endif
    snprintf(temporary, sizeof(temporary), "TMPDIR=%s", directory);
    snprintf(home, sizeof(home), "XDG_STATE_HOME=%s", directory);
    terminal = terminal_start(rows, columns, arguments, environment);
}

/* The instance is named after its directory. */
static void find_instance(void)
{
    static const char prefix[] = "webserverd-";
    DIR *list;
    const struct dirent *entry;

    ASSERT_SHOWS(": to do");
    list = opendir(directory);
    assert_non_null(list);
    while ((entry = readdir(list)) != NULL)
        if (strncmp(entry->d_name, prefix, sizeof(prefix) - 1) == 0)
            snprintf(instance, sizeof(instance), "webserverd.private-%.20s",
                     entry->d_name + sizeof(prefix) - 1);
    closedir(list);
    assert_int_equal(scratch_count("/dev/shm", instance), 1);
}

static void play(const char *name, int rows, int columns)
{
    const char *step_time = writes_panels() ? "2s" : "500ms";
    const char *const arguments[] = {WSCONSOLE, "--lab", name, "--step-time", step_time, NULL};

    start(rows, columns, arguments);
    find_instance();
}

/* Directory and shared memory, then processes. */
static void check_no_instance(void)
{
    assert_int_equal(scratch_count("/dev/shm", instance), 0);
    assert_int_equal(scratch_count(directory, "webserverd-"), 0);
}

static void check_nothing_left(void)
{
    check_no_instance();
    WAIT_UNTIL(waitpid(-1, NULL, WNOHANG) == -1);
}

static void end(int status)
{
    assert_int_equal(terminal_wait_end(terminal), status);
    check_nothing_left();
}

/* Copies the panel from the right side of a wide screen. */
static void take_panel(char *text, size_t size)
{
    size_t used = 0;

    terminal_take(terminal);
    text[0] = '\0';
    for (int row = PANEL_ROW; row < ROWS - 1; row++) {
        const char *line = terminal_line(terminal, row);
        size_t length;

        for (int column = 0; column < PANEL_COLUMN && *line != '\0'; column++)
            for (line++; ((unsigned char)*line & 0xc0) == 0x80;)
                line++; /* multibyte character */
        for (length = strlen(line); length > 0 && line[length - 1] == ' ';)
            length--;
        used += (size_t)snprintf(text + used, size - used, "%.*s\n", (int)length, line);
        if (used >= size)
            return;
    }
    while (used > 1 && text[used - 2] == '\n')
        text[--used] = '\0';
}

/* Normalises TEXT: single blanks, '#' for each number, also for "-", a number that is not known. */
static void plain(const char *text, char *result)
{
    static const char *const units[] = {"us", "µs", "ms", "s", "ns", "KiB", "MiB", "%"};
    bool inside = false;

    while (*text != '\0') {
        bool number = !inside && strchr("0123456789", *text) != NULL;

        if (number || (*text == '-' && text[1] != '\0' && strchr(" ,\n", text[1]) != NULL)) {
            text += strspn(text, "0123456789.-");
            text += number && (*text == 'k' || *text == 'M') ? 1 : 0;
            if (number && strncmp(text, "m ", 2) == 0)
                text += 2 + strspn(text + 2, "0123456789"); /* "1m 05s" */
            for (size_t i = 0; number && i < sizeof(units) / sizeof(units[0]); i++) {
                size_t blank = *text == ' ' || *text == '\n' ? 1 : 0, length = strlen(units[i]);

                if (strncmp(text + blank, units[i], length) == 0 &&
                    strchr(" \n.,:", text[blank + length]) != NULL) {
                    text += blank + length;
                    break;
                }
            }
            *result++ = '#';
        } else if (*text == ' ' || *text == '\n') {
            text += strspn(text, " \n");
            *result++ = ' ';
            inside = false;
        } else {
            inside = true;
            *result++ = *text++;
        }
    }
    *result = '\0';
}

static const char *kept_path(const char *name, int number)
{
    static char path[SCRATCH_PATH_MAX];

    snprintf(path, sizeof(path), "%s/%s-%d.txt", PANELS, name, number);
    return path;
}

/*
 * Removes from the words what the panel says when a number is not as explained, which depends on
 * the machine.
 */
static void without_differences(char *words)
{
    static const char begin[] = "Different here:", end[] = "measures longer. ";
    char *from = strstr(words, begin), *to = from != NULL ? strstr(from, end) : NULL;

    if (to != NULL)
        memmove(from, to + strlen(end), strlen(to + strlen(end)) + 1);
}

/* True if the stored panel has the same words. */
static bool panel_is_kept(const char *name, int number, const char *text)
{
    char words[PANEL_BYTES], kept_words[PANEL_BYTES];
    size_t length;
    char *kept = scratch_read(kept_path(name, number), &length);

    plain(text, words);
    without_differences(words);
    plain(length < PANEL_BYTES ? kept : "", kept_words);
    free(kept);
    return strcmp(words, kept_words) == 0;
}

static bool panel_explains(const struct lab_step *step, const char *text)
{
    char words[PANEL_BYTES], why[PANEL_BYTES];

    plain(text, words);
    plain(step->why, why);
    return strstr(words, why) != NULL;
}

/*
 * Waits for the whole explanation, then compares the panel; WSCONSOLE_GOLDEN=write stores it. The
 * terminal may have a part of a frame only, so it waits for the next ones before it fails.
 */
static void check_panel(const struct lab_scenario *scenario, int number)
{
    uint64_t until_ns = clock_monotonic_ns() + PATIENCE_S * NS_PER_S;
    char text[PANEL_BYTES];

    WAIT_UNTIL(
        (take_panel(text, sizeof(text)), panel_explains(&scenario->steps[number - 1], text)));
    if (writes_panels())
        scratch_write(kept_path(scenario->name, number), text, strlen(text));
    while (!panel_is_kept(scenario->name, number, text)) {
        if (clock_monotonic_ns() > until_ns)
            fail_msg("%s differs from the panel (./dev screens lab writes it):\n%s",
                     kept_path(scenario->name, number), text);
        usleep(ASK_AGAIN_MS * 1000);
        take_panel(text, sizeof(text));
    }
}

/* One step: its keys, each with a text to wait for, and a text of the final panel. */
struct step {
    const char *keys[MOST_KEYS]; /* keys, then a text or "", and so on */
    const char *seen;            /* text of the final panel, or NULL */
};

static void do_step(const struct step *step, int number, int count)
{
    char title[32];

    snprintf(title, sizeof(title), "%d of %d: to do", number, count);
    assert_true(terminal_shows(terminal, title));
    for (size_t i = 0; i + 1 < MOST_KEYS && step->keys[i] != NULL; i += 2) {
        terminal_type(terminal, step->keys[i]);
        if (step->keys[i + 1][0] != '\0')
            assert_true(terminal_shows(terminal, step->keys[i + 1]));
    }
    snprintf(title, sizeof(title), "%d of %d: done", number, count);
    assert_true(terminal_shows(terminal, title));
    if (step->seen != NULL)
        assert_true(terminal_shows(terminal, step->seen));
}

/* The steps of each scenario, up to one without keys. */
static struct play {
    const char *name;
    struct step steps[STEPS_MOST];
} plays[] = {
    {"starvation",
     {
         {{"2", "offload"}, "queued jobs"},
         {{"+++" AGREE, "threads 4 of 4"}, "responses 2xx/s"},
         {{"ooo" AGREE, ""}, "mean wait"},
         {{"O", "from 4 to 3?", AGREE, "", "L", ""}, "Starvation"},
     }},
    {"stalled",
     {
         {{"2", ""}, "connections"},
         {{"L", ""}, "No effect on the"},
         {{"L", ""}, "Nothing is answered"},
         {{"8", "-o 1", "r" AGREE, ""}, "served again"},
         {{"L", ""}, "cheap, not free"},
     }},
    {"thrash",
     {
         {{"4", ""}, "hit ratio"},
         {{"n" AGREE, "lru -> "}, "Still none."},
         {{"e", "cache size of each worker", "\x15" /* Ctrl-U */ "2M\r" AGREE, "2M in each worker"},
          ", now 100%"},
         {{"L", ""}, "crawler"},
         {{"n" AGREE, "lru -> "}, "More hits"},
     }},
    {"backpressure",
     {
         {{"2", ""}, "when_full = wait"},
         {{"8", "-o 1", "r" AGREE, "reloaded; changed: log.when_full"}, "log dropped/s"},
         {{"L", ""}, "no third answer"},
     }},
    {"overload",
     {
         {{"3", ""}, "mean wait"},
         {{"L", ""}, "responses 503/s"},
         {{":ratelimit on\r" AGREE, ""}, "responses 429/s"},
         {{":ratelimit off\r" AGREE, "", "ooo" AGREE, ""}, "cores"},
     }},
    {"crash",
     {
         {{"2", ""}, "workers died"},
         {{"\x1bOB" /* Down */, "", "r", "Restart worker", AGREE, ""}, "No request failed"},
         {{"L", ""}, "recovery time"},
         {{"9", ""}, "isolate"},
     }},
    {"pool",
     {
         {{"2", ""}, "4 clients are served"},
         {{"++" AGREE, "(6 in each)"}, "the 13th client"},
         {{"8", "-o 1", "r" AGREE, ""}, "All 12 are served"},
         {{"8", "-o 1", "r" AGREE, ""}, "One thread serves all 12"},
     }},
    {"sff",
     {
         {{"2", ""}, "For large ones."},
         {{":queue sff\r" AGREE, ""}, "Small files win"},
         {{"L", ""}, "Now the large ones"},
     }},
    {"full",
     {
         {{"2", ""}, "B: blocked"},
         {{":queue drop-tail\r" AGREE, ""}, "dropped/s"},
         {{":queue drop-head\r" AGREE, ""}, "The oldest pays"},
         {{":queue drop-random\r" AGREE, ""}, "Chance pays"},
     }},
    {"race",
     {
         {{"2", ""}, "Nearly all are lost"},
         {{":fault off\r", ""}, "None is lost"},
     }},
    {"convoy",
     {
         {{"2", ""}, "of one, about"},
         {{":fault off\r", ""}, "All four work"},
     }},
    {"deadlock",
     {
         {{"2", ""}, "They wait for each other"},
         {{":fault on\r", ""}, "a deadlock?"},
         {{":fault off\r", ""}, "No. The order matters"},
     }},
    {"sharing",
     {
         {{"2", ""}, "writes the shared line"},
         {{":fault off\r", ""}, "writes its own line"},
     }},
};

/* Plays all steps of the scenario in STATE, then quits from the menu. */
static void play_whole(void **state)
{
    const struct play *wanted = *state;
    const struct lab_scenario *scenario = lab_scenario_named(wanted->name);
    int count = lab_scenario_steps(scenario);
    char save[NAME_BYTES];

    assert_in_range(count, 1, STEPS_MOST - 1);
    play(wanted->name, ROWS, COLUMNS);
    for (int i = 0; i < count; i++) {
        assert_non_null(wanted->steps[i].keys[0]);
        do_step(&wanted->steps[i], i + 1, count);
        check_panel(scenario, i + 1);
        snprintf(save, sizeof(save), "lab-%s-%d", wanted->name, i + 1);
        terminal_save(terminal, save);
        terminal_type(terminal, "L");
    }
    assert_null(wanted->steps[count].keys[0]);
    ASSERT_SHOWS("Select one:");
    check_no_instance();
    terminal_type(terminal, "q");
    end(0);
}

/* Without room for both, the panel replaces the view. */
static void small_screen_shows_whole_panel(void **state)
{
    (void)state;
    play("thrash", 10, 40);
    ASSERT_SHOWS("Press 4", "l shows all");
    terminal_save(terminal, "lab-40x10");
    TYPE_SHOWS("l", "does it answer: four fifths?");
    terminal_save(terminal, "lab-40x10-whole");
    TYPE_SHOWS("l4", "1 of 5: done");
    TYPE_SHOWS("l", "None. LRU makes room");
    TYPE_SHOWS("\x1b[6~", "every file is evicted just before it is", "requested."); /* PgDn */
    terminal_type(terminal, "q");
    end(0);
}

static void signal_removes_test_bed(void **state)
{
    static const int signals[] = {SIGTERM, SIGHUP};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        play("stalled", 24, 80);
        ASSERT_SHOWS("1 of 5: to do");
        kill(terminal_pid(terminal), signals[i]);
        end(0);
        terminal_stop(terminal);
    }
    play("overload", 24, 80);
    terminal_type(terminal, "\x03"); /* Ctrl-C */
    end(0);
}

static void killed_server_is_cleaned_up(void **state)
{
    const char *pid;

    (void)state;
    play("crash", 24, 120);
    ASSERT_SHOWS("1 of 4: to do");
    pid = strstr(terminal_text(terminal), "pid ");
    assert_non_null(pid);
    kill((pid_t)strtol(pid + 4, NULL, 10), SIGKILL);
    ASSERT_SHOWS("has exited. L leaves");
    TYPE_SHOWS("L", "Select one:");
    check_no_instance();
    terminal_type(terminal, "q");
    end(0);
}

/* Seconds left of the measurement on the screen. */
static double seconds_left(void)
{
    static const char before[] = "Measuring, ";

    assert_true(terminal_shows(terminal, before));
    return strtod(strstr(terminal_text(terminal), before) + strlen(before), NULL);
}

/* Settling is longer in proportion: 30 s instead of 1 s. */
static void step_time_sets_how_long_a_step_measures(void **state)
{
    static const char *const arguments[] = {WSCONSOLE,     "--lab", "stalled",
                                            "--step-time", "1m",    NULL};
    double left_s;

    (void)state;
    start(24, 80, arguments);
    find_instance();
    terminal_type(terminal, "2");
    left_s = seconds_left();
    assert_true(left_s > 3 && left_s <= 90);
    terminal_type(terminal, "q");
    end(0);
}

static void invalid_step_time_is_rejected(void **state)
{
    char command[512], said[1024] = "";
    FILE *pipe;

    (void)state;
    snprintf(command, sizeof(command), "'%s' --lab stalled --step-time 499ms 2>&1", WSCONSOLE);
    pipe = popen(command, "r");
    assert_non_null(fgets(said, sizeof(said), pipe));
    assert_non_null(strstr(said, "invalid time of a step '499ms' (500ms-1m)"));
    assert_int_equal(WEXITSTATUS(pclose(pipe)), 2);
}

static void scenarios_are_found_by_name(void **state)
{
    char command[512], said[1024] = "";
    FILE *pipe;

    (void)state;
    snprintf(command, sizeof(command), "'%s' --lab trash 2>&1", WSCONSOLE);
    pipe = popen(command, "r");
    assert_non_null(fgets(said, sizeof(said), pipe));
    assert_non_null(strstr(said, "did you mean 'thrash'?"));
    assert_int_equal(WEXITSTATUS(pclose(pipe)), 2);
    snprintf(command, sizeof(command), "'%s' --lab list", WSCONSOLE);
    pipe = popen(command, "r");
    assert_non_null(fgets(said, sizeof(said), pipe));
    assert_non_null(strstr(said, "starvation"));
    while (fgets(said, sizeof(said), pipe) != NULL)
        continue;
    assert_int_equal(WEXITSTATUS(pclose(pipe)), 0);
}

/* From a server to the menu, into a scenario, and back. */
static void menu_starts_scenario_and_returns(void **state)
{
    struct server *server = *state;
    const char *const arguments[] = {WSCONSOLE, "-n", server_name(server), NULL};

    server_start(server, "workers.processes=1", NULL);
    scratch_make(directory);
    start(24, 80, arguments);
    assert_true(terminal_shows(terminal, server_name(server)));
    TYPE_SHOWS("L", "Select one:");
    terminal_type(terminal, "q");
    assert_true(terminal_shows(terminal, server_name(server)));
    terminal_type(terminal, ":lab thrash\r");
    find_instance();
    ASSERT_SHOWS("1 of 5: to do");
    TYPE_SHOWS(":save\r", "cannot be saved");
    terminal_type(terminal, "q");
    assert_true(terminal_shows(terminal, server_name(server)));
    terminal_type(terminal, "q");
    assert_int_equal(terminal_wait_end(terminal), 0);
    check_no_instance();
    terminal_stop(terminal);
    terminal = NULL;
    scratch_remove(directory);
    server_stop(server);
}

/* `test_lab scenarios` plays them all; `test_lab ends` tests how they begin and end. */
int main(int argc, char **argv)
{
    static struct CMUnitTest scenarios[ARRAY_LENGTH(plays)];
    static const struct CMUnitTest ends[] = {
        cmocka_unit_test_setup_teardown(small_screen_shows_whole_panel, set_up, tear_down),
        cmocka_unit_test_setup_teardown(signal_removes_test_bed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(killed_server_is_cleaned_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(step_time_sets_how_long_a_step_measures, set_up, tear_down),
        cmocka_unit_test_setup_teardown(invalid_step_time_is_rejected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(scenarios_are_found_by_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(menu_starts_scenario_and_returns, server_set_up,
                                        server_tear_down),
    };

    for (size_t i = 0; i < ARRAY_LENGTH(plays); i++)
        scenarios[i] = (struct CMUnitTest){plays[i].name, play_whole, set_up, tear_down, &plays[i]};
    if (argc == 2 && strcmp(argv[1], "ends") == 0)
        return cmocka_run_group_tests(ends, NULL, NULL);
    if (argc == 2 && strcmp(argv[1], "scenarios") == 0)
        return _cmocka_run_group_tests("scenarios", scenarios,
                                       part_select(scenarios, ARRAY_LENGTH(scenarios)), NULL, NULL);
    fprintf(stderr, "usage: test_lab scenarios | ends\n");
    return 2;
}
