/*
 * Curves: points that differ in the number of connections only, as tables, plots and sentences. And
 * whether a request costs more CPU time with many connections. Main thread.
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
 * Initialises COUNT points from FIRST on, one for each of CONNECTIONS: GET PATH from SERVER. NAME
 * is for progress.
 */
void curve_init(struct lab *lab, struct point *first, struct private_server *server,
                const char *path, const uint32_t *connections, size_t count, const char *name);

/* A row for each point: connections, rate, latency, CPU time of server and client. */
void curve_table(struct document *findings, const char *title, const struct curve *curve);

/*
 * MEASURE over the connections, on logarithmic axes except for rates. At most PLOT_LINES_MAX
 * curves.
 */
void curves_plot(struct document *findings, const char *title, const struct curve *curves,
                 size_t count, enum measure measure);

/* The point with CONNECTIONS connections, or NULL. */
const struct point *curve_at(const struct curve *curve, uint32_t connections);

/* The point with the highest rate. */
const struct point *curve_peak(const struct curve *curve);

/* Adds sentences about rate and latency from the first point to the last. */
void curve_explain(struct document *findings, const struct curve *curve);

/* ---- Growth of the cost of a request with the number of connections ---- */

/* Connections; each curve has a point with either number. */
enum { GROWTH_FEW = 100, GROWTH_MANY = 1000 };

/*
 * Measures both ends of COUNT curves and adds for each whether the server's CPU time per request
 * stays within the tolerance. The trials of a curve are seconds apart, and the machine changes more
 * in that time than the difference in question; so this measures many pairs of short, consecutive
 * trials. Returns as points_measure().
 */
int growth_judge(struct lab *lab, struct document *findings, const struct curve *curves,
                 size_t count);

/* The verdict on RATIO, the CPU time with many connections over that with few. Pure. */
enum findings_kind growth_verdict(const struct interval *ratio);

#endif
