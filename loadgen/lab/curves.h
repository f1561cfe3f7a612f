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
void curve_table(struct document *findings, const char *title, const struct curve *curve);

/* A measure over the connections, on logarithmic axes but for the rate. At most PLOT_LINES_MAX curves. */
void curves_plot(struct document *findings, const char *title, const struct curve *curves,
                 size_t count, enum measure measure);

/* The point with so many connections. */
const struct point *curve_at(const struct curve *curve, uint32_t connections);

/* The point with the highest rate. */
const struct point *curve_peak(const struct curve *curve);

/* "a sentence": how rate and latency went from the first point to the last. */
void curve_explain(struct document *findings, const struct curve *curve);

/*
 * ---- Whether a request costs the server more with many connections than with few ----
 *
 * Trials of a curve lie seconds apart, and the machine changes more in between than the difference that
 * is looked for. So both ends are measured again, in many short trials, one directly after the other.
 */

/* Connections; each curve that is judged has a point with either number. */
enum { GROWTH_FEW = 100, GROWTH_MANY = 1000 };

/* Measures COUNT curves and says for each whether its condition holds. Returns 0, or -1 as points_measure(). */
int growth_judge(struct lab *lab, struct document *findings, const struct curve *curves,
                 size_t count);

/* The verdict on processor times: RATIO is that of many connections to few. Pure. */
enum findings_kind growth_verdict(const struct interval *ratio);

#endif
