/*
 * A test is a function: TEST(NAME) { ... }. tests/main.c runs those of the program, in the order of
 * their lines. A test program with a main() of its own lists its tests itself, without TEST().
 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct test_fixture {
    CMFixtureFunction set_up, tear_down; /* NULL: none */
};

/* A program may define them: run before and after each test, and before and after all tests. */
extern const struct test_fixture test_fixture, test_group_fixture;

struct test {
    const char *name;
    CMUnitTestFunction run;
    const struct test_fixture *fixture;
    int line;
};

/* Called before main(). *TEST is static. */
void test_add(const struct test *test);

/* STATE is that of cmocka: what the fixture's set_up stores. */
#define TEST_OF(name, own_fixture)                                                                 \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void register_##name(void)                                 \
    {                                                                                              \
        static const struct test test = {#name, name, own_fixture, __LINE__};                      \
                                                                                                   \
        test_add(&test);                                                                           \
    }                                                                                              \
    static void name(__attribute__((unused)) void **state)

#define TEST(name) TEST_OF(name, &test_fixture)

/* With these functions instead of the program's; NULL: none. */
#define TEST_WITH(name, set_up, tear_down)                                                         \
    static const struct test_fixture name##_fixture = {set_up, tear_down};                         \
    TEST_OF(name, &name##_fixture)

#endif
