#include "loadgen/sweep/report.h"

#include "common/macros.h"
#include "common/units.h"

#include "loadgen/report/report.h"
#include "loadgen/sweep/export.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>

enum { LAW_POINTS = 60 };

/* ---- Plots ---- */

/* Times are converted: measures have microseconds, axes nanoseconds. */
static void put_line(struct document *document, const struct sweep_curve *curve, const char *name,
                     enum measure measure)
{
    double scale = measure_table[measure].unit == MEASURE_OF_TIME ? 1000 : 1;

    document_line(document, name, false);
    for (size_t i = 0; i < curve->measured; i++) {
        const struct interval *of = &curve->points[i].of[measure];

        if (!isnan(of->median))
            document_point_between(document, curve->points[i].plan.connections_requested,
                                   of->median * scale, of->low * scale, of->high * scale);
    }
}

/*
 * Draws the fitted law over the whole range, with points at equal distances on the logarithmic
 * axis.
 */
static void put_law(struct document *document, const struct sweep_curve *curve)
{
    double from = curve->points[0].plan.connections_requested;
    double to = curve->points[curve->measured - 1].plan.connections_requested;

    document_line(document, "Universal Scalability Law", true);
    for (size_t i = 0; i < LAW_POINTS; i++) {
        double n = from * pow(to / from, (double)i / (LAW_POINTS - 1));

        document_point(document, n, usl_throughput(&curve->usl, n));
    }
}

/* No plots for a curve with fewer than two points. */
static void put_curve_plots(struct document *document, const struct sweep_curve *curve)
{
    static const enum measure measures[] = {MEASURE_P50, MEASURE_P90, MEASURE_P99, MEASURE_P99_9};
    static const struct plot_axis x = {true, axis_count};

    if (curve->measured < 2)
        return;
    document_plot(document, "Throughput over connections", x, (struct plot_axis){false, axis_rate});
    put_line(document, curve, "measured", MEASURE_RATE);
    if (curve->has_usl)
        put_law(document, curve);
    document_plot(document, "Latency over connections", x, (struct plot_axis){true, axis_time});
    for (size_t i = 0; i < ARRAY_LENGTH(measures); i++)
        put_line(document, curve, measure_table[measures[i]].label, measures[i]);
}

/* All curves in common plots: as many plots as needed for PLOT_LINES_MAX lines each. */
static void put_overview_plots(struct document *document, const struct sweep *sweep)
{
    static const struct plot_axis x = {true, axis_count};

    if (sweep->curve_count < 2)
        return;
    for (size_t from = 0; from < sweep->curve_count; from += PLOT_LINES_MAX) {
        size_t to = from + PLOT_LINES_MAX;

        to = to < sweep->curve_count ? to : sweep->curve_count;
        document_plot(document, "Throughput of all curves", x,
                      (struct plot_axis){false, axis_rate});
        for (size_t i = from; i < to; i++)
            put_line(document, &sweep->curves[i], sweep->curves[i].name, MEASURE_RATE);
        document_plot(document, "p99 of all curves", x, (struct plot_axis){true, axis_time});
        for (size_t i = from; i < to; i++)
            put_line(document, &sweep->curves[i], sweep->curves[i].name, MEASURE_P99);
    }
}

/* ---- Tables ---- */

static void put_measure(struct document *document, const struct sweep_point *point,
                        enum measure measure)
{
    char text[MEASURE_TEXT];

    document_cell(document, "%s", measure_format(text, measure, point->of[measure].median));
}

static void put_percent(struct document *document, double percent, const char *mark)
{
    if (isnan(percent))
        document_cell(document, "-");
    else
        document_cell(document, "%.0f%%%s", percent, mark);
}

static void put_point(struct document *document, const struct sweep_curve *curve,
                      const struct sweep_point *point)
{
    double spread = interval_percent(&point->of[MEASURE_RATE]);

    document_row(document, point == &curve->points[curve->zones.best] ? DOCUMENT_STRONG
                           : point->client_bound                      ? DOCUMENT_WARNING
                                                                      : DOCUMENT_NORMAL);
    document_cell(document, "%" PRIu32, point->plan.connections_requested);
    put_measure(document, point, MEASURE_RATE);
    document_cell(document, isnan(spread) ? "-" : spread < 9.95 ? "%.1f%%" : "%.0f%%", spread);
    put_measure(document, point, MEASURE_P50);
    put_measure(document, point, MEASURE_P99);
    put_measure(document, point, MEASURE_ERRORS);
    put_percent(document, point->of[MEASURE_CLIENT_SHARE].median, point->client_bound ? "!" : "");
    put_percent(document, point->of[MEASURE_MACHINE_BUSY].median, "");
    document_cell(document, "%s", zone_names[point->zone]);
}

static void put_table(struct document *document, const struct sweep_curve *curve)
{
    static const struct document_column columns[] = {
        {"Connections", DOCUMENT_RIGHT, 0}, {"requests/s", DOCUMENT_RIGHT, 0},
        {"±", DOCUMENT_RIGHT, 6},           {"p50", DOCUMENT_RIGHT, 8},
        {"p99", DOCUMENT_RIGHT, 8},         {"errors", DOCUMENT_RIGHT, 8},
        {"client", DOCUMENT_RIGHT, 8},      {"machine", DOCUMENT_RIGHT, 0},
        {"zone", DOCUMENT_RIGHT, 9}};

    document_table(document, NULL, columns, ARRAY_LENGTH(columns));
    for (size_t i = 0; i < curve->measured; i++)
        put_point(document, curve, &curve->points[i]);
}

/* ---- The document ---- */

static void put_notes(struct document *document, const struct sweep_finding *findings, size_t count)
{
    for (size_t i = 0; i < count; i++)
        document_note(document, DOCUMENT_NORMAL, "", "%s", findings[i].text);
}

static void put_curve(struct document *document, const struct sweep_curve *curve)
{
    char heading[SWEEP_CURVE_NAME];

    if (curve->measured == 0)
        return;
    snprintf(heading, sizeof(heading), "%s", curve->name);
    heading[0] = (char)toupper((unsigned char)heading[0]);
    document_section(document, heading, NULL);
    put_table(document, curve);
    put_curve_plots(document, curve);
    put_notes(document, curve->finding, curve->finding_count);
}

/* "8 points of 2s in 5 interleaved rounds; engine curl, up to 4 threads" */
static void put_subtitle(struct document *document, const struct sweep *sweep)
{
    const struct plan *plan = sweep->plan;
    char trial[64], time[UNITS_TEXT];

    if (plan->requests > 0)
        snprintf(trial, sizeof(trial), "%" PRIu64 " requests", plan->requests);
    else
        snprintf(trial, sizeof(trial), "%s",
                 units_format_time_ms(time, sizeof(time), plan->duration_ms));
    document_subtitle(document,
                      "%zu point%s of %s in %" PRIu32
                      " interleaved round%s; engine %s, up to %" PRIu32 " thread%s",
                      sweep->point_count, sweep->point_count == 1 ? "" : "s", trial, plan->rounds,
                      plan->rounds == 1 ? "" : "s",
                      plan->engine == PLAN_ENGINE_RAW ? "raw" : "curl", plan->threads_requested,
                      plan->threads_requested == 1 ? "" : "s");
}

static struct document *sweep_document(const struct sweep *sweep)
{
    const struct document_layout layout = {.indent = 2, .column_gap = 1};
    struct document *document = document_create("wsload", layout);

    if (document == NULL)
        return NULL;
    document_title(document, "Sweep of %s %s", sweep->plan->method, sweep->plan->urls[0]);
    put_subtitle(document, sweep);
    document_legend(document, "Bars and ±: 95 %% confidence. Client: CPU time of each of its "
                              "threads, in percent of a core; !: the client was the limit.");
    put_overview_plots(document, sweep);
    put_notes(document, sweep->note, sweep->note_count);
    for (size_t i = 0; i < sweep->curve_count; i++)
        put_curve(document, &sweep->curves[i]);
    return document;
}

int sweep_report(FILE *out, const struct sweep *sweep, bool colour)
{
    enum plan_format format = sweep->plan->format;

    if (format == PLAN_FORMAT_JSON)
        return sweep_write_json(out, sweep);
    if (format == PLAN_FORMAT_CSV)
        return sweep_write_csv(out, sweep);
    return report_write_document(out, sweep_document(sweep), format, colour);
}
