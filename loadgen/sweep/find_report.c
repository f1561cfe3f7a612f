#include "loadgen/sweep/find.h"

#include "common/macros.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/report/json.h"
#include "loadgen/report/report.h"

#include <inttypes.h>
#include <math.h>

static const char *const load_names[] = {
    [PLAN_FIND_RATE] = "rate",
    [PLAN_FIND_CONNECTIONS] = "connections",
    [PLAN_FIND_THREADS] = "threads",
};

/* The numbers of the trials by rising load. ORDER has find->count elements. */
static void sort_trials(const struct find *find, size_t *order)
{
    for (size_t i = 0; i < find->count; i++) {
        size_t at = i;

        for (; at > 0 && find->trials[order[at - 1]].x > find->trials[i].x; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* ---- CSV and JSON ---- */

static int write_find_csv(FILE *out, const struct find *find)
{
    fprintf(out, "trial,%s", load_names[find->plan->find.what]);
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        fprintf(out, ",%s", measure_table[i].name);
    fprintf(out, "%s\n", find_seeks_rate(find) ? ",met" : "");
    for (size_t i = 0; i < find->count; i++) {
        fprintf(out, "%zu,%.6g", i + 1, find->trials[i].x);
        for (size_t k = 0; k < MEASURE_COUNT; k++) {
            fputc(',', out);
            if (!isnan(find->measures[i].value[k]))
                fprintf(out, "%.6g", find->measures[i].value[k]);
        }
        fprintf(out, "%s\n", !find_seeks_rate(find) ? "" : find->trials[i].met ? ",yes" : ",no");
    }
    return 0;
}

static json_t *find_settings_json(const struct find *find)
{
    const struct plan *plan = find->plan;
    json_t *object = json_object();

    json_object_set_new(object, "url", text_json(plan->urls[0]));
    json_object_set_new(object, "method", text_json(plan->method));
    json_object_set_new(object, "engine",
                        json_string(plan->engine == PLAN_ENGINE_RAW ? "raw" : "curl"));
    json_object_set_new(object, "load", json_string(load_names[plan->find.what]));
    json_object_set_new(object, "condition",
                        find_seeks_rate(find) ? text_json(plan->find.condition.text) : json_null());
    json_object_set_new(object, "arrivals", json_string(plan->poisson ? "poisson" : "constant"));
    json_object_set_new(object, "connections", integer_json(plan->connections_requested));
    json_object_set_new(object, "threads", integer_json(plan->threads_requested));
    json_object_set_new(object, "duration_s", json_real((double)plan->duration_ms / 1e3));
    json_object_set_new(object, "warmup_s", json_real((double)plan->warmup_ms / 1e3));
    json_object_set_new(object, "max_errors_percent", json_real(plan->max_errors));
    json_object_set_new(object, "seed", integer_json(plan->seed));
    json_object_set_new(object, "cores", integer_json(find->machine_cores));
    json_object_set_new(object, "server",
                        find->server[0] != '\0' ? text_json(find->server) : json_null());
    return object;
}

static json_t *answer_json(const struct find *find)
{
    const struct search_answer *answer = &find->answer;
    bool limited = find_seeks_rate(find) && answer->found;

    return json_pack("{s:b, s:o, s:o, s:o, s:b, s:o, s:o}", "found", answer->found, "load",
                     answer->found ? number_json(answer->x) : json_null(), "low",
                     find_seeks_rate(find) ? number_json(answer->low) : json_null(), "high",
                     find_seeks_rate(find) ? number_json(answer->high) : json_null(),
                     "is_confidence_interval", answer->is_interval, "limit",
                     limited ? json_string(sweep_limit_name(find->limit)) : json_null(), "text",
                     text_json(find->text));
}

static json_t *trials_json(const struct find *find)
{
    json_t *array = json_array();

    for (size_t i = 0; i < find->count; i++)
        json_array_append_new(
            array,
            json_pack("{s:f, s:o, s:f, s:o}", "load", find->trials[i].x, "met",
                      find_seeks_rate(find) ? json_boolean(find->trials[i].met) : json_null(),
                      "waited_percent", find->waited_percent[i], "measures",
                      measures_json(&find->measures[i])));
    return array;
}

static int write_find_json(FILE *out, const struct find *find)
{
    json_t *object = json_object(), *notes = json_array();

    for (size_t i = 0; i < find->note_count; i++)
        json_array_append_new(
            notes, json_pack("{s:s, s:s}", "name", find->note[i].name, "text", find->note[i].text));
    json_object_set_new(object, "schema", json_integer(REPORT_SCHEMA));
    json_object_set_new(object, "wsload", json_string(WEBSERVERD_VERSION));
    json_object_set_new(object, "find", find_settings_json(find));
    json_object_set_new(object, "environment", environment_json(find->plan));
    json_object_set_new(object, "answer", find->count > 0 ? answer_json(find) : json_null());
    json_object_set_new(object, "trials", trials_json(find));
    json_object_set_new(object, "notes", notes);
    json_object_set_new(object, "interrupted", json_boolean(find->end == TRIALS_INTERRUPTED));
    json_object_set_new(object, "exit_status", json_integer(find->status));
    return json_write(out, object, JSON_INDENT(2));
}

/* ---- Text and HTML ---- */

static void put_measure_line(struct document *document, const struct find *find,
                             const size_t *order, enum measure measure, bool of_rate)
{
    document_line(document, measure_table[measure].label, false);
    for (size_t i = 0; i < find->count; i++) {
        double value = find->measures[order[i]].value[measure] * (of_rate ? 1 : 1000);

        if (!isnan(value))
            document_point(document, find->trials[order[i]].x, value);
    }
}

/* The limit of the condition as a horizontal line. */
static void put_limit(struct document *document, const struct find *find, const size_t *order)
{
    const struct condition *condition = &find->plan->find.condition;

    if (condition->metric != CONDITION_PERCENTILE && condition->metric != CONDITION_MEAN &&
        condition->metric != CONDITION_MAX)
        return;
    document_line(document, condition->text, true);
    document_point(document, find->trials[order[0]].x, condition->limit);
    document_point(document, find->trials[order[find->count - 1]].x, condition->limit);
}

static void put_plots(struct document *document, const struct find *find, const size_t *order)
{
    static const enum measure times[] = {MEASURE_P50, MEASURE_P90, MEASURE_P99};

    if (find->count < 2)
        return;
    if (find_seeks_rate(find)) {
        document_plot(document, "Latency over offered load", (struct plot_axis){false, axis_rate},
                      (struct plot_axis){true, axis_time});
        for (size_t i = 0; i < ARRAY_LENGTH(times); i++)
            put_measure_line(document, find, order, times[i], false);
        put_limit(document, find, order);
    } else {
        document_plot(document,
                      find->plan->find.what == PLAN_FIND_THREADS ? "Throughput over threads"
                                                                 : "Throughput over connections",
                      (struct plot_axis){true, axis_count}, (struct plot_axis){false, axis_rate});
        put_measure_line(document, find, order, MEASURE_RATE, true);
    }
}

static void put_find_row(struct document *document, const struct find *find, size_t number)
{
    static const enum measure shown[] = {MEASURE_RATE,         MEASURE_P50,
                                         MEASURE_P99,          MEASURE_ERRORS,
                                         MEASURE_CLIENT_SHARE, MEASURE_MACHINE_BUSY};
    const struct search_trial *trial = &find->trials[number];
    char text[MEASURE_TEXT];

    document_row(document, DOCUMENT_NORMAL);
    document_cell(document, "%s", format_number(text, sizeof(text), trial->x));
    for (size_t i = 0; i < ARRAY_LENGTH(shown); i++)
        document_cell(document, "%s",
                      measure_format(text, shown[i], find->measures[number].value[shown[i]]));
    if (find_seeks_rate(find))
        document_cell(document, "%s", trial->met ? "yes" : "no");
}

static void put_trials(struct document *document, const struct find *find, const size_t *order)
{
    struct document_column columns[] = {
        {"offered/s", DOCUMENT_RIGHT, 0}, {"requests/s", DOCUMENT_RIGHT, 0},
        {"p50", DOCUMENT_RIGHT, 8},       {"p99", DOCUMENT_RIGHT, 8},
        {"errors", DOCUMENT_RIGHT, 8},    {"client", DOCUMENT_RIGHT, 8},
        {"machine", DOCUMENT_RIGHT, 0},   {"met", DOCUMENT_RIGHT, 5}};

    if (!find_seeks_rate(find))
        columns[0].head = load_names[find->plan->find.what];
    document_table(document, "Trials", columns, ARRAY_LENGTH(columns) - !find_seeks_rate(find));
    for (size_t i = 0; i < find->count; i++)
        put_find_row(document, find, order[i]);
}

static struct document *find_document(const struct find *find)
{
    const struct document_layout layout = {.indent = 2, .column_gap = 1, .draws_plots = true};
    const struct plan *plan = find->plan;
    struct document *document = document_create("wsload", layout);
    size_t order[SEARCH_TRIALS_MAX] = {0};
    char time[UNITS_TEXT];

    if (document == NULL)
        return NULL;
    sort_trials(find, order);
    document_title(document, "%s %s", plan->method, plan->urls[0]);
    document_subtitle(document, "%zu trials of %s; engine %s, up to %" PRIu32 " connections",
                      find->count, units_format_time_ms(time, sizeof(time), plan->duration_ms),
                      plan->engine == PLAN_ENGINE_RAW ? "raw" : "curl",
                      plan->connections_requested);
    if (find->count > 0)
        document_fact(document, DOCUMENT_STRONG, "Found", "%s", find->text);
    report_put_environment(document, plan, find->began_ns);
    if (find->count > 0) {
        put_plots(document, find, order);
        put_trials(document, find, order);
    }
    for (size_t i = 0; i < find->note_count; i++)
        document_note(document, DOCUMENT_WARNING, "", "%s", find->note[i].text);
    return document;
}

int find_report(FILE *out, const struct find *find, bool colour)
{
    enum plan_format format = find->plan->format;

    if (format == PLAN_FORMAT_JSON)
        return write_find_json(out, find);
    if (format == PLAN_FORMAT_CSV)
        return write_find_csv(out, find);
    return report_write_document(out, find_document(find), format, colour);
}
