/* The live view as text: wide, narrow, one line. */
#include "common/clock.h"
#include "common/macros.h"
#include "loadgen/run/internal.h"
#include "tests/test.h"

#include <stdio.h>
#include <stdlib.h>
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
        .message = "q end",
        .elapsed_ns = 1500 * NS_PER_MS,
        .rate = 250,
        .unicode = true,
    };
    return 0;
}

const struct test_fixture test_fixture = {fill, NULL};

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

TEST(wide_frame_shows_everything)
{
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

TEST(narrow_frame_shows_less)
{
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

/* With and without colours, which take no columns. */
TEST(frame_fits_every_size)
{
    scene.colour = true;
    setting.rate = 123456;
    for (size_t width = LIVE_WIDTH_MIN; width < 250; width++)
        for (size_t height = LIVE_HEIGHT_MIN; height < 60; height += 7)
            assert_non_null(strstr(drawn(width, height), "connections"));
}

TEST(no_latency_before_the_first_response)
{
    tally_reset(&tally);
    trace.count = 0;
    scene.message = NULL;
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

TEST(errors_are_listed_by_kind_then_status)
{
    const struct transaction missing = {
        .error = ERROR_KIND_NONE, .status = 404, .bad_status = true};
    const struct transaction refused = {.error = ERROR_KIND_REFUSED};

    for (unsigned i = 0; i < 1500; i++)
        tally_record(&tally, &missing);
    tally_record(&tally, &refused);
    assert_non_null(
        strstr(drawn(79, 23), "  errors       1,502  refused 1, closed 1, 404 1.50k\n"));
}

/* By time or by count, whichever ends sooner; unknown; past the end. */
TEST(time_left_is_the_sooner_limit)
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

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        goal = (struct progress_goal){.requests = cases[i].requests,
                                      .duration_ns = cases[i].duration_ms * NS_PER_MS};
        scene.over = cases[i].over;
        drawn(79, 23);
        assert_non_null(strstr(frame.text[0], cases[i].words));
    }
}

#define WHOLE_LINE "  1.5 s   50%  75.2k req/s  p50  105 us  p99  190 us  errors 1  up 99/100"

TEST(line_drops_items_that_do_not_fit)
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
TEST(line_of_large_numbers_fits_80_columns)
{
    setting.connections = 1000;
    tally_count(&tally, TALLY_clients_up, 901);
    goal.requests = 100000;
    scene.elapsed_ns = 3600 * NS_PER_S;
    scene.rate = 123456;
    live_view_line(&frame, &scene, 79);
    assert_string_equal(frame.text[0], " 1h 00m    0%   123k req/s  p50  105 us  p99  190 us  "
                                       "errors 1  up 1000/1000");
}

TEST(percent_is_the_larger_of_time_and_requests)
{
    const struct progress_goal both = {.requests = 1000, .duration_ns = 2 * NS_PER_S};

    assert_true(live_view_percent(&both, &tally, 1500 * NS_PER_MS) == 75);
    assert_true(live_view_percent(&both, &tally, 2500 * NS_PER_MS) == 100);
    assert_true(live_view_percent(&goal, &tally, 2500 * NS_PER_MS) == 50);
}

TEST(trace_is_scaled_to_its_peak)
{
    struct rate_trace rates = {0};
    char text[RATE_TRACE_TEXT];

    assert_int_equal(rate_trace_draw(text, &rates, 10, true), 0);
    rate_trace_add(&rates, 0);
    rate_trace_add(&rates, 100);
    rate_trace_add(&rates, 50);
    assert_int_equal(rate_trace_draw(text, &rates, 10, true), 3);
    assert_string_equal(text, " █▅");
    assert_int_equal(rate_trace_draw(text, &rates, 10, false), 3);
    assert_string_equal(text, " #=");
}

TEST(long_trace_is_compressed_and_keeps_its_values)
{
    struct rate_trace rates = {0};
    char text[RATE_TRACE_TEXT];

    for (unsigned i = 0; i < 100000; i++) {
        rate_trace_add(&rates, i < 50000 ? 10 : 1000);
        assert_true(rates.count <= RATE_TRACE_CELLS);
    }
    assert_in_range(rates.count, RATE_TRACE_CELLS / 2, RATE_TRACE_CELLS);
    assert_true(rate_trace_peak(&rates) == 1000);
    assert_true(rates.cell[0] == 10);
    assert_int_equal(rate_trace_draw(text, &rates, 4, false), 4);
    assert_string_equal(text, "__##");
}

/* If standard error is a file, nothing is written without --progress. */
TEST(no_progress_without_terminal)
{
    const struct plan plan = {.connections = 100, .requests = 1000};
    const struct progress_now now = {
        .tally = &tally, .setting = {0, 100, 1}, .elapsed_ns = NS_PER_S};
    struct progress progress;
    FILE *out = tmpfile();

    assert_non_null(out);
    progress_begin(&progress, &plan, &goal, out);
    progress_tick(&progress, &now);
    progress_draw(&progress, &now);
    progress_end(&progress, &now);
    assert_int_equal(ftell(out), 0);
    fclose(out);
}
