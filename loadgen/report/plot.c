#include "loadgen/report/plot.h"

#include "common/units.h"

#include <math.h>
#include <stdio.h>

/* 1, 2 or 5 times a power of ten, not below VALUE. */
static double round_up(double value)
{
    double power = pow(10, floor(log10(value))), least = value / power * (1 - 1e-9);

    return power * (least <= 1 ? 1 : least <= 2 ? 2 : least <= 5 ? 5 : 10);
}

/* 1, 2 or 5 times a power of ten, not above VALUE. */
static double round_down(double value)
{
    double power = pow(10, floor(log10(value) + 1e-9));

    return value >= 5 * power ? 5 * power : value >= 2 * power ? 2 * power : power;
}

bool plot_shows(const struct plot *plot, const struct plot_point *point)
{
    return isfinite(point->x) && isfinite(point->y) && (!plot->x.logarithmic || point->x > 0) &&
           (!plot->y.logarithmic || point->y > 0);
}

/* The minimum and maximum coordinates of all lines. Returns false if no point can be shown. */
static bool find_limits(const struct plot *plot, struct plot_point *least, struct plot_point *most)
{
    *least = (struct plot_point){INFINITY, INFINITY};
    *most = (struct plot_point){-INFINITY, -INFINITY};
    for (size_t i = 0; i < plot->line_count; i++)
        for (size_t k = 0; k < plot->line[i].count; k++) {
            const struct plot_point *point = &plot->line[i].points[k];

            if (!plot_shows(plot, point))
                continue;
            least->x = fmin(least->x, point->x);
            least->y = fmin(least->y, point->y);
            most->x = fmax(most->x, point->x);
            most->y = fmax(most->y, point->y);
        }
    return most->x >= least->x;
}

bool plot_has_points(const struct plot *plot)
{
    struct plot_point least, most;

    return find_limits(plot, &least, &most);
}

double plot_position(const struct plot_scale *scale, double value)
{
    if (scale->logarithmic)
        return log(value / scale->least) / log(scale->most / scale->least);
    return value / scale->most;
}

/*
 * The tick after VALUE. STEP applies to linear axes; a long logarithmic axis has ticks at powers of
 * ten only.
 */
static double next_tick(const struct plot_scale *scale, double step, double value)
{
    if (!scale->logarithmic)
        return value + step;
    if (scale->most / scale->least > 200)
        return pow(10, floor(log10(value) + 1e-9) + 1);
    return round_up(value * 1.5);
}

/* The horizontal axis ends with the last point, the vertical one with a tick. */
struct plot_scale plot_scale_of(const struct plot *plot, bool of_x)
{
    const struct plot_axis *axis = of_x ? &plot->x : &plot->y;
    struct plot_point least, most;
    struct plot_scale scale = {.logarithmic = axis->logarithmic};
    double end, at, step = 0;

    find_limits(plot, &least, &most);
    end = of_x ? most.x : most.y;
    scale.most = end > 0 ? end : 1;
    if (axis->logarithmic) {
        scale.least = round_down(of_x ? least.x : least.y);
        if (!of_x || end <= scale.least)
            scale.most = round_up(fmax(end, scale.least * 2));
    } else {
        step = round_up(scale.most / 5);
        if (!of_x)
            scale.most = ceil(scale.most / step - 1e-9) * step;
    }
    at = scale.least;
    while (scale.tick_count < PLOT_TICKS_MAX && at <= scale.most * (1 + 1e-9)) {
        scale.tick[scale.tick_count].at = at;
        axis->format(scale.tick[scale.tick_count++].label, at);
        at = next_tick(&scale, step, at);
    }
    return scale;
}

/* ---- Labels ---- */

/* Shows decimals if VALUE is fractional: a short axis has such ticks. */
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
