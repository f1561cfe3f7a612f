#include "console/lab/scenario.h"

#include <stddef.h>
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
