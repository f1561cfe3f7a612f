#include "loadgen/lab/points.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

static void median_ignores_rounds_without_a_sample(void **state)
{
    static struct point point;

    (void)state;
    point.rounds = 3;
    point.value[POINT_LEAST][0] = NAN;
    point.value[POINT_LEAST][1] = 25;
    point.value[POINT_LEAST][2] = NAN;
    assert_true(point_own_median(&point, POINT_LEAST) == 25);
}

static void median_without_any_sample_is_nan(void **state)
{
    static struct point point;

    (void)state;
    point.rounds = 1;
    point.value[POINT_LEAST][0] = NAN;
    assert_true(isnan(point_own_median(&point, POINT_LEAST)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_ignores_rounds_without_a_sample),
        cmocka_unit_test(median_without_any_sample_is_nan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
