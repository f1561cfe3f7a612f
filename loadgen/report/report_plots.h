/* What of a run is drawn, apart from how. Main thread. */
#ifndef LOADGEN_REPORT_PLOTS_H
#define LOADGEN_REPORT_PLOTS_H

#include "loadgen/report/plot.h"
#include "loadgen/stats/result.h"

/* Hands each plot to TAKE. Returns 0, or -1 when memory is short. */
int report_plots(const struct result *result, plot_taker *take, void *context);

#endif
