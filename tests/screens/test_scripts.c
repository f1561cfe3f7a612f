/* wsconsole --once and --json, and wsctl: output and exit status. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fixture.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OUTPUT_MAX = 256 * 1024, NO_DAEMON = 3, WRONG_USE = 2, REFUSED = 1, DONE = 0 };

static struct fixture *fixture;
static char output[OUTPUT_MAX];

static const char *name_of_test(void)
{
    static char name[48];

    snprintf(name, sizeof(name), "scr-once-%d", (int)getpid());
    return name;
}

static int begin(void **state)
{
    (void)state;
    fixture = fixture_start(name_of_test(), false);
    return fixture == NULL;
}

static int end(void **state)
{
    (void)state;
    fixture_stop(fixture);
    fixture = NULL;
    return 0;
}

/* Runs PROGRAM for the instance of this test; `output` receives stdout and stderr. */
static int run(const char *program, const char *arguments)
{
    char command[1024];
    FILE *pipe;
    size_t length;

    snprintf(command, sizeof(command), "LC_ALL=C.UTF-8 '%s' -n %s %s 2>&1", program, name_of_test(),
             arguments);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    length = fread(output, 1, sizeof(output) - 1, pipe);
    output[length] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

static void assert_run(const char *program, const char *arguments, int status, const char *text)
{
    int got = run(program, arguments);

    if (got != status || strstr(output, text) == NULL)
        fail_msg("%s: status %d instead of %d, or no '%s' in:\n%s", arguments, got, status, text,
                 output);
}

static void once_prints_rows(void **state)
{
    (void)state;
    assert_run(WSCONSOLE, "--once overview", DONE, "threads 4 of 4 (2 in each)  workers 2 of 2");
    assert_non_null(strstr(output, "10.0k total"));
    assert_run(WSCONSOLE, "--once threads", DONE, "threads  0 WK  1 R_\n");
    assert_non_null(strstr(output, "GET /index.html\n"));
    assert_run(WSCONSOLE, "--once log", DONE, "GET /page-0 HTTP/1.1\n");
    assert_non_null(strstr(output, "GET /page-39 HTTP/1.1\n"));
}

static json_int_t metric(const json_t *root, const char *name)
{
    return json_integer_value(
        json_object_get(json_object_get(json_object_get(root, "overview"), "metrics"), name));
}

static void json_has_metric_names(void **state)
{
    json_t *root, *workers;

    (void)state;
    assert_int_equal(run(WSCONSOLE, "--json"), DONE);
    assert_ptr_equal(strchr(output, '\n'), output + strlen(output) - 1); /* one line */
    root = json_loads(output, 0, NULL);
    assert_non_null(root);
    assert_int_equal(metric(root, "requests"), 10000);
    assert_int_equal(metric(root, "connections_open"), 10);
    assert_int_equal(metric(root, "cache_entries"), 25);
    workers = json_object_get(json_object_get(root, "threads"), "workers");
    assert_int_equal(json_array_size(workers), FIXTURE_WORKERS);
    assert_int_equal(json_array_size(json_object_get(json_array_get(workers, 0), "serving")),
                     FIXTURE_THREADS);
    assert_int_equal(json_array_size(json_object_get(json_object_get(root, "log"), "lines")),
                     FIXTURE_LINES);
    json_decref(root);
    assert_int_equal(run(WSCONSOLE, "--json threads"), DONE);
    root = json_loads(output, 0, NULL);
    assert_non_null(json_object_get(root, "threads"));
    assert_null(json_object_get(root, "overview"));
    json_decref(root);
}

static void wsconsole_reports_wrong_use(void **state)
{
    (void)state;
    assert_run(WSCONSOLE, "--once overveiw", WRONG_USE, "did you mean 'overview'?");
    assert_run(WSCONSOLE, "-r 0 --once log", WRONG_USE, "1-60 frames per second");
    assert_run(WSCONSOLE, "--theme pink", WRONG_USE, "unknown theme 'pink'");
    assert_run(WSCONSOLE, "log threads", WRONG_USE, "unexpected argument 'threads'");
    assert_run(WSCONSOLE, "-n a/b --once log", WRONG_USE, "invalid instance name");
    assert_run(WSCONSOLE, "< /dev/null", 1, "must be a terminal");
    assert_run(WSCONSOLE, "-n scr-nobody --once log", NO_DAEMON,
               "no webserverd named 'scr-nobody' is running");
}

static void wsctl_prints_and_exits(void **state)
{
    (void)state;
    assert_run(WSCTL, "threads 3", DONE, "threads: wanted 3, actual 3\n");
    assert_run(WSCTL, "threads 99", REFUSED, "wsctl: at most 16 threads fit\n");
    assert_run(WSCTL, "--json threads 99", REFUSED, "{\"ok\":false,");
    assert_run(WSCTL, "threads 2 --json", DONE, "{\"ok\":true,\"wanted\":2,\"actual\":2}\n");
    assert_int_equal(fixture_commands(fixture), 4);
}

static void wsctl_rejects_wrong_use_before_sending(void **state)
{
    (void)state;
    assert_run(WSCTL, "thread 3", WRONG_USE, "did you mean 'threads'?");
    assert_run(WSCTL, "threads 1 2", WRONG_USE, "at most 1 argument");
    assert_run(WSCTL, "", WRONG_USE, "missing command");
    assert_run(WSCTL, "-t soon ping", WRONG_USE, "invalid timeout 'soon'");
    assert_run(WSCTL, "-h", DONE, "Exit status: 0 done");
    assert_int_equal(fixture_commands(fixture), 0);
}

static void wsctl_finds_the_socket(void **state)
{
    char arguments[256];

    (void)state;
    /* wsctl finds the socket through the segment: its path is not the default for the name. */
    assert_run(WSCTL, "threads 2", DONE, "wanted 2");
    snprintf(arguments, sizeof(arguments), "-n scr-nobody -s %s threads 2",
             fixture_socket(fixture));
    assert_run(WSCTL, arguments, DONE, "wanted 2");
    assert_run(WSCTL, "-n scr-nobody ping", NO_DAEMON, "no webserverd listens on");
    assert_run(WSCTL, "-n a/b ping", WRONG_USE, "invalid instance name");
}

static void wsctl_times_out(void **state)
{
    (void)state;
    fixture_hold_answers(fixture, true);
    assert_run(WSCTL, "-t 50ms threads 2", NO_DAEMON, "no answer within 50 ms");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(once_prints_rows, begin, end),
        cmocka_unit_test_setup_teardown(json_has_metric_names, begin, end),
        cmocka_unit_test_setup_teardown(wsconsole_reports_wrong_use, begin, end),
        cmocka_unit_test_setup_teardown(wsctl_prints_and_exits, begin, end),
        cmocka_unit_test_setup_teardown(wsctl_rejects_wrong_use_before_sending, begin, end),
        cmocka_unit_test_setup_teardown(wsctl_finds_the_socket, begin, end),
        cmocka_unit_test_setup_teardown(wsctl_times_out, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
