/* The exit status and the notes of a result. */
#include "common/clock.h"
#include "common/macros.h"
#include "loadgen/stats/result.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

static struct plan plan;
static struct result result;

/* A run of one second with one thread and 4 connections: ANSWERED responses with STATUS. */
static void fill(uint64_t answered, uint32_t status)
{
    const struct transaction transaction = {
        .error = ERROR_KIND_NONE,
        .status = status,
        .bad_status = status >= 400,
        .service_ns = 1000,
        .latency_ns = 1000,
    };

    plan = (struct plan){.connections_requested = 4, .connections = 4, .threads = 1};
    memset(&result, 0, sizeof(result));
    result.plan = &plan;
    result.elapsed_ns = result.thread_ns = NS_PER_S;
    tally_count(&result.tally, TALLY_begun, answered);
    tally_count(&result.tally, TALLY_clients_up, 4);
    tally_count(&result.tally, TALLY_clients_used, 4);
    for (uint64_t i = 0; i < answered; i++)
        tally_record(&result.tally, &transaction);
}

/* The names of all notes, each followed by a space. */
static const char *notes(void)
{
    static char names[512];
    struct result_note list[RESULT_NOTES_MAX];
    size_t count = result_notes(&result, list);

    names[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        assert_true(strlen(list[i].text) > 0);
        strcat(strcat(names, list[i].name), " ");
    }
    return names;
}

TEST(busy_client_is_noted)
{
    fill(10, 200);
    result.cpu_ns = 840 * NS_PER_MS;
    assert_string_equal(notes(), "");
    result.cpu_ns = 860 * NS_PER_MS;
    assert_string_equal(notes(), "client_busy ");
    result.thread_ns = 2 * NS_PER_S;
    assert_string_equal(notes(), "");
    result.elapsed_ns = result.thread_ns = 100 * NS_PER_MS; /* too short */
    result.cpu_ns = 100 * NS_PER_MS;
    assert_string_equal(notes(), "");
}

TEST(starved_client_is_noted)
{
    fill(10, 200);
    result.waited_ns = 190 * NS_PER_MS;
    assert_string_equal(notes(), "");
    result.waited_ns = 210 * NS_PER_MS;
    assert_string_equal(notes(), "client_starved ");
    result.thread_ns = 2 * NS_PER_S;
    assert_string_equal(notes(), "");
}

/* Only if connections end after fewer than 100 responses, and the plan does not ask for it. */
TEST(reopened_connections_are_noted)
{
    fill(1000, 200);
    plan.keepalive = true;
    tally_count(&result.tally, TALLY_connections_opened, 14);
    assert_string_equal(notes(), "");
    tally_count(&result.tally, TALLY_connections_opened, 1);
    assert_string_equal(notes(), "reopened ");
    plan.requests_per_connection = 66;
    assert_string_equal(notes(), "");
    plan.requests_per_connection = 0;
    result.origins = 2; /* each origin needs a connection of its own */
    assert_string_equal(notes(), "");
    result.origins = 1;
    plan.stages_of_connections = true;
    assert_string_equal(notes(), "");
    plan.stages_of_connections = false;
    plan.keepalive = false;
    assert_string_equal(notes(), "");
}

/* Includes the requests of the warm-up. */
TEST(cpu_per_request_includes_warmup)
{
    fill(10, 200);
    result.cpu_ns = 1000;
    assert_true(result_cpu_each_ns(&result) == 100);
    tally_count(&result.warmup, TALLY_begun, 90);
    assert_true(result_cpu_each_ns(&result) == 10);
    memset(&result, 0, sizeof(result));
    assert_true(isnan(result_cpu_each_ns(&result)));
}

/* The planned rate, or the average if it changed. */
TEST(rate_due_is_planned_or_average)
{
    fill(30, 200);
    result.due_ns = 2 * NS_PER_S;
    assert_true(result_rate_due(&result) == 0);
    plan.rate = 20;
    assert_false(result_rate_is_average(&result));
    assert_true(result_rate_due(&result) == 20);
    plan.poisson = true; /* what was scheduled, not the mean of the process */
    assert_true(result_rate_due(&result) == 15);
    plan.poisson = false;
    tally_count(&result.tally, TALLY_unsent_late, 4);
    plan.ramp_ms = 1000;
    assert_true(result_rate_is_average(&result));
    assert_true(result_rate_due(&result) == 17);
    plan.ramp_ms = 0;
    result.changes = 1;
    assert_true(result_rate_due(&result) == 17);
    plan.rate = 0;
    result.changes = 0;
    plan.stage_count = 1;
    assert_true(result_rate_due(&result) == 17);
}

/* In ms: entries end at full seconds, at the end of the warm-up, and at full seconds since then. */
TEST(series_splits_at_the_end_of_the_warmup)
{
    static const struct {
        uint64_t before, warmup, now;
        bool is_over;
    } cases[] = {
        {0, 0, 990, false},       {0, 0, 1000, true},        {1080, 0, 1990, false},
        {1080, 0, 2000, true},    {0, 1500, 1000, true},     {1000, 1500, 1490, false},
        {1000, 1500, 1500, true}, {1560, 1500, 2000, false}, {1560, 1500, 2490, false},
        {1560, 1500, 2500, true}, {0, 300, 390, true},       {390, 300, 1290, false},
        {390, 300, 1310, true},
    };
    static struct series series;

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        series.before_ns = cases[i].before * NS_PER_MS;
        if (series_second_is_over(&series, cases[i].warmup * NS_PER_MS, cases[i].now * NS_PER_MS) !=
            cases[i].is_over)
            fail_msg("case %zu", i);
    }
}

TEST(samples_end_with_the_seconds)
{
    static const struct {
        uint64_t warmup, now, next; /* ms */
    } cases[] = {
        {0, 0, 100},     {0, 99, 100},      {0, 100, 200},     {0, 990, 1000},
        {0, 1090, 1100}, {250, 180, 200},   {250, 200, 250},   {250, 249, 250},
        {250, 250, 350}, {250, 1249, 1250}, {250, 1250, 1350}, {50, 0, 50},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(series_next_sample_ns(cases[i].warmup * NS_PER_MS,
                                               cases[i].now * NS_PER_MS, 100 * NS_PER_MS),
                         cases[i].next * NS_PER_MS);
}

/* 1000 requests due in a second, each answered after 100 ms; then with a server that is slower. */
TEST(rate_of_an_open_loop_leaves_out_the_last_latency)
{
    const struct transaction slow = {
        .error = ERROR_KIND_NONE, .status = 200, .latency_ns = 100 * NS_PER_MS, .service_ns = 1000};

    fill(0, 200);
    plan.rate = 1000;
    for (int i = 0; i < 1000; i++)
        tally_record(&result.tally, &slow);
    result.due_ns = NS_PER_S;
    result.elapsed_ns = NS_PER_S + 100 * NS_PER_MS;
    assert_true(result_rate(&result) == 1000);
    result.elapsed_ns = 4 * NS_PER_S;
    assert_true(result_rate(&result) > 250 && result_rate(&result) < 257);
    plan.rate = 0; /* closed loop */
    assert_true(result_rate(&result) == 250);
}

TEST(open_loop_notes_late_and_unsent_requests)
{
    struct transaction waited = {.status = 200, .service_ns = 1000, .latency_ns = 1000000};
    const struct transaction fast = {
        .error = ERROR_KIND_NONE, .status = 200, .service_ns = 1000, .latency_ns = 1000};

    fill(10, 200);
    plan.rate = 10;
    assert_string_equal(notes(), "");
    waited.error = ERROR_KIND_NONE;
    tally_count(&result.tally, TALLY_begun, 1);
    tally_record(&result.tally, &waited);
    assert_string_equal(notes(), "");
    tally_count(&result.tally, TALLY_waited, 1);
    assert_string_equal(notes(), "waiting ");
    for (int i = 0; i < 200; i++) { /* the 99th percentile is no longer affected */
        tally_count(&result.tally, TALLY_begun, 1);
        tally_record(&result.tally, &fast);
    }
    assert_string_equal(notes(), "waiting ");
    tally_count(&result.tally, TALLY_late, 10);
    tally_count(&result.tally, TALLY_unsent_busy, 5);
    assert_string_equal(notes(), "client_late unsent waiting ");
    tally_count(&result.tally, TALLY_unsent_late, 1);
    assert_string_equal(notes(), "client_late unsent unsent_late waiting ");
    assert_int_equal(tally_unsent(&result.tally), 6);
    assert_int_equal(result_status(&result), RESULT_GOOD);
}

TEST(run_without_responses_has_no_note_about_waiting)
{
    fill(0, 200);
    plan.rate = 10;
    tally_count(&result.tally, TALLY_waited, 3);
    assert_null(strstr(notes(), "waiting"));
}

TEST(single_unsent_request_is_singular)
{
    struct result_note list[RESULT_NOTES_MAX];

    fill(10, 200);
    tally_count(&result.tally, TALLY_unsent_busy, 1);
    assert_int_equal(result_notes(&result, list), 1);
    assert_string_equal(list[0].text,
                        "1 request was due but not sent before the end: all connections were busy. "
                        "The latencies do not include it.");
}

/* Errors take precedence over gates; an abort by a condition is a gate, too. */
TEST(condition_sets_status_99)
{
    char why[256];

    fill(10, 200);
    plan.fail_if_count = 1;
    assert_int_equal(condition_parse(&plan.fail_if[0], "p99>1ms", why, sizeof(why)), 0);
    assert_int_equal(result_status(&result), RESULT_GOOD);
    assert_string_equal(notes(), "too_short ");
    assert_int_equal(condition_parse(&plan.fail_if[0], "max>=1us", why, sizeof(why)), 0);
    assert_int_equal(result_status(&result), RESULT_GATE);
    assert_string_equal(notes(), "gate_failed ");
    fill(10, 500);
    result.aborted_by = &plan.fail_if[0];
    assert_int_equal(result_status(&result), RESULT_GATE);
    assert_string_equal(notes(), "aborted too_many_errors ");
    result.aborted_by = NULL;
    assert_int_equal(result_status(&result), RESULT_ERRORS);
}
