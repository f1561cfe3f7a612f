/* wsload runs with both engines against a server that counts what it reads. */
#include "common/macros.h"
#include "tests/test.h"
#include "wsload_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct test_fixture test_group_fixture = {wsload_server_start, wsload_server_stop};

/* ---- Complete runs ---- */

struct run_case {
    const char *path, *options;
    int exit_status;
    json_int_t begun, answered, unanswered; /* answered -1: depends on scheduling */
    const char *error;     /* the only error kind, of all unanswered requests; NULL: none */
    json_int_t read;       /* requests read by the server; -1: may be fewer than begun */
    json_int_t up, opened; /* connections; -1: not checked */
    const char *note;      /* a note of the report; NULL: not checked */
};

static const struct run_case run_cases[] = {
    /* Counts are exact for all thread counts, with and without keep-alive. */
    {"/ok", "-c 10 -n 1000 -t 2", 0, 1000, 1000, 0, NULL, 1000, 10, 10, NULL},
    {"/ok", "-c 7 -n 997 -t 3", 0, 997, 997, 0, NULL, 997, 7, 7, NULL},
    {"/ok", "-c 45 -n 1k -t 1", 0, 1000, 1000, 0, NULL, 1000, 45, 45, NULL},
    {"/ok", "-c 4 -n 100 -m HEAD", 0, 100, 100, 0, NULL, 100, 4, 4, NULL},
    {"/ok", "-c 1 -n 1", 0, 1, 1, 0, NULL, 1, 1, 1, NULL},
    {"/ok", "-c 4 -n 100 --no-keepalive", 0, 100, 100, 0, NULL, 100, 4, 100, NULL},
    {"/close", "-c 4 -n 100", 0, 100, 100, 0, NULL, 100, 4, 100, NULL},
    {"/ok", "-c 200 -n 200 -t 2", 0, 200, 200, 0, NULL, 200, 200, 200, NULL},
    {"/ok", "-c 10 -n 3", 0, 3, 3, 0, NULL, 3, 3, 3, "fewer_requests_than_connections"},
    /* Error statuses, and how many are allowed. */
    {"/missing", "-c 2 -n 20", 3, 20, 20, 0, NULL, 20, 2, 2, "too_many_errors"},
    {"/missing", "-c 2 -n 20 --max-errors 100%", 0, 20, 20, 0, NULL, 20, 2, 2, NULL},
    /* Each kind of failure. The server reads each request once: wsload does not retry. */
    {"/lost", "-c 2 -n 20", 2, 20, 0, 0, "closed", 20, 2, 20, "nothing_answered"},
    {"/second-lost", "-c 1 -n 20", 3, 20, 10, 0, "closed", 20, 1, -1, "latency_of_answers_only"},
    {"/second-lost", "-c 30 -t 2 -n 600", 3, 600, -1, 0, "closed", 600, 30, -1, NULL},
    {"/short", "-c 2 -n 20", 2, 20, 0, 0, "closed", 20, 2, 20, NULL},
    {"/bad-chunk", "-c 2 -n 20", 2, 20, 0, 0, "malformed", 20, 2, 20, NULL},
    {"/garbage", "-c 2 -n 20", 2, 20, 0, 0, "malformed", 20, 2, 20, NULL},
    {"/long-length", "-c 2 -n 20", 2, 20, 0, 0, "malformed", 20, 2, 20, NULL},
    {"/endless-head", "-c 2 -n 4", 2, 4, 0, 0, "malformed", 4, 2, 4, NULL},
    {"/endless-line", "-c 2 -n 4", 2, 4, 0, 0, "malformed", 4, 2, 4, NULL},
    {"/surplus", "-c 2 -n 20", 2, 20, 0, 0, "surplus", 20, 2, 20, NULL},
    {"/surplus", "-c 2 -n 20 -t 2 --max-reqs-per-conn 5", 2, 20, 0, 0, "surplus", 20, 2, 20, NULL},
    {"/silent", "-c 2 -n 4 --timeout 100ms", 2, 4, 0, 0, "timeout", -1, -1, -1, NULL},
    {"/second-half", "-c 4 -n 8 --timeout 2s", 3, 8, -1, 0, "timeout", -1, 4, -1, NULL},
    /* Requests in progress at the end are aborted and reported. */
    {"/silent", "-c 5 -d 5s --grace 0", 2, 5, 0, 5, NULL, -1, -1, -1, "nothing_answered"},
};

/* The timeout of a request includes connecting, which may take longer on a busy machine. */
static json_int_t number_of_errors(const json_t *report, const char *kind)
{
    json_int_t number = number_at(report, "errors", kind);

    if (strcmp(kind, "timeout") == 0)
        number += number_at(report, "errors", "connect_timeout");
    return number;
}

static void check_run(const struct run_case *c, const json_t *report)
{
    json_int_t answered =
        c->answered >= 0 ? c->answered : number_at(report, "requests", "answered");
    json_int_t failed = c->begun - answered - c->unanswered;

    assert_int_equal(number_at(report, "requests", "begun"), c->begun);
    assert_int_equal(number_at(report, "requests", "answered"), answered);
    assert_int_equal(number_at(report, "requests", "unanswered"), c->unanswered);
    assert_int_equal(number_at(report, "requests", "failed"), failed);
    assert_int_equal(number_at(report, "latency_us", "count"), answered);
    if (c->error != NULL)
        assert_int_equal(number_of_errors(report, c->error), failed);
    if (c->up >= 0)
        assert_int_equal(number_at(report, "connections", "up"), c->up);
    if (c->opened >= 0)
        assert_int_equal(number_at(report, "connections", "opened"), c->opened);
    if (c->note != NULL)
        assert_true(has_note(report, c->note));
}

/*
 * The server may read requests that were given up during the next run, so that only the sum is
 * bounded.
 */
TEST(complete_runs_count_exactly)
{
    uint64_t first = wsload_server_read(), begun = 0;

    for (size_t i = 0; i < ARRAY_LENGTH(run_cases); i++) {
        const struct run_case *c = &run_cases[i];
        uint64_t before = wsload_server_read();
        json_t *report = wsload_run(c->options, c->path, c->exit_status);

        check_run(c, report);
        if (c->read >= 0)
            assert_int_equal(wsload_server_read() - before, c->read);
        begun += (uint64_t)c->begun;
        assert_true(wsload_server_read() - first <= begun);
        json_decref(report);
    }
}

TEST(refused_connections_are_counted)
{
    uint16_t port;
    int fd = wsload_bind_anywhere(&port); /* bound, but not listening */
    json_t *report;

    report = wsload_finish(wsload_start("-c 5 -n 50", port, "/"), 2);
    assert_int_equal(number_at(report, "requests", "begun"), 50);
    assert_int_equal(number_at(report, "errors", "refused"), 50);
    assert_int_equal(number_at(report, "connections", "up"), 0);
    assert_true(has_note(report, "connections_missing"));
    json_decref(report);
    close(fd);
}

/* libcurl closes connections if there are more than clients, which is no surplus. */
TEST(requests_to_two_origins_are_all_answered)
{
    char options[128];
    json_t *report;

    snprintf(options, sizeof(options), "-c 6 -n 400 http://localhost:%u/ok", wsload_server_port());
    report = wsload_run(options, "/ok", 0);
    assert_int_equal(number_at(report, "requests", "answered"), 400);
    json_decref(report);
}

/* libcurl does not notice bytes behind chunks. */
TEST(surplus_after_chunks_is_seen_by_engine_raw)
{
    bool raw = strcmp(wsload_engine, "raw") == 0;
    json_t *report = wsload_run("-c 1 -n 1", "/surplus-chunked", raw ? 2 : 0);

    assert_int_equal(number_at(report, "errors", "surplus"), raw);
    json_decref(report);
}

/* A second response to the same request, when no request is in flight. */
TEST(response_on_an_idle_connection_is_reported)
{
    struct program program = wsload_start("-c 1 -d 1h --think 1h --progress --control-fd 0",
                                          wsload_server_port(), "/ok");
    json_t *report;

    while (wsload_progress(program, "answered") == 0)
        continue;
    wsload_server_repeat();
    wsload_say(program, "stop");
    report = wsload_finish(program, 0);
    assert_int_equal(number_at(report, "connections", "unsolicited"), 1);
    assert_true(has_note(report, "unsolicited"));
    json_decref(report);
}

/* A run with a time limit: every request is accounted for. */
TEST(timed_run_accounts_for_every_request)
{
    uint64_t before = wsload_server_read();
    json_t *report = wsload_run_for_time("-c 4 -z 300ms --grace 60s", wsload_server_port(), "/ok");

    assert_int_equal(number_at(report, "requests", "answered"),
                     number_at(report, "requests", "begun"));
    assert_int_equal(wsload_server_read() - before, number_at(report, "requests", "begun"));
    json_decref(report);
}

/* No run: a message on stderr, nothing on stdout, exit status 1. */
TEST(wrong_use_prints_error_and_exits_1)
{
    assert_null(wsload_finish(wsload_start("-t 30s", wsload_server_port(), "/ok"), 1));
    wsload_descriptor_limit = 200;
    assert_null(wsload_finish(wsload_start("-c 500 -n 500", wsload_server_port(), "/ok"), 1));
    wsload_descriptor_limit = RLIM_INFINITY;
}

/* ---- Interrupted runs ---- */

/* Progress lines appear during the run; a signal ends it with a full report. */
TEST(signal_ends_run_with_full_report)
{
    uint64_t before = wsload_server_read();
    struct program program =
        wsload_start("-c 4 -d 1h --grace 60s --progress", wsload_server_port(), "/slow");
    json_int_t answered = 0;
    json_t *report;

    while (answered == 0)
        answered = wsload_progress(program, "answered");
    while (wsload_progress(program, "requests_per_second") == 0 ||
           wsload_progress(program, "elapsed_s") == 0)
        continue;
    kill(program.pid, SIGINT);
    report = wsload_finish(program, 130);
    assert_true(json_is_true(json_object_get(report, "interrupted")));
    assert_true(number_at(report, "requests", "answered") >= answered);
    assert_int_equal(number_at(report, "requests", "begun"),
                     number_at(report, "requests", "answered"));
    assert_int_equal(wsload_server_read() - before, number_at(report, "requests", "begun"));
    json_decref(report);
}

/* A second signal ends the run without waiting for responses. */
TEST(second_signal_ends_run_at_once)
{
    struct program program = wsload_start("-c 3 -d 1h --timeout 1h --grace 1h --progress",
                                          wsload_server_port(), "/silent");
    json_t *report;

    while (wsload_progress(program, "begun") < 3)
        continue;
    kill(program.pid, SIGINT);
    json_decref(wsload_line(program.err)); /* the first signal was handled, and the run continues */
    json_decref(wsload_line(program.err));
    kill(program.pid, SIGTERM);
    report = wsload_finish(program, 130);
    assert_int_equal(number_at(report, "requests", "unanswered"), 3);
    json_decref(report);
}

/* ---- Output of the report ---- */

/* The report is in the file, not on stdout. */
TEST(report_goes_to_file)
{
    char folder[] = "/tmp/wsload-XXXXXX", options[128], path[64], line[512] = "";
    unsigned lines = 0;
    FILE *file;

    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/run.csv", folder);
    snprintf(options, sizeof(options), "-c 2 -n 20 --format csv -o %s", path);
    assert_null(wsload_finish(wsload_start(options, wsload_server_port(), "/ok"), 0));
    file = fopen(path, "r");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        lines++;
    fclose(file);
    assert_true(lines >= 3);
    assert_int_equal(strncmp(line, "total,", 6), 0);
    unlink(path);
    rmdir(folder);
}

/* An unwritable report sends no request; a full disk is an error. */
TEST(unwritable_report_is_an_error)
{
    uint64_t before = wsload_server_read();

    assert_null(
        wsload_finish(wsload_start("-n 20 -o /nowhere/a.json", wsload_server_port(), "/ok"), 1));
    assert_int_equal(wsload_server_read(), before);
    assert_null(wsload_finish(wsload_start("-n 20 -o /dev/full", wsload_server_port(), "/ok"), 1));
}
