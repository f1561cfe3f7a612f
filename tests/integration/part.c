/*
 * Runs a part of the tests of a program. TEST_PART=2/5 selects every fifth test, from the second on;
 * TEST_NAME=NAME selects one. Links in front of cmocka's own function (-Wl,--wrap).
 */
#include "part.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef const struct CMUnitTest tests_of_group[];

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): the linker requires these names */
int __real__cmocka_run_group_tests(const char *name, tests_of_group tests, size_t count,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down);
int __wrap__cmocka_run_group_tests(const char *name, tests_of_group tests, size_t count,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

static void read_part(size_t *part, size_t *parts)
{
    const char *text = getenv("TEST_PART");

    *part = *parts = 1;
    if (text != NULL &&
        (sscanf(text, "%zu/%zu", part, parts) != 2 || *part == 0 || *part > *parts)) {
        fprintf(stderr, "invalid TEST_PART '%s' (example: 2/5)\n", text);
        exit(EXIT_FAILURE);
    }
}

bool part_has(size_t number)
{
    size_t part, parts;

    read_part(&part, &parts);
    return number % parts == part - 1;
}

static bool is_selected(const struct CMUnitTest *test, size_t number)
{
    const char *name = getenv("TEST_NAME");

    return part_has(number) && (name == NULL || strcmp(name, test->name) == 0);
}

int __wrap__cmocka_run_group_tests(const char *name, tests_of_group tests, size_t count,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    struct CMUnitTest *selected = calloc(count, sizeof(*selected));
    size_t part, parts, number = 0;
    int failed = 0;

    if (selected == NULL)
        exit(EXIT_FAILURE);
    for (size_t i = 0; i < count; i++)
        if (is_selected(&tests[i], i))
            selected[number++] = tests[i];
    read_part(&part, &parts);
    if (count < parts) {
        fprintf(stderr, "%s: %zu tests have no %zu parts\n", name, count, parts);
        exit(EXIT_FAILURE);
    }
    setvbuf(stdout, NULL, _IOLBF, 0); /* a test that hangs shows its name */
    umask(022); /* workers of root read the files of the tests as another user */
    if (number > 0)
        failed = __real__cmocka_run_group_tests(name, selected, number, set_up, tear_down);
    free(selected);
    return failed;
}
