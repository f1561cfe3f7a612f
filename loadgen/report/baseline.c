#include "loadgen/report/baseline.h"

#include "common/clock.h"

#include "loadgen/report/compare.h"
#include "loadgen/report/latencies.h"

#include <math.h>
#include <stdio.h>

static double number_of(const json_t *value)
{
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* A time of REPORT in ns. */
static double time_of(const json_t *report, const struct condition *condition)
{
    static const char *const series[] = {
        [CONDITION_LATENCY] = "latency_us",
        [CONDITION_SERVICE] = "service_us",
        [CONDITION_FIRST_BYTE] = "first_byte_us",
        [CONDITION_CONNECT] = "connect_us",
        [CONDITION_FULL_HANDSHAKE] = "full_handshake_us",
        [CONDITION_RESUMED_HANDSHAKE] = "resumed_handshake_us",
    };
    const json_t *times = json_object_get(report, series[condition->series]);
    char name[REPORT_PERCENTILE_NAME] = "max";

    if (condition->metric == CONDITION_PERCENTILE)
        report_percentile_name(name, condition->percent);
    else if (condition->metric == CONDITION_MEAN)
        snprintf(name, sizeof(name), "mean");
    return number_of(json_object_get(times, name)) * (double)NS_PER_US;
}

static double errors_of(const json_t *report)
{
    const json_t *requests = json_object_get(report, "requests");
    const json_t *bad = json_object_get(requests, "bad_extractions"); /* NULL in older reports */

    return number_of(json_object_get(requests, "failed")) +
           number_of(json_object_get(requests, "unanswered")) +
           number_of(json_object_get(requests, "bad_statuses")) +
           number_of(json_object_get(requests, "bad_contents")) +
           (bad != NULL ? number_of(bad) : 0);
}

static double status_of(const json_t *report, uint32_t status)
{
    char name[16];
    const json_t *count;

    snprintf(name, sizeof(name), "%03u", status);
    count = json_object_get(json_object_get(report, "statuses"), name);
    return count != NULL ? number_of(count) : 0;
}

/* The number that CONDITION is about; NAN: unknown. */
static double value_of(const json_t *report, const struct condition *condition)
{
    switch (condition->metric) {
    case CONDITION_PERCENTILE:
    case CONDITION_MEAN:
    case CONDITION_MAX:
        return time_of(report, condition);
    case CONDITION_RATE:
        return number_of(json_object_get(report, "requests_per_second"));
    case CONDITION_ERRORS:
        return errors_of(report);
    case CONDITION_ERROR_PERCENT:
        return number_of(json_object_get(json_object_get(report, "requests"), "error_percent"));
    case CONDITION_STATUS:
        return status_of(report, condition->status);
    }
    return NAN;
}

static int apply(struct condition *conditions, size_t count, const json_t *report, const char *file,
                 char *why, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        double value = value_of(report, &conditions[i]);

        if (!conditions[i].relative)
            continue;
        if (isnan(value)) {
            snprintf(why, size, "the baseline %s has no number for the condition %s", file,
                     conditions[i].text);
            return -1;
        }
        condition_set_baseline(&conditions[i], value);
    }
    return 0;
}

int baseline_apply(struct plan *plan, char *why, size_t size)
{
    json_t *report;
    int result;

    if (plan->baseline == NULL)
        return 0;
    report = compare_read_one(plan->baseline, why, size);
    if (report == NULL)
        return -1;
    result = apply(plan->fail_if, plan->fail_if_count, report, plan->baseline, why, size);
    if (result == 0)
        result = apply(plan->abort_on, plan->abort_on_count, report, plan->baseline, why, size);
    json_decref(report);
    return result;
}
