#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/clock.h"
#include "console/data/alerts.h"

#include <string.h>

static void rules_are_read_with_units(void **state)
{
    static const struct {
        const char *text, *normal;
        double limit;
        uint64_t for_ns;
        bool below, percent;
    } cases[] = {
        {"p99 > 20ms for 5s", "p99 > 20ms for 5s", 20e6, 5 * NS_PER_S, false, false},
        {"  p99>500us ", "p99 > 500us", 500e3, 0, false, false},
        {"max > 1.5s", "max > 1.5s", 1.5e9, 0, false, false},
        {"5xx > 1%", "5xx > 1%", 1, 0, false, true},
        {"queue > 100", "queue > 100", 100, 0, false, false},
        {"requests<5k for 2m", "requests < 5k for 2m", 5000, 120 * NS_PER_S, true, false},
        {"cache_hit_ratio < 80%", "cache_hit_ratio < 80%", 80, 0, true, true},
        {"cache_bytes > 64M", "cache_bytes > 64M", 64 << 20, 0, false, false},
        {"worker died", "worker died", 0, 0, false, false},
        {"certificate ends", "certificate ends", 0, 0, false, false},
        {"log dropping for 1s", "log dropping for 1s", 0, NS_PER_S, false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct alert_rule rule;
        char why[256] = "";

        if (alert_rule_parse(&rule, cases[i].text, why, sizeof(why)) != 0)
            fail_msg("'%s': %s", cases[i].text, why);
        assert_string_equal(rule.text, cases[i].normal);
        assert_true(rule.limit >= cases[i].limit && rule.limit <= cases[i].limit);
        assert_int_equal(rule.for_ns, cases[i].for_ns);
        assert_int_equal(rule.below, cases[i].below);
        assert_int_equal(rule.percent, cases[i].percent);
    }
}

static void invalid_rules_are_explained(void **state)
{
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "unknown metric ''"},
        {"> 5", "unknown metric ''"},
        {"p98 > 1ms", "unknown metric 'p98'; did you mean 'p9"},
        {"p99 > 20", "invalid value '20' (examples: 500us, 20ms, 1s)"},
        {"p99 >", "invalid value ''"},
        {"p99 > 1%", "is not a percentage: give a number without %"},
        {"queue > 1%", "is not a percentage: give a number without %"},
        {"queue > -1", "invalid value '-1'"},
        {"queue > nan", "invalid value 'nan'"},
        {"5xx > x%", "invalid percentage 'x%'"},
        {"5xx > 1% for x", "invalid duration 'x'"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct alert_rule rule;
        char why[256] = "";

        assert_int_equal(alert_rule_parse(&rule, cases[i].text, why, sizeof(why)), -1);
        if (strstr(why, cases[i].why) == NULL)
            fail_msg("'%s': %s", cases[i].text, why);
    }
}

static struct model *model;
static struct snapshot snapshot;

/* Makes the queue DEPTH deep at SECOND and evaluates the only alert. */
static enum alert_change at(struct alerts *alerts, uint64_t second, uint64_t depth)
{
    snapshot.time_ns = second * NS_PER_S;
    snapshot.sums[METRIC_offload_queue_depth] = depth;
    assert_int_equal(model_take(model, &snapshot, false), 0);
    return alerts_update(alerts, 0, model, snapshot.time_ns, 1000 * NS_PER_S + snapshot.time_ns);
}

static void alert_begins_after_its_time_and_ends_at_once(void **state)
{
    static struct alerts alerts;
    char why[256];

    (void)state;
    model = model_create();
    assert_int_equal(alerts_add(&alerts, "queue > 100 for 3s", why, sizeof(why)), 0);
    assert_null(alerts_worst(&alerts));
    assert_int_equal(at(&alerts, 10, 100), ALERT_SAME); /* not above */
    assert_int_equal(at(&alerts, 11, 101), ALERT_SAME);
    assert_int_equal(at(&alerts, 13, 101), ALERT_SAME);
    assert_int_equal(at(&alerts, 14, 150), ALERT_BEGAN);
    assert_int_equal(at(&alerts, 15, 180), ALERT_SAME);
    assert_ptr_equal(alerts_worst(&alerts), &alerts.alert[0]);
    assert_int_equal(at(&alerts, 16, 90), ALERT_ENDED);
    assert_ptr_equal(alerts_worst(&alerts), &alerts.alert[0]); /* not acknowledged yet */
    assert_int_equal(alerts_acknowledge(&alerts), 1);
    assert_int_equal(alerts_acknowledge(&alerts), 0);
    assert_null(alerts_worst(&alerts));
    assert_int_equal(at(&alerts, 17, 101), ALERT_SAME); /* its time starts again */
    assert_int_equal(alerts.recorded, 2);
    assert_string_equal(alerts.record[0].value, "150");
    assert_string_equal(alerts.record[1].value, "180"); /* the worst one */
    model_destroy(model);
}

static void list_is_written_as_it_is_read(void **state)
{
    static struct alerts alerts;
    char list[ALERT_LIST_BYTES], why[256];

    (void)state;
    assert_int_equal(alerts_add_list(&alerts, "p99>1ms;queue > 5 ; p99 > 1ms;", why, sizeof(why)),
                     0);
    alerts_write(&alerts, list, sizeof(list));
    assert_string_equal(list, "p99 > 1ms; queue > 5");
    assert_false(alerts_remove(&alerts, "p99 > 2ms"));
    assert_true(alerts_remove(&alerts, "p99>1ms"));
    alerts_write(&alerts, list, sizeof(list));
    assert_string_equal(list, "queue > 5");
    assert_int_equal(alerts_add_list(&alerts, "5xx > 1%; nonsense", why, sizeof(why)), -1);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_read_with_units),
        cmocka_unit_test(invalid_rules_are_explained),
        cmocka_unit_test(alert_begins_after_its_time_and_ends_at_once),
        cmocka_unit_test(list_is_written_as_it_is_read),
    };

    return cmocka_run_group_tests_name("alerts", tests, NULL, NULL);
}
