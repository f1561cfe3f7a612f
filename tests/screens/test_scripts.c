/* wsconsole --once and --json, and wsctl: output and exit status. */
#include "fixture.h"
#include "tests/test.h"

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

const struct test_fixture test_fixture = {begin, end};

/* Runs PROGRAM; `output` receives stdout and stderr. */
static int run_any(const char *program, const char *arguments)
{
    char command[1024];
    FILE *pipe;
    size_t length;

    snprintf(command, sizeof(command), "LC_ALL=C.UTF-8 '%s' %s 2>&1", program, arguments);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    length = fread(output, 1, sizeof(output) - 1, pipe);
    output[length] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

/* The same for the instance of this test. */
static int run(const char *program, const char *arguments)
{
    char all[900];

    snprintf(all, sizeof(all), "-n %s %s", name_of_test(), arguments);
    return run_any(program, all);
}

static void assert_run(const char *program, const char *arguments, int status, const char *text)
{
    int got = run(program, arguments);

    if (got != status || strstr(output, text) == NULL)
        fail_msg("%s: status %d instead of %d, or no '%s' in:\n%s", arguments, got, status, text,
                 output);
}

TEST(once_prints_rows)
{
    assert_run(WSCONSOLE, "--once overview", DONE, "threads 4 of 4 (2 in each)  workers 2 of 2");
    assert_non_null(strstr(output, "10.0k total"));
    assert_non_null(strstr(output, "version 10\n")); /* handshakes that failed for this reason */
    assert_run(WSCONSOLE, "--once threads", DONE, "threads  0 WK  1 R_\n");
    assert_non_null(strstr(output, "GET /index.html\n"));
    assert_run(WSCONSOLE, "--once log", DONE, "GET /page-0 HTTP/2.0\n");
    assert_non_null(strstr(output, "GET /page-39 HTTP/1.1\n"));
    assert_int_equal(run_any(WSCONSOLE, "--lab list"), DONE);
    assert_non_null(strstr(output, "starvation     Thread starvation: "));
}

static json_int_t metric(const json_t *root, const char *name)
{
    return json_integer_value(
        json_object_get(json_object_get(json_object_get(root, "overview"), "metrics"), name));
}

TEST(json_has_metric_names)
{
    json_t *root, *workers;

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

/* Points in time are RFC 3339, durations integers in ns; labels are not indented. */
TEST(times_are_exact)
{
    json_t *root, *line, *name;
    const char *time;
    int year;
    unsigned fraction;

    assert_int_equal(run(WSCONSOLE, "--json log"), DONE);
    root = json_loads(output, 0, NULL);
    line = json_array_get(json_object_get(json_object_get(root, "log"), "lines"), 0);
    time = json_string_value(json_object_get(line, "time"));
    assert_non_null(time);
    assert_int_equal(strlen(time), strlen("2026-01-02T15:04:05.123456789Z"));
    assert_int_equal(sscanf(time, "%4d-%*2d-%*2dT%*2d:%*2d:%*2d.%9uZ", &year, &fraction), 2);
    assert_true(year >= 2024 && fraction > 0);
    assert_true(json_is_integer(json_object_get(line, "took_ns")));
    assert_null(json_object_get(line, "took"));
    assert_string_equal(json_string_value(json_object_get(line, "thread")), "0.0");
    assert_non_null(json_string_value(json_object_get(json_object_get(root, "server"), "time")));
    json_decref(root);
    assert_run(WSCONSOLE, "--csv log", DONE,
               "time,status,took_ns,bytes,outcome,client,host,thread");
    assert_null(strstr(output, "e+"));
    assert_run(WSCONSOLE, "--csv threads", DONE, "thread,state,since_ns,");
    assert_non_null(strstr(output, "\r\n0.0,"));
    assert_run(WSCONSOLE, "--json cache", DONE, "\"server\"");
    root = json_loads(output, 0, NULL);
    name = json_object_get(json_object_get(root, "server"), "started");
    assert_true(json_is_string(name));
    json_decref(root);
}

/* Counts those that a thread logs faster than any console reads. */
TEST(top_counts_all_requests_of_a_full_log_ring)
{
    enum {
        MORE = 500, /* about 6000 of the ring's 8192 words */
        SAMPLES = 8
    };
    char command[256];
    FILE *pipe;
    json_t *root, *top;

    snprintf(command, sizeof(command),
             "LC_ALL=C.UTF-8 '%s' -n %s --json top --batch --every 500ms --count %d 2>&1",
             WSCONSOLE, name_of_test(), SAMPLES);
    pipe = popen(command, "r");
    assert_non_null(pipe);
    assert_non_null(fgets(output, sizeof(output), pipe));
    fixture_log_requests(fixture, MORE);
    for (int i = 1; i < SAMPLES; i++) /* the next ones may be of the time before */
        assert_non_null(fgets(output, sizeof(output), pipe));
    assert_int_equal(WEXITSTATUS(pclose(pipe)), DONE);
    root = json_loads(output, 0, NULL);
    assert_non_null(root);
    top = json_object_get(root, "top");
    assert_int_equal(json_integer_value(json_object_get(top, "requests_seen")),
                     FIXTURE_LINES + MORE);
    assert_int_equal(json_integer_value(json_object_get(top, "requests_missed")), 0);
    json_decref(root);
}

static json_int_t window_with(const char *arguments)
{
    json_t *root;
    json_int_t window;

    assert_int_equal(run(WSCONSOLE, arguments), DONE);
    root = json_loads(output, 0, NULL);
    assert_non_null(root);
    window = json_integer_value(json_object_get(json_object_get(root, "top"), "window_s"));
    json_decref(root);
    return window;
}

TEST(span_sets_the_window_of_top)
{
    assert_in_range(window_with("--json top"), 51, 60); /* whole panes of ten seconds */
    assert_in_range(window_with("--json top --span 5m"), 291, 300);
    assert_in_range(window_with("--span 15m --json top"), 891, 900);
}

TEST(socket_names_the_instance)
{
    char arguments[256];

    snprintf(arguments, sizeof(arguments), "-s %s --once overview", fixture_socket(fixture));
    assert_int_equal(run_any(WSCONSOLE, arguments), DONE);
    assert_non_null(strstr(output, "10.0k total"));
    snprintf(arguments, sizeof(arguments), "-s %s.none --once overview", fixture_socket(fixture));
    assert_int_equal(run_any(WSCONSOLE, arguments), NO_DAEMON);
    assert_non_null(strstr(output, "no running webserverd has the control socket '"));
}

TEST(unknown_filter_column_is_wrong_use)
{
    assert_run(WSCONSOLE, "--csv log --filter statsu:404", WRONG_USE, "did you mean 'status'?");
}

TEST(wsconsole_reports_wrong_use)
{
    assert_run(WSCONSOLE, "--once overveiw", WRONG_USE, "did you mean 'overview'?");
    assert_run(WSCONSOLE, "-r 0 --once log", WRONG_USE, "1-60 frames per second");
    assert_run(WSCONSOLE, "--theme pink", WRONG_USE, "unknown theme 'pink'");
    assert_run(WSCONSOLE, "log threads", WRONG_USE, "unexpected argument 'threads'");
    assert_run(WSCONSOLE, "-n a/b --once log", WRONG_USE, "invalid instance name");
    assert_run(WSCONSOLE, "< /dev/null", 1, "must be a terminal");
    assert_run(WSCONSOLE, "-n scr-nobody --once log", NO_DAEMON,
               "no webserverd named 'scr-nobody' is running\nwsconsole: running: ");
    assert_non_null(strstr(output, name_of_test())); /* one that does */
}

TEST(wsctl_prints_and_exits)
{
    assert_run(WSCTL, "threads 3", DONE, "threads: 3 in force\n");
    assert_run(WSCTL, "threads 99", REFUSED, "wsctl: at most 16 threads fit\n");
    assert_run(WSCTL, "--json threads 99", REFUSED, "{\"ok\":false,");
    assert_run(WSCTL, "threads 2 --json", DONE, "{\"ok\":true,\"wanted\":2,\"actual\":2}\n");
    assert_int_equal(fixture_commands(fixture), 4);
}

TEST(wsctl_rejects_wrong_use_before_sending)
{
    assert_run(WSCTL, "thread 3", WRONG_USE, "did you mean 'threads'?");
    assert_run(WSCTL, "threads 1 2", WRONG_USE, "at most 1 argument");
    assert_run(WSCTL, "", WRONG_USE, "missing command");
    assert_run(WSCTL, "-t soon ping", WRONG_USE, "invalid timeout 'soon'");
    assert_run(WSCTL, "-h", DONE, "Exit status: 0 done");
    assert_int_equal(fixture_commands(fixture), 0);
}

TEST(wsctl_finds_the_socket)
{
    char arguments[256];

    /* wsctl finds the socket through the segment: its path is not the default for the name. */
    assert_run(WSCTL, "threads 2", DONE, "threads: 2 in force");
    snprintf(arguments, sizeof(arguments), "-n scr-nobody -s %s threads 2",
             fixture_socket(fixture));
    assert_run(WSCTL, arguments, DONE, "threads: 2 in force");
    assert_run(WSCTL, "-n scr-nobody ping", NO_DAEMON,
               "no webserverd named 'scr-nobody' is running\nwsctl: running: ");
    assert_non_null(strstr(output, name_of_test()));
    assert_non_null(strstr(output, "(-n NAME selects one)"));
    assert_run(WSCTL, "-n scr-nobody help", DONE, "  drain WORKER");
    assert_run(WSCTL, "-n scr-nobody help ping", DONE, "  ping  ");
    assert_run(WSCTL, "-s /nowhere/x.sock ping", NO_DAEMON,
               "no webserverd listens on /nowhere/x.sock: No such file");
    assert_run(WSCTL, "-n a/b ping", WRONG_USE, "invalid instance name");
}

/* Other servers may run on the machine. */
static const json_t *listed(const json_t *list, const char *name)
{
    const json_t *server;
    size_t i;

    json_array_foreach(list, i,
                       server) if (strcmp(json_string_value(json_object_get(server, "name")),
                                          name) == 0) return server;
    return NULL;
}

TEST(servers_are_listed_as_json)
{
    static const char *const programs[][2] = {{WSCTL, "list --json"}, {WSCONSOLE, "-l --json"}};

    for (size_t i = 0; i < 2; i++) {
        const json_t *server;
        json_t *list;

        assert_int_equal(run_any(programs[i][0], programs[i][1]), DONE);
        list = json_loads(output, 0, NULL);
        server = listed(list, name_of_test());
        assert_non_null(server);
        assert_string_equal(json_string_value(json_object_get(server, "state")), "serving");
        assert_true(strlen(json_string_value(json_object_get(server, "version"))) > 0);
        assert_int_equal(json_integer_value(json_object_get(server, "workers_wanted")),
                         FIXTURE_WORKERS);
        assert_true(json_is_real(json_object_get(server, "requests_per_s")));
        json_decref(list);
    }
}

/* Without a name the only server is meant. A list that is too long ends with a number. */
TEST(several_servers_are_named)
{
    static const char *const commands[][2] = {{WSCTL, "ping"},
                                              {WSCTL, "watch --for 1s"},
                                              {WSCONSOLE, "--once overview"},
                                              {WSCONSOLE, "--json"}};
    char other[64];
    struct fixture *second;

    snprintf(other, sizeof(other), "%s-b", name_of_test());
    second = fixture_start(other, false);
    assert_non_null(second);
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(run_any(commands[i][0], commands[i][1]), NO_DAEMON);
        assert_non_null(strstr(output, " servers run; -n NAME chooses one: "));
        assert_true(strstr(output, other) != NULL || strstr(output, " others\n") != NULL);
    }
    fixture_stop(second);
}

TEST(wsctl_times_out)
{
    fixture_hold_answers(fixture, true);
    assert_run(WSCTL, "-t 50ms threads 2", NO_DAEMON, "no answer within 50ms");
}

/* The fixture has 10 connections and no requests. */
TEST(watch_fails_if_a_rule_holds)
{
    assert_int_equal(run(WSCTL, "watch --fail-if 'connections > 5' --for 1m"), REFUSED);
    assert_non_null(strstr(output, "wsctl: connections > 5: 10"));
    assert_int_equal(run(WSCTL, "watch --fail-if 'p99 > 1ms' --fail-if 'connections>5 for 500ms'"),
                     REFUSED);
    assert_non_null(strstr(output, "wsctl: connections > 5 for 500ms: 10"));
    assert_int_equal(run(WSCTL, "watch --fail-if 'connections > 10' --for 4s"), DONE);
    assert_non_null(strstr(output, "requests/s  p99        -  5xx/s      0  connections 10"));
    assert_int_equal(run(WSCTL, "watch --for 50ms"), DONE);
    assert_string_equal(output,
                        "       0 requests/s  p99        -  5xx/s      0  connections 10\n");
    assert_int_equal(run(WSCTL, "watch --fail-if 'p98 > 1ms'"), WRONG_USE);
    assert_non_null(strstr(output, "unknown metric 'p98'; did you mean 'p9"));
    assert_int_equal(run(WSCTL, "watch --often"), WRONG_USE);
    assert_int_equal(run(WSCTL, "watch --for"), WRONG_USE);
    assert_int_equal(run(WSCTL, "-n scr-nobody watch --for 1s"), NO_DAEMON);
}
