/* A run as a picture of its plots. */
#include "loadgen/report/report.h"

#include "loadgen/report/gnuplot.h"
#include "loadgen/report/report_facts.h"
#include "loadgen/report/report_plots.h"

#include <errno.h>

int report_png(FILE *out, const struct result *result, bool colour)
{
    struct gnuplot *gnuplot = gnuplot_create();
    struct report_fact facts[REPORT_FACTS_MAX];
    size_t count = report_facts(result, facts);
    char title[512] = "";

    (void)colour;
    if (gnuplot == NULL)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (facts[i].main)
            snprintf(title, sizeof(title), "%s %.120s: %s", result->plan->method, result->url,
                     facts[i].text);
    if (report_plots(result, gnuplot_take, gnuplot) != 0) {
        gnuplot_free(gnuplot);
        errno = ENOMEM;
        return -1;
    }
    return gnuplot_draw(gnuplot, title, out);
}
