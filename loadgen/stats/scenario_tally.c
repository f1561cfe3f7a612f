#include "loadgen/stats/scenario_tally.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scenario_tally *scenario_tally_allocate(size_t count)
{
    struct scenario_tally *tally = calloc(1, sizeof(*tally) + count * sizeof(tally->row[0]));

    if (tally != NULL)
        tally->count = count;
    return tally;
}

struct scenario_tally *scenario_tally_create(const struct scenario_set *set)
{
    struct scenario_tally *tally = scenario_tally_allocate(set->row_count);
    bool good = tally != NULL;

    for (size_t i = 0; good && i < set->count; i++) {
        const struct scenario *scenario = &set->scenarios[i];
        struct scenario_row *row = &tally->row[scenario->row];

        row->weight = scenario->weight;
        row->name = strdup(scenario->name);
        good = row->name != NULL;
        for (size_t k = 0; good && k < scenario->step_count; k++) {
            row[k + 1].name = strdup(scenario->steps[k].name);
            good = row[k + 1].name != NULL;
        }
    }
    if (good)
        return tally;
    scenario_tally_free(tally);
    return NULL;
}

void scenario_tally_free(struct scenario_tally *tally)
{
    for (size_t i = 0; tally != NULL && i < tally->count; i++)
        free(tally->row[i].name);
    free(tally);
}

void scenario_tally_record_step(struct scenario_row *row, const struct transaction *transaction,
                                const char *why)
{
    bool answered = transaction->error == ERROR_KIND_NONE;
    bool failed = !answered || transaction->bad_status || transaction->bad_extraction;

    row->good += failed ? 0 : 1;
    row->failed += failed ? 1 : 0;
    row->errors += answered || transaction->bad_extraction ? 0 : 1;
    row->bad_statuses += answered && transaction->bad_status ? 1 : 0;
    row->bad_extractions += transaction->bad_extraction ? 1 : 0;
    if (transaction->bad_extraction && row->why[0] == '\0')
        snprintf(row->why, sizeof(row->why), "%s", why);
    if (answered)
        histogram_record(&row->times, transaction->latency_ns);
}

static bool copy_names(struct scenario_tally *into, const struct scenario_tally *from)
{
    for (size_t i = 0; i < from->count; i++) {
        into->row[i].weight = from->row[i].weight;
        into->row[i].name = strdup(from->row[i].name);
        if (into->row[i].name == NULL)
            return false;
    }
    return true;
}

static void add_row(struct scenario_row *into, const struct scenario_row *from)
{
    into->begun += from->begun;
    into->good += from->good;
    into->failed += from->failed;
    into->open += from->open;
    into->errors += from->errors;
    into->bad_statuses += from->bad_statuses;
    into->bad_extractions += from->bad_extractions;
    if (into->why[0] == '\0')
        snprintf(into->why, sizeof(into->why), "%s", from->why);
    histogram_add(&into->times, &from->times);
}

bool scenario_tally_add(struct scenario_tally **into, const struct scenario_tally *from)
{
    if (*into == NULL) {
        *into = scenario_tally_allocate(from->count);
        if (*into == NULL || !copy_names(*into, from))
            return false;
    }
    for (size_t i = 0; i < from->count; i++)
        add_row(&(*into)->row[i], &from->row[i]);
    return true;
}

bool scenario_tally_is_like(const struct scenario_tally *a, const struct scenario_tally *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->row[i].weight != b->row[i].weight || strcmp(a->row[i].name, b->row[i].name) != 0)
            return false;
    return true;
}
