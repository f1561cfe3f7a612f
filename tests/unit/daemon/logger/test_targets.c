#include "daemon/logger/targets.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

static struct config_host hosts[] = {
    {.access_log = "/log/b"},   {.access_log = "/log/a"}, {.access_log = "off"},
    {.access_log = "/log/all"}, {.access_log = "/log/b"},
};
static const struct config config = {
    .log_access = "/log/all", .hosts = hosts, .host_count = ARRAY_LENGTH(hosts)};

static struct log_targets targets;

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(log_targets_make(&targets, &config), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    log_targets_free(&targets);
    return 0;
}

static void each_file_is_one_target(void **state)
{
    static const uint32_t expected[] = {2, 1, 0, 0, 2};

    (void)state;
    assert_int_equal(targets.count, 2);
    assert_int_equal(log_targets_count(&config), 2);
    assert_string_equal(targets.path[0], "/log/a");
    assert_string_equal(targets.path[1], "/log/b");
    for (size_t i = 0; i < ARRAY_LENGTH(hosts); i++)
        assert_int_equal(log_targets_of_config(&targets, &hosts[i]), expected[i]);
    assert_int_equal(log_targets_of_config(&targets, NULL), 0);
}

static void hosts_without_files_have_no_targets(void **state)
{
    static struct config_host off = {.access_log = "off"};
    const struct config other = {.log_access = "off", .hosts = &off, .host_count = 1};
    struct log_targets none;

    (void)state;
    assert_int_equal(log_targets_make(&none, &other), 0);
    assert_int_equal(none.count, 0);
    assert_int_equal(log_targets_of_config(&none, &off), 0);
    log_targets_free(&none);
}

/* A worker may write any host into a record. */
static void entry_out_of_range_has_target_0(void **state)
{
    static const uint64_t outside[] = {4, 5, UINT16_MAX, UINT64_MAX};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(outside); i++)
        assert_int_equal(log_targets_of_entry(&targets, outside[i]), 0);
    assert_int_equal(log_targets_reserve(&targets, 4), 0);
    targets.of_entry[3] = 2;
    assert_int_equal(log_targets_of_entry(&targets, 2), 0);
    assert_int_equal(log_targets_of_entry(&targets, 3), 2);
    for (size_t i = 0; i < ARRAY_LENGTH(outside); i++)
        assert_int_equal(log_targets_of_entry(&targets, outside[i]), 0);
}

static void key_finds_the_file_after_a_reload(void **state)
{
    static struct config_host more[] = {{.access_log = "/log/b"}, {.access_log = "/a"}};
    const struct config reloaded = {
        .log_access = "/log/all", .hosts = more, .host_count = ARRAY_LENGTH(more)};
    struct log_targets after;

    (void)state;
    assert_int_equal(log_targets_make(&after, &reloaded), 0);
    assert_int_equal(log_targets_key(&targets, 0), 0);
    assert_int_equal(log_targets_find(&targets, 0), 0);
    for (uint32_t i = 1; i <= targets.count; i++) {
        assert_int_not_equal(log_targets_key(&targets, i), 0);
        assert_int_equal(log_targets_find(&targets, log_targets_key(&targets, i)), i);
    }
    assert_int_equal(log_targets_find(&after, log_targets_key(&targets, 2)), 2);
    assert_int_equal(log_targets_find(&after, log_targets_key(&targets, 1)), 0);
    log_targets_free(&after);
}

static void targets_are_equal_with_the_same_files_for_the_same_entries(void **state)
{
    struct log_targets other;

    (void)state;
    assert_int_equal(log_targets_make(&other, &config), 0);
    assert_true(log_targets_equal(&targets, &other));
    assert_int_equal(log_targets_reserve(&other, 8), 0);
    assert_true(log_targets_equal(&targets, &other));
    other.of_entry[7] = 1;
    assert_false(log_targets_equal(&targets, &other));
    assert_false(log_targets_equal(&other, &targets));
    other.of_entry[7] = 0;
    other.path[1][1] = 'x';
    assert_false(log_targets_equal(&targets, &other));
    log_targets_free(&other);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_file_is_one_target),
        TEST(hosts_without_files_have_no_targets),
        TEST(entry_out_of_range_has_target_0),
        TEST(key_finds_the_file_after_a_reload),
        TEST(targets_are_equal_with_the_same_files_for_the_same_entries),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
