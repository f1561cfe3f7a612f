#include "loadgen/sweep/export.h"

#include "loadgen/report/json.h"
#include "loadgen/sweep/findings.h"

#include <inttypes.h>
#include <math.h>

/* ---- CSV ---- */

static void put_names(FILE *out)
{
    fputs("row,round,keepalive,server_workers,server_threads,connections", out);
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        fprintf(out, ",%s", measure_table[i].name);
    fputs(",zone,client_bound\n", out);
}

/* The columns before the measures. ROUND 0: the row is about all rounds. */
static void put_begin(FILE *out, const struct sweep_curve *curve, const struct sweep_point *point,
                      const char *row, uint32_t round)
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
}

/* A row of values, one for each measure. */
static void put_row(FILE *out, const struct sweep_curve *curve, const struct sweep_point *point,
                    const char *row, uint32_t round, const double *values)
{
    put_begin(out, curve, point, row, round);
    for (size_t i = 0; i < MEASURE_COUNT; i++) {
        fputc(',', out);
        if (!isnan(values[i]))
            fprintf(out, "%.6g", values[i]);
    }
    fprintf(out, ",%s,%s\n", point->zone != ZONE_UNKNOWN ? zone_names[point->zone] : "",
            point->client_bound ? "yes" : "no");
}

static void put_point(FILE *out, const struct sweep *sweep, const struct sweep_curve *curve,
                      const struct sweep_point *point)
{
    size_t number = (size_t)(point - sweep->points);
    double median[MEASURE_COUNT], low[MEASURE_COUNT], high[MEASURE_COUNT];

    for (size_t i = 0; i < MEASURE_COUNT; i++) {
        median[i] = point->of[i].median;
        low[i] = point->of[i].low;
        high[i] = point->of[i].high;
    }
    put_row(out, curve, point, "median", 0, median);
    put_row(out, curve, point, "low", 0, low);
    put_row(out, curve, point, "high", 0, high);
    for (uint32_t k = 0; k < trials_done(sweep->trials, number); k++)
        put_row(out, curve, point, "round", k + 1, trials_get(sweep->trials, number, k)->value);
}

int sweep_write_csv(FILE *out, const struct sweep *sweep)
{
    put_names(out);
    for (size_t i = 0; i < sweep->curve_count; i++)
        for (size_t k = 0; k < sweep->curves[i].measured; k++)
            put_point(out, sweep, &sweep->curves[i], &sweep->curves[i].points[k]);
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
    json_object_set_new(object, "cores", integer_json(sweep->cores));
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
        json_object_set_new(object, measure_table[i].name, interval_json(&point->of[i]));
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
    json_object_set_new(object, "limit", json_string(sweep_limit_names[curve->limit]));
    json_object_set_new(object, "findings", findings_array(curve->finding, curve->finding_count));
    return object;
}

int sweep_write_json(FILE *out, const struct sweep *sweep)
{
    json_t *object = json_object(), *curves = json_array();

    json_object_set_new(object, "schema", json_integer(REPORT_SCHEMA));
    json_object_set_new(object, "wsload", json_string(WEBSERVERD_VERSION));
    json_object_set_new(object, "sweep", sweep_object(sweep));
    for (size_t i = 0; i < sweep->curve_count; i++)
        json_array_append_new(curves, curve_object(sweep, &sweep->curves[i]));
    json_object_set_new(object, "curves", curves);
    json_object_set_new(object, "notes", findings_array(sweep->note, sweep->note_count));
    json_object_set_new(object, "interrupted", json_boolean(sweep->end == TRIALS_INTERRUPTED));
    json_object_set_new(object, "exit_status", json_integer(sweep->status));
    return json_write(out, object, JSON_INDENT(2));
}
