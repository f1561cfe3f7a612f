/* JSON progress lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "loadgen/run/progress.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static struct plan plan;
static struct tally tally;
static const struct progress_goal goal = {.requests = 1000};
static struct progress_now now = {.tally = &tally};

static void fill(uint64_t answered)
{
    const struct transaction good = {
        .error = ERROR_KIND_NONE, .status = 200, .latency_ns = 100 * NS_PER_US};
    const struct transaction bad = {.error = ERROR_KIND_CLOSED};

    plan = (struct plan){.connections = 100, .requests = 1000};
    now.setting = (struct progress_setting){0, 100, 1};
    tally_reset(&tally);
    tally_count(&tally, TALLY_begun, answered + 2);
    tally_count(&tally, TALLY_clients_up, 99);
    for (uint64_t i = 0; i < answered; i++)
        tally_record(&tally, &good);
    tally_record(&tally, &bad);
}

/* An accepted and a rejected change. */
static void check_event(const json_t *object, size_t number)
{
    const char *event = json_string_value(json_object_get(object, "event"));

    assert_string_equal(event, number == 0 ? "rejected" : "changed");
    if (number == 0)
        assert_string_equal(json_string_value(json_object_get(object, "why")), "too much");
    else
        assert_int_equal(json_integer_value(json_object_get(object, "connections")), 7);
}

/* A line every second tick; the rate is that of the last second. */
static void progress_line_every_second_tick(void **state)
{
    struct progress progress;
    char *text = NULL;
    size_t size, lines = 0, events = 0;
    FILE *out = open_memstream(&text, &size);
    json_t *last = NULL;

    (void)state;
    fill(499);
    plan.progress_lines = true;
    progress_begin(&progress, &plan, &goal, out);
    for (uint64_t tick = 1; tick <= 20; tick++) {
        tally_count(&tally, TALLY_answered, tick <= 10 ? 1 : 10);
        now.elapsed_ns = tick * 100 * NS_PER_MS;
        progress_tick(&progress, &now);
    }
    progress_report_change(&progress, false, "too much", 0, 0, 0);
    progress_report_change(&progress, true, "", 250, 7, 2);
    progress_end(&progress, &now);
    fclose(out);
    for (char *rest, *line = strtok_r(text, "\n", &rest); line;
         line = strtok_r(NULL, "\n", &rest)) {
        json_t *object = json_loads(line, 0, NULL);

        assert_non_null(object);
        if (json_object_get(object, "event") != NULL) {
            check_event(object, events++);
            json_decref(object);
            continue;
        }
        json_decref(last);
        last = object;
        lines++;
    }
    assert_int_equal(events, 2);
    assert_int_equal(lines, 10);
    assert_int_equal(json_integer_value(json_object_get(last, "answered")), 499 + 110);
    assert_int_equal(json_integer_value(json_object_get(last, "failed")), 1);
    assert_int_equal(json_integer_value(json_object_get(last, "connections_up")), 99);
    assert_true(json_real_value(json_object_get(last, "elapsed_s")) == 2);
    assert_true(json_real_value(json_object_get(last, "requests_per_second")) == 100);
    json_decref(last);
    free(text);
}

/* If standard error is a file, nothing is written without --progress. */
static void no_progress_without_terminal(void **state)
{
    struct progress progress;
    FILE *out = tmpfile();

    (void)state;
    assert_non_null(out);
    fill(499);
    progress_begin(&progress, &plan, &goal, out);
    now.elapsed_ns = NS_PER_S;
    progress_tick(&progress, &now);
    progress_draw(&progress, &now);
    progress_end(&progress, &now);
    assert_int_equal(ftell(out), 0);
    fclose(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(progress_line_every_second_tick),
        cmocka_unit_test(no_progress_without_terminal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
