#include "loadgen/plan/scenario.h"

#include <stdlib.h>
#include <string.h>

int scenario_find_variable(const struct scenario *scenario, size_t count, const char *name,
                           size_t length)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(scenario->variables[i]) == length &&
            memcmp(scenario->variables[i], name, length) == 0)
            return (int)i;
    return -1;
}

bool scenario_step_takes_body(const struct scenario_step *step)
{
    for (size_t i = 0; i < step->take_count; i++)
        if (step->takes[i].source == SCENARIO_JSON || step->takes[i].source == SCENARIO_BODY)
            return true;
    return false;
}

/* Each scenario gains its weight; the one with the most is next and loses the sum of the weights. */
static uint16_t take_next(const struct scenario_set *set, int64_t *credit, int64_t total)
{
    size_t best = 0;

    for (size_t i = 0; i < set->count; i++) {
        credit[i] += set->scenarios[i].weight;
        if (credit[i] > credit[best])
            best = i;
    }
    credit[best] -= total;
    return (uint16_t)best;
}

bool scenario_set_make_order(struct scenario_set *set)
{
    int64_t credit[SCENARIO_SCENARIOS_MAX] = {0};
    size_t total = 0;

    set->row_count = 0;
    for (size_t i = 0; i < set->count; i++) {
        total += set->scenarios[i].weight;
        set->scenarios[i].row = set->row_count;
        set->row_count += 1 + set->scenarios[i].step_count;
    }
    set->order = calloc(total + 1, sizeof(*set->order));
    set->order_length = total;
    for (size_t i = 0; set->order != NULL && i < total; i++)
        set->order[i] = take_next(set, credit, (int64_t)total);
    return set->order != NULL;
}

static void free_step(struct scenario_step *step)
{
    for (size_t i = 0; i < step->take_count; i++) {
        free(step->takes[i].key);
        free(step->takes[i].before);
        free(step->takes[i].after);
        if (step->takes[i].expression != NULL)
            regfree(&step->takes[i].matcher);
        free(step->takes[i].expression);
    }
    free(step->takes);
    free(step->name);
    request_template_free(&step->request);
}

void scenario_set_free(struct scenario_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        struct scenario *scenario = &set->scenarios[i];

        for (size_t k = 0; k < scenario->step_count; k++)
            free_step(&scenario->steps[k]);
        for (size_t k = 0; k < scenario->variable_count; k++)
            free(scenario->variables[k]);
        free(scenario->steps);
        free(scenario->name);
    }
    free(set->scenarios);
    free(set->order);
    csv_file_free(&set->table);
    *set = (struct scenario_set){0};
}
