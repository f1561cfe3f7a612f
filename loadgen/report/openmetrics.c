#include "loadgen/report/openmetrics.h"

#include "common/escape.h"
#include "common/macros.h"

#include "loadgen/report/latencies.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void put_typed_head(FILE *out, const char *name, const char *type, const char *unit,
                           const char *help)
{
    fprintf(out, "# TYPE %s %s\n", name, type);
    if (unit != NULL)
        fprintf(out, "# UNIT %s %s\n", name, unit);
    fprintf(out, "# HELP %s %s\n", name, help);
}

static void put_head(FILE *out, const char *name, const char *unit, const char *help)
{
    put_typed_head(out, name, "gauge", unit, help);
}

static void put_gauge(FILE *out, const char *name, const char *unit, const char *help, double value)
{
    put_head(out, name, unit, help);
    fprintf(out, "%s %.9g\n", name, value);
}

static void put_requests(FILE *out, const struct tally *tally)
{
    const struct {
        const char *outcome;
        uint64_t count;
    } rows[] = {{"answered", tally_get(tally, TALLY_answered)},
                {"failed", tally_errors(tally)},
                {"unanswered", tally_get(tally, TALLY_unanswered)},
                {"unsent", tally_unsent(tally)}};

    put_head(out, "wsload_requests", NULL, "Requests of the last run by outcome.");
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        fprintf(out, "wsload_requests{outcome=\"%s\"} %" PRIu64 "\n", rows[i].outcome,
                rows[i].count);
}

static void put_statuses(FILE *out, const struct tally *tally)
{
    put_head(out, "wsload_responses", NULL, "Responses of the last run by status code.");
    for (uint32_t status = 0; status < TALLY_STATUSES; status++)
        if (tally_status(tally, status) > 0)
            fprintf(out, "wsload_responses{status=\"%03u\"} %" PRIu64 "\n", status,
                    tally_status(tally, status));
}

static void put_errors(FILE *out, const struct tally *tally)
{
    put_head(out, "wsload_errors", NULL, "Requests of the last run without a response, by kind.");
    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        fprintf(out, "wsload_errors{kind=\"%s\"} %" PRIu64 "\n", error_kind_names[kind],
                tally_error(tally, (enum error_kind)kind));
}

static void put_part(FILE *out, const char *name, const char *part, const char *labels)
{
    bool labelled = labels[0] != '\0';

    fprintf(out, "%s_%s%s%s%s ", name, part, labelled ? "{" : "", labels, labelled ? "}" : "");
}

/* LABELS: "" or labels. Percentiles with no value above them are omitted. */
static void put_summary(FILE *out, const struct result *result, const char *name,
                        const char *labels, const struct histogram *times)
{
    const char *comma = labels[0] != '\0' ? "," : "";
    uint64_t n = histogram_count(times);
    size_t count;
    const double *percents = report_percentiles(result->plan, &count);

    if (n == 0)
        return;
    for (size_t i = 0; i < count; i++)
        if (measure_percentile_is_known(percents[i], n))
            fprintf(out, "%s{%s%squantile=\"%.10g\"} %.9g\n", name, labels, comma,
                    percents[i] / 100, (double)histogram_percentile(times, percents[i]) / 1e9);
    fprintf(out, "%s{%s%squantile=\"1\"} %.9g\n", name, labels, comma,
            (double)histogram_max(times) / 1e9);
    put_part(out, name, "sum", labels);
    fprintf(out, "%.9g\n", histogram_mean(times) * (double)n / 1e9);
    put_part(out, name, "count", labels);
    fprintf(out, "%" PRIu64 "\n", n);
}

static void put_times(FILE *out, const struct result *result, const char *name, const char *help,
                      const struct histogram *times)
{
    if (histogram_count(times) == 0)
        return;
    put_typed_head(out, name, "summary", "seconds", help);
    put_summary(out, result, name, "", times);
}

/* ---- Scenarios ---- */

enum { NAME_TEXT = 1024, LABELS_TEXT = 3 * NAME_TEXT };

/* A copy of NAME for a label, in which backslashes and quotes are escaped. */
static char *escape_label(char *buffer, size_t size, const char *name)
{
    char text[NAME_TEXT];
    size_t length = 0;

    escape_text(text, sizeof(text), name, strlen(name));
    for (const char *at = text; *at != '\0' && length + 3 < size; at++) {
        if (*at == '"' || *at == '\\')
            buffer[length++] = '\\';
        buffer[length++] = *at;
    }
    buffer[length] = '\0';
    return buffer;
}

/* The labels of row I; steps are numbered, because two may have the same name. */
static char *write_labels(char *buffer, const struct scenario_tally *tally, size_t i)
{
    char scenario[LABELS_TEXT / 3], step[LABELS_TEXT / 3];
    size_t first = i;

    while (tally->row[first].weight == 0)
        first--;
    escape_label(scenario, sizeof(scenario), tally->row[first].name);
    if (first == i)
        snprintf(buffer, LABELS_TEXT, "scenario=\"%s\"", scenario);
    else
        snprintf(buffer, LABELS_TEXT, "scenario=\"%s\",step=\"%zu\",name=\"%s\"", scenario,
                 i - first, escape_label(step, sizeof(step), tally->row[i].name));
    return buffer;
}

static void put_outcomes(FILE *out, const char *name, const char *labels,
                         const struct scenario_row *row)
{
    bool step = row->weight == 0;

    fprintf(out, "%s{%s,outcome=\"%s\"} %" PRIu64 "\n", name, labels, step ? "passed" : "completed",
            row->good);
    fprintf(out, "%s{%s,outcome=\"failed\"} %" PRIu64 "\n", name, labels, row->failed);
    fprintf(out, "%s{%s,outcome=\"%s\"} %" PRIu64 "\n", name, labels,
            step ? "unanswered" : "unfinished", row->open);
}

/* Scenarios, or steps: the samples of a metric must not be interrupted by those of another. */
static void put_rows(FILE *out, const struct result *result, bool steps)
{
    const char *counts = steps ? "wsload_step_requests" : "wsload_scenarios";
    const char *times = steps ? "wsload_step_latency_seconds" : "wsload_scenario_duration_seconds";
    const struct scenario_tally *tally = result->scenarios;
    char labels[LABELS_TEXT];

    put_head(out, counts, NULL,
             steps ? "Requests of the last run by step and outcome."
                   : "Scenarios that were started in the last run by outcome.");
    for (size_t i = 0; i < tally->count; i++)
        if ((tally->row[i].weight == 0) == steps)
            put_outcomes(out, counts, write_labels(labels, tally, i), &tally->row[i]);
    put_typed_head(out, times, "summary", "seconds",
                   steps ? "Response time of steps by quantile."
                         : "Duration of completed scenarios, think times included, by quantile.");
    for (size_t i = 0; i < tally->count; i++)
        if ((tally->row[i].weight == 0) == steps)
            put_summary(out, result, times, write_labels(labels, tally, i), &tally->row[i].times);
}

int result_write_openmetrics(FILE *out, const struct result *result)
{
    const struct tally *tally = &result->tally;

    put_gauge(out, "wsload_end_timestamp_seconds", "seconds", "When the last run ended, Unix time.",
              (double)time(NULL));
    put_gauge(out, "wsload_exit_status", NULL, "Exit status of the last run; 0: success.",
              (double)result_status(result));
    put_gauge(out, "wsload_elapsed_seconds", "seconds", "Duration of the last run.",
              (double)result->elapsed_ns / 1e9);
    put_gauge(out, "wsload_requests_per_second", NULL, "Responses per second of the last run.",
              result_rate(result));
    put_gauge(out, "wsload_connections", NULL, "Connections of the last run.", result->connections);
    put_gauge(out, "wsload_received_bytes", "bytes", "Bytes received in the last run.",
              (double)(tally_get(tally, TALLY_head_bytes) + tally_get(tally, TALLY_body_bytes)));
    put_requests(out, tally);
    put_statuses(out, tally);
    put_errors(out, tally);
    put_times(out, result, "wsload_latency_seconds", "Response time by quantile.", &tally->latency);
    put_times(out, result, "wsload_service_seconds", "Service time by quantile.", &tally->service);
    put_times(out, result, "wsload_connect_seconds", "Time to connect by quantile.",
              &tally->connect);
    if (result->scenarios != NULL) {
        put_rows(out, result, false);
        put_rows(out, result, true);
    }
    fputs("# EOF\n", out);
    return 0;
}
