#include "loadgen/stats/merge.h"

#include "common/clock.h"

#include <math.h>
#include <string.h>

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

/*
 * Without a constant rate in one of them, the rate of an open loop is an average: the plan has a stage
 * instead, which makes it an open loop.
 */
static void set_average(struct plan *plan)
{
    plan->rate = 0;
    plan->stages[0] = (struct plan_stage){.duration_ms = plan->duration_ms};
    plan->stage_count = 1;
}

void merge_plans(struct plan *plan, const struct result *const *from, size_t count)
{
    bool open = plan_is_open(from[0]->plan), average = false, limited = true;

    plan->method = from[0]->plan->method;
    plan->http = from[0]->plan->http;
    plan->streams = from[0]->plan->streams;
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
    if (open && average)
        set_average(plan);
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
