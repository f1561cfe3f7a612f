#include "loadgen/report/plot_axes.h"

#include "common/units.h"

#include "loadgen/report/plot.h"

/* Below 100 as it is: a short axis has ticks between whole numbers. */
void axis_count(char *label, double value)
{
    if (value < 100)
        snprintf(label, PLOT_LABEL, "%.6g", value);
    else
        units_format_count(label, PLOT_LABEL, value);
}

void axis_rate(char *label, double value)
{
    char text[UNITS_TEXT];

    snprintf(label, PLOT_LABEL, "%.24s/s", units_format_count(text, sizeof(text), value));
}

void axis_seconds(char *label, double value)
{
    snprintf(label, PLOT_LABEL, "%.10g s", value);
}

void axis_time(char *label, double value)
{
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}};
    size_t i = 0;

    while (i < 3 && value < units[i].ns * (1 - 1e-9))
        i++;
    snprintf(label, PLOT_LABEL, "%.6g %s", value / units[i].ns, units[i].name);
}

void axis_mebibytes(char *label, double value)
{
    snprintf(label, PLOT_LABEL, "%.6g MiB", value);
}

void axis_percent(char *label, double value)
{
    snprintf(label, PLOT_LABEL, "%.10g%%", value);
}
