/*
 * Accuracy of wsload: stalls are compared with the server's clock; no request of a killed worker is
 * lost.
 *
 * The bounds hold on any machine, however long any process is stopped: they contain only what the
 * test measured. On an idle machine they are a few per cent apart. A percentile of wsload is never
 * too low and at most 1/64 too high (common/histogram.h).
 */
#include "common/clock.h"
#include "common/macros.h"
#include "server.h"
#include "tests/test.h"
#include "wsload_fixture.h"

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

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

/* ---- Killed workers ---- */

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
