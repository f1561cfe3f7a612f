/*
 * Curves: points that differ only in the number of connections, as tables, plots and sentences; and
 * whether a request takes more CPU time with many connections. Main thread.
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
 * Initialises COUNT points from FIRST on, one for each number in CONNECTIONS: GET PATH from SERVER.
 * Progress lines show NAME.
 */
void curve_init(struct lab *lab, struct point *first, struct private_server *server,
                const char *path, const uint32_t *connections, size_t count, const char *name);

/*
 * Adds a table with a row for each point: connections, rate, latency, CPU time and context
 * switches of the server per request.
 */
void curve_table(struct document *findings, const char *title, const struct curve *curve);

/* Records the points for the comparison with published figures, as "NAME, CONNECTIONS". */
void curve_record(struct lab *lab, const struct curve *curve);

/*
 * Plots MEASURE over the connections, on logarithmic axes except for rates. At most PLOT_LINES_MAX
 * curves.
 */
void curves_plot(struct document *findings, const char *title, const struct curve *curves,
                 size_t count, enum measure measure);

/* The point with CONNECTIONS connections, or NULL. */
const struct point *curve_at(const struct curve *curve, uint32_t connections);

/* The point with the highest rate. */
const struct point *curve_peak(const struct curve *curve);

/* Adds sentences about rate and latency from the first point of each curve to its last. */
enum { CURVES_MAX = 4 };
void curves_explain(struct document *findings, const struct curve *curves, size_t count);

/*
 * What RATES, the rate of the last point over that of the first, says about connections that are
 * added. Pure.
 */
const char *curve_reason(const struct interval *rates);

/* ---- CPU time per request against the number of connections ---- */

/* Numbers of connections to compare; each curve has a point for both. */
enum { GROWTH_FEW = 100, GROWTH_MANY = 1000 };

/*
 * Measures both ends of COUNT curves and adds for each whether the server's CPU time per request
 * stays within the tolerance. The machine's speed varies more between the trials of a curve, which
 * are seconds apart, than the difference in question; so this measures many pairs of short,
 * consecutive trials. Returns as points_measure().
 */
int growth_judge(struct lab *lab, struct document *findings, const struct curve *curves,
                 size_t count);

/* The verdict on RATIO, the CPU time with many connections over that with few. Pure. */
enum findings_kind growth_verdict(const struct interval *ratio);

#endif
