/* Measures as members of JSON documents; what is not known is null. Main thread. */
#ifndef LOADGEN_MEASURES_JSON_H
#define LOADGEN_MEASURES_JSON_H

#include "loadgen/stats/measures.h"
#include "loadgen/stats/statistics.h"

#include <jansson.h>

/* JSON has neither NAN nor INFINITY. */
json_t *number_json(double value);

/* A member for each measure. */
json_t *measures_json(const struct measures *measures);

/* median, low and high */
json_t *interval_json(const struct interval *interval);

#endif
