#include "loadgen/stats/result.h"

#include "common/clock.h"

#include "loadgen/run/repeat.h"

#include <math.h>
#include <stdlib.h>

void result_free(struct result *result)
{
    series_free(result->series);
    repeat_free(result->repeat);
    free((void *)(uintptr_t)result->url);
    result->series = NULL;
    result->repeat = NULL;
    result->url = NULL;
}

struct series_entry result_total(const struct result *result)
{
    const struct tally *tally = &result->tally;
    uint64_t begin_ns = result->repeat == NULL ? result->plan->warmup_ms * NS_PER_MS : 0;

    return (struct series_entry){
        .begin_ns = begin_ns,
        .end_ns = begin_ns + result->elapsed_ns,
        .begun = tally_get(tally, TALLY_begun),
        .answered = tally_get(tally, TALLY_answered),
        .bad = tally_bad(tally),
        .bytes = tally_get(tally, TALLY_head_bytes) + tally_get(tally, TALLY_body_bytes),
        .mean_ns = (uint64_t)histogram_mean(&tally->latency),
        .p50_ns = histogram_percentile(&tally->latency, 50),
        .p90_ns = histogram_percentile(&tally->latency, 90),
        .p99_ns = histogram_percentile(&tally->latency, 99),
        .max_ns = histogram_max(&tally->latency),
        .service_p99_ns = histogram_percentile(&tally->service, 99),
        .rate = result_rate_due(result),
        .connections = result->connections,
        .threads = result->threads,
    };
}

double result_rate(const struct result *result)
{
    if (result->elapsed_ns == 0)
        return 0;
    return (double)tally_get(&result->tally, TALLY_answered) * 1e9 / (double)result->elapsed_ns;
}

bool result_rate_is_average(const struct result *result)
{
    const struct plan *plan = result->plan;

    return result_is_open(result) && (plan->rate <= 0 || plan->ramp_ms > 0 || result->changes > 0);
}

double result_rate_due(const struct result *result)
{
    uint64_t due = tally_get(&result->tally, TALLY_begun) + tally_unsent(&result->tally);

    if (!result_rate_is_average(result))
        return result_is_open(result) ? result->plan->rate : 0;
    return result->due_ns > 0 ? (double)due * 1e9 / (double)result->due_ns : 0;
}

double result_wait_share(const struct result *result)
{
    return result->thread_ns > 0 ? (double)result->waited_ns / (double)result->thread_ns : 0;
}

double result_cpu_each_ns(const struct result *result)
{
    uint64_t begun =
        tally_get(&result->tally, TALLY_begun) + tally_get(&result->warmup, TALLY_begun);

    return begun > 0 ? (double)result->cpu_ns / (double)begun : NAN;
}

double result_cpu_share(const struct result *result)
{
    if (result->thread_ns == 0)
        return 0;
    return (double)result->cpu_ns / (double)result->thread_ns;
}

double result_bad_percent(const struct result *result)
{
    uint64_t begun = tally_get(&result->tally, TALLY_begun);

    return begun > 0 ? 100.0 * (double)tally_bad(&result->tally) / (double)begun : 0;
}

bool result_is_open(const struct result *result)
{
    return plan_is_open(result->plan);
}

/* A condition of --fail-if came true. */
static bool gate_failed(const struct result *result)
{
    for (size_t i = 0; i < result->plan->fail_if_count; i++)
        if (condition_holds(&result->plan->fail_if[i], &result->tally, result->elapsed_ns))
            return true;
    return false;
}

enum result_status result_status(const struct result *result)
{
    if (result->interrupted)
        return RESULT_INTERRUPTED;
    if (tally_get(&result->tally, TALLY_answered) == 0)
        return RESULT_NOTHING;
    if (result->aborted_by == NULL && result_bad_percent(result) > result->plan->max_errors)
        return RESULT_ERRORS;
    return result->aborted_by != NULL || gate_failed(result) ? RESULT_GATE : RESULT_GOOD;
}
