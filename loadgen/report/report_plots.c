#include "loadgen/report/report_plots.h"

#include "common/clock.h"

#include "loadgen/report/plot_axes.h"
#include "loadgen/report/report.h"
#include "loadgen/report/report_facts.h"

#include <stdlib.h>

enum { LATENCY_LINES = 4 };

/* Where finished plots go. */
struct plots {
    plot_taker *take;
    void *context;
};

/* An axis of 1 / (1 - p), as its percentile: 100 is 99 %. */
static void format_tail(char *label, double value)
{
    snprintf(label, PLOT_LABEL, "%.10g%%", 100 - 100 / value);
}

/* What of a second is drawn. */
typedef double second_value(const struct series_entry *entry);

static double per_second(const struct series_entry *entry, uint64_t count)
{
    uint64_t ns = entry->end_ns - entry->begin_ns;

    return ns > 0 ? (double)count * 1e9 / (double)ns : 0;
}

static double answered_of(const struct series_entry *entry)
{
    return per_second(entry, entry->answered);
}

static double bad_of(const struct series_entry *entry)
{
    return per_second(entry, entry->bad);
}

static double rate_of(const struct series_entry *entry)
{
    return entry->rate;
}

static double p50_of(const struct series_entry *entry)
{
    return (double)entry->p50_ns;
}

static double p90_of(const struct series_entry *entry)
{
    return (double)entry->p90_ns;
}

static double p99_of(const struct series_entry *entry)
{
    return (double)entry->p99_ns;
}

static double max_of(const struct series_entry *entry)
{
    return (double)entry->max_ns;
}

/* The rest at the end of a run, when it is too short to be compared with whole seconds. */
static bool is_scrap(const struct series_entry *entry)
{
    return entry->end_ns - entry->begin_ns < NS_PER_S / 5;
}

/* Adds a line to PLOT from ROOM, which takes as many points as there are seconds. */
static void add_seconds(struct plot *plot, const char *name, const struct series *series,
                        second_value *value, struct plot_point *room)
{
    size_t count = 0;

    for (size_t i = 0; i < series->count; i++)
        if (!is_scrap(&series->entry[i]))
            room[count++] = (struct plot_point){(double)series->entry[i].end_ns / 1e9,
                                                value(&series->entry[i])};
    plot->line[plot->line_count++] =
        (struct plot_line){.name = name, .points = room, .count = count};
}

static bool is_used(const struct series *series, second_value *value)
{
    for (size_t i = 0; i < series->count; i++)
        if (value(&series->entry[i]) > 0)
            return true;
    return false;
}

/* The seconds of rounds are without their warm-ups. */
static double shaded_to(const struct result *result)
{
    return result->rounds == NULL ? (double)result->plan->warmup_ms / 1e3 : 0;
}

static void make_rate_plot(const struct plots *plots, const struct result *result,
                           struct plot_point *room)
{
    const struct series *series = result->series;
    struct plot plot = {.title = "Requests a second",
                        .x = {false, axis_seconds},
                        .y = {false, axis_rate},
                        .shaded_to = shaded_to(result)};

    add_seconds(&plot, "answered", series, answered_of, room);
    if (is_used(series, rate_of))
        add_seconds(&plot, "asked for", series, rate_of, room + series->count);
    if (is_used(series, bad_of))
        add_seconds(&plot, "errors", series, bad_of, room + 2 * series->count);
    plots->take(plots->context, &plot);
}

static void make_latency_plot(const struct plots *plots, const struct result *result,
                              struct plot_point *room)
{
    static const struct {
        const char *name;
        second_value *value;
    } lines[LATENCY_LINES] = {{"p50", p50_of}, {"p90", p90_of}, {"p99", p99_of}, {"max", max_of}};
    struct plot plot = {.title = "Latency over time",
                        .x = {false, axis_seconds},
                        .y = {true, axis_time},
                        .shaded_to = shaded_to(result)};

    for (size_t i = 0; i < LATENCY_LINES; i++)
        add_seconds(&plot, lines[i].name, result->series, lines[i].value,
                    room + i * result->series->count);
    plots->take(plots->context, &plot);
}

/* Up to where one value lies beyond. Returns how many points; fewer than CURVE_MAX. */
enum { CURVE_MAX = 512 };

static size_t fill_curve(const struct histogram *times, struct plot_point *room)
{
    uint64_t values = histogram_count(times);
    double level = 0;
    size_t count = 0;

    while (count < CURVE_MAX && measure_percentile_is_known(level, values)) {
        room[count++] =
            (struct plot_point){100 / (100 - level), (double)histogram_percentile(times, level)};
        level = report_next_level(level);
    }
    return count;
}

static void make_curve_plot(const struct plots *plots, const struct result *result)
{
    struct report_times rows[REPORT_TIMES_MAX];
    struct plot_point room[REPORT_TIMES_MAX][CURVE_MAX];
    struct plot plot = {
        .title = "Latency by percentile", .x = {true, format_tail}, .y = {true, axis_time}};

    plot.line_count = report_times(result, rows);
    for (size_t i = 0; i < plot.line_count; i++)
        plot.line[i] = (struct plot_line){.name = rows[i].label,
                                          .points = room[i],
                                          .count = fill_curve(rows[i].times, room[i]),
                                          .smooth = true};
    plots->take(plots->context, &plot);
}

int report_plots(const struct result *result, plot_taker *take, void *context)
{
    const struct plots plots = {take, context};
    size_t seconds = result->series != NULL ? result->series->count : 0;
    struct plot_point *room = calloc(LATENCY_LINES * seconds + 1, sizeof(*room));

    if (room == NULL)
        return -1;
    if (seconds > 1) { /* one point is no course */
        make_rate_plot(&plots, result, room);
        make_latency_plot(&plots, result, room);
    }
    make_curve_plot(&plots, result);
    free(room);
    return 0;
}
