#include "tests/part.h"
#include "tests/test.h"

#include <errno.h>
#include <stdlib.h>

enum { TESTS_MAX = 128 };

/* Of a program that defines none. */
__attribute__((weak)) const struct test_fixture test_fixture, test_group_fixture;

static struct CMUnitTest tests[TESTS_MAX];
static int line[TESTS_MAX];
static size_t count;

/* Without malloc(), which a test may replace. */
void test_add(const struct test *test)
{
    size_t at = count++;

    if (at == TESTS_MAX)
        abort();
    for (; at > 0 && line[at - 1] > test->line; at--) {
        tests[at] = tests[at - 1];
        line[at] = line[at - 1];
    }
    line[at] = test->line;
    tests[at] = (struct CMUnitTest){test->name, test->run, test->fixture->set_up,
                                    test->fixture->tear_down, NULL};
}

int main(void)
{
    count = part_select(tests, count);
    return _cmocka_run_group_tests(program_invocation_short_name, tests, count,
                                   test_group_fixture.set_up, test_group_fixture.tear_down);
}
