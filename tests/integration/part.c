/*
 * Runs a part of the tests of a program. TEST_PART=2/5 selects every fifth test, from the second on;
 * TEST_NAME=NAME selects one. Links in front of cmocka's own function (-Wl,--wrap).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef const struct CMUnitTest tests_of_group[];

/* NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp): the linker requires these names */
int __real__cmocka_run_group_tests(const char *name, tests_of_group tests, size_t count,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down);
int __wrap__cmocka_run_group_tests(const char *name, tests_of_group tests, size_t count,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down);
/* NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp) */

static bool is_selected(const struct CMUnitTest *test, size_t number, size_t part, size_t parts)
{
    const char *name = getenv("TEST_NAME");

    return number % parts == part - 1 && (name == NULL || strcmp(name, test->name) == 0);
}

int __wrap__cmocka_run_group_tests(const char *name, tests_of_group tests, size_t count,
                                   CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
    const char *text = getenv("TEST_PART");
    struct CMUnitTest *selected = calloc(count, sizeof(*selected));
    size_t part = 1, parts = 1, number = 0;
    int failed = 0;

    if (selected == NULL || (text != NULL && (sscanf(text, "%zu/%zu", &part, &parts) != 2 ||
                                              part == 0 || part > parts))) {
        fprintf(stderr, "invalid TEST_PART '%s' (example: 2/5)\n", text != NULL ? text : "");
        exit(EXIT_FAILURE);
    }
    for (size_t i = 0; i < count; i++)
        if (is_selected(&tests[i], i, part, parts))
            selected[number++] = tests[i];
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
