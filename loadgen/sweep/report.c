#include "loadgen/sweep/sweep.h"

#include "common/macros.h"
#include "common/units.h"

#include "loadgen/report/json.h"
#include "loadgen/report/report.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>

/* ---- CSV ---- */

/* ---- CSV ---- */

/* A row of values, one for each measure. ROUND 0: the row is about all rounds. */
static void put_point_csv_row(FILE *out, const struct sweep_curve *curve,
                              const struct sweep_point *point, const char *row, uint32_t round,
                              const double *values)
{
    fprintf(out, "%s,", row);
    if (round > 0)
        fprintf(out, "%" PRIu32, round);
    fprintf(out, ",%s,", curve->keepalive ? "on" : "off");
    if (curve->server.threads_per_worker > 0)
        fprintf(out, "%" PRIu32 ",%" PRIu32, curve->server.workers,
                curve->server.threads_per_worker);
    else
        fputc(',', out);
    fprintf(out, ",%" PRIu32, point->plan.connections_requested);
    for (size_t i = 0; i < MEASURE_COUNT; i++) {
        fputc(',', out);
        if (!isnan(values[i]))
            fprintf(out, "%.6g", values[i]);
    }
    fprintf(out, ",%s,%s\n", point->zone != ZONE_UNKNOWN ? zone_names[point->zone] : "",
            point->client_bound ? "yes" : "no");
}

static void put_point_csv(FILE *out, const struct sweep *sweep, const struct sweep_curve *curve,
                          const struct sweep_point *point)
{
    size_t number = (size_t)(point - sweep->points);
    double median[MEASURE_COUNT], low[MEASURE_COUNT], high[MEASURE_COUNT];

    for (size_t i = 0; i < MEASURE_COUNT; i++) {
        median[i] = point->over_rounds[i].median;
        low[i] = point->over_rounds[i].low;
        high[i] = point->over_rounds[i].high;
    }
    put_point_csv_row(out, curve, point, "median", 0, median);
    put_point_csv_row(out, curve, point, "low", 0, low);
    put_point_csv_row(out, curve, point, "high", 0, high);
    for (uint32_t k = 0; k < trials_done(sweep->trials, number); k++)
        put_point_csv_row(out, curve, point, "round", k + 1,
                          trials_get(sweep->trials, number, k)->value);
}

static int write_sweep_csv(FILE *out, const struct sweep *sweep)
{
    fputs("row,round,keepalive,server_workers,server_threads,connections", out);
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        fprintf(out, ",%s", measure_table[i].name);
    fputs(",zone,client_bound\n", out);
    for (size_t i = 0; i < sweep->curve_count; i++)
        for (size_t k = 0; k < sweep->curves[i].measured; k++)
            put_point_csv(out, sweep, &sweep->curves[i], &sweep->curves[i].points[k]);
    return 0;
}

/* ---- JSON ---- */

static json_t *numbers_array(const struct plan_numbers *numbers)
{
    json_t *array = json_array();

    for (size_t i = 0; i < numbers->count; i++)
        json_array_append_new(array, integer_json(numbers->value[i]));
    return array;
}

static json_t *sweep_object(const struct sweep *sweep)
{
    static const char *const keepalive[] = {
        [PLAN_KEEPALIVE_ON] = "on", [PLAN_KEEPALIVE_OFF] = "off", [PLAN_KEEPALIVE_BOTH] = "both"};
    const struct plan *plan = sweep->plan;
    json_t *object = json_object();

    json_object_set_new(object, "url", text_json(plan->urls[0]));
    json_object_set_new(object, "method", text_json(plan->method));
    json_object_set_new(object, "engine",
                        json_string(plan->engine == PLAN_ENGINE_RAW ? "raw" : "curl"));
    json_object_set_new(object, "connections", numbers_array(&plan->sweep.connections));
    json_object_set_new(object, "keepalive", json_string(keepalive[plan->sweep.keepalive]));
    json_object_set_new(object, "server_workers", numbers_array(&plan->sweep.server_workers));
    json_object_set_new(object, "server_threads", numbers_array(&plan->sweep.server_threads));
    json_object_set_new(object, "rounds", integer_json(plan->rounds));
    json_object_set_new(object, "threads", integer_json(plan->threads_requested));
    json_object_set_new(object, "requests",
                        plan->requests > 0 ? integer_json(plan->requests) : json_null());
    json_object_set_new(object, "duration_s",
                        plan->duration_ms > 0 ? json_real((double)plan->duration_ms / 1e3)
                                              : json_null());
    json_object_set_new(object, "warmup_s", json_real((double)plan->warmup_ms / 1e3));
    json_object_set_new(object, "max_errors_percent", json_real(plan->max_errors));
    json_object_set_new(object, "cores", integer_json(sweep->machine_cores));
    json_object_set_new(object, "server",
                        sweep->server[0] != '\0' ? text_json(sweep->server) : json_null());
    return object;
}

static json_t *point_object(const struct sweep *sweep, const struct sweep_point *point)
{
    json_t *object = json_object(), *rounds = json_array();
    size_t at = (size_t)(point - sweep->points);

    json_object_set_new(object, "connections", integer_json(point->plan.connections_requested));
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        json_object_set_new(object, measure_table[i].name, interval_json(&point->over_rounds[i]));
    json_object_set_new(object, "zone",
                        point->zone != ZONE_UNKNOWN ? json_string(zone_names[point->zone])
                                                    : json_null());
    json_object_set_new(object, "client_bound", json_boolean(point->client_bound));
    for (uint32_t i = 0; i < trials_done(sweep->trials, at); i++)
        json_array_append_new(rounds, measures_json(trials_get(sweep->trials, at, i)));
    json_object_set_new(object, "rounds", rounds);
    return object;
}

static json_t *findings_array(const struct sweep_finding *findings, size_t count)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(
            array, json_pack("{s:s, s:s}", "name", findings[i].name, "text", findings[i].text));
    return array;
}

static json_t *usl_object(const struct sweep_curve *curve)
{
    const struct usl *usl = &curve->usl;

    if (!curve->has_usl)
        return json_null();
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "lambda", number_json(usl->lambda),
                     "sigma", number_json(usl->sigma), "kappa", number_json(usl->kappa), "n_max",
                     number_json(usl_peak_n(usl)), "x_max", number_json(usl_peak_throughput(usl)),
                     "error_percent", number_json(100 * usl->error), "r2", number_json(usl->r2),
                     "points", integer_json(usl->points));
}

static const char *const limit_names[] = {
    [SWEEP_LIMIT_UNKNOWN] = "unknown",         [SWEEP_LIMIT_NOT_REACHED] = "not_reached",
    [SWEEP_LIMIT_CLIENT] = "client",           [SWEEP_LIMIT_SERVER_THREADS] = "server_threads",
    [SWEEP_LIMIT_SERVER_CPU] = "server_cpu",   [SWEEP_LIMIT_MACHINE] = "machine",
    [SWEEP_LIMIT_CONTENTION] = "contention",   [SWEEP_LIMIT_COHERENCY] = "coherency",
    [SWEEP_LIMIT_CONNECTIONS] = "connections",
};

const char *sweep_limit_name(enum sweep_limit limit)
{
    return limit_names[limit];
}

static json_t *curve_object(const struct sweep *sweep, const struct sweep_curve *curve)
{
    json_t *object = json_object(), *points = json_array();
    bool known = curve->server.threads_per_worker > 0;

    json_object_set_new(object, "name", text_json(curve->name));
    json_object_set_new(object, "keepalive", json_boolean(curve->keepalive));
    json_object_set_new(object, "server_workers",
                        known ? integer_json(curve->server.workers) : json_null());
    json_object_set_new(object, "server_threads",
                        known ? integer_json(curve->server.threads_per_worker) : json_null());
    for (size_t i = 0; i < curve->measured; i++)
        json_array_append_new(points, point_object(sweep, &curve->points[i]));
    json_object_set_new(object, "points", points);
    json_object_set_new(
        object, "best_connections",
        curve->measured > 0
            ? integer_json(curve->points[curve->zones.best].plan.connections_requested)
            : json_null());
    json_object_set_new(object, "knee_connections",
                        curve->measured > 0 ? number_json(curve->zones.knee) : json_null());
    json_object_set_new(object, "usl", usl_object(curve));
    json_object_set_new(object, "limit", json_string(limit_names[curve->limit]));
    json_object_set_new(object, "findings", findings_array(curve->finding, curve->finding_count));
    return object;
}

static int write_sweep_json(FILE *out, const struct sweep *sweep)
{
    json_t *object = json_object(), *curves = json_array();

    json_object_set_new(object, "schema", json_integer(REPORT_SCHEMA));
    json_object_set_new(object, "wsload", json_string(WEBSERVERD_VERSION));
    json_object_set_new(object, "sweep", sweep_object(sweep));
    json_object_set_new(object, "environment", environment_json(sweep->plan));
    for (size_t i = 0; i < sweep->curve_count; i++)
        json_array_append_new(curves, curve_object(sweep, &sweep->curves[i]));
    json_object_set_new(object, "curves", curves);
    json_object_set_new(object, "notes", findings_array(sweep->note, sweep->note_count));
    json_object_set_new(object, "interrupted", json_boolean(sweep->end == TRIALS_INTERRUPTED));
    json_object_set_new(object, "exit_status", json_integer(sweep->status));
    return json_write(out, object, JSON_INDENT(2));
}

enum { LAW_POINTS = 60 };

/* ---- Text and HTML: plots ---- */

/* Times are converted: measures have microseconds, axes nanoseconds. */
static void put_curve_line(struct document *document, const struct sweep_curve *curve,
                           const char *name, enum measure measure)
{
    double scale = measure_table[measure].unit == MEASURE_OF_TIME ? 1000 : 1;

    document_line(document, name, false);
    for (size_t i = 0; i < curve->measured; i++) {
        const struct interval *of = &curve->points[i].over_rounds[measure];

        if (!isnan(of->median))
            document_point_between(document, curve->points[i].plan.connections_requested,
                                   of->median * scale, of->low * scale, of->high * scale);
    }
}

/* No plots for a curve with fewer than two points. */
static void put_curve_plots(struct document *document, const struct sweep_curve *curve)
{
    static const enum measure measures[] = {MEASURE_P50, MEASURE_P90, MEASURE_P99, MEASURE_P99_9};
    /* Linear: proportional growth is a straight line. Latencies have a logarithmic y axis. */
    static const struct plot_axis linear = {false, axis_count}, x = {true, axis_count};

    if (curve->measured < 2)
        return;
    document_plot(document, "Throughput over connections", linear,
                  (struct plot_axis){false, axis_rate});
    put_curve_line(document, curve, "measured", MEASURE_RATE);
    if (curve->has_usl) {
        double from = curve->points[0].plan.connections_requested;
        double to = curve->points[curve->measured - 1].plan.connections_requested;

        document_line(document, "Universal Scalability Law", true);
        for (size_t i = 0; i < LAW_POINTS; i++) {
            double n = from + (to - from) * (double)i / (LAW_POINTS - 1);

            document_point(document, n, usl_throughput(&curve->usl, n));
        }
    }
    document_plot(document, "Latency over connections", x, (struct plot_axis){true, axis_time});
    for (size_t i = 0; i < ARRAY_LENGTH(measures); i++)
        put_curve_line(document, curve, measure_table[measures[i]].label, measures[i]);
}

/* All curves in common plots: as many plots as needed for PLOT_LINES_MAX lines each. */
static void put_overview_plots(struct document *document, const struct sweep *sweep)
{
    static const struct plot_axis linear = {false, axis_count}, x = {true, axis_count};

    if (sweep->curve_count < 2)
        return;
    for (size_t from = 0; from < sweep->curve_count; from += PLOT_LINES_MAX) {
        size_t to = from + PLOT_LINES_MAX;

        to = to < sweep->curve_count ? to : sweep->curve_count;
        document_plot(document, "Throughput of all curves", linear,
                      (struct plot_axis){false, axis_rate});
        for (size_t i = from; i < to; i++)
            put_curve_line(document, &sweep->curves[i], sweep->curves[i].name, MEASURE_RATE);
        document_plot(document, "p99 of all curves", x, (struct plot_axis){true, axis_time});
        for (size_t i = from; i < to; i++)
            put_curve_line(document, &sweep->curves[i], sweep->curves[i].name, MEASURE_P99);
    }
}

/* ---- Tables ---- */

static void put_median_cell(struct document *document, const struct sweep_point *point,
                            enum measure measure)
{
    char text[MEASURE_TEXT];

    document_cell(document, "%s",
                  measure_format(text, measure, point->over_rounds[measure].median));
}

static void put_percent_cell(struct document *document, double percent, const char *mark)
{
    if (isnan(percent))
        document_cell(document, "-");
    else
        document_cell(document, "%.0f%%%s", percent, mark);
}

static void put_point_row(struct document *document, const struct sweep_curve *curve,
                          const struct sweep_point *point)
{
    double spread = interval_percent(&point->over_rounds[MEASURE_RATE]);

    document_row(document, point == &curve->points[curve->zones.best] ? DOCUMENT_STRONG
                           : point->client_bound                      ? DOCUMENT_WARNING
                                                                      : DOCUMENT_NORMAL);
    document_cell(document, "%" PRIu32, point->plan.connections_requested);
    put_median_cell(document, point, MEASURE_RATE);
    document_cell(document, isnan(spread) ? "-" : spread < 9.95 ? "%.1f%%" : "%.0f%%", spread);
    put_median_cell(document, point, MEASURE_P50);
    put_median_cell(document, point, MEASURE_P99);
    put_median_cell(document, point, MEASURE_ERRORS);
    put_percent_cell(document, point->over_rounds[MEASURE_CLIENT_SHARE].median,
                     point->client_bound ? "!" : "");
    put_percent_cell(document, point->over_rounds[MEASURE_MACHINE_BUSY].median, "");
    document_cell(document, "%s", zone_names[point->zone]);
}

/* ---- The document ---- */

static void put_findings(struct document *document, const struct sweep_finding *findings,
                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        document_note(document, DOCUMENT_NORMAL, "", "%s", findings[i].text);
}

static void put_curve(struct document *document, const struct sweep_curve *curve)
{
    static const struct document_column columns[] = {
        {"Connections", DOCUMENT_RIGHT, 0}, {"requests/s", DOCUMENT_RIGHT, 0},
        {"±", DOCUMENT_RIGHT, 6},           {"p50", DOCUMENT_RIGHT, 8},
        {"p99", DOCUMENT_RIGHT, 8},         {"errors", DOCUMENT_RIGHT, 8},
        {"client", DOCUMENT_RIGHT, 8},      {"machine", DOCUMENT_RIGHT, 0},
        {"zone", DOCUMENT_RIGHT, 9}};
    char heading[SWEEP_CURVE_NAME];

    if (curve->measured == 0)
        return;
    snprintf(heading, sizeof(heading), "%s", curve->name);
    heading[0] = (char)toupper((unsigned char)heading[0]);
    document_section(document, heading, NULL);
    document_table(document, NULL, columns, ARRAY_LENGTH(columns));
    for (size_t i = 0; i < curve->measured; i++)
        put_point_row(document, curve, &curve->points[i]);
    put_curve_plots(document, curve);
    put_findings(document, curve->finding, curve->finding_count);
}

/* "8 points of 2s in 5 interleaved rounds; engine curl, up to 4 threads" */
static void put_sweep_subtitle(struct document *document, const struct sweep *sweep)
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
    put_sweep_subtitle(document, sweep);
    report_put_environment(document, sweep->plan, sweep->began_ns);
    document_legend(document, "Bars and ±: 95 %% confidence. Client: CPU time of each of its "
                              "threads, in percent of a core; !: the client was the limit.");
    put_overview_plots(document, sweep);
    put_findings(document, sweep->note, sweep->note_count);
    for (size_t i = 0; i < sweep->curve_count; i++)
        put_curve(document, &sweep->curves[i]);
    return document;
}

int sweep_report(FILE *out, const struct sweep *sweep, bool colour)
{
    enum plan_format format = sweep->plan->format;

    if (format == PLAN_FORMAT_JSON)
        return write_sweep_json(out, sweep);
    if (format == PLAN_FORMAT_CSV)
        return write_sweep_csv(out, sweep);
    return report_write_document(out, sweep_document(sweep), format, colour);
}
