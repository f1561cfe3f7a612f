#include "loadgen/lab/curves.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

/* The tolerance is 10 %. */
static void verdict_needs_the_whole_interval_on_one_side(void **state)
{
    static const struct {
        struct interval ratio;
        enum findings_kind verdict;
    } cases[] = {
        {{0.90, 0.85, 0.95, 9}, FINDINGS_MET},       {{1.05, 1.00, 1.09, 9}, FINDINGS_MET},
        {{1.05, 1.00, 1.11, 9}, FINDINGS_UNDECIDED}, {{1.25, 0.95, 1.55, 9}, FINDINGS_UNDECIDED},
        {{1.25, 1.11, 1.55, 9}, FINDINGS_NOT_MET},   {{1.25, NAN, NAN, 2}, FINDINGS_UNDECIDED},
        {{NAN, NAN, NAN, 0}, FINDINGS_UNDECIDED},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_int_equal(growth_verdict(&cases[i].ratio), cases[i].verdict);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(verdict_needs_the_whole_interval_on_one_side),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
