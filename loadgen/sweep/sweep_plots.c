#include "loadgen/sweep/sweep_plots.h"

#include "common/macros.h"

#include "loadgen/report/plot_axes.h"

#include <math.h>

enum { LAW_POINTS = 60 };

/* Room for the lines of one plot. */
struct room {
    struct plot_point points[PLOT_LINES_MAX][PLAN_NUMBERS_MAX];
    struct plot_bar bars[PLOT_LINES_MAX][PLAN_NUMBERS_MAX];
};

/* Times are kept in microseconds and drawn in nanoseconds. */
static double scale_of(enum measure measure)
{
    return measure_table[measure].unit == MEASURE_OF_TIME ? 1000 : 1;
}

static void add_line(struct plot *plot, struct room *room, const struct sweep_curve *curve,
                     const char *name, enum measure measure)
{
    size_t number = plot->line_count, count = 0;

    for (size_t i = 0; i < curve->measured; i++) {
        const struct interval *of = &curve->points[i].of[measure];

        if (isnan(of->median))
            continue;
        room->points[number][count] = (struct plot_point){curve->points[i].plan.connections_asked,
                                                          of->median * scale_of(measure)};
        room->bars[number][count++] =
            (struct plot_bar){of->low * scale_of(measure), of->high * scale_of(measure)};
    }
    plot->line[plot->line_count++] = (struct plot_line){
        .name = name, .points = room->points[number], .bars = room->bars[number], .count = count};
}

/* The law over the whole range, evenly on the logarithmic axis. */
static void add_law(struct plot *plot, struct plot_point *room, const struct sweep_curve *curve)
{
    double from = curve->points[0].plan.connections_asked;
    double to = curve->points[curve->measured - 1].plan.connections_asked;

    for (size_t i = 0; i < LAW_POINTS; i++) {
        double n = from * pow(to / from, (double)i / (LAW_POINTS - 1));

        room[i] = (struct plot_point){n, usl_at(&curve->usl, n)};
    }
    plot->line[plot->line_count++] = (struct plot_line){
        .name = "scalability law", .points = room, .count = LAW_POINTS, .smooth = true};
}

static void take_throughput(const struct sweep_curve *curve, plot_taker *take, void *context)
{
    struct plot plot = {
        .title = "Throughput over connections", .x = {true, axis_count}, .y = {false, axis_rate}};
    struct plot_point law[LAW_POINTS];
    struct room room;

    add_line(&plot, &room, curve, "measured", MEASURE_RATE);
    if (curve->has_usl)
        add_law(&plot, law, curve);
    take(context, &plot);
}

static void take_latency(const struct sweep_curve *curve, plot_taker *take, void *context)
{
    static const enum measure measures[] = {MEASURE_P50, MEASURE_P90, MEASURE_P99, MEASURE_P99_9};
    struct plot plot = {
        .title = "Latency over connections", .x = {true, axis_count}, .y = {true, axis_time}};
    struct room room;

    for (size_t i = 0; i < ARRAY_LENGTH(measures); i++)
        add_line(&plot, &room, curve, measure_table[measures[i]].label, measures[i]);
    take(context, &plot);
}

void sweep_curve_plots(const struct sweep_curve *curve, plot_taker *take, void *context)
{
    if (curve->measured < 2) /* one point is no course */
        return;
    take_throughput(curve, take, context);
    take_latency(curve, take, context);
}

static void take_overview(const struct sweep *sweep, size_t from, size_t to, enum measure measure,
                          plot_taker *take, void *context)
{
    struct plot plot = {
        .title = "Throughput of all", .x = {true, axis_count}, .y = {false, axis_rate}};
    struct room room;

    if (measure != MEASURE_RATE) {
        plot.title = "p99 of all";
        plot.y = (struct plot_axis){true, axis_time};
    }
    for (size_t i = from; i < to; i++)
        add_line(&plot, &room, &sweep->curves[i], sweep->curves[i].name, measure);
    take(context, &plot);
}

void sweep_overview_plots(const struct sweep *sweep, plot_taker *take, void *context)
{
    for (size_t from = 0; sweep->curve_count > 1 && from < sweep->curve_count;
         from += PLOT_LINES_MAX) {
        size_t to = from + PLOT_LINES_MAX;

        to = to < sweep->curve_count ? to : sweep->curve_count;
        take_overview(sweep, from, to, MEASURE_RATE, take, context);
        take_overview(sweep, from, to, MEASURE_P99, take, context);
    }
}
