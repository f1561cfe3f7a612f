/*
 * Accuracy of wsload: stalls are compared with the server's clock, counts with the server's log.
 *
 * Expected values: of N requests at rate R, those due during a stall of S seconds wait for its end,
 * the first one longest. R (S - x) requests wait longer than x, so the 99th percentile is S - 0.01
 * N / R.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/macros.h"
#include "log_check.h"
#include "server.h"
#include "wsload_fixture.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    ATTEMPTS = 4,      /* on a busy machine, which adds waiting time: one quiet attempt is enough */
    BUSY_PERCENT = 25, /* load of the machine; the test itself uses little */
    RATE = 400,
};

static bool rested; /* the machine was nearly idle in an attempt that measured too much */

/*
 * Within 5 %. A value below the truth is wrong on any machine, a value above it only on an idle
 * one.
 */
static bool is_true(const json_t *report, double stall_s)
{
    double answered = (double)number_at(report, "requests", "answered");
    double truth_us = (stall_s - 0.01 * answered / RATE) * 1e6;
    double p99_us = real_at(report, "latency_us", "p99");

    print_message("p99 %.0f us, truth %.0f us, service p99 %.0f us\n", p99_us, truth_us,
                  real_at(report, "service_us", "p99"));
    assert_true(p99_us >= truth_us * 0.95);
    if (p99_us <= truth_us * 1.05 && number_at(report, "requests", "unsent") == 0)
        return true;
    rested = rested || real_at(report, "client", "machine_busy_percent") < BUSY_PERCENT;
    return false;
}

static void expect_good(bool good)
{
    if (good)
        return;
    assert_false(rested);
    print_message("the machine was too busy to tell whether that is too much\n");
    skip();
}

/* ---- A stalling server ---- */

static void check_stalling(const char *engine)
{
    bool good = false;

    wsload_engine = engine;
    for (int attempt = 0; attempt < ATTEMPTS && !good; attempt++) {
        json_t *report;

        wsload_server_clear();
        report = wsload_run("-r 400 -d 5s -c 10 -t 1 --grace 60s", "/stalling", 0);
        assert_true(has_note(report, "waiting"));
        good = is_true(report, STALL_MS / 1e3);
        json_decref(report);
    }
    expect_good(good);
}

static void stall_is_measured_with_curl(void **state)
{
    (void)state;
    check_stalling("curl");
}

static void stall_is_measured_with_raw(void **state)
{
    (void)state;
    check_stalling("raw");
}

/* A closed loop hides the same stall: hardly any request is affected. */
static void closed_loop_hides_stalls(void **state)
{
    json_t *report;

    (void)state;
    wsload_engine = "curl";
    wsload_server_clear();
    report = wsload_run("-d 4s -c 4 -t 1 --think 1ms --grace 60s", "/stalling", 0);
    assert_true(real_at(report, "latency_us", "max") >= 900000);
    assert_true(real_at(report, "latency_us", "p99") < 500000);
    json_decref(report);
}

/* ---- A stopped webserverd ---- */

static void sleep_ms(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

/* The signal takes effect when the process next runs. */
static void wait_until_stopped(pid_t pid)
{
    char path[64], state = ' ';

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    for (int waited = 0; state != 'T' && waited < PATIENCE_MS; waited++) {
        FILE *file = fopen(path, "re");

        assert_non_null(file);
        assert_int_equal(fscanf(file, "%*d %*s %c", &state), 1);
        fclose(file);
        sleep_ms(1);
    }
    assert_int_equal(state, 'T');
}

static json_t *load_and_stop(struct server *server, double *stopped_s)
{
    struct program program =
        wsload_start("-r 400 -d 5s -c 10 -t 1 --grace 60s", server_port(server), "/");
    pid_t worker;
    uint64_t begin_ns, end_ns;
    json_t *report;

    assert_int_equal(server_workers(server, &worker, 1), 1);
    sleep_ms(2000);
    server_signal(worker, SIGSTOP);
    wait_until_stopped(worker);
    begin_ns = clock_monotonic_ns();
    sleep_ms(1000);
    end_ns = clock_monotonic_ns();
    server_signal(worker, SIGCONT);
    assert_int_equal(wsload_finish(program, &report), 0);
    *stopped_s = (double)(end_ns - begin_ns) / 1e9;
    return report;
}

static void stopped_server_is_measured(void **state)
{
    struct server *server = *state;
    bool good = false;

    wsload_engine = "curl";
    server_put_text(server, "/index.html", "hello");
    server_start(server, "workers.processes=1", "workers.threads=1", NULL);
    for (int attempt = 0; attempt < ATTEMPTS && !good; attempt++) {
        double stopped_s;
        json_t *report = load_and_stop(server, &stopped_s);

        good = is_true(report, stopped_s);
        json_decref(report);
    }
    server_stop(server);
    expect_good(good);
}

/* ---- Counts ---- */

static uint64_t log_lines(const struct server *server)
{
    FILE *log = fopen(server_log(server), "re");
    uint64_t lines = 0;
    int c;

    if (log == NULL)
        return 0;
    while ((c = getc(log)) != EOF)
        lines += c == '\n';
    fclose(log);
    return lines;
}

/* Lines are written shortly after the responses. */
static void expect_lines(const struct server *server, uint64_t expected)
{
    for (int waited = 0; log_lines(server) < expected && waited < PATIENCE_MS; waited += 20)
        sleep_ms(20);
    assert_int_equal(log_lines(server), expected);
}

static const struct {
    const char *engine, *options;
} modes[] = {
    {"curl", "-c 20 -n 5000 -t 2"},
    {"raw", "-c 20 -n 5000 -t 2"},
    {"curl", "-c 20 -n 500 -t 2 --no-keepalive"},
    {"raw", "-c 20 -n 500 -t 2 --no-keepalive"},
    {"curl", "-c 10 -d 400ms -w 200ms --grace 60s"},
    {"raw", "-c 10 -d 400ms -w 200ms --grace 60s"},
    {"curl", "-c 10 -r 1000 -d 400ms --grace 60s"},
    {"raw", "-c 10 -r 1000 --arrivals poisson -d 400ms --grace 60s"},
    {"curl", "-c 10 -n 500 -m HEAD --max-reqs-per-conn 7"},
    {"raw", "-c 10 -n 500 -m HEAD --max-reqs-per-conn 7"},
};

/* Log lines, server counters and wsload's requests agree in every mode. */
static void counts_agree_with_log_and_counters(void **state)
{
    struct server *server = *state;
    uint64_t lines = 0;

    server_put_text(server, "/index.html", "hello");
    server_start(server, NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(modes); i++) {
        json_t *report;

        wsload_engine = modes[i].engine;
        report = wsload_run_for_time(modes[i].options, server_port(server), "/");
        lines += (uint64_t)number_at(report, "requests", "begun") +
                 (uint64_t)number_at(report, "requests", "warmup");
        expect_lines(server, lines);
        assert_string_equal(
            json_string_value(json_object_get(json_object_get(report, "server"), "name")),
            server_name(server));
        assert_true(json_is_true(json_object_get(json_object_get(report, "server"), "same")));
        json_decref(report);
    }
    server_stop(server);
}

/* Stopped early: wsload sends nothing more and waits for the requests in progress. */
static void early_stop_waits_for_requests_in_progress(void **state)
{
    struct server *server = *state;
    struct program program;
    json_t *report;

    server_put_text(server, "/index.html", "hello");
    server_start(server, NULL);
    wsload_engine = "raw";
    program = wsload_start("-c 10 -n 100m --grace 60s --progress", server_port(server), "/");
    while (server_metric(server, "requests") < 1000)
        json_decref(wsload_line(program.err));
    kill(program.pid, SIGINT);
    assert_int_equal(wsload_finish(program, &report), 130);
    assert_int_equal(number_at(report, "requests", "unanswered"), 0);
    expect_lines(server, (uint64_t)number_at(report, "requests", "begun"));
    json_decref(report);
    server_stop(server);
}

/* The number MEMBER of the next progress line. */
static json_int_t next_number(struct program program, const char *member)
{
    json_t *line = wsload_line(program.err);
    json_int_t number = json_integer_value(json_object_get(line, member));

    json_decref(line);
    return number;
}

/* Kills workers until one of them had requests in progress. */
static void kill_workers(struct server *server, struct program program)
{
    pid_t workers[8];

    while (next_number(program, "answered") == 0)
        continue;
    for (size_t kills = 0; next_number(program, "failed") == 0; kills++) {
        size_t count = server_workers(server, workers, ARRAY_LENGTH(workers));

        if (count > 0)
            server_signal(workers[kills % count], SIGKILL);
        for (int lines = 0; lines < 5 && next_number(program, "failed") == 0; lines++)
            continue;
    }
}

/* Killed workers under load: every request is answered or counted by kind of failure. */
static void check_killed_workers(struct server *server, const char *engine)
{
    struct program program;
    json_t *report, *errors;
    json_int_t failed = 0;
    const char *name;
    json_t *count;

    wsload_engine = engine;
    program = wsload_start("-c 16 -t 2 -d 1h --grace 60s --progress", server_port(server), "/");
    kill_workers(server, program);
    kill(program.pid, SIGINT);
    assert_int_equal(wsload_finish(program, &report), 130);
    errors = json_object_get(report, "errors");
    json_object_foreach(errors, name, count) failed += json_integer_value(count);
    assert_true(failed > 0);
    assert_int_equal(failed, number_at(report, "requests", "failed"));
    assert_int_equal(number_at(report, "requests", "answered") + failed +
                         number_at(report, "requests", "unanswered"),
                     number_at(report, "requests", "begun"));
    json_decref(report);
}

static void killed_workers_are_counted_by_kind(void **state)
{
    struct server *server = *state;

    server_put_text(server, "/index.html", "hello");
    server_start(server, "workers.processes=3", NULL);
    check_killed_workers(server, "curl");
    check_killed_workers(server, "raw");
    server_stop(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stall_is_measured_with_curl),
        cmocka_unit_test(stall_is_measured_with_raw),
        cmocka_unit_test(closed_loop_hides_stalls),
        cmocka_unit_test_setup_teardown(stopped_server_is_measured, server_set_up,
                                        server_tear_down),
        cmocka_unit_test_setup_teardown(counts_agree_with_log_and_counters, server_set_up,
                                        server_tear_down),
        cmocka_unit_test_setup_teardown(early_stop_waits_for_requests_in_progress, server_set_up,
                                        server_tear_down),
        cmocka_unit_test_setup_teardown(killed_workers_are_counted_by_kind, server_set_up,
                                        server_tear_down),
    };

    return cmocka_run_group_tests(tests, wsload_server_start, wsload_server_stop);
}
