/* The summary of a server in one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "console/scene/scene.h"

static void item_that_does_not_fit_is_left_out(void **state)
{
    char line[32] = "";

    (void)state;
    summary_append(line, sizeof(line), 20, "threads %d", 4);
    summary_append(line, sizeof(line), 20, "a very long item that does not fit");
    summary_append(line, sizeof(line), 20, "pid %d", 123);
    assert_string_equal(line, "threads 4  pid 123");
}

static void items_left_out_are_counted(void **state)
{
    char line[32] = "", exact[32] = "", narrow[32] = "";

    (void)state;
    summary_add(line, sizeof(line), 20, "threads %d", 4);
    summary_add(line, sizeof(line), 20, "pid %d", 123);
    assert_string_equal(line, "threads 4  pid 123");
    summary_add(line, sizeof(line), 20, "up 3m"); /* "pid 123" makes room for the count */
    assert_string_equal(line, "threads 4  +2");
    summary_add(line, sizeof(line), 20, "x");
    assert_string_equal(line, "threads 4  +3");
    summary_add(exact, sizeof(exact), 9, "threads %d", 4);
    assert_string_equal(exact, "threads 4");
    summary_add(exact, sizeof(exact), 9, "x");
    assert_string_equal(exact, "+2");
    summary_add(narrow, sizeof(narrow), 4, "threads %d", 4);
    assert_string_equal(narrow, "+1");
}

static void longer_count_takes_the_place_of_an_item(void **state)
{
    char line[32] = "";

    (void)state;
    summary_add(line, sizeof(line), 13, "threads %d", 4);
    for (int i = 0; i < 9; i++)
        summary_add(line, sizeof(line), 13, "pid %d", i);
    assert_string_equal(line, "threads 4  +9");
    summary_add(line, sizeof(line), 13, "pid %d", 9);
    assert_string_equal(line, "+11");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(item_that_does_not_fit_is_left_out),
        cmocka_unit_test(items_left_out_are_counted),
        cmocka_unit_test(longer_count_takes_the_place_of_an_item),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
