/* Guided scenarios: what the explanations claim of the measures. */
#include "console/lab/scenario.h"

#include "tests/test.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

TEST(claim_is_compared_with_value_or_with_before)
{
    static const struct {
        struct lab_claim claim;
        double before, now;
        const char *why; /* NULL: it holds */
    } cases[] = {
        {{LAB_MEASURE_queued, LAB_ABOVE, 5}, NAN, 6, NULL},
        {{LAB_MEASURE_queued, LAB_ABOVE, 5}, NAN, 5, "queued jobs 5, expected over 5"},
        {{LAB_MEASURE_hits, LAB_BELOW, 0.1}, NAN, 0.05, NULL},
        {{LAB_MEASURE_hits, LAB_BELOW, 0.1}, NAN, 0.5, "hit ratio 50.0%, expected under 10.0%"},
        {{LAB_MEASURE_wait, LAB_LESS, 0}, 2e6, 1e6, NULL},
        {{LAB_MEASURE_wait, LAB_LESS, 0}, 1e6, 2e6, "mean wait 2.00 ms, expected under 1.00 ms"},
        {{LAB_MEASURE_hits, LAB_MORE, 0}, 0.2, 0.4, NULL},
        {{LAB_MEASURE_hits, LAB_MORE, 0}, 0.4, 0.2, "hit ratio 20.0%, expected over 40.0%"},
        {{LAB_MEASURE_hits, LAB_MORE, 0}, NAN, 0.2, NULL},
        {{LAB_MEASURE_recovery, LAB_BELOW, 5e9}, NAN, NAN, NULL},
    };
    double before[LAB_MEASURE_COUNT], now[LAB_MEASURE_COUNT];
    char why[128];

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        before[cases[i].claim.measure] = cases[i].before;
        now[cases[i].claim.measure] = cases[i].now;
        why[0] = '\0';
        assert_int_equal(lab_claim_holds(&cases[i].claim, before, now, why, sizeof(why)),
                         cases[i].why == NULL);
        assert_string_equal(why, cases[i].why != NULL ? cases[i].why : "");
    }
}

static bool shows(const struct lab_step *step, enum lab_measure measure)
{
    size_t i = 0;

    while (i < LAB_SHOWN && step->shown[i] != measure)
        i++;
    return i < LAB_SHOWN;
}

/* The reader can compare it. Only a step that invites to try numbers claims nothing. */
TEST(claims_are_about_measures_shown)
{
    int without = 0;

    for (int i = 0; i < LAB_SCENARIO_COUNT; i++)
        for (int j = 0; j < lab_scenario_steps(lab_scenario_table[i]); j++) {
            const struct lab_step *step = &lab_scenario_table[i]->steps[j];

            without += step->claims[0].measure == LAB_MEASURE_NONE;
            for (size_t k = 0; k < LAB_CLAIMS && step->claims[k].measure != LAB_MEASURE_NONE; k++)
                if (!shows(step, step->claims[k].measure))
                    fail_msg("%s, step %d claims %s", lab_scenario_table[i]->name, j + 1,
                             lab_measure_label(step->claims[k].measure));
        }
    assert_int_equal(without, 1);
}
