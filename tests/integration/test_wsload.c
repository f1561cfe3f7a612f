/* Runs of the real wsload, with both engines, against a server that counts what it reads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "wsload_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Runs that end by themselves ---- */

struct run_case {
    const char *path, *options;
    int exit_status;
    json_int_t begun, answered, unanswered; /* answered -1: it depends on who meets whom */
    const char *error; /* the only kind that occurs, for all that is left; NULL: none */
    json_int_t read;   /* requests that the server must have read; -1: may be fewer than begun */
    json_int_t up, opened; /* connections; -1: not looked at */
    const char *note;      /* a note that must be there; NULL: none looked for */
};

static const struct run_case run_cases[] = {
    /* Counts are exact, with and without keep-alive, whatever the number of threads. */
    {"/ok", "-c 10 -n 1000 -t 2", 0, 1000, 1000, 0, NULL, 1000, 10, 10, NULL},
    {"/ok", "-c 7 -n 997 -t 3", 0, 997, 997, 0, NULL, 997, 7, 7, NULL},
    {"/ok", "-c 45 -n 1k -t 1", 0, 1000, 1000, 0, NULL, 1000, 45, 45, NULL},
    {"/ok", "-c 4 -n 100 -m HEAD", 0, 100, 100, 0, NULL, 100, 4, 4, NULL},
    {"/ok", "-c 1 -n 1", 0, 1, 1, 0, NULL, 1, 1, 1, NULL},
    {"/ok", "-c 4 -n 100 --no-keepalive", 0, 100, 100, 0, NULL, 100, 4, 100, NULL},
    {"/close", "-c 4 -n 100", 0, 100, 100, 0, NULL, 100, 4, 100, NULL},
    {"/ok", "-c 200 -n 200 -t 2", 0, 200, 200, 0, NULL, 200, 200, 200, NULL},
    {"/ok", "-c 10 -n 3", 0, 3, 3, 0, NULL, 3, 3, 3, "fewer_requests_than_connections"},
    /* Statuses that are errors, and how many are allowed. */
    {"/missing", "-c 2 -n 20", 3, 20, 20, 0, NULL, 20, 2, 2, "too_many_errors"},
    {"/missing", "-c 2 -n 20 --max-errors 100%", 0, 20, 20, 0, NULL, 20, 2, 2, NULL},
    /* Each way to fail, each request read once: nothing is sent again in silence. */
    {"/lost", "-c 2 -n 20", 2, 20, 0, 0, "closed", 20, 2, 20, "nothing_answered"},
    {"/second-lost", "-c 1 -n 20", 3, 20, 10, 0, "closed", 20, 1, -1, "latency_of_answers_only"},
    {"/second-lost", "-c 30 -t 2 -n 600", 3, 600, -1, 0, "closed", 600, 30, -1, NULL},
    {"/short", "-c 2 -n 20", 2, 20, 0, 0, "closed", 20, 2, 20, NULL},
    {"/bad-chunk", "-c 2 -n 20", 2, 20, 0, 0, "malformed", 20, 2, 20, NULL},
    {"/garbage", "-c 2 -n 20", 2, 20, 0, 0, "malformed", 20, 2, 20, NULL},
    {"/silent", "-c 2 -n 4 --timeout 100ms", 2, 4, 0, 0, "timeout", -1, -1, -1, NULL},
    /* What is under way at the end is given up and said. */
    {"/silent", "-c 5 -d 100ms --grace 0", 2, 5, 0, 5, NULL, -1, -1, -1, "nothing_answered"},
};

static void check_run(const struct run_case *c, const json_t *report, json_int_t read)
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
        assert_int_equal(number_at(report, "errors", c->error), failed);
    if (c->read >= 0)
        assert_int_equal(read, c->read);
    assert_true(read <= c->begun);
    if (c->up >= 0)
        assert_int_equal(number_at(report, "connections", "up"), c->up);
    if (c->opened >= 0)
        assert_int_equal(number_at(report, "connections", "opened"), c->opened);
    if (c->note != NULL)
        assert_true(has_note(report, c->note));
}

static void test_runs(void **state)
{
    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(run_cases); i++) {
        const struct run_case *c = &run_cases[i];
        uint64_t before = wsload_server_read();
        json_t *report = wsload_run(c->options, c->path, c->exit_status);

        check_run(c, report, (json_int_t)(wsload_server_read() - before));
        json_decref(report);
    }
}

static void test_refused(void **state)
{
    uint16_t port;
    int fd = wsload_bind_anywhere(&port); /* taken, but nobody listens */
    json_t *report;

    (void)state;
    assert_int_equal(wsload_finish(wsload_start("-c 5 -n 50", port, "/"), &report), 2);
    assert_int_equal(number_at(report, "requests", "begun"), 50);
    assert_int_equal(number_at(report, "errors", "refused"), 50);
    assert_int_equal(number_at(report, "connections", "up"), 0);
    assert_true(has_note(report, "connections_missing"));
    json_decref(report);
    close(fd);
}

/* A timed run: as many as there was time for, all of them accounted for. */
static void test_duration(void **state)
{
    uint64_t before = wsload_server_read();
    json_t *report;

    (void)state;
    assert_int_equal(
        wsload_finish(wsload_start("-c 4 -z 300ms --grace 60s", wsload_server_port(), "/ok"),
                      &report),
        0);
    assert_true(number_at(report, "requests", "begun") > 0);
    assert_int_equal(number_at(report, "requests", "answered"),
                     number_at(report, "requests", "begun"));
    assert_int_equal(wsload_server_read() - before, number_at(report, "requests", "begun"));
    json_decref(report);
}

/* Nothing is run: a sentence on standard error, nothing on standard output, and exit status 1. */
static void test_wrong_use(void **state)
{
    json_t *report;

    (void)state;
    assert_int_equal(wsload_finish(wsload_start("-t 30s", wsload_server_port(), "/ok"), &report),
                     1);
    assert_null(report);
    wsload_descriptor_limit = 200;
    assert_int_equal(
        wsload_finish(wsload_start("-c 500 -n 500", wsload_server_port(), "/ok"), &report), 1);
    assert_null(report);
    wsload_descriptor_limit = RLIM_INFINITY;
}

/* ---- Runs that are interrupted ---- */

/* Progress lines come while it runs; a signal ends it with a full report. */
static void test_interrupt(void **state)
{
    uint64_t before = wsload_server_read();
    struct program program =
        wsload_start("-c 4 -d 1h --grace 60s --progress", wsload_server_port(), "/ok");
    json_int_t answered = 0;
    json_t *report;

    (void)state;
    while (answered == 0) {
        json_t *progress = wsload_line(program.err);

        assert_non_null(progress);
        answered = json_integer_value(json_object_get(progress, "answered"));
        json_decref(progress);
    }
    kill(program.pid, SIGINT);
    assert_int_equal(wsload_finish(program, &report), 130);
    assert_true(json_is_true(json_object_get(report, "interrupted")));
    assert_true(number_at(report, "requests", "answered") >= answered);
    assert_int_equal(number_at(report, "requests", "begun"),
                     number_at(report, "requests", "answered"));
    assert_int_equal(wsload_server_read() - before, number_at(report, "requests", "begun"));
    json_decref(report);
}

/* The second signal does not wait for answers. */
static void test_interrupt_twice(void **state)
{
    struct program program = wsload_start("-c 3 -d 1h --timeout 1h --grace 1h --progress",
                                          wsload_server_port(), "/silent");
    json_int_t begun = 0;
    json_t *report;

    (void)state;
    while (begun < 3) {
        json_t *progress = wsload_line(program.err);

        begun = json_integer_value(json_object_get(progress, "begun"));
        json_decref(progress);
    }
    kill(program.pid, SIGINT);
    json_decref(wsload_line(program.err)); /* the first one was taken, and it goes on */
    json_decref(wsload_line(program.err));
    kill(program.pid, SIGTERM);
    assert_int_equal(wsload_finish(program, &report), 130);
    assert_int_equal(number_at(report, "requests", "unanswered"), 3);
    json_decref(report);
}

static int use_curl(void **state)
{
    wsload_engine = "curl";
    return wsload_server_start(state);
}

static int use_raw(void **state)
{
    wsload_engine = "raw";
    return wsload_server_start(state);
}

/* All of it with both engines: they are to behave alike. */
/* ---- Where the report goes ---- */

/* The report is in the file, and nothing is on standard output. */
static void test_output(void **state)
{
    char folder[] = "/tmp/wsload-XXXXXX", options[128], path[64], line[512] = "";
    unsigned lines = 0;
    json_t *report;
    FILE *file;

    (void)state;
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/run.csv", folder);
    snprintf(options, sizeof(options), "-c 2 -n 20 --format csv -o %s", path);
    assert_int_equal(wsload_finish(wsload_start(options, wsload_server_port(), "/ok"), &report), 0);
    assert_null(report);
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

/* Nothing is sent for a report that has no place; a full disk is no success. */
static void test_no_output(void **state)
{
    uint64_t before = wsload_server_read();
    json_t *report;

    (void)state;
    assert_int_equal(
        wsload_finish(wsload_start("-n 20 -o /nowhere/a.json", wsload_server_port(), "/ok"),
                      &report),
        1);
    assert_null(report);
    assert_int_equal(wsload_server_read(), before);
    assert_int_equal(
        wsload_finish(wsload_start("-n 20 -o /dev/full", wsload_server_port(), "/ok"), &report), 1);
    assert_null(report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_runs),      cmocka_unit_test(test_refused),
        cmocka_unit_test(test_duration),  cmocka_unit_test(test_wrong_use),
        cmocka_unit_test(test_interrupt), cmocka_unit_test(test_interrupt_twice),
        cmocka_unit_test(test_output),    cmocka_unit_test(test_no_output),
    };
    int failed = cmocka_run_group_tests_name("curl", tests, use_curl, wsload_server_stop);

    return failed + cmocka_run_group_tests_name("raw", tests, use_raw, wsload_server_stop);
}
