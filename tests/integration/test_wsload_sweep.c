/*
 * Sweeps and repeated runs on a real webserverd. A sweep measures every point in every round with
 * the right threads and workers, and always restores the server's settings.
 */
#include "common/macros.h"
#include "patience.h"
#include "server.h"
#include "tests/test.h"
#include "wsload_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int set_up(void **state)
{
    wsload_engine = "raw";
    return server_set_up(state);
}

const struct test_fixture test_fixture = {set_up, server_tear_down};

static void begin(struct server *server)
{
    server_put_text(server, "/index.html", "hello");
    server_start(server, "workers.processes=1", "workers.threads=2", "workers.max_processes=3",
                 NULL);
}

static json_int_t ask(const struct server *server, const char *what, const char *member)
{
    json_t *response = server_control(server, "%s", what);
    json_int_t number = json_integer_value(json_object_get(response, member));

    json_decref(response);
    return number;
}

static void check_sizes(const struct server *server, json_int_t workers, json_int_t threads)
{
    assert_int_equal(ask(server, "workers", "wanted"), workers);
    assert_int_equal(ask(server, "workers", "actual"), workers);
    assert_int_equal(ask(server, "threads", "wanted"), threads);
    assert_int_equal(ask(server, "threads", "actual"), threads);
}

static void wait_for(const struct server *server, const char *what, json_int_t number)
{
    const struct timespec step = {0, 10 * 1000 * 1000};

    while (ask(server, what, "actual") != number)
        nanosleep(&step, NULL);
}

static void check_point(const json_t *point, json_int_t connections, size_t rounds)
{
    const json_t *rate = json_object_get(point, "requests_per_second");
    const json_t *list = json_object_get(point, "rounds");
    double median = json_number_value(json_object_get(rate, "median"));

    assert_int_equal(json_integer_value(json_object_get(point, "connections")), connections);
    assert_int_equal(json_array_size(list), rounds);
    assert_true(median > 0);
    if (rounds >= 3) { /* fewer rounds give no confidence interval */
        assert_true(json_number_value(json_object_get(rate, "low")) <= median);
        assert_true(json_number_value(json_object_get(rate, "high")) >= median);
    }
    for (size_t i = 0; i < rounds; i++) {
        const json_t *round = json_array_get(list, i);

        assert_true(json_number_value(json_object_get(round, "requests_per_second")) > 0);
        assert_true(json_number_value(json_object_get(round, "error_percent")) == 0);
        assert_true(json_number_value(json_object_get(round, "server_cpu_cores")) > 0);
    }
}

TEST(sweep_measures_every_point_and_restores_server)
{
    struct server *server = *state;
    json_t *report, *curve;
    size_t i;

    begin(server);
    report = wsload_finish(wsload_start("sweep -c 3,1 --keepalive both --server-threads 1,3 "
                                        "--server-workers 1,2 -n 100 --repeat 3",
                                        server_port(server), "/"),
                           0);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(report, "sweep"), "server")),
        server_name(server));
    assert_int_equal(json_array_size(json_object_get(report, "curves")), 8);
    json_array_foreach(json_object_get(report, "curves"), i, curve)
    {
        const json_t *points = json_object_get(curve, "points");

        assert_int_equal(json_is_true(json_object_get(curve, "keepalive")), i < 4);
        assert_int_equal(json_integer_value(json_object_get(curve, "server_workers")),
                         i / 2 % 2 + 1);
        assert_int_equal(json_integer_value(json_object_get(curve, "server_threads")),
                         i % 2 == 0 ? 1 : 3);
        assert_int_equal(json_array_size(points), 2);
        check_point(json_array_get(points, 0), 1, 3);
        check_point(json_array_get(points, 1), 3, 3);
    }
    json_decref(report);
    check_sizes(server, 1, 2);
    server_expect_metric(server, "requests", 8 * 2 * 3 * 100);
    server_stop(server);
}

/* wsload prints the restoring commands before it changes the server. */
static void expect_advice(const struct server *server, int fd)
{
    char printed[512], advice[256];
    size_t length = 0;

    while (length + 1 < sizeof(printed) && read(fd, printed + length, 1) == 1 &&
           printed[length] != '\n')
        length++;
    printed[length] = '\0';
    snprintf(advice, sizeof(advice), "wsctl -n %s workers 1 && wsctl -n %s threads 2",
             server_name(server), server_name(server));
    if (strstr(printed, advice) == NULL)
        fail_msg("no '%s' in: %s", advice, printed);
}

/* A signal while the server is changed. The report shows what was measured. */
static void check_interrupted(struct server *server, int number)
{
    struct program program = wsload_start("sweep -c 1 --server-threads 1,4 --server-workers 2 "
                                          "-n 1000 --repeat 1000",
                                          server_port(server), "/");
    json_t *report, *point;
    size_t rounds;

    expect_advice(server, program.err);
    wait_for(server, "threads", 4);
    kill(program.pid, number);
    report = wsload_finish(program, 130);
    assert_true(json_is_true(json_object_get(report, "interrupted")));
    assert_int_equal(json_array_size(json_object_get(report, "curves")), 2);
    point = json_array_get(
        json_object_get(json_array_get(json_object_get(report, "curves"), 0), "points"), 0);
    rounds = json_array_size(json_object_get(point, "rounds"));
    assert_in_range(rounds, 1, 999);
    check_point(point, 1, rounds);
    json_decref(report);
    check_sizes(server, 1, 2);
}

TEST(signal_restores_server_and_reports)
{
    struct server *server = *state;

    begin(server);
    check_interrupted(server, SIGINT);
    check_interrupted(server, SIGTERM);
    check_interrupted(server, SIGHUP);
    check_interrupted(server, SIGQUIT);
    server_stop(server);
}

static const json_t *first_point(const json_t *report)
{
    const json_t *curve = json_array_get(json_object_get(report, "curves"), 0);

    return json_array_get(json_object_get(curve, "points"), 0);
}

static size_t count_lines(int fd)
{
    size_t count = 0;
    char c;

    while (read(fd, &c, 1) == 1)
        count += c == '\n';
    return count;
}

/* The server stops while its threads are changed back and forth. */
TEST(stopped_server_ends_sweep_with_report)
{
    struct server *server = *state;
    struct program program;
    json_t *report;

    begin(server);
    program = wsload_start("sweep -c 1 --server-threads 1,4 -d 50ms --repeat 1000",
                           server_port(server), "/");
    expect_advice(server, program.err);
    wait_for(server, "threads", 4);
    server_signal(server_pid(server), SIGTERM);
    assert_true(count_lines(program.err) >= 2); /* why it ended, and how to restore the server */
    report = wsload_finish(program, 1);
    assert_int_equal(json_integer_value(json_object_get(report, "exit_status")), 1);
    assert_true(has_note(report, "failed"));
    assert_true(json_array_size(json_object_get(first_point(report), "rounds")) >= 1);
    json_decref(report);
    server_stopped(server);
}

/* A rejected setting ends the sweep. The report shows what was measured before, if anything was. */
TEST(rejected_setting_restores_server)
{
    struct server *server = *state;
    json_t *report;

    begin(server);
    report = wsload_finish(
        wsload_start("sweep -c 1 --server-workers 2,99 -n 10 --repeat 3", server_port(server), "/"),
        1);
    assert_true(has_note(report, "failed"));
    check_point(first_point(report), 1, 1);
    json_decref(report);
    check_sizes(server, 1, 2);
    assert_null(wsload_finish(
        wsload_start("sweep -c 1 --server-workers 99 -n 10 --repeat 3", server_port(server), "/"),
        1));
    check_sizes(server, 1, 2);
    server_stop(server);
}

/*
 * Conditions and error statuses give the exit statuses of single runs, and the server's settings
 * are restored.
 */
TEST(sweep_exit_statuses_match_single_runs)
{
    static const struct {
        const char *options, *path;
        int status;
    } cases[] = {
        {"sweep -c 1,2 --server-threads 3 -n 10 --repeat 2", "/missing", 3},
        {"sweep -c 1,2 --server-threads 3 -n 10 --repeat 2 --max-errors 100%", "/missing", 0},
        {"sweep -c 1,2 --server-threads 3 -n 10 --repeat 2 --fail-if p50>0ms", "/", 99},
        {"sweep -c 1,2 --server-threads 3 -d 1h --repeat 2 --abort-on p50>0ms", "/", 99},
    };
    struct server *server = *state;

    begin(server);
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        json_t *report;

        report = wsload_finish(wsload_start(cases[i].options, server_port(server), cases[i].path),
                               cases[i].status);
        assert_int_equal(json_integer_value(json_object_get(report, "exit_status")),
                         cases[i].status);
        json_decref(report);
        check_sizes(server, 1, 2);
    }
    server_stop(server);
}

/* A repeated run: the sum has every request, the table every round. */
TEST(repeat_sums_all_rounds)
{
    struct server *server = *state;
    json_t *report;

    begin(server);
    report = wsload_finish(wsload_start("--repeat 3 -c 4 -n 100", server_port(server), "/"), 0);
    assert_int_equal(number_at(report, "requests", "answered"), 300);
    assert_int_equal(number_at(report, "connections", "up"), 4);
    assert_int_equal(json_array_size(json_object_get(report, "rounds")), 3);
    assert_int_equal(number_at(report, "server", "counted"), 300);
    assert_true(json_is_number(json_object_get(
        json_object_get(json_object_get(report, "medians"), "requests_per_second"), "low")));
    json_decref(report);
    server_expect_metric(server, "requests", 300);
    server_stop(server);
}

/* A signal ends all rounds; the interrupted round is only in the sum. */
TEST(interrupted_repeat_reports_rounds)
{
    struct server *server = *state;
    struct program program;
    json_t *report;

    begin(server);
    program = wsload_start("--repeat 100 -c 1 -d 200ms", server_port(server), "/");
    while (server_metric(server, "connections_accepted") < 2)
        nanosleep(&(struct timespec){0, 10 * 1000 * 1000}, NULL);
    kill(program.pid, SIGINT);
    report = wsload_finish(program, 130);
    assert_true(json_is_true(json_object_get(report, "interrupted")));
    assert_in_range(json_array_size(json_object_get(report, "rounds")), 1, 99);
    assert_true(has_note(report, "rounds_missing"));
    json_decref(report);
    server_stop(server);
}

/* Without a server, settings fail; a sweep without settings reports that all requests failed. */
TEST(sweep_without_server_fails_or_reports)
{
    uint16_t port;
    int fd = wsload_bind_anywhere(&port);
    json_t *report;

    assert_null(wsload_finish(wsload_start("sweep -c 1 --server-threads 3 -n 10", port, "/"), 1));
    report = wsload_finish(wsload_start("sweep -c 1,5 -n 10", port, "/"), 2);
    assert_int_equal(json_array_size(json_object_get(report, "curves")), 1);
    json_decref(report);
    close(fd);
}
