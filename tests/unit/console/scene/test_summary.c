/* The summary of a server in one line. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "console/scene/summary.h"

static void item_that_does_not_fit_is_left_out(void **state)
{
    char line[32] = "";

    (void)state;
    summary_append(line, sizeof(line), 20, "threads %d", 4);
    summary_append(line, sizeof(line), 20, "a very long item that does not fit");
    summary_append(line, sizeof(line), 20, "pid %d", 123);
    assert_string_equal(line, "threads 4  pid 123");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(item_that_does_not_fit_is_left_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
