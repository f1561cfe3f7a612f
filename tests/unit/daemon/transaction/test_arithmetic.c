/* Exact arithmetic: results at the limits of their ranges, and the messages for invalid queries. */
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
} valid[] = {
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

static void valid_query_gives_exact_result(void **state)
{
    char why[ARITHMETIC_WHY_MAX], text[32];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(valid); i++) {
        struct arithmetic_query parsed = {.function = valid[i].function};
        struct span query = {valid[i].query, strlen(valid[i].query)};
        struct arithmetic_result result;
        int failed = arithmetic_parse(&parsed, query, why);

        assert_int_equal(failed, valid[i].result == NULL ? -1 : 0);
        if (failed != 0)
            continue;
        result = arithmetic_compute(&parsed);
        snprintf(text, sizeof(text), "%s%" PRIu64, result.negative ? "-" : "", result.magnitude);
        assert_string_equal(text, valid[i].result);
    }
}

static const struct {
    enum arithmetic_function function;
    const char *query, *why;
} invalid[] = {
    {ARITHMETIC_FIBONACCI, "", "n is missing (example: fibonacci?n=10)"},
    {ARITHMETIC_CUBE, "work=1ms", "n is missing (example: cube?n=10)"},
    {ARITHMETIC_FIBONACCI, "n", "invalid n '' (examples: 10, -3)"},
    {ARITHMETIC_FIBONACCI, "n=", "invalid n '' (examples: 10, -3)"},
    {ARITHMETIC_FIBONACCI, "n=-", "invalid n '-' (examples: 10, -3)"},
    {ARITHMETIC_FIBONACCI, "n=+1", "invalid n '+1' (examples: 10, -3)"},
    {ARITHMETIC_FIBONACCI, "n=1.5", "invalid n '1.5' (examples: 10, -3)"},
    {ARITHMETIC_FIBONACCI, "n=ten", "invalid n 'ten' (examples: 10, -3)"},
    {ARITHMETIC_FIBONACCI, "n=%2531", "invalid n '%2531' (examples: 10, -3)"},
    {ARITHMETIC_FIBONACCI, "n=0x10", "invalid n '0x10' (examples: 10, -3)"},
    {ARITHMETIC_FIBONACCI, "n=94", "n: 94 is out of range for fibonacci (0 to 93)"},
    {ARITHMETIC_FIBONACCI, "n=-1", "n: -1 is out of range for fibonacci (0 to 93)"},
    {ARITHMETIC_SQUARE, "n=4294967296",
     "n: 4294967296 is out of range for square (-4294967295 to 4294967295)"},
    {ARITHMETIC_SQUARE, "n=9223372036854775808",
     "n: 9223372036854775808 is out of range for square (-4294967295 to 4294967295)"},
    {ARITHMETIC_SQUARE, "n=-99999999999999999999",
     "n: -99999999999999999999 is out of range for square (-4294967295 to 4294967295)"},
    {ARITHMETIC_CUBE, "n=2642246", "n: 2642246 is out of range for cube (-2097152 to 2642245)"},
    {ARITHMETIC_CUBE, "n=-2097153", "n: -2097153 is out of range for cube (-2097152 to 2642245)"},
    {ARITHMETIC_CUBE, "n=1&n=1", "n is repeated"},
    {ARITHMETIC_CUBE, "n=1&m=1", "unknown parameter 'm' (valid: n, work)"},
    {ARITHMETIC_CUBE, "N=1", "unknown parameter 'N' (valid: n, work)"},
    {ARITHMETIC_CUBE, "n=1&", NULL},
    {ARITHMETIC_CUBE, "n=1&work=", "invalid work '' (example: 2ms)"},
    {ARITHMETIC_CUBE, "n=1&work=-1ms", "invalid work '-1ms' (example: 2ms)"},
    {ARITHMETIC_CUBE, "n=1&work=101ms", "work: 101ms is out of range (0 to 100ms)"},
    {ARITHMETIC_CUBE, "n=1&work=1", "work: 1 is out of range (0 to 100ms)"},
    {ARITHMETIC_CUBE, "work=1ms&n=1&work=1ms", "work is repeated"},
};

static void invalid_query_gives_reason(void **state)
{
    char why[ARITHMETIC_WHY_MAX];

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(invalid); i++) {
        struct arithmetic_query parsed = {.function = invalid[i].function};
        struct span query = {invalid[i].query, strlen(invalid[i].query)};
        int failed = arithmetic_parse(&parsed, query, why);

        assert_int_equal(failed, invalid[i].why == NULL ? 0 : -1);
        if (failed != 0)
            assert_string_equal(why, invalid[i].why);
    }
}

static void work_parameter_is_optional(void **state)
{
    struct arithmetic_query parsed = {.function = ARITHMETIC_SQUARE};
    char why[ARITHMETIC_WHY_MAX];

    (void)state;
    assert_int_equal(arithmetic_parse(&parsed, SPAN("work=100ms&n=5"), why), 0);
    assert_int_equal(parsed.work_ns, 100 * NS_PER_MS);
    assert_int_equal(parsed.n, 5);
    assert_int_equal(arithmetic_parse(&parsed, SPAN("n=5"), why), 0);
    assert_int_equal(parsed.work_ns, 0);
    assert_int_equal(arithmetic_parse(&parsed, (struct span){NULL, 0}, why), -1);
}

static void function_names_round_trip(void **state)
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
        cmocka_unit_test(valid_query_gives_exact_result),
        cmocka_unit_test(invalid_query_gives_reason),
        cmocka_unit_test(work_parameter_is_optional),
        cmocka_unit_test(function_names_round_trip),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
