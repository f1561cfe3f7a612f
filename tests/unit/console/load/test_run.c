/*
 * A load run: progress lines, the report, marks, the check of both counts, JSON. Stored runs: one
 * file each, newest first; other files are skipped.
 */
#include "common/clock.h"
#include "console/load/run.h"
#include "tests/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct load_run run, again;

static int begin(void **state)
{
    struct load_settings settings;

    (void)state;
    load_settings_init(&settings);
    load_run_begin(&run, &settings, "http://127.0.0.1:8080/", 5000);
    run.own_server = true;
    return 0;
}

const struct test_fixture test_fixture = {begin, NULL};

static bool progress(double at_s, double rate)
{
    static const struct load_server_sample server = {900, 2000, 3000};
    char line[256];

    snprintf(line, sizeof(line),
             "{\"elapsed_s\":%.3f,\"requests_per_second\":%.1f,\"answered\":7,"
             "\"latency_p50_us\":2.5,\"latency_p99_us\":null,\"connections_up\":3}",
             at_s, rate);
    return load_run_progress(&run, line, &server);
}

static void report(int answered, int unanswered)
{
    char text[256];

    snprintf(text, sizeof(text),
             "{\"elapsed_s\":2.5,\"requests\":{\"begun\":%d,\"answered\":%d,\"unanswered\":%d},"
             "\"latency_us\":{\"p50\":10,\"p99\":null}}",
             answered + unanswered, answered, unanswered);
    load_run_report(&run, text, strlen(text));
}

TEST(progress_line_adds_point)
{
    assert_true(progress(0.2, 1000));
    assert_int_equal(run.point_count, 1);
    assert_float_equal((float)run.point[0].client_rate, 1000, 0);
    assert_float_equal((float)run.point[0].client_p50_ns, 2500, 0);
    assert_true(isnan(run.point[0].client_p99_ns));
    assert_true(isnan(run.point[0].server_rate)); /* its second began before the run */
    assert_float_equal((float)run.point[0].connections, 3, 0);
    assert_int_equal(run.totals.answered, 7);
    assert_true(progress(1.2, 1000));
    assert_float_equal((float)run.point[1].server_rate, 900, 0);
}

TEST(other_target_leaves_server_values_unknown)
{
    run.own_server = false;
    assert_true(progress(0.2, 1000));
    assert_true(isnan(run.point[0].server_rate));
}

TEST(other_output_is_the_error_message)
{
    static const struct load_server_sample server = {0};

    assert_false(load_run_progress(&run, "wsload: cannot resolve x\x1b[2J", &server));
    assert_string_equal(run.failure, "wsload: cannot resolve x\\x1b[2J");
    assert_false(load_run_progress(&run, "[1]", &server));
    assert_int_equal(run.point_count, 0);
}

TEST(long_run_drops_points)
{
    for (int i = 0; i < 20000; i++)
        progress(i * 0.2, i);
    assert_true(run.point_count <= LOAD_POINTS_MAX);
    assert_true(run.point_count >= LOAD_POINTS_MAX / 2);
    for (size_t i = 1; i < run.point_count; i++)
        assert_true(run.point[i].at_s > run.point[i - 1].at_s);
    assert_true(run.point[run.point_count - 1].at_s > 3990);
}

TEST(counts_of_both_ends_are_compared)
{
    char text[256];

    run.server_before = 100;
    run.server_after = 150;
    assert_int_equal(load_run_check(&run), LOAD_CHECK_NONE); /* not finished */
    report(50, 4);
    assert_int_equal(load_run_check(&run), LOAD_CHECK_EQUAL);
    run.server_after = 153;
    assert_int_equal(load_run_check(&run), LOAD_CHECK_OPEN);
    run.server_after = 155;
    assert_int_equal(load_run_check(&run), LOAD_CHECK_OTHERS);
    assert_non_null(strstr(load_run_check_text(&run, text, sizeof(text)),
                           "50 responses; the server counted 55: it also served other clients"));
    run.server_after = 149;
    assert_int_equal(load_run_check(&run), LOAD_CHECK_DIFFERENT);
    run.own_server = false;
    assert_int_equal(load_run_check(&run), LOAD_CHECK_NONE);
}

TEST(axis_spans_planned_duration)
{
    assert_float_equal((float)load_run_span_s(&run), 30, 0);
    run.settings.text[LOAD_DURATION][0] = '\0';
    assert_float_equal((float)load_run_span_s(&run), 5, 0);
    run.totals.elapsed_s = 40;
    assert_float_equal((float)load_run_span_s(&run), 40, 0);
}

TEST(run_survives_json)
{
    json_t *object;

    progress(0.2, 1000);
    progress(0.4, 1100);
    load_run_mark(&run, 0.3, "threads: 8 instead of 4");
    report(50, 0);
    run.server_after = 50;
    object = load_run_json(&run);
    assert_non_null(object);
    assert_int_equal(load_run_from_json(&again, object), 0);
    json_decref(object);
    assert_int_equal(again.point_count, 2);
    assert_true(isnan(again.point[1].client_p99_ns));
    assert_float_equal((float)again.point[1].client_rate, 1100, 0);
    assert_int_equal(again.mark_count, 1);
    assert_string_equal(again.mark[0].text, "threads: 8 instead of 4");
    assert_float_equal((float)again.totals.p50_ns, 10000, 0);
    assert_true(isnan(again.totals.p99_ns));
    assert_int_equal(load_run_check(&again), LOAD_CHECK_EQUAL);
    assert_string_equal(again.url, run.url);
    assert_int_equal(again.started_ns, 5000);
}

TEST(invalid_run_is_rejected)
{
    static const char *const texts[] = {"{}", "[]", "{\"webserverd_run\":1}",
                                        "{\"webserverd_run\":2,\"totals\":{}}"};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        json_t *object = json_loads(texts[i], 0, NULL);

        assert_int_equal(load_run_from_json(&again, object), -1);
        json_decref(object);
    }
}

/* Stored runs */

static char directory[] = "/tmp/webserverd-run-store-XXXXXX";
static struct load_store store;
static char why[256];

static int begin_store(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/webserverd-run-store-XXXXXX");
    if (mkdtemp(directory) == NULL)
        return -1;
    setenv("XDG_STATE_HOME", directory, 1);
    return 0;
}

static int end_store(void **state)
{
    char path[256];

    (void)state;
    while (store.count > 0)
        assert_int_equal(load_store_remove(&store, 0, why, sizeof(why)), 0);
    load_store_release(&store);
    snprintf(path, sizeof(path), "%s/webserverd/runs/strange.json", directory);
    unlink(path);
    snprintf(path, sizeof(path), "%s/webserverd/runs", directory);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/webserverd", directory);
    rmdir(path);
    return rmdir(directory);
}

static void keep(uint64_t second)
{
    struct load_settings settings;

    load_settings_init(&settings);
    load_run_begin(&run, &settings, "http://127.0.0.1/", second * NS_PER_S);
    run.totals.answered = second;
    assert_int_equal(load_store_add(&store, &run, why, sizeof(why)), 0);
}

TEST_WITH(run_is_added_read_and_removed, begin_store, end_store)
{
    keep(1000);
    keep(3000);
    keep(2000);
    assert_int_equal(store.entries[0].totals.answered, 3000);
    assert_int_equal(load_store_read(&store, why, sizeof(why)), 0);
    assert_int_equal(store.count, 3);
    assert_int_equal(store.entries[1].totals.answered, 2000);
    assert_int_equal(load_store_get(&store.entries[2], &run, why, sizeof(why)), 0);
    assert_int_equal(run.started_ns, 1000 * NS_PER_S);
    assert_int_equal(load_store_remove(&store, 0, why, sizeof(why)), 0);
    assert_int_equal(load_store_read(&store, why, sizeof(why)), 0);
    assert_int_equal(store.count, 2);
    assert_int_equal(store.entries[0].totals.answered, 2000);
}

TEST_WITH(oldest_runs_are_deleted, begin_store, end_store)
{
    for (uint64_t i = 0; i < LOAD_STORE_MAX + 2; i++)
        keep(1000 + i);
    assert_int_equal(load_store_read(&store, why, sizeof(why)), 0);
    assert_int_equal(store.count, LOAD_STORE_MAX);
    assert_int_equal(store.entries[LOAD_STORE_MAX - 1].totals.answered, 1002);
}

TEST_WITH(other_files_are_skipped, begin_store, end_store)
{
    char path[256];
    FILE *file;

    keep(1000);
    snprintf(path, sizeof(path), "%s/webserverd/runs/strange.json", directory);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"webserverd_run\": \"no", file);
    fclose(file);
    assert_int_equal(load_store_read(&store, why, sizeof(why)), 0);
    assert_int_equal(store.count, 1);
}

TEST_WITH(unusable_directory_is_reported, begin_store, end_store)
{
    setenv("XDG_STATE_HOME", "/proc/nowhere", 1);
    load_run_begin(&run, &run.settings, "", 1);
    assert_int_equal(load_store_add(&store, &run, why, sizeof(why)), -1);
    assert_non_null(strstr(why, "cannot store the run: "));
    setenv("XDG_STATE_HOME", directory, 1);
}

TEST_WITH(two_runs_are_compared, NULL, NULL)
{
    struct load_totals before = {.requests_per_s = 100, .p50_ns = 10, .p99_ns = NAN};
    struct load_totals after = {.requests_per_s = 150, .p50_ns = 20, .p99_ns = 5, .failed = 2};
    struct load_difference lines[LOAD_DIFFERENCES];

    load_compare(&before, &after, lines);
    assert_string_equal(lines[0].label, "requests/s");
    assert_float_equal((float)lines[0].after, 150, 0);
    assert_false(lines[0].less_is_better);
    assert_true(lines[1].less_is_better);
    assert_int_equal(lines[1].unit, GRAPH_TIME);
    assert_true(isnan(lines[3].before));
}
