#include "console/lab/scenario.h"

#include "common/clock.h"
#include "console/ui/graph.h"
#include "console/ui/text.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct lab_scenario starvation = {
#include "console/lab/starvation.def"
};

static const struct lab_scenario stalled = {
#include "console/lab/stalled.def"
};

static const struct lab_scenario thrash = {
#include "console/lab/thrash.def"
};

static const struct lab_scenario backpressure = {
#include "console/lab/backpressure.def"
};

static const struct lab_scenario overload = {
#include "console/lab/overload.def"
};

static const struct lab_scenario crash = {
#include "console/lab/crash.def"
};

static const struct lab_scenario pool = {
#include "console/lab/pool.def"
};

static const struct lab_scenario sff = {
#include "console/lab/sff.def"
};

static const struct lab_scenario full = {
#include "console/lab/full.def"
};

static const struct lab_scenario race = {
#include "console/lab/race.def"
};

static const struct lab_scenario convoy = {
#include "console/lab/convoy.def"
};

static const struct lab_scenario deadlock = {
#include "console/lab/deadlock.def"
};

static const struct lab_scenario sharing = {
#include "console/lab/sharing.def"
};

const struct lab_scenario *const lab_scenario_table[LAB_SCENARIO_COUNT] = {
#define SCENARIO(name) &(name),
#include "console/lab/scenarios.def"
#undef SCENARIO
};

const struct lab_scenario *lab_scenario_named(const char *name)
{
    for (size_t i = 0; i < LAB_SCENARIO_COUNT; i++)
        if (strcmp(lab_scenario_table[i]->name, name) == 0)
            return lab_scenario_table[i];
    return NULL;
}

int lab_scenario_steps(const struct lab_scenario *scenario)
{
    int count = 0;

    while (count < LAB_STEPS && scenario->steps[count].todo != NULL)
        count++;
    return count;
}

/* Measures */

enum kind { NONE, RATE, FIGURE, GAUGE, GROWTH, FAILED, RECOVERY };

static const struct {
    const char *label;
    enum kind kind;
    enum graph_unit unit;
    int of; /* metric or figure */
} measures[LAB_MEASURE_COUNT] = {
    {"", NONE, GRAPH_COUNT, 0},
#define MEASURE(name, label, kind, unit, of) {label, kind, unit, of},
#include "console/lab/measures.def"
#undef MEASURE
};

static const struct lab_sample *newest_sample(const struct lab_window *window)
{
    return &window->sample[(window->taken - 1) % LAB_SAMPLES];
}

static const struct lab_sample *oldest_sample(const struct lab_window *window)
{
    return &window->sample[window->taken > LAB_SAMPLES ? window->taken % LAB_SAMPLES : 0];
}

void lab_window_take(struct lab_window *window, const struct model *model, uint64_t failed)
{
    const struct snapshot *now = model_now(model);
    struct lab_sample *sample = &window->sample[window->taken % LAB_SAMPLES];

    /* Until the master has seen the death, the worker still counts as serving. */
    if (window->killed_ns > 0 && window->recovered_ns == 0 &&
        now->sums[METRIC_workers_died] > window->base.sums[METRIC_workers_died] &&
        snapshot_workers_actual(now) >= now->workers_wanted)
        window->recovered_ns = now->time_ns;
    if (window->taken > 0 &&
        now->time_ns < newest_sample(window)->time_ns + window->span_ns / (LAB_SAMPLES - 1))
        return;
    sample->time_ns = now->time_ns;
    for (int i = 0; i < METRIC_COUNT; i++)
        sample->sums[i] = now->sums[i];
    sample->failed_requests = failed;
    if (window->taken++ == 0 && window->base.time_ns == 0)
        window->base = *sample;
}

void lab_window_killed(struct lab_window *window, const struct model *model)
{
    window->killed_ns = model_now(model)->time_ns;
    window->recovered_ns = 0;
}

void lab_window_rebase(struct lab_window *window)
{
    if (window->taken > 0)
        window->base = *newest_sample(window);
}

bool lab_window_full(const struct lab_window *window)
{
    return window->taken > 1 &&
           newest_sample(window)->time_ns - oldest_sample(window)->time_ns >= window->span_ns;
}

static double metric_growth(const struct lab_window *window, const struct lab_sample *since,
                            int metric)
{
    const struct lab_sample *now = newest_sample(window);

    return now->sums[metric] >= since->sums[metric]
               ? (double)(now->sums[metric] - since->sums[metric])
               : NAN; /* the server was restarted */
}

/* Increase of METRIC per second in the window. */
static double measure_rate(const struct lab_window *window, int metric)
{
    const struct lab_sample *first = oldest_sample(window), *last = newest_sample(window);

    return figure_quotient(metric_growth(window, first, metric),
                           (double)(last->time_ns - first->time_ns) / (double)NS_PER_S);
}

static double window_source(const void *window, enum metric metric)
{
    const struct lab_window *own = window;

    return metric_table[metric].kind == KIND_GAUGE ? (double)newest_sample(own)->sums[metric]
                                                   : measure_rate(own, (int)metric);
}

static double measure_value(const struct lab_window *window, enum lab_measure measure)
{
    const struct lab_sample *last = newest_sample(window);
    int of = measures[measure].of;

    switch (measures[measure].kind) {
    case RATE:
        return measure_rate(window, of);
    case FIGURE:
        return figure_value((enum figure)of, window_source, window);
    case GAUGE:
        return (double)last->sums[of];
    case GROWTH:
        return metric_growth(window, &window->base, of);
    case FAILED:
        return (double)(last->failed_requests - window->base.failed_requests);
    case RECOVERY:
        return window->recovered_ns > 0 ? (double)(window->recovered_ns - window->killed_ns) : NAN;
    case NONE:
        break;
    }
    return NAN;
}

void lab_window_values(const struct lab_window *window, double values[LAB_MEASURE_COUNT])
{
    for (int i = 0; i < LAB_MEASURE_COUNT; i++)
        values[i] = window->taken > 0 ? measure_value(window, (enum lab_measure)i) : NAN;
}

const char *lab_measure_label(enum lab_measure measure)
{
    return measures[measure].label;
}

char *lab_measure_text(enum lab_measure measure, double value, char *buffer)
{
    return graph_number(measures[measure].unit, value, buffer);
}

bool lab_claim_holds(const struct lab_claim *claim, const double *before, const double *now,
                     char *why, size_t size)
{
    bool compares = claim->relation == LAB_LESS || claim->relation == LAB_MORE;
    bool up = claim->relation == LAB_ABOVE || claim->relation == LAB_MORE;
    double value = now[claim->measure], limit = compares ? before[claim->measure] : claim->value;
    char text[TEXT_SHORT], other[TEXT_SHORT];

    if (isnan(value) || isnan(limit) || (up ? value > limit : value < limit))
        return true;
    snprintf(why, size, "%s %s, expected %s %s", lab_measure_label(claim->measure),
             lab_measure_text(claim->measure, value, text), up ? "over" : "under",
             lab_measure_text(claim->measure, limit, other));
    return false;
}
