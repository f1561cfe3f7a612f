#include "stage.h"

#include "tests/test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NOBODY = 65534 };

struct fixture *fixture;
struct terminal *terminal;

void stage_end_fixture(void)
{
    fixture_stop(fixture);
    fixture = NULL;
}

void stage_end_console(void)
{
    terminal_stop(terminal);
    terminal = NULL;
}

int stage_teardown(void **state)
{
    (void)state;
    stage_end_console();
    stage_end_fixture();
    return 0;
}

const char *stage_name(void)
{
    static char name[48];

    snprintf(name, sizeof(name), "scr-%d", (int)getpid());
    return name;
}

/* NAME: may be NULL. */
static void start(const char *program, const char *name, int rows, int columns,
                  const char *const *more, const char *const *environment)
{
    const char *arguments[16] = {program};
    size_t count = 1;

    if (name != NULL) {
        arguments[count++] = "-n";
        arguments[count++] = name;
    }
    for (size_t i = 0; more != NULL && more[i] != NULL; i++)
        arguments[count++] = more[i];
    terminal = terminal_start(rows, columns, arguments, environment);
}

void stage_console(int rows, int columns, const char *const *more, const char *const *environment)
{
    start(WSCONSOLE, stage_name(), rows, columns, more, environment);
}

static void start_alone(const char *name, int rows, int columns, const char *const *more)
{
    char only[64];
    const char *const environment[] = {only, NULL};

    snprintf(only, sizeof(only), "ONLY_SERVER=%s", stage_name());
    start(WSCONSOLE_ONE_SERVER, name, rows, columns, more, environment);
}

void stage_console_of_one_server(const char *const *more)
{
    start_alone(stage_name(), 24, 80, more);
}

void stage_console_without_name(int rows, int columns, const char *const *more)
{
    start_alone(NULL, rows, columns, more);
}

void stage_console_as_nobody(int rows, int columns)
{
    static char user[24], group[24];
    const char *arguments[] = {
        "/usr/bin/setpriv", user, group, "--clear-groups", "--", WSCONSOLE, "-n",
        stage_name(),       NULL};

    snprintf(user, sizeof(user), "--reuid=%d", NOBODY);
    snprintf(group, sizeof(group), "--regid=%d", (int)getegid());
    terminal = terminal_start(rows, columns, arguments, NULL);
}

void stage_fixture(void)
{
    umask(022); /* a console of another user reads the segment */
    fixture = fixture_start(stage_name(), false);
    assert_non_null(fixture);
}

void stage_open(int rows, int columns, const char *const *more, const char *const *environment)
{
    stage_fixture();
    stage_console(rows, columns, more, environment);
}

void stage_shows(const char *const *texts, size_t count)
{
    assert_true(terminal_shows_all(terminal, texts, count));
}

void stage_ended_well(void)
{
    int status = terminal_wait_end(terminal);

    if (status != 0)
        fail_msg("the console ended with wait status %x (-1: it did not end)", (unsigned)status);
    assert_false(terminal_in_full_screen(terminal));
    assert_true(terminal_cursor_visible(terminal));
    assert_true(terminal_echoes(terminal));
}
