/* Stored runs: one file each, newest first; other files are skipped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "console/load/run.h"
#include "console/ui/graph.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/webserverd-run-store-XXXXXX";
static struct load_store store;
static struct load_run run;
static char why[256];

static int begin(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/webserverd-run-store-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return -1;
    setenv("XDG_STATE_HOME", folder, 1);
    return 0;
}

static int end(void **state)
{
    char path[256];

    (void)state;
    while (store.count > 0)
        assert_int_equal(load_store_remove(&store, 0, why, sizeof(why)), 0);
    load_store_release(&store);
    snprintf(path, sizeof(path), "%s/webserverd/runs/strange.json", folder);
    unlink(path);
    snprintf(path, sizeof(path), "%s/webserverd/runs", folder);
    rmdir(path);
    snprintf(path, sizeof(path), "%s/webserverd", folder);
    rmdir(path);
    return rmdir(folder);
}

static void keep(uint64_t second)
{
    struct load_settings settings;

    load_settings_init(&settings);
    load_run_begin(&run, &settings, "http://127.0.0.1/", second * NS_PER_S);
    run.totals.answered = second;
    assert_int_equal(load_store_add(&store, &run, why, sizeof(why)), 0);
}

static void store_is_empty_at_first(void **state)
{
    (void)state;
    assert_int_equal(load_store_read(&store, why, sizeof(why)), 0);
    assert_int_equal(store.count, 0);
}

static void run_is_added_read_and_removed(void **state)
{
    (void)state;
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

static void oldest_runs_are_deleted(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < LOAD_STORE_MAX + 2; i++)
        keep(1000 + i);
    assert_int_equal(load_store_read(&store, why, sizeof(why)), 0);
    assert_int_equal(store.count, LOAD_STORE_MAX);
    assert_int_equal(store.entries[LOAD_STORE_MAX - 1].totals.answered, 1002);
}

static void other_files_are_skipped(void **state)
{
    char path[256];
    FILE *file;

    (void)state;
    keep(1000);
    snprintf(path, sizeof(path), "%s/webserverd/runs/strange.json", folder);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("{\"webserverd_run\": \"no", file);
    fclose(file);
    assert_int_equal(load_store_read(&store, why, sizeof(why)), 0);
    assert_int_equal(store.count, 1);
}

static void unusable_directory_is_reported(void **state)
{
    (void)state;
    setenv("XDG_STATE_HOME", "/proc/nowhere", 1);
    load_run_begin(&run, &run.settings, "", 1);
    assert_int_equal(load_store_add(&store, &run, why, sizeof(why)), -1);
    assert_non_null(strstr(why, "cannot store the run: "));
    setenv("XDG_STATE_HOME", folder, 1);
}

static void two_runs_are_compared(void **state)
{
    struct load_totals before = {.requests_per_s = 100, .p50_ns = 10, .p99_ns = NAN};
    struct load_totals after = {.requests_per_s = 150, .p50_ns = 20, .p99_ns = 5, .failed = 2};
    struct load_difference lines[LOAD_DIFFERENCES];

    (void)state;
    load_compare(&before, &after, lines);
    assert_string_equal(lines[0].label, "requests/s");
    assert_float_equal((float)lines[0].after, 150, 0);
    assert_false(lines[0].less_is_better);
    assert_true(lines[1].less_is_better);
    assert_int_equal(lines[1].unit, GRAPH_TIME);
    assert_true(isnan(lines[3].before));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(store_is_empty_at_first, begin, end),
        cmocka_unit_test_setup_teardown(run_is_added_read_and_removed, begin, end),
        cmocka_unit_test_setup_teardown(oldest_runs_are_deleted, begin, end),
        cmocka_unit_test_setup_teardown(other_files_are_skipped, begin, end),
        cmocka_unit_test_setup_teardown(unusable_directory_is_reported, begin, end),
        cmocka_unit_test_setup_teardown(two_runs_are_compared, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
