#include "loadgen/stats/measures.h"

#include "common/clock.h"
#include "common/units.h"

#include "loadgen/base/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

const struct measure_info measure_table[MEASURE_COUNT] = {
#define MEASURE(id, name, label, unit) [MEASURE_##id] = {(name), (label), MEASURE_OF_##unit},
#include "loadgen/stats/measures.def"
#undef MEASURE
};

char *measure_format(char *buffer, enum measure measure, double value)
{
    if (isnan(value)) {
        snprintf(buffer, MEASURE_TEXT, "-");
        return buffer;
    }
    switch (measure_table[measure].unit) {
    case MEASURE_OF_COUNT:
        return format_number(buffer, MEASURE_TEXT, value);
    case MEASURE_OF_TIME:
        return units_format_ns(buffer, MEASURE_TEXT, value * (double)NS_PER_US);
    case MEASURE_OF_PERCENT:
        snprintf(buffer, MEASURE_TEXT, value > 0 && value < 0.995 ? "%.2g%%" : "%.3g%%", value);
        break;
    case MEASURE_OF_CORES:
        snprintf(buffer, MEASURE_TEXT, "%.2f", value);
        break;
    }
    return buffer;
}

/* ---- Many runs ---- */

struct trials {
    size_t point_count;
    uint32_t rounds;
    uint32_t *done;            /* trials added to each point */
    struct measures *measures; /* [point * rounds + number] */
};

struct trials *trials_create(size_t point_count, uint32_t rounds)
{
    struct trials *trials = calloc(1, sizeof(*trials));

    if (trials == NULL)
        return NULL;
    trials->point_count = point_count;
    trials->rounds = rounds;
    trials->done = calloc(point_count, sizeof(*trials->done));
    trials->measures = calloc(point_count * rounds, sizeof(*trials->measures));
    if (trials->done != NULL && trials->measures != NULL)
        return trials;
    trials_free(trials);
    return NULL;
}

void trials_free(struct trials *trials)
{
    if (trials == NULL)
        return;
    free(trials->done);
    free(trials->measures);
    free(trials);
}

void trials_add(struct trials *trials, size_t point, const struct measures *measures)
{
    if (trials->done[point] < trials->rounds)
        trials->measures[point * trials->rounds + trials->done[point]++] = *measures;
}

uint32_t trials_done(const struct trials *trials, size_t point)
{
    return trials->done[point];
}

const struct measures *trials_get(const struct trials *trials, size_t point, uint32_t number)
{
    return &trials->measures[point * trials->rounds + number];
}

struct interval trials_interval(const struct trials *trials, size_t point, enum measure measure)
{
    double *values = calloc(trials->rounds, sizeof(*values));
    struct interval interval = {NAN, NAN, NAN, 0};

    if (values == NULL)
        return interval;
    for (uint32_t i = 0; i < trials->done[point]; i++)
        values[i] = trials_get(trials, point, i)->value[measure];
    interval = statistics_interval(values, trials->done[point]);
    interval.low = interval.low < 0 ? 0 : interval.low; /* no measure is negative */
    free(values);
    return interval;
}
