#include "loadgen/report/merge_reports.h"

#include "loadgen/stats/merge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The first setting in which the runs differ, for people; NULL: none. */
static const char *difference(const struct stored_result *one, const struct stored_result *other)
{
    const struct plan *a = &one->plan, *b = &other->plan;

    if (!scenario_tally_is_like(one->result.scenarios, other->result.scenarios))
        return "the scenarios";
    if (plan_is_open(a) != plan_is_open(b))
        return "the loop (open or closed)";
    if (a->engine != b->engine)
        return "the engine";
    if (a->http != b->http)
        return "the HTTP version";
    if (a->streams != b->streams)
        return "the number of streams";
    return a->keepalive != b->keepalive ? "keep-alive" : NULL;
}

/* Reads each file. Returns false with WHY. */
static bool read_all(const struct plan *plan, struct stored_result **stored, char *why, size_t size)
{
    for (size_t i = 0; i < plan->url_count; i++) {
        const char *differing;

        stored[i] = stored_result_read(plan->urls[i], why, size);
        if (stored[i] == NULL)
            return false;
        differing = difference(stored[0], stored[i]);
        if (differing != NULL) {
            snprintf(why, size, "%.200s and %.200s differ in %s: merge runs of the same load",
                     plan->urls[0], plan->urls[i], differing);
            return false;
        }
    }
    return true;
}

static struct stored_result *merge(const struct plan *plan, struct stored_result *const *stored)
{
    const struct result *from[PLAN_URLS_MAX];
    struct stored_result *into = calloc(1, sizeof(*into));

    if (into == NULL)
        return NULL;
    for (size_t i = 0; i < plan->url_count; i++)
        from[i] = &stored[i]->result;
    into->plan = *plan;
    into->result.plan = &into->plan;
    merge_plans(&into->plan, from, plan->url_count);
    into->plan.method = into->method = strdup(into->plan.method);
    if (into->method != NULL && merge_results(&into->result, from, plan->url_count))
        return into;
    stored_result_free(into);
    return NULL;
}

struct stored_result *merge_reports(const struct plan *plan, char *why, size_t size)
{
    struct stored_result *stored[PLAN_URLS_MAX] = {NULL}, *into = NULL;

    if (read_all(plan, stored, why, size)) {
        into = merge(plan, stored);
        if (into == NULL)
            snprintf(why, size, "out of memory");
    }
    for (size_t i = 0; i < plan->url_count; i++)
        stored_result_free(stored[i]);
    return into;
}
