/* The live view as text: in much room, in little, and in one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/macros.h"
#include "loadgen/run/live_view.h"

#include <stdio.h>
#include <string.h>

static struct tally tally;
static struct rate_trace trace;
static struct progress_setting setting;
static struct progress_goal goal;
static struct live_scene scene;
static struct live_frame frame;

static void answer(uint64_t latency_ns, uint64_t count)
{
    const struct transaction good = {
        .error = ERROR_KIND_NONE, .status = 200, .latency_ns = latency_ns};

    for (uint64_t i = 0; i < count; i++)
        tally_record(&tally, &good);
}

static int fill(void **state)
{
    const struct transaction bad = {.error = ERROR_KIND_CLOSED};

    (void)state;
    tally_reset(&tally);
    tally_count(&tally, TALLY_begun, 501);
    tally_count(&tally, TALLY_clients_up, 99);
    answer(105 * NS_PER_US, 490);
    answer(190 * NS_PER_US, 9);
    tally_record(&tally, &bad);
    trace = (struct rate_trace){0};
    rate_trace_add(&trace, 50000);
    rate_trace_add(&trace, 80000);
    setting = (struct progress_setting){0, 100, 2};
    goal = (struct progress_goal){.requests = 1000};
    scene = (struct live_scene){
        .goal = &goal,
        .tally = &tally,
        .setting = &setting,
        .trace = &trace,
        .said = "q end",
        .elapsed_ns = 1500 * NS_PER_MS,
        .rate = 250,
        .unicode = true,
    };
    return 0;
}

/* The frame as one text. */
static const char *drawn(size_t width, size_t height)
{
    static char text[LIVE_LINES_MAX * LIVE_LINE_BYTES];

    text[0] = '\0';
    live_view_draw(&frame, &scene, width, height);
    assert_true(frame.lines <= height);
    for (size_t i = 0; i < frame.lines; i++) {
        assert_true(frame.columns[i] <= width);
        strcat(text, frame.text[i]);
        strcat(text, "\n");
    }
    return text;
}

static void test_wide(void **state)
{
    (void)state;
    assert_string_equal(
        drawn(79, 23),
        "    1.5 s   50%  ━━━━━━━━━━━━━━━━━━━━━━━━━────────────────────────   2.0 s left\n"
        "  requests/s   250  peak 80.0k  ▅█\n"
        "  answered     499\n"
        "  errors       1  closed 1\n"
        "  connections  99 of 100 up, 2 threads\n"
        "  latency      p50 105 us  p90 105 us  p99 190 us  p99.9 190 us  max 190 us\n"
        "\n"
        "   100-120 us ███████████████████████████████████████████  98.2% p50 p90\n"
        "   120-150 us \n"
        "   150-180 us \n"
        "   180-220 us ▊                                             1.8% p99\n"
        "\n"
        "  q end\n");
}

static void test_narrow(void **state)
{
    (void)state;
    scene.unicode = false;
    scene.label = "round 1 of 3";
    assert_string_equal(drawn(39, 12), "  round 1 of 3\n"
                                       "    1.5 s   50%  =====----   2.0 s left\n"
                                       "  requests/s   250  peak 80.0k  =#\n"
                                       "  answered     499\n"
                                       "  errors       1  closed 1\n"
                                       "  connections  99 of 100 up, 2 threads\n"
                                       "  latency      p50 105 us  p99 190 us\n"
                                       "\n"
                                       "   100-150 us ##################  98.2%\n"
                                       "   150-200 us .                    1.8%\n"
                                       "\n"
                                       "  q end\n");
}

/* Whatever the room, the frame fits; also with colours, of which columns know nothing. */
static void test_every_size(void **state)
{
    (void)state;
    scene.colour = true;
    setting.rate = 123456;
    for (size_t width = LIVE_LEAST_WIDTH; width < 250; width++)
        for (size_t height = LIVE_LEAST_HEIGHT; height < 60; height += 7)
            assert_non_null(strstr(drawn(width, height), "connections"));
}

static void test_before_the_first_answer(void **state)
{
    (void)state;
    tally_reset(&tally);
    trace.count = 0;
    scene.said = NULL;
    goal.warmup_ns = 2 * NS_PER_S;
    assert_string_equal(
        drawn(79, 23),
        "    1.5 s    0%  ──────────────────────────────────────────────────  warming up\n"
        "  requests/s   250\n"
        "  answered     0\n"
        "  errors       0\n"
        "  connections  0 of 100 up, 2 threads\n"
        "  latency      -\n");
}

/* Errors by kind, then statuses. */
static void test_errors(void **state)
{
    const struct transaction missing = {
        .error = ERROR_KIND_NONE, .status = 404, .bad_status = true};
    const struct transaction refused = {.error = ERROR_KIND_REFUSED};

    (void)state;
    for (unsigned i = 0; i < 1500; i++)
        tally_record(&tally, &missing);
    tally_record(&tally, &refused);
    assert_non_null(
        strstr(drawn(79, 23), "  errors       1,502  refused 1, closed 1, 404 1.50k\n"));
}

/* How much time is left: by time, by count, whichever is sooner; nobody knows; it is over. */
static void test_time_left(void **state)
{
    static const struct {
        uint64_t requests, duration_ms;
        bool over;
        const char *words;
    } cases[] = {
        {0, 10000, false, " 8.5 s left"},
        {1000, 10000, false, " 2.0 s left"},
        {100000, 2000, false, " 0.5 s left"},
        {0, 3600 * 1000, false, "59m 58s left"},
        {0, 1000, false, "ending"},
        {0, 0, false, "ending"},
        {1000, 0, true, "done"},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        goal = (struct progress_goal){.requests = cases[i].requests,
                                      .duration_ns = cases[i].duration_ms * NS_PER_MS};
        scene.over = cases[i].over;
        drawn(79, 23);
        assert_non_null(strstr(frame.text[0], cases[i].words));
    }
}

#define WHOLE_LINE "  1.5 s   50%  75.2k req/s  p50  105 us  p99  190 us  errors 1  up 99/100"

static void test_line(void **state)
{
    static const struct {
        size_t width;
        const char *line;
    } cases[] = {
        {79, WHOLE_LINE},
        {sizeof(WHOLE_LINE) - 1, WHOLE_LINE},
        {sizeof(WHOLE_LINE) - 2, "  1.5 s   50%  75.2k req/s  p50  105 us  p99  190 us  errors 1"},
        {40, "  1.5 s   50%  75.2k req/s  p50  105 us"},
        {39, "  1.5 s   50%  75.2k req/s  p50  105 us"},
        {38, "  1.5 s   50%  75.2k req/s"},
        {13, "  1.5 s   50%"},
        {12, ""},
    };

    (void)state;
    scene.rate = 75200;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        live_view_line(&frame, &scene, cases[i].width);
        assert_int_equal(frame.lines, 1);
        assert_string_equal(frame.text[0], cases[i].line);
    }
    live_view_line(&frame, &scene, 100);
    assert_string_equal(frame.text[0], WHOLE_LINE "  q end");
}

/* A full line of large numbers still fits a terminal of 80 columns. */
static void test_large_numbers(void **state)
{
    (void)state;
    setting.connections = 1000;
    tally_count(&tally, TALLY_clients_up, 901);
    goal.requests = 100000;
    scene.elapsed_ns = 3600 * NS_PER_S;
    scene.rate = 123456;
    live_view_line(&frame, &scene, 79);
    assert_string_equal(frame.text[0], "3600.0 s    0%   123k req/s  p50  105 us  p99  190 us  "
                                       "errors 1  up 1000/1000");
}

static void test_percent(void **state)
{
    const struct progress_goal both = {.requests = 1000, .duration_ns = 2 * NS_PER_S};

    (void)state; /* three quarters are over, and half of the requests */
    assert_true(live_view_percent(&both, &tally, 1500 * NS_PER_MS) == 75);
    assert_true(live_view_percent(&both, &tally, 2500 * NS_PER_MS) == 100);
    assert_true(live_view_percent(&goal, &tally, 2500 * NS_PER_MS) == 50);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_wide, fill),
        cmocka_unit_test_setup(test_narrow, fill),
        cmocka_unit_test_setup(test_every_size, fill),
        cmocka_unit_test_setup(test_before_the_first_answer, fill),
        cmocka_unit_test_setup(test_errors, fill),
        cmocka_unit_test_setup(test_time_left, fill),
        cmocka_unit_test_setup(test_line, fill),
        cmocka_unit_test_setup(test_large_numbers, fill),
        cmocka_unit_test_setup(test_percent, fill),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
