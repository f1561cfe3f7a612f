/*
 * Draws every view at every size from a recorded session and compares it with the text files in the
 * directory golden. WSCONSOLE_GOLDEN=write in the environment writes them instead (`./dev
 * screens`). Check the difference before you commit it.
 */
#include "terminal.h"

#include "common/clock.h"
#include "tests/test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>

#define DEADLINE_NS (20 * NS_PER_S)

enum { FILE_BYTES = 100 * 1000, POLL_MS = 20, QUIET_POLLS = 20, VARIANTS = 5, VIEW_VARIANTS };

static const char *const views[] = {
#define VIEW(name) #name,
#include "console/views/views.def"
#undef VIEW
};

static const struct variant {
    int rows, columns;
    const char *option; /* or NULL */
    const char *suffix;
} variants[VIEW_VARIANTS] = {
    {10, 40, NULL, ""},
    {24, 80, NULL, ""},
    {40, 120, NULL, ""},
    {50, 200, NULL, ""},
    {22, 72, "--ascii", "-ascii"}, /* as in the manual */
    {15, 80, NULL, ""},            /* of views only */
};

static struct terminal *terminal;

static int teardown(void **state)
{
    (void)state;
    terminal_stop(terminal);
    terminal = NULL;
    return 0;
}

const struct test_fixture test_fixture = {NULL, teardown};

static bool writing(void)
{
    const char *mode = getenv("WSCONSOLE_GOLDEN");

    return mode != NULL && strcmp(mode, "write") == 0;
}

static void pause_a_little(void)
{
    nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
}

static void read_golden(const char *path, char *text)
{
    FILE *file = fopen(path, "re");
    size_t length = file != NULL ? fread(text, 1, FILE_BYTES - 1, file) : 0;

    text[length] = '\0';
    if (file != NULL)
        fclose(file);
}

/* Writes the screen when it has stopped changing. */
static void write_golden(const char *path)
{
    static char before[FILE_BYTES];
    FILE *file;

    for (int quiet = 0; quiet < QUIET_POLLS; quiet++) {
        snprintf(before, sizeof(before), "%s", terminal_text(terminal));
        pause_a_little();
        terminal_take(terminal);
        if (strcmp(before, terminal_text(terminal)) != 0)
            quiet = 0;
    }
    file = fopen(path, "we");
    if (file == NULL || fputs(terminal_text(terminal), file) < 0 || fclose(file) != 0)
        fail_msg("cannot write %s: %s", path, strerror(errno));
}

static void compare_with_golden(const char *path)
{
    static char golden[FILE_BYTES];
    uint64_t until_ns = clock_monotonic_ns() + DEADLINE_NS;

    read_golden(path, golden);
    while (strcmp(golden, terminal_text(terminal)) != 0) {
        if (clock_monotonic_ns() > until_ns) {
            fprintf(stderr, "--- %s\n%s+++ the screen now\n%s", path, golden,
                    terminal_text(terminal));
            fail_msg("the screen is not that of %s; if it should not be, run: ./dev screens", path);
        }
        pause_a_little();
        terminal_take(terminal);
    }
}

static void check_screen(const char *name, const struct variant *variant)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/%s-%dx%d%s.txt", GOLDEN, name, variant->columns, variant->rows,
             variant->suffix);
    if (writing())
        write_golden(path);
    else
        compare_with_golden(path);
}

static void start_session(const char *session, const struct variant *variant, const char *view)
{
    const char *arguments[] = {WSCONSOLE, "--replay", session,         "--at",
                               "5",       view,       variant->option, NULL};

    terminal = terminal_start(variant->rows, variant->columns, arguments, NULL);
    assert_true(terminal_shows(terminal, "REPLAY paused"));
}

static void start(const struct variant *variant, const char *view)
{
    start_session(SESSIONS "/session.rec", variant, view);
}

TEST(views_match_golden_screens)
{
    for (size_t view = 0; view < sizeof(views) / sizeof(views[0]); view++)
        for (size_t i = 0; i < VIEW_VARIANTS; i++) {
            start(&variants[i], views[view]);
            check_screen(views[view], &variants[i]);
            teardown(state);
        }
}

/* Overlays. */
TEST(overlays_match_golden_screens)
{
    static const struct {
        const char *name, *view, *keys;
    } boxes[] = {
        {"help", "overview", "?"},      {"log-filtered", "log", "/status:4xx\r"},
        {"log-detail", "log", "k\r"},   {"subject", "log", ":show path=/style.css\r"},
        {"command", "overview", ":th"}, {"lab", "overview", ":lab\r"},
    };

    for (size_t box = 0; box < sizeof(boxes) / sizeof(boxes[0]); box++)
        for (size_t i = 0; i < VARIANTS; i++) {
            start(&variants[i], boxes[box].view);
            terminal_type(terminal, boxes[box].keys);
            check_screen(boxes[box].name, &variants[i]);
            teardown(state);
        }
}

/* Servers with 3 and with 1000 [host] sections. */
TEST(hosts_match_golden_screens)
{
    static const struct {
        const char *name, *session, *view, *keys;
    } screens[] = {
        {"hosts-3", SESSIONS "/hosts-3.rec", "hosts", ""},
        {"hosts-3-log", SESSIONS "/hosts-3.rec", "log", ""},
        {"hosts-3-subject", SESSIONS "/hosts-3.rec", "hosts", "j\r"},
        {"hosts-3-detail", SESSIONS "/hosts-3.rec", "hosts", "jj\r\r"},
        {"hosts-3-top", SESSIONS "/hosts-3.rec", "hosts", "jf6"},
        {"hosts-1000", SESSIONS "/hosts-1000.rec", "hosts", ""},
    };

    for (size_t i = 0; i < sizeof(screens) / sizeof(screens[0]); i++)
        for (size_t j = 0; j < VARIANTS; j++) {
            start_session(screens[i].session, &variants[j], screens[i].view);
            terminal_type(terminal, screens[i].keys);
            check_screen(screens[i].name, &variants[j]);
            teardown(state);
        }
}

/* Servers of other programs (include/wsboard.h): with a queue, and without one. */
TEST(boards_match_golden_screens)
{
    static const struct {
        const char *name, *session, *view;
    } screens[] = {
        {"board-server-overview", SESSIONS "/board-server.rec", "overview"},
        {"board-server-threads", SESSIONS "/board-server.rec", "threads"},
        {"board-server-log", SESSIONS "/board-server.rec", "log"},
        {"board-fork-overview", SESSIONS "/board-fork.rec", "overview"},
        {"board-fork-threads", SESSIONS "/board-fork.rec", "threads"},
    };

    for (size_t i = 0; i < sizeof(screens) / sizeof(screens[0]); i++)
        for (size_t j = 0; j < VARIANTS && variants[j].option == NULL; j++) {
            start_session(screens[i].session, &variants[j], screens[i].view);
            check_screen(screens[i].name, &variants[j]);
            teardown(state);
        }
}

/* Goes back from the end of the recording and forward again: same position, same screen. */
TEST(replay_position_determines_screen)
{
    const struct variant *variant = &variants[1];

    start(variant, "threads");
    terminal_type(terminal, "]"); /* one minute forward: the end */
    assert_true(terminal_shows(terminal, "7 s of 7 s"));
    terminal_type(terminal, "[");
    assert_true(terminal_shows(terminal, "0 of 7 s"));
    terminal_type(terminal, "\x1bOC"); /* five seconds forward */
    compare_with_golden(GOLDEN "/threads-80x24.txt");
}

/* The list of scenarios says where q leads: back to the session that it was opened from. */
TEST(list_of_scenarios_returns_to_the_replay)
{
    for (size_t i = 0; i < VARIANTS; i++) {
        start(&variants[i], "overview");
        terminal_type(terminal, ":lab\r");
        assert_true(terminal_shows(terminal, "q returns"));
        terminal_type(terminal, "q");
        assert_true(terminal_shows(terminal, "REPLAY paused"));
        teardown(state);
    }
}
