#include "loadgen/lab/points.h"

#include "loadgen/base/format.h"

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

static void ratio_has_three_forms(void **state)
{
    const struct interval slower = {.median = 0.924, .low = 0.752, .high = 1.136};
    const struct interval many = {.median = 104.8, .low = -1, .high = 110.7};
    const struct interval unknown = {.median = 2, .low = NAN, .high = NAN};
    char text[LAB_RATIO];

    (void)state;
    assert_string_equal(lab_times(text, &slower),
                        "0.924 times (0.752 to 1.14 with 95% confidence)");
    assert_string_equal(lab_share(text, &slower), "92% (75% to 114% with 95% confidence)");
    assert_string_equal(lab_change(text, &slower), "-7.6% (-24.8% to +13.6% with 95% confidence)");
    assert_string_equal(lab_times(text, &many), "105 times (0 to 111 with 95% confidence)");
    assert_string_equal(lab_times(text, &unknown),
                        "2 times (too few rounds for a confidence interval)");
}

static void unknown_median_is_named(void **state)
{
    const struct interval unknown = {.median = NAN, .low = NAN, .high = NAN};
    char ratio[LAB_RATIO], between[LAB_BETWEEN];

    (void)state;
    assert_string_equal(lab_times(ratio, &unknown), "unknown");
    assert_string_equal(lab_share(ratio, &unknown), "unknown");
    assert_string_equal(lab_between(between, &unknown, format_number), "unknown");
    assert_string_equal(lab_range(between, &unknown, format_number), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(median_ignores_rounds_without_a_sample),
        cmocka_unit_test(median_without_any_sample_is_nan),
        cmocka_unit_test(ratio_has_three_forms),
        cmocka_unit_test(unknown_median_is_named),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
