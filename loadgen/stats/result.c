#include "loadgen/stats/result.h"

#include "common/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const hostile_kind_names[PLAN_HOSTILE_KINDS] = {
#define HOSTILE_KIND(id, name) [PLAN_HOSTILE_##id] = (name),
#include "loadgen/plan/hostile_kinds.def"
#undef HOSTILE_KIND
};

void rounds_free(struct rounds *rounds)
{
    if (rounds == NULL)
        return;
    trials_free(rounds->trials);
    free(rounds->total);
    free(rounds);
}

struct rounds *rounds_create(uint32_t count)
{
    struct rounds *rounds = calloc(1, sizeof(*rounds));

    if (rounds == NULL)
        return NULL;
    rounds->requested = count;
    rounds->trials = trials_create(1, count);
    rounds->total = calloc(count, sizeof(*rounds->total));
    if (rounds->trials != NULL && rounds->total != NULL)
        return rounds;
    rounds_free(rounds);
    return NULL;
}

void result_free(struct result *result)
{
    series_free(result->series);
    rounds_free(result->rounds);
    scenario_tally_free(result->scenarios);
    free(result->alone);
    free((void *)(uintptr_t)result->url);
    result->series = NULL;
    result->rounds = NULL;
    result->scenarios = NULL;
    result->url = NULL;
}

struct series_entry result_total(const struct result *result)
{
    const struct tally *tally = &result->tally;
    uint64_t begin_ns = result->rounds == NULL ? result->plan->warmup_ms * NS_PER_MS : 0;

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

uint64_t result_rate_ns(const struct result *result)
{
    uint64_t least_ns = histogram_percentile(&result->tally.latency, 1);
    uint64_t ns = result->elapsed_ns > least_ns ? result->elapsed_ns - least_ns : 0;

    if (!result_is_open(result))
        return result->elapsed_ns;
    return ns > result->due_ns ? ns : result->due_ns;
}

double result_rate(const struct result *result)
{
    uint64_t ns = result_rate_ns(result);

    return ns > 0 ? (double)tally_get(&result->tally, TALLY_answered) * 1e9 / (double)ns : 0;
}

bool result_rate_is_average(const struct result *result)
{
    const struct plan *plan = result->plan;

    return result_is_open(result) &&
           (plan->rate <= 0 || plan->ramp_ms > 0 || plan->poisson || result->changes > 0);
}

/* Requests, or starts of scenarios, that have begun. */
static uint64_t count_starts(const struct result *result)
{
    const struct scenario_tally *scenarios = result->scenarios;
    uint64_t sum = 0;

    if (scenarios == NULL)
        return tally_get(&result->tally, TALLY_begun);
    if (result->plan->page_loads) /* a visit begins with the first page */
        return scenarios->row[0].begun;
    for (size_t i = 0; i < scenarios->count; i++)
        sum += scenarios->row[i].weight > 0 ? scenarios->row[i].begun : 0;
    return sum;
}

double result_rate_due(const struct result *result)
{
    uint64_t due = count_starts(result) + tally_unsent(&result->tally);

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

/* ---- Measures ---- */

static double microseconds(double ns)
{
    return ns / (double)NS_PER_US;
}

static double percentile(const struct histogram *times, double percent)
{
    if (!measure_percentile_is_known(percent, histogram_count(times)))
        return NAN;
    return microseconds((double)histogram_percentile(times, percent));
}

static void measure_times(double *value, const struct histogram *times)
{
    bool any = histogram_count(times) > 0;

    value[MEASURE_MEAN] = any ? microseconds(histogram_mean(times)) : NAN;
    value[MEASURE_P50] = percentile(times, 50);
    value[MEASURE_P90] = percentile(times, 90);
    value[MEASURE_P99] = percentile(times, 99);
    value[MEASURE_P99_9] = percentile(times, 99.9);
    value[MEASURE_MAX] = any ? microseconds((double)histogram_max(times)) : NAN;
}

void result_measure(const struct result *result, struct measures *measures)
{
    double *value = measures->value;

    measure_times(value, &result->tally.latency);
    value[MEASURE_RATE] = result_rate(result);
    value[MEASURE_ERRORS] = result_bad_percent(result);
    value[MEASURE_CLIENT_SHARE] = 100 * result_cpu_share(result);
    value[MEASURE_CLIENT_CPU] = microseconds(result_cpu_each_ns(result));
    value[MEASURE_SERVER_CORES] = result->server.cores;
    value[MEASURE_MACHINE_BUSY] = 100 * result->machine_busy;
}

/* ---- One result from several rounds ---- */

static bool begin_sum(struct result *into, const struct result *from)
{
    into->plan = from->plan;
    into->url = strdup(from->url);
    into->series = series_create();
    into->began_unix_ns = from->began_unix_ns;
    into->requests = from->requests;
    into->skipped = from->skipped;
    into->engine = from->engine;
    into->server = (struct server_check_result){.outcome = from->server.outcome, .cores = NAN};
    into->machine_busy = NAN;
    return into->url != NULL && into->series != NULL;
}

/* Connections are counted per round: keeps the worst round instead of the sum. */
static void keep_worst_connections(struct tally *into, const struct tally *from, bool first)
{
    uint64_t used = tally_get(into, TALLY_clients_used) - tally_get(from, TALLY_clients_used);
    uint64_t up = tally_get(into, TALLY_clients_up) - tally_get(from, TALLY_clients_up);
    uint64_t its_used = tally_get(from, TALLY_clients_used);
    uint64_t its_up = tally_get(from, TALLY_clients_up);
    bool keep = first || its_used - its_up > used - up ||
                (its_used - its_up == used - up && its_used > used);

    atomic_store_explicit(&into->counter[TALLY_clients_used], keep ? its_used : used,
                          memory_order_relaxed);
    atomic_store_explicit(&into->counter[TALLY_clients_up], keep ? its_up : up,
                          memory_order_relaxed);
}

/*
 * A difference in one round makes the sum differ; if the server is unknown in one round, the sum is
 * unknown.
 */
static void add_server(struct server_check_result *into, const struct server_check_result *from)
{
    into->counted += from->counted;
    into->sent += from->sent;
    snprintf(into->name, sizeof(into->name), "%s", from->name);
    if (from->outcome == SERVER_CHECK_NONE || into->outcome == SERVER_CHECK_NONE)
        into->outcome = SERVER_CHECK_NONE;
    else if (from->outcome == SERVER_CHECK_DIFFERS)
        into->outcome = SERVER_CHECK_DIFFERS;
}

static void add_state(struct result *into, const struct result *from)
{
    into->connections = from->connections;
    into->threads = from->threads;
    into->changes += from->changes;
    into->out_of_memory = into->out_of_memory || from->out_of_memory;
    into->interrupted = into->interrupted || from->interrupted;
    into->unreachable = into->unreachable || from->unreachable;
    if (into->aborted_by == NULL)
        into->aborted_by = from->aborted_by;
    error_texts_add(&into->error_texts, &from->error_texts);
    negotiations_add(&into->negotiations, &from->negotiations);
}

bool result_add_round(struct result *into, const struct result *from)
{
    bool first = into->url == NULL;

    if (first && !begin_sum(into, from))
        return false;
    tally_add(&into->tally, &from->tally);
    tally_add(&into->warmup, &from->warmup);
    keep_worst_connections(&into->tally, &from->tally, first);
    into->elapsed_ns += from->elapsed_ns;
    into->due_ns += from->due_ns;
    into->cpu_ns += from->cpu_ns;
    into->waited_ns += from->waited_ns;
    into->thread_ns += from->thread_ns;
    add_server(&into->server, &from->server);
    add_state(into, from);
    if (from->scenarios != NULL && !scenario_tally_add(&into->scenarios, from->scenarios))
        return false;
    return from->series == NULL || series_append(into->series, from->series);
}

/* ---- The exit status ---- */

/* Whether a condition of --fail-if is true. */
static bool gate_failed(const struct result *result)
{
    for (size_t i = 0; i < result->plan->fail_if_count; i++)
        if (tally_meets_condition(&result->tally, &result->plan->fail_if[i],
                                  result_rate_ns(result)))
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

/* ---- Results of several reports ---- */

/* ---- Plans ---- */

static void add_plan(struct plan *plan, const struct plan *from)
{
    plan->connections_requested += from->connections_requested;
    plan->threads += from->threads;
    plan->requests += from->requests;
    plan->rate += from->rate;
    if (from->duration_ms > plan->duration_ms)
        plan->duration_ms = from->duration_ms;
    if (from->max_errors > plan->max_errors)
        plan->max_errors = from->max_errors;
}

void merge_plans(struct plan *plan, const struct result *const *from, size_t count)
{
    bool open = plan_is_open(from[0]->plan), average = false, limited = true;

    plan->method = from[0]->plan->method;
    plan->http = from[0]->plan->http;
    plan->streams = from[0]->plan->streams;
    plan->page_loads = from[0]->plan->page_loads;
    plan->keepalive = from[0]->plan->keepalive;
    plan->engine = from[0]->plan->engine;
    plan->warmup_ms = 0;
    plan->connections_requested = plan->threads = 0;
    plan->requests = plan->duration_ms = 0;
    for (size_t i = 0; i < count; i++) {
        add_plan(plan, from[i]->plan);
        average = average || result_rate_is_average(from[i]);
        limited = limited && from[i]->plan->requests > 0;
    }
    if (!limited)
        plan->requests = 0;
    plan->connections = plan->connections_requested;
    /* Not each has a constant rate: the plan gets a stage, which makes it an open loop, too. */
    if (open && average) {
        plan->rate = 0;
        plan->stages[0] = (struct plan_stage){.duration_ms = plan->duration_ms};
        plan->stage_count = 1;
    }
}

/* ---- Results ---- */

static uint64_t begin_ns(const struct result *result)
{
    return result->began_unix_ns + result->plan->warmup_ms * NS_PER_MS;
}

static uint64_t max_of(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t min_of(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The time in which RESULT, or all runs that it was merged from, measured. */
static uint64_t active_from_ns(const struct result *result)
{
    return begin_ns(result) + (result->merged > 0 ? result->overlap_from_ns : 0);
}

static uint64_t active_to_ns(const struct result *result)
{
    return active_from_ns(result) + (result->merged > 0 ? result->overlap_ns : result->elapsed_ns);
}

static void merge_times(struct result *into, const struct result *const *from, size_t count)
{
    uint64_t begin = begin_ns(from[0]), end = 0, due_end = 0;
    uint64_t active_from = 0, active_to = UINT64_MAX;

    for (size_t i = 0; i < count; i++) {
        begin = min_of(begin, begin_ns(from[i]));
        end = max_of(end, begin_ns(from[i]) + from[i]->elapsed_ns);
        due_end = max_of(due_end, begin_ns(from[i]) + from[i]->due_ns);
        active_from = max_of(active_from, active_from_ns(from[i]));
        active_to = min_of(active_to, active_to_ns(from[i]));
    }
    into->began_unix_ns = begin;
    into->elapsed_ns = end - begin;
    into->due_ns = due_end - begin;
    into->overlap_from_ns = active_from - begin;
    into->overlap_ns = active_to > active_from ? active_to - active_from : 0;
}

static void add_result(struct result *into, const struct result *from)
{
    tally_add(&into->tally, &from->tally);
    tally_add(&into->warmup, &from->warmup);
    into->cpu_ns += from->cpu_ns;
    into->waited_ns += from->waited_ns;
    into->thread_ns += from->thread_ns;
    into->connections += from->connections;
    into->threads += from->threads;
    into->requests = max_of(into->requests, from->requests);
    into->interrupted = into->interrupted || from->interrupted;
    into->merged += from->merged > 0 ? from->merged : 1;
    error_texts_add(&into->error_texts, &from->error_texts);
    negotiations_add(&into->negotiations, &from->negotiations);
}

bool merge_results(struct result *into, const struct result *const *from, size_t count)
{
    bool good;

    into->engine = from[0]->engine;
    into->url = strdup(from[0]->url);
    into->series = series_create();
    into->server = (struct server_check_result){.outcome = SERVER_CHECK_NONE, .cores = NAN};
    into->machine_busy = NAN;
    good = into->url != NULL && into->series != NULL;
    merge_times(into, from, count);
    for (size_t i = 0; i < count && good; i++) {
        add_result(into, from[i]);
        good = series_merge(into->series, from[i]->series,
                            (int64_t)(from[i]->began_unix_ns - into->began_unix_ns));
        if (good && from[i]->scenarios != NULL)
            good = scenario_tally_add(&into->scenarios, from[i]->scenarios);
    }
    return good;
}
