/* What of a sweep is drawn, apart from how. Main thread. */
#ifndef LOADGEN_SWEEP_PLOTS_H
#define LOADGEN_SWEEP_PLOTS_H

#include "loadgen/report/plot.h"
#include "loadgen/sweep/sweep.h"

/* Throughput and latency of one curve over the connections, with its law where there is one. */
void sweep_curve_plots(const struct sweep_curve *curve, plot_taker *take, void *context);

/* The throughput of all curves beside each other, in as many plots as that needs; none of one. */
void sweep_overview_plots(const struct sweep *sweep, plot_taker *take, void *context);

#endif
