#include "common/figures.h"

#include "common/clock.h"

#include <math.h>

const struct figure_info figure_table[FIGURE_COUNT] = {
#define FIGURE(name, unit, label, help, value) {#name, label, help, UNIT_##unit},
#include "common/figures.def"
#undef FIGURE
};

const struct status_metric status_metrics[STATUS_METRICS] = {
#define HTTP_STATUS(code, name, reason) {code, METRIC_responses_##code},
#include "common/http_status.def"
#undef HTTP_STATUS
};

double figure_quotient(double part, double whole)
{
    return whole > 0 ? part / whole : NAN;
}

double figure_rate(uint64_t then, uint64_t now, uint64_t interval_ns)
{
    return figure_quotient(now > then ? (double)(now - then) : 0,
                           (double)interval_ns / (double)NS_PER_S);
}

/* Responses with a status of CLASS: 2 for 200-299. */
static double responses_of_class(int class, figure_source *source, const void *context)
{
    double sum = 0;

    for (int i = 0; i < STATUS_METRICS; i++)
        if (status_metrics[i].status / 100 == class)
            sum += source(context, status_metrics[i].metric);
    return sum;
}

double figure_value(enum figure figure, figure_source *source, const void *context)
{
    switch (figure) {
#define V(name)               source(context, METRIC_##name)
#define STATUSES(class)       responses_of_class(class, source, context)
#define QUOTIENT(part, whole) figure_quotient(part, whole)
#define FIGURE(name, unit, label, help, value)                                                     \
    case FIGURE_##name:                                                                            \
        return value;
#include "common/figures.def"
#undef FIGURE
    case FIGURE_COUNT:
        break;
    }
    return NAN;
}
