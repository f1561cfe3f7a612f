/* Instance names and paths, and properties of the .def lists.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/instance.h"
#include "common/macros.h"
#include "common/tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void names_are_validated(void **state)
{
    static const struct {
        const char *name;
        bool valid;
    } cases[] = {
        {"webserverd", true},
        {"a", true},
        {"Site-2.test_x", true},
        {"-", true},
        {"123456789012345678901234567890123456789012345678", true},
        {"1234567890123456789012345678901234567890123456789", false},
        {"", false},
        {".", false},
        {"..", false},
        {".hidden", false},
        {"a/b", false},
        {"a b", false},
        {"a\n", false},
        {"\xc3\xa4", false},
    };

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++)
        if (instance_name_valid(cases[i].name) != cases[i].valid)
            fail_msg("'%s' should be %s", cases[i].name, cases[i].valid ? "valid" : "invalid");
}

static void segment_name_contains_instance(void **state)
{
    char text[INSTANCE_PATH_MAX], small[10];

    (void)state;
    assert_int_equal(instance_segment_name("site", text, sizeof(text)), 0);
    assert_string_equal(text, "/webserverd.site");
    assert_int_equal(instance_segment_name("site", small, sizeof(small)), -1);
    assert_int_equal(instance_segment_name("site", text, strlen("/webserverd.site")), -1);
    assert_int_equal(instance_segment_name("site", text, strlen("/webserverd.site") + 1), 0);
}

static void only_root_and_this_user_are_trusted(void **state)
{
    char why[128] = "";

    (void)state;
    assert_true(instance_owner_trusted(0, "x", why, sizeof(why)));
    assert_true(instance_owner_trusted(geteuid(), "x", why, sizeof(why)));
    assert_string_equal(why, "");
    assert_false(instance_owner_trusted(12345678, "the file x", why, sizeof(why)));
    assert_string_equal(why, "the file x belongs to another user (uid 12345678), not to root, "
                             "this user or the system service");
}

static void run_dir_and_socket_depend_on_user(void **state)
{
    char folder[INSTANCE_PATH_MAX], expected[INSTANCE_PATH_MAX], text[INSTANCE_PATH_MAX];

    (void)state;
    setenv("XDG_RUNTIME_DIR", "/some/where", 1);
    if (geteuid() == 0)
        snprintf(expected, sizeof(expected), "/run/webserverd");
    else
        snprintf(expected, sizeof(expected), "/some/where/webserverd");
    assert_int_equal(instance_run_dir(folder, sizeof(folder)), 0);
    assert_string_equal(folder, expected);

    assert_int_equal(instance_socket_path("site", text, sizeof(text)), 0);
    assert_int_equal(strncmp(text, expected, strlen(expected)), 0);
    assert_string_equal(text + strlen(expected), "/site.sock");
    assert_int_equal(instance_socket_path("site", text, 10), -1);

    setenv("XDG_RUNTIME_DIR", "not/absolute", 1);
    if (geteuid() != 0)
        snprintf(expected, sizeof(expected), "/tmp/webserverd-%lu", (unsigned long)geteuid());
    assert_int_equal(instance_run_dir(folder, sizeof(folder)), 0);
    assert_string_equal(folder, expected);
}

/* Names, labels and help texts must fit the fixed fields of the segment. */
static void metric_texts_fit_the_segment(void **state)
{
    (void)state;
    for (size_t i = 0; i < METRIC_COUNT; i++) {
        assert_in_range(strlen(metric_table[i].name), 1, 31);
        assert_in_range(strlen(metric_table[i].label), 1, 15);
        assert_in_range(strlen(metric_table[i].help), 1, 127);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(metric_table[i].name, metric_table[j].name);
    }
}

static void state_letters_are_unique(void **state)
{
    (void)state;
    for (size_t i = 0; i < THREAD_STATE_COUNT; i++) {
        assert_in_range(strlen(thread_state_table[i].name), 1, 14);
        assert_in_range(strlen(thread_state_table[i].help), 1, 63);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(thread_state_table[i].letter, thread_state_table[j].letter);
    }
}

static void table_find_returns_index(void **state)
{
    (void)state;
    assert_int_equal(table_find("debug", level_names, LEVEL_COUNT), LEVEL_DEBUG);
    assert_int_equal(table_find("error", level_names, LEVEL_COUNT), LEVEL_ERROR);
    assert_int_equal(table_find("Error", level_names, LEVEL_COUNT), -1);
    assert_int_equal(table_find("", level_names, LEVEL_COUNT), -1);
    assert_int_equal(table_find("warn", level_names, 0), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_validated),
        cmocka_unit_test(segment_name_contains_instance),
        cmocka_unit_test(only_root_and_this_user_are_trusted),
        cmocka_unit_test(run_dir_and_socket_depend_on_user),
        cmocka_unit_test(metric_texts_fit_the_segment),
        cmocka_unit_test(state_letters_are_unique),
        cmocka_unit_test(table_find_returns_index),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
