/*
 * Accuracy of wsload: stalls are compared with the server's clock, counts with the server's log.
 *
 * The bounds hold on any machine, however long any process is stopped: they contain only what the
 * test measured. On an idle machine they are a few per cent apart. A percentile of wsload is never
 * too low and at most 1/64 too high (common/histogram.h).
 */
#include "common/clock.h"
#include "common/macros.h"
#include "log_check.h"
#include "patience.h"
#include "server.h"
#include "tests/test.h"
#include "wsload_fixture.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const struct test_fixture test_group_fixture = {wsload_server_start, wsload_server_stop};

#define PERCENTILE_ERROR (1 + 1.0 / 64)

enum { RATE = 400 };

/* Values from the 99th percentile on: of COUNT values, at least so many are not below it. */
static size_t slowest_percent(size_t count)
{
    return count / 100 + 1;
}

static int compare_numbers(const void *left, const void *right)
{
    double difference = *(const double *)left - *(const double *)right;

    return (difference > 0) - (difference < 0);
}

/* Sorts VALUES. */
static double p99(double *values, size_t count)
{
    assert_true(count > 0);
    qsort(values, count, sizeof(*values), compare_numbers);
    return values[count - slowest_percent(count)];
}

/* Of few requests wsload reports no 99th percentile. */
static void check_p99(const json_t *report, const char *times, double least_us, double most_us)
{
    double p99_us = real_at(report, times, "p99");

    if (json_is_null(json_object_get(json_object_get(report, times), "p99"))) {
        assert_true(number_at(report, times, "count") < RATE / 2);
        return;
    }
    print_message("%s: p99 %.0f us, between %.0f and %.0f\n", times, p99_us, least_us, most_us);
    assert_true(p99_us >= least_us);
    assert_true(p99_us <= most_us * PERCENTILE_ERROR);
}

/* ---- A stalling server ---- */

/* A run at /stalling, as the server saw it. */
struct run {
    const struct stalling_request *requests;
    size_t count;
    uint64_t begun_ns; /* before wsload was started */
    json_t *report;
    double *values; /* room for one per request */
};

static struct run run_begin(const char *options)
{
    struct run run = {.begun_ns = clock_monotonic_ns()};
    int status;

    wsload_server_clear();
    run.begun_ns = clock_monotonic_ns();
    status = wsload_wait(wsload_start(options, wsload_server_port(), "/stalling"), &run.report);
    run.requests = wsload_server_stalling(&run.count);
    if (run.count == 0) {
        assert_int_equal(status, 2);
        json_decref(run.report);
        print_message("the machine was too busy to send a request in time\n");
        skip();
    }
    assert_int_equal(status, 0);
    assert_int_equal(number_at(run.report, "requests", "answered"), run.count);
    run.values = calloc(run.count, sizeof(*run.values));
    assert_non_null(run.values);
    return run;
}

static void run_end(struct run *run)
{
    free(run->values);
    json_decref(run->report);
}

/* Time between two clock readings in microseconds, negative if END is before BEGIN. */
static double us_between(uint64_t begin_ns, uint64_t end_ns)
{
    return ((double)end_ns - (double)begin_ns) / 1e3;
}

/*
 * From the previous response on a connection to the next request: the client's service time is not
 * longer.
 */
static double most_service_us(struct run *run)
{
    for (size_t i = 0; i < run->count; i++) {
        const struct stalling_request *request = &run->requests[i];
        uint64_t ready_ns = request->ready_ns != 0 ? request->ready_ns : run->begun_ns;

        run->values[i] = us_between(ready_ns, request->next_ns);
    }
    return p99(run->values, run->count);
}

static double least_service_us(struct run *run)
{
    for (size_t i = 0; i < run->count; i++)
        run->values[i] = us_between(run->requests[i].arrived_ns, run->requests[i].answered_ns);
    return p99(run->values, run->count);
}

/* Requests that arrived before TIME. */
static size_t arrived_before(const struct run *run, uint64_t time_ns)
{
    size_t count = 0;

    while (count < run->count && run->requests[count].arrived_ns < time_ns)
        count++;
    return count;
}

/*
 * Of an open loop. A request is due at least 1/RATE after each of those that had arrived before it
 * could be sent.
 */
static double most_latency_us(struct run *run)
{
    for (size_t i = 0; i < run->count; i++)
        run->values[i] = us_between(run->begun_ns, run->requests[i].next_ns) -
                         (double)arrived_before(run, run->requests[i].ready_ns) * 1e6 / RATE;
    return p99(run->values, run->count);
}

/*
 * Of an open loop. The first request was due before it arrived, the others 1/RATE after one
 * another. At a time with S responses, all requests but S that are due have waited since then.
 */
static double least_latency_us(struct run *run)
{
    double least_us = 0, slowest = (double)slowest_percent(run->count);

    for (size_t i = 0; i < run->count; i++)
        run->values[i] = us_between(run->requests[0].arrived_ns, run->requests[i].answered_ns);
    qsort(run->values, run->count, sizeof(*run->values), compare_numbers);
    for (size_t sent = 0; (double)sent + slowest <= (double)run->count; sent++)
        least_us = fmax(least_us, run->values[sent] - ((double)sent + slowest - 1) * 1e6 / RATE);
    return least_us;
}

static void check_stalling(const char *engine)
{
    double least_us, most_service;
    struct run run;

    wsload_engine = engine;
    /* Four of the thousand requests are being served when a stall begins; the rest waits. */
    run = run_begin("-r 400 -d 2500ms -c 4 -t 1 --grace 60s");
    least_us = least_latency_us(&run);
    check_p99(run.report, "latency_us", least_us, most_latency_us(&run));
    most_service = most_service_us(&run);
    check_p99(run.report, "service_us", least_service_us(&run), most_service);
    if (least_us > 2 * most_service && number_at(run.report, "requests", "late") == 0)
        assert_true(has_note(run.report, "waiting"));
    run_end(&run);
}

TEST(stall_is_measured_with_curl)
{
    check_stalling("curl");
}

TEST(stall_is_measured_with_raw)
{
    check_stalling("raw");
}

/* A closed loop hides the same stall: hardly any request is affected. */
TEST(closed_loop_hides_stalls)
{
    double longest_us = 0;
    struct run run;

    wsload_engine = "curl";
    run = run_begin("-d 2s -c 4 -t 1 --think 1ms --grace 60s");
    for (size_t i = 0; i < run.count; i++)
        longest_us =
            fmax(longest_us, us_between(run.requests[i].arrived_ns, run.requests[i].answered_ns));
    assert_true(real_at(run.report, "latency_us", "max") >= longest_us);
    check_p99(run.report, "latency_us", least_service_us(&run), most_service_us(&run));
    run_end(&run);
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

/* Waits until wsload has begun REQUESTS. */
static void wait_until_begun(struct program program, double requests)
{
    while ((double)wsload_progress(program, "begun") < requests)
        continue;
}

/*
 * All requests that were due before the worker continued, except those with a response, have waited
 * since then. Ends the run after the last of them was sent.
 */
SERVER_TEST(stopped_server_is_measured)
{
    uint64_t begun_ns, first_ns, continued_ns;
    struct program program;
    double responses, least_us;
    json_t *report;
    pid_t worker;

    wsload_engine = "curl";
    server_put_text(server, "/index.html", "hello");
    server_start(server, "workers.processes=1", "workers.threads=1", NULL);
    assert_int_equal(server_workers(server, &worker, 1), 1);
    begun_ns = clock_monotonic_ns();
    program = wsload_start("-r 400 -d 1h -c 10 -t 1 --grace 60s --progress --control-fd 0",
                           server_port(server), "/");
    WAIT_UNTIL(server_metric(server, "requests") > 0);
    first_ns = clock_monotonic_ns();
    wait_until_begun(program, 50);
    server_signal(worker, SIGSTOP);
    wait_until_stopped(worker);
    responses =
        (double)server_metric(server, "requests") + 10; /* on their way or not counted yet */
    sleep_ms(STALL_MS);
    continued_ns = clock_monotonic_ns();
    server_signal(worker, SIGCONT);
    wait_until_begun(program, us_between(begun_ns, continued_ns) / 1e6 * RATE + 1);
    wsload_say(program, "stop");
    report = wsload_finish(program, 0);
    least_us =
        us_between(first_ns, continued_ns) -
        (responses + (double)slowest_percent((size_t)number_at(report, "requests", "answered"))) *
            1e6 / RATE;
    check_p99(report, "latency_us", least_us, us_between(begun_ns, clock_monotonic_ns()));
    json_decref(report);
    server_stop(server);
}

/* ---- Counts ---- */

static uint64_t log_lines(const struct server *server)
{
    FILE *log = fopen(server_log(server), "re");
    static char part[65536];
    uint64_t lines = 0;
    size_t length;

    if (log == NULL)
        return 0;
    while ((length = fread(part, 1, sizeof(part), log)) > 0)
        for (size_t i = 0; i < length; i++)
            lines += part[i] == '\n';
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
    {"curl", "-c 10 -d 150ms -w 100ms --grace 60s"},
    {"raw", "-c 10 -d 150ms -w 100ms --grace 60s"},
    {"curl", "-c 10 -r 1000 -d 400ms --grace 60s"},
    {"raw", "-c 10 -r 1000 --arrivals poisson -d 400ms --grace 60s"},
    {"curl", "-c 10 -n 500 -m HEAD --max-reqs-per-conn 7"},
    {"raw", "-c 10 -n 500 -m HEAD --max-reqs-per-conn 7"},
};

/* Log lines, server counters and wsload's requests agree in every mode. */
SERVER_TEST(counts_agree_with_log_and_counters)
{
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
SERVER_TEST(early_stop_waits_for_requests_in_progress)
{
    struct program program;
    json_t *report;

    server_put_text(server, "/index.html", "hello");
    server_start(server, NULL);
    wsload_engine = "raw";
    program = wsload_start("-c 10 -n 100m --grace 60s --progress", server_port(server), "/");
    while (server_metric(server, "requests") < 1000)
        json_decref(wsload_line(program.err));
    kill(program.pid, SIGINT);
    report = wsload_finish(program, 130);
    assert_int_equal(number_at(report, "requests", "unanswered"), 0);
    expect_lines(server, (uint64_t)number_at(report, "requests", "begun"));
    json_decref(report);
    server_stop(server);
}

/* Kills workers until one of them had requests in progress. */
static void kill_workers(struct server *server, struct program program)
{
    pid_t workers[8];

    while (wsload_progress(program, "answered") == 0)
        continue;
    for (size_t kills = 0; wsload_progress(program, "failed") == 0; kills++) {
        size_t count = server_workers(server, workers, ARRAY_LENGTH(workers));

        if (count > 0)
            server_signal(workers[kills % count], SIGKILL);
        for (int lines = 0; lines < 5 && wsload_progress(program, "failed") == 0; lines++)
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
    report = wsload_finish(program, 130);
    errors = json_object_get(report, "errors");
    json_object_foreach(errors, name, count) failed += json_integer_value(count);
    assert_true(failed > 0);
    assert_int_equal(failed, number_at(report, "requests", "failed"));
    assert_int_equal(number_at(report, "requests", "answered") + failed +
                         number_at(report, "requests", "unanswered"),
                     number_at(report, "requests", "begun"));
    json_decref(report);
}

SERVER_TEST(killed_workers_are_counted_by_kind)
{
    server_put_text(server, "/index.html", "hello");
    server_start(server, "workers.processes=3", NULL);
    check_killed_workers(server, "curl");
    check_killed_workers(server, "raw");
    server_stop(server);
}
