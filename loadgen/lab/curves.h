/*
 * Points in a row whose only difference is one number, such as the connections: as a table, and as
 * lines of a plot. Main thread.
 */
#ifndef LOADGEN_LAB_CURVES_H
#define LOADGEN_LAB_CURVES_H

#include "loadgen/lab/points.h"

struct curve {
    const char *name;
    const struct point *points;
    size_t count;
};

/*
 * Points for each number of COUNT CONNECTIONS: GET of PATH from SERVER. NAME is for progress. The
 * points lie side by side from FIRST on.
 */
void curve_begin(struct lab *lab, struct point *first, struct private_server *server,
                 const char *path, const uint32_t *connections, size_t count, const char *name);

/* Connections, rate, latency, server's and client's processor time: a row each. */
void curve_table(struct findings *findings, const char *title, const struct curve *curve);

/* A measure over the connections, on logarithmic axes but for the rate. At most PLOT_LINES_MAX curves. */
void curves_plot(struct findings *findings, const char *title, const struct curve *curves,
                 size_t count, enum measure measure);

/* The point with so many connections. */
const struct point *curve_at(const struct curve *curve, uint32_t connections);

/* The point with the highest rate. */
const struct point *curve_peak(const struct curve *curve);

/* "a sentence": how rate and latency went from the first point to the last. */
void curve_explain(struct findings *findings, const struct curve *curve);

#endif
