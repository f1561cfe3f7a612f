#include "loadgen/lab/contention.h"
#include "loadgen/lab/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

static void verdict_needs_the_whole_interval_above_the_limit(void **state)
{
    static const struct {
        struct interval value;
        enum findings_kind verdict;
    } cases[] = {
        {{1.5, 1.2, 1.8, 9}, FINDINGS_MET},     {{1.5, 0.9, 2.0, 9}, FINDINGS_UNDECIDED},
        {{0.8, 0.7, 0.9, 9}, FINDINGS_NOT_MET}, {{1.5, NAN, NAN, 1}, FINDINGS_UNDECIDED},
        {{1.0, 1.0, 1.0, 9}, FINDINGS_NOT_MET},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(verdict_above(&cases[i].value, 1), cases[i].verdict);
}

/* Half the distance to the limit takes four times the values. */
static void length_grows_with_the_square_of_the_precision(void **state)
{
    const struct interval far = {1.20, 1.00, 1.40, 10}, near = {1.15, 0.95, 1.35, 10};
    const struct interval below = {0.90, 0.70, 1.30, 10}, at = {1.10, 1.00, 1.20, 10};
    const struct interval few = {1.10, NAN, NAN, 2};

    (void)state;
    assert_int_equal((int)verdict_values_needed(&far, 1.10), 40);
    assert_int_equal((int)verdict_values_needed(&near, 1.10), 160);
    assert_int_equal((int)verdict_values_needed(&below, 1.10), 40);
    assert_true(isinf(verdict_values_needed(&at, 1.10)));
    assert_true(isnan(verdict_values_needed(&few, 1.05)));
}

static void check_advice(const struct interval *value, uint32_t values_a_round, const char *words)
{
    char advice[VERDICT_ADVICE];

    verdict_advice(advice, value, 1.10, values_a_round, 400);
    if (strstr(advice, words) == NULL)
        fail_msg("no '%s' in '%s'", words, advice);
}

static void advice_names_the_length(void **state)
{
    const struct interval far = {1.20, 1.00, 1.40, 10}, near = {1.11, 0.95, 1.35, 10};
    const struct interval at = {1.10, 1.00, 1.20, 10}, few = {1.10, NAN, NAN, 2};
    const struct interval clear = {1.30, 1.20, 1.40, 10};

    (void)state;
    check_advice(&clear, 1, "Only the busy machine prevents a verdict.");
    check_advice(&far, 1, "About 40 rounds (--rounds 40, or --until-decided) would decide.");
    check_advice(&far, 3, "About 14 rounds (--rounds 14,");
    check_advice(&near, 1, "about 101 rounds with trials of ");
    check_advice(&at, 1, "The median is at the limit");
    check_advice(&few, 1, "At least 3 rounds");
    check_advice(&few, 3, "At least 1 rounds");
}

static void contention_of_others_and_of_the_hypervisor_counts(void **state)
{
    static const struct {
        struct contention sum;
        bool high;
    } cases[] = {
        {{0}, false},
        {{10, 0.9, 0.4, 3, 10}, false},
        {{10, 1.1, 0.0, 0, 10}, true},
        {{10, 0.0, 0.6, 0, 10}, true},
        {{10, -0.5, 0.0, 0, 10}, false},
        {{10, 0.0, 0.0, 12, 10}, true},
    };
    char text[CONTENTION_TEXT];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(contention_is_high(&cases[i].sum), cases[i].high);
    assert_non_null(strstr(contention_describe(text, &cases[2].sum), "other programs used 11% of"));
}

/* The CPU time of this process is its own, not that of others. */
static void own_work_is_no_contention(void **state)
{
    struct contention sum = {0}, joined = {0};
    struct contention_begin begin = contention_begin(0);

    (void)state;
    contention_add(&sum, &begin, 0);
    contention_join(&joined, &sum);
    contention_join(&joined, &sum);
    assert_int_equal(joined.trials, 2 * sum.trials);
    begin.all = 0; /* unknown */
    contention_add(&joined, &begin, 0);
    assert_int_equal(joined.trials, 2 * sum.trials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdict_needs_the_whole_interval_above_the_limit),
        cmocka_unit_test(length_grows_with_the_square_of_the_precision),
        cmocka_unit_test(advice_names_the_length),
        cmocka_unit_test(contention_of_others_and_of_the_hypervisor_counts),
        cmocka_unit_test(own_work_is_no_contention),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
