/* Exact arithmetic: results at the ends of their ranges, and what is said of wrong questions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/transaction/arithmetic.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    enum arithmetic_function function;
    const char *query, *result;
} good[] = {
    {ARITHMETIC_FIBONACCI, "n=0", "0"},
    {ARITHMETIC_FIBONACCI, "n=1", "1"},
    {ARITHMETIC_FIBONACCI, "n=2", "1"},
    {ARITHMETIC_FIBONACCI, "n=10", "55"},
    {ARITHMETIC_FIBONACCI, "n=50", "12586269025"},
    {ARITHMETIC_FIBONACCI, "n=92", "7540113804746346429"},
    {ARITHMETIC_FIBONACCI, "n=93", "12200160415121876738"},
    {ARITHMETIC_FIBONACCI, "n=-0", "0"},
    {ARITHMETIC_FIBONACCI, "n=0010", "55"},
    {ARITHMETIC_SQUARE, "n=0", "0"},
    {ARITHMETIC_SQUARE, "n=-7", "49"},
    {ARITHMETIC_SQUARE, "n=3037000500", "9223372037000250000"},
    {ARITHMETIC_SQUARE, "n=4294967295", "18446744065119617025"},
    {ARITHMETIC_SQUARE, "n=-4294967295", "18446744065119617025"},
    {ARITHMETIC_CUBE, "n=3", "27"},
    {ARITHMETIC_CUBE, "n=-3", "-27"},
    {ARITHMETIC_CUBE, "n=2642245", "18446724184312856125"},
    {ARITHMETIC_CUBE, "n=-2097152", "-9223372036854775808"},
    {ARITHMETIC_CUBE, "&n=1&", NULL}, /* an empty parameter */
};

static void results_are_exact(void **state)
{
    char why[ARITHMETIC_WHY_MAX], text[32];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(good); i++) {
        struct arithmetic_question question = {.function = good[i].function};
        struct span query = {good[i].query, strlen(good[i].query)};
        struct arithmetic_result result;
        int failed = arithmetic_read(&question, query, why);

        assert_int_equal(failed, good[i].result == NULL ? -1 : 0);
        if (failed != 0)
            continue;
        result = arithmetic_compute(&question);
        snprintf(text, sizeof(text), "%s%" PRIu64, result.negative ? "-" : "", result.magnitude);
        assert_string_equal(text, good[i].result);
    }
}

static const struct {
    enum arithmetic_function function;
    const char *query, *why;
} bad[] = {
    {ARITHMETIC_FIBONACCI, "", "n is missing, as in fibonacci?n=10"},
    {ARITHMETIC_CUBE, "work=1ms", "n is missing, as in cube?n=10"},
    {ARITHMETIC_FIBONACCI, "n", "n is '', which is not a whole number"},
    {ARITHMETIC_FIBONACCI, "n=", "n is '', which is not a whole number"},
    {ARITHMETIC_FIBONACCI, "n=-", "n is '-', which is not a whole number"},
    {ARITHMETIC_FIBONACCI, "n=+1", "n is '+1', which is not a whole number"},
    {ARITHMETIC_FIBONACCI, "n=1.5", "n is '1.5', which is not a whole number"},
    {ARITHMETIC_FIBONACCI, "n=ten", "n is 'ten', which is not a whole number"},
    {ARITHMETIC_FIBONACCI, "n=%2531", "n is '%2531', which is not a whole number"},
    {ARITHMETIC_FIBONACCI, "n=0x10", "n is '0x10', which is not a whole number"},
    {ARITHMETIC_FIBONACCI, "n=94", "n is 94: the fibonacci fits into 64 bits for n from 0 to 93"},
    {ARITHMETIC_FIBONACCI, "n=-1", "n is -1: the fibonacci fits into 64 bits for n from 0 to 93"},
    {ARITHMETIC_SQUARE, "n=4294967296",
     "n is 4294967296: the square fits into 64 bits for n from -4294967295 to 4294967295"},
    {ARITHMETIC_SQUARE, "n=9223372036854775808",
     "n is 9223372036854775808: the square fits into 64 bits for n from -4294967295 to "
     "4294967295"},
    {ARITHMETIC_SQUARE, "n=-99999999999999999999",
     "n is -99999999999999999999: the square fits into 64 bits for n from -4294967295 to "
     "4294967295"},
    {ARITHMETIC_CUBE, "n=2642246",
     "n is 2642246: the cube fits into 64 bits for n from -2097152 to 2642245"},
    {ARITHMETIC_CUBE, "n=-2097153",
     "n is -2097153: the cube fits into 64 bits for n from -2097152 to 2642245"},
    {ARITHMETIC_CUBE, "n=1&n=1", "n is given twice"},
    {ARITHMETIC_CUBE, "n=1&m=1", "there is no parameter 'm', only n and work"},
    {ARITHMETIC_CUBE, "N=1", "there is no parameter 'N', only n and work"},
    {ARITHMETIC_CUBE, "n=1&", NULL},
    {ARITHMETIC_CUBE, "n=1&work=", "work is '', which is not a time such as 2ms"},
    {ARITHMETIC_CUBE, "n=1&work=-1ms", "work is '-1ms', which is not a time such as 2ms"},
    {ARITHMETIC_CUBE, "n=1&work=101ms", "work is 101ms: it may be at most 100ms"},
    {ARITHMETIC_CUBE, "n=1&work=1", "work is 1: it may be at most 100ms"},
    {ARITHMETIC_CUBE, "work=1ms&n=1&work=1ms", "work is given twice"},
};

static void wrong_questions_are_told(void **state)
{
    char why[ARITHMETIC_WHY_MAX];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(bad); i++) {
        struct arithmetic_question question = {.function = bad[i].function};
        struct span query = {bad[i].query, strlen(bad[i].query)};
        int failed = arithmetic_read(&question, query, why);

        assert_int_equal(failed, bad[i].why == NULL ? 0 : -1);
        if (failed != 0)
            assert_string_equal(why, bad[i].why);
    }
}

static void work_is_read(void **state)
{
    struct arithmetic_question question = {.function = ARITHMETIC_SQUARE};
    char why[ARITHMETIC_WHY_MAX];

    (void)state;
    assert_int_equal(arithmetic_read(&question, SPAN("work=100ms&n=5"), why), 0);
    assert_int_equal(question.work_ns, 100 * NS_PER_MS);
    assert_int_equal(question.n, 5);
    assert_int_equal(arithmetic_read(&question, SPAN("n=5"), why), 0);
    assert_int_equal(question.work_ns, 0);
    assert_int_equal(arithmetic_read(&question, (struct span){NULL, 0}, why), -1);
}

static void functions_have_names(void **state)
{
    (void)state;
    for (int i = 0; i < ARITHMETIC_FUNCTION_COUNT; i++)
        assert_int_equal(arithmetic_find(arithmetic_name((enum arithmetic_function)i)), i);
    assert_int_equal(arithmetic_find("root"), ARITHMETIC_FUNCTION_COUNT);
    assert_int_equal(arithmetic_find(""), ARITHMETIC_FUNCTION_COUNT);
    assert_int_equal(arithmetic_find("square/"), ARITHMETIC_FUNCTION_COUNT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results_are_exact),
        cmocka_unit_test(wrong_questions_are_told),
        cmocka_unit_test(work_is_read),
        cmocka_unit_test(functions_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
