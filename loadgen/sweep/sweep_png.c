/* A sweep as a picture of its plots. */
#include "loadgen/sweep/sweep_report.h"

#include "loadgen/report/gnuplot.h"
#include "loadgen/sweep/sweep_plots.h"

/* Where the plots of one curve go: its name stands before their titles. */
struct named {
    struct gnuplot *gnuplot;
    const char *name;
};

static void take_named(void *context, const struct plot *plot)
{
    const struct named *named = context;
    struct plot with_name = *plot;
    char title[SWEEP_CURVE_NAME + 64];

    snprintf(title, sizeof(title), "%s: %s", named->name, plot->title);
    with_name.title = title;
    gnuplot_take(named->gnuplot, &with_name);
}

int sweep_png(FILE *out, const struct sweep *sweep, bool colour)
{
    struct gnuplot *gnuplot = gnuplot_create();
    char title[SWEEP_SETTING];

    (void)colour;
    if (gnuplot == NULL)
        return -1;
    snprintf(title, sizeof(title), "Sweep of %s %.120s", sweep->plan->method, sweep->plan->urls[0]);
    sweep_overview_plots(sweep, gnuplot_take, gnuplot);
    for (size_t i = 0; i < sweep->curve_count; i++) {
        struct named named = {gnuplot, sweep->curves[i].name};

        sweep_curve_plots(&sweep->curves[i], take_named, &named);
    }
    return gnuplot_draw(gnuplot, title, out);
}
