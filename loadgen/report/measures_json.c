#include "loadgen/report/measures_json.h"

#include <math.h>

json_t *number_json(double value)
{
    return isnan(value) || isinf(value) ? json_null() : json_real(value);
}

json_t *measures_json(const struct measures *measures)
{
    json_t *object = json_object();

    for (size_t i = 0; i < MEASURE_COUNT; i++)
        json_object_set_new(object, measure_table[i].name, number_json(measures->value[i]));
    return object;
}

json_t *interval_json(const struct interval *interval)
{
    return json_pack("{s:o, s:o, s:o}", "median", number_json(interval->median), "low",
                     number_json(interval->low), "high", number_json(interval->high));
}
