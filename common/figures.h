/*
 * Figures derived from metrics (common/figures.def): ratios, means, responses by class. The server,
 * the console and wsload compute them here only. Pure; any thread.
 */
#ifndef COMMON_FIGURES_H
#define COMMON_FIGURES_H

#include "common/tables.h"

#include <stdint.h>

enum figure {
#define FIGURE(name, unit, label, help, value) FIGURE_##name,
#include "common/figures.def"
#undef FIGURE
    FIGURE_COUNT
};

struct figure_info {
    const char *name;
    const char *label;
    const char *help;
    enum metric_unit unit;
};
extern const struct figure_info figure_table[FIGURE_COUNT];

/* The statuses that the server sends, and the metric that counts each. */
struct status_metric {
    int status;
    enum metric metric;
};
enum {
#define HTTP_STATUS(code, name, reason) +1
    STATUS_METRICS = 0
#include "common/http_status.def"
#undef HTTP_STATUS
};
extern const struct status_metric status_metrics[STATUS_METRICS];

/* A source of values: the value of a gauge; of a counter, its increase in an interval, or NAN. */
typedef double figure_source(const void *context, enum metric metric);

/* The value of FIGURE, in its unit; NAN if it is undefined. */
double figure_value(enum figure figure, figure_source *source, const void *context);

/* Increase of a counter per second; NAN if INTERVAL_NS is 0, 0 if the counter has been reset. */
double figure_rate(uint64_t then, uint64_t now, uint64_t interval_ns);

/* PART / WHOLE; NAN if WHOLE is not positive. */
double figure_quotient(double part, double whole);

#endif
