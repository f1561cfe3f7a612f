/* The load over time: open loops, warm-up, ramps, stages, and live changes. */
#include "common/macros.h"
#include "tests/test.h"
#include "wsload_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct test_fixture test_group_fixture = {wsload_server_start, wsload_server_stop};

/* begun = answered = read by the server; requests due but not sent are the rest of the plan */
static void check_counts(const json_t *report, uint64_t read)
{
    json_int_t begun = number_at(report, "requests", "begun");

    assert_int_equal(number_at(report, "requests", "answered"), begun);
    assert_int_equal(number_at(report, "statuses", "200"), begun);
    assert_int_equal(number_at(report, "requests", "warmup") + begun, read);
    assert_int_equal(number_at(report, "latency_us", "count"), begun);
    assert_int_equal(number_at(report, "service_us", "count"), begun);
}

static const struct {
    const char *options;
    json_int_t due; /* in the measured time; -1: random */
} loads[] = {
    {"-r 400 -d 250ms -c 4 -t 1", 100},
    {"-r 400 -d 250ms -c 4 -t 2", 100},
    {"-r 1k -n 300 -c 4", 300},
    {"-r 400 -d 250ms -w 150ms -c 4 -t 2", 100},
    {"-r 400 --ramp 500ms -d 490ms -c 4 -t 1", 97},
    {"--stages 100ms:100,100ms:1000 -c 4 -t 1", 110},
    {"-r 500 --arrivals poisson -d 250ms -c 4 -t 2", -1},
    {"-r 400 -d 150ms -c 4 --no-keepalive", 60},
};

/* On any machine, every due request is sent or reported as not sent. */
TEST(open_loops_account_for_every_due_request)
{
    for (size_t i = 0; i < ARRAY_LENGTH(loads); i++) {
        uint64_t before = wsload_server_read();
        char options[128];
        json_t *report;

        snprintf(options, sizeof(options), "%s --grace 60s", loads[i].options);
        report = wsload_run_for_time(options, wsload_server_port(), "/ok");
        check_counts(report, wsload_server_read() - before);
        if (loads[i].due >= 0)
            assert_int_equal(number_at(report, "requests", "begun") +
                                 number_at(report, "requests", "unsent"),
                             loads[i].due);
        json_decref(report);
    }
}

static const char *const closed_loops[] = {
    "-c 8 -d 400ms --ramp 300ms -t 2", "-c 8 -n 500 -w 200ms -t 2",
    "--stages 100ms:2c,100ms:9c -t 2", "-c 5 -d 300ms --think 20ms-40ms -t 2",
    "-c 5 -n 40 --think 5ms -t 1",
};

static double real_elapsed(const json_t *report)
{
    return json_number_value(json_object_get(report, "elapsed_s"));
}

TEST(closed_loops_follow_their_plan)
{
    for (size_t i = 0; i < ARRAY_LENGTH(closed_loops); i++) {
        uint64_t before = wsload_server_read();
        char options[128];
        json_t *report;

        snprintf(options, sizeof(options), "%s --grace 60s", closed_loops[i]);
        report = wsload_run_for_time(options, wsload_server_port(), "/ok");
        check_counts(report, wsload_server_read() - before);
        if (strstr(options, "-n 500") != NULL)
            assert_int_equal(number_at(report, "requests", "begun"), 500);
        if (strstr(options, "20ms-40ms") !=
            NULL) /* each of five connections waits between requests */
            assert_true((double)number_at(report, "requests", "begun") <=
                        5 * (real_elapsed(report) / 0.019 + 1));
        if (strstr(options, "-n 40") != NULL)
            assert_int_equal(number_at(report, "requests", "begun"), 40);
        json_decref(report);
    }
}

/* Waits for the next line that confirms a change. */
static json_t *next_event(struct program program)
{
    for (;;) {
        json_t *line = wsload_line(program.err);

        if (json_object_get(line, "event") != NULL)
            return line;
        json_decref(line);
    }
}

static void change(struct program program, const char *line, const char *member, double value)
{
    json_t *event;

    wsload_say(program, line);
    event = next_event(program);
    assert_string_equal(json_string_value(json_object_get(event, "event")), "changed");
    assert_true(json_number_value(json_object_get(event, member)) == value);
    json_decref(event);
}

static void refuse(struct program program, const char *line, const char *why)
{
    json_t *event;

    wsload_say(program, line);
    event = next_event(program);
    assert_string_equal(json_string_value(json_object_get(event, "event")), "rejected");
    if (strstr(json_string_value(json_object_get(event, "why")), why) == NULL)
        fail_msg("%s", json_string_value(json_object_get(event, "why")));
    json_decref(event);
}

/* The second stage starts, however late, and is the last. */
TEST(stages_of_connections_follow_in_order)
{
    uint64_t before = wsload_server_read();
    struct program program =
        wsload_start("--stages 100ms:2c,1h:9c -t 2 --grace 60s --progress --control-fd 0",
                     wsload_server_port(), "/slow");
    json_t *report;

    while (wsload_progress(program, "connections_up") < 9)
        continue;
    wsload_say(program, "stop");
    report = wsload_finish(program, 0);
    check_counts(report, wsload_server_read() - before);
    assert_int_equal(number_at(report, "connections", "used"), 9);
    json_decref(report);
}

/* Time in seconds of the next progress line with at least that many requests begun. */
static double time_when_begun(struct program program, json_int_t requests)
{
    json_int_t begun = -1;
    double elapsed_s = 0;

    while (begun != requests) {
        json_t *line = wsload_line(program.err);

        begun = json_integer_value(json_object_get(line, "begun"));
        elapsed_s = json_number_value(json_object_get(line, "elapsed_s"));
        json_decref(line);
    }
    return elapsed_s;
}

/* A run lasts for its whole time, even if the server stops responding. */
TEST(run_without_responses_lasts_its_time)
{
    struct program program = wsload_start("-c 2 -d 1h --grace 10ms --progress --control-fd 0",
                                          wsload_server_port(), "/silent");
    double first_s = time_when_begun(program, 2), second_s = time_when_begun(program, 2);
    json_t *report;

    wsload_say(program, "stop");
    report = wsload_finish(program, 2);
    assert_true(second_s > first_s && real_elapsed(report) >= second_s - first_s);
    json_decref(report);
}

/* A rate so low that nothing is due at the end: the run still lasts for its whole time. */
TEST(slow_open_loop_lasts_its_time)
{
    json_t *report =
        wsload_run_for_time("-r 4 -t 2 -d 600ms --grace 60s", wsload_server_port(), "/ok");

    assert_true(real_elapsed(report) >= 0.6);
    assert_true(json_number_value(json_object_get(report, "requests_per_second")) <= 3 / 0.6);
    assert_true(json_number_value(json_object_get(report, "due_per_second")) == 4);
    json_decref(report);
    report = wsload_run_for_time("--stages 100ms:100,100ms:300 -t 1 --grace 60s",
                                 wsload_server_port(), "/ok");
    assert_true(json_number_value(json_object_get(report, "due_per_second")) == 200);
    json_decref(report);
}

/* Waits until the server has read that many more requests. */
static void pass(uint64_t requests, struct program program)
{
    uint64_t before = wsload_server_read();

    while (wsload_server_read() - before < requests)
        json_decref(wsload_line(program.err));
}

/*
 * Changes lose and repeat no request; the report shows the last settings. In a closed loop nearly
 * all connections wait for the slow responses at any time.
 */
static void test_changes(const char *options, bool open)
{
    uint64_t before = wsload_server_read();
    struct program program = wsload_start(options, wsload_server_port(), open ? "/ok" : "/slow");
    json_t *report;
    int64_t used;

    pass(10, program);
    change(program, "connections 20", "connections", 20);
    pass(50, program);
    change(program, "threads 3", "threads", 3);
    pass(50, program);
    if (open) {
        change(program, "rate 800", "rate", 800);
        pass(200, program);
        change(program, "rate -50%", "rate", 400);
    } else {
        refuse(program, "rate 100", "start with --rate");
    }
    refuse(program, "threads 30", "too many threads: 30 with 20 connections");
    refuse(program, "faster", "unknown change");
    change(program, "connections 4", "connections", 4);
    pass(50, program);
    change(program, "threads 1", "threads", 1);
    pass(50, program);
    wsload_say(program, "stop");
    report = wsload_finish(program, 0);
    check_counts(report, wsload_server_read() - before);
    used = number_at(report, "connections", "used");
    assert_true(open || used >= 4); /* in an open loop, fewer may do */
    assert_int_equal(number_at(report, "connections", "at_the_end"), used < 4 ? used : 4);
    json_decref(report);
}

TEST(closed_loop_changes_lose_no_request)
{
    test_changes("-c 6 -t 2 -d 1h --grace 60s --progress --control-fd 0", false);
}

TEST(open_loop_changes_lose_no_request)
{
    test_changes("-c 6 -t 2 -r 200 -d 1h --grace 60s --progress --control-fd 0", true);
}

/* Waits for that many more requests to /gated. Some more may pass. */
static void let_pass(uint64_t requests, struct program program)
{
    wsload_server_allow(2 * requests);
    pass(requests, program);
}

/*
 * With -n the count is exact, whatever changes meanwhile. The run cannot end before the last
 * change.
 */
TEST(request_count_is_exact_despite_changes)
{
    uint64_t before = wsload_server_read();
    struct program program =
        wsload_start("-c 6 -t 2 -n 3000 --think 1ms-5ms --progress --control-fd 0",
                     wsload_server_port(), "/gated");
    json_t *report;

    let_pass(100, program);
    change(program, "threads 4", "threads", 4);
    let_pass(100, program);
    change(program, "connections 9", "connections", 9);
    let_pass(100, program);
    change(program, "threads 1", "threads", 1);
    wsload_server_allow(3000);
    report = wsload_finish(program, 0);
    check_counts(report, wsload_server_read() - before);
    assert_int_equal(number_at(report, "requests", "begun"), 3000);
    json_decref(report);
}

/* A condition aborts the run early. */
TEST(condition_aborts_run)
{
    json_t *report;

    report = wsload_run("-c 2 -d 1h --think 2ms --abort-on 404>=10", "/missing", 99);
    assert_true(has_note(report, "aborted"));
    assert_true(number_at(report, "statuses", "404") >= 10);
    json_decref(report);
}

/* An overloaded open loop reports the requests that were due and not sent. */
TEST(overloaded_open_loop_reports_unsent_requests)
{
    json_int_t begun;
    json_t *report;

    report = wsload_run("-r 100 -c 3 -t 1 -d 500ms --grace 0", "/silent", 2);
    begun = number_at(report, "requests", "begun");
    assert_true(begun <= 3);
    assert_int_equal(number_at(report, "requests", "unanswered"), begun);
    assert_int_equal(number_at(report, "requests", "unsent"), 50 - begun);
    assert_true(has_note(report, begun == 3 ? "unsent" : "unsent_late"));
    json_decref(report);
}

/* The per-second figures add up to the total. */
TEST(seconds_add_up_to_total)
{
    json_t *report = NULL;
    json_int_t answered = 0;
    const json_t *seconds;

    report = wsload_run_for_time("-r 300 -c 4 -t 2 -d 1200ms -w 200ms --grace 60s",
                                 wsload_server_port(), "/ok");
    seconds = json_object_get(report, "seconds");
    assert_true(json_array_size(seconds) >= 1); /* three on an idle machine */
    for (size_t i = 0; i < json_array_size(seconds); i++)
        answered += json_integer_value(json_object_get(json_array_get(seconds, i), "answered"));
    assert_int_equal(answered, number_at(report, "requests", "answered") +
                                   number_at(report, "requests", "warmup"));
    json_decref(report);
}

/* The end of the warm-up starts a new second, so that no second is part of both. */
TEST(warmup_ends_on_a_new_second)
{
    json_int_t warmups = 0;
    size_t i;
    const json_t *second;
    json_t *report = wsload_run_for_time("-c 2 -t 1 -w 300ms -d 300ms --think 5ms --grace 60s",
                                         wsload_server_port(), "/ok");

    json_array_foreach(json_object_get(report, "seconds"), i, second)
    {
        bool warmup = json_is_true(json_object_get(second, "warmup"));

        assert_int_equal(warmup, json_number_value(json_object_get(second, "begin_s")) < 0.3);
        warmups += warmup;
        if (json_integer_value(json_object_get(second, "answered")) == 0)
            assert_true(json_is_null(json_object_get(second, "p99_us")));
    }
    assert_true(warmups > 0);
    json_decref(report);
}

/* A second without responses has no latency figures. */
TEST(second_without_responses_has_no_latency)
{
    json_t *report = wsload_run("-c 2 -d 300ms --grace 10ms", "/silent", 2);
    const json_t *last = json_array_get(json_object_get(report, "seconds"), 0);

    assert_true(json_is_null(json_object_get(last, "p99_us")));
    assert_true(json_is_null(json_object_get(last, "mean_us")));
    json_decref(report);
}
