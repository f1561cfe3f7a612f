/*
 * A page that needs nothing but itself: facts, plots over time and of the distribution, tables. It is
 * readable on a phone, in the dark and on paper.
 */
#include "loadgen/report.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/units.h"

#include "loadgen/plot.h"
#include "loadgen/report_facts.h"
#include "loadgen/report_style.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* ---- Words and tables ---- */

static void put_head(FILE *out, const struct result *result)
{
    char setting[REPORT_FACT_TEXT];

    fputs(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>wsload: ",
        out);
    escape_html(out, result->url);
    fputs("</title>\n<style>\n" REPORT_STYLE "</style>\n<h1>", out);
    escape_html(out, result->plan->method);
    fputc(' ', out);
    escape_html(out, result->url);
    if (result->requests > 1)
        fprintf(out, " and %zu more", result->requests - 1);
    fprintf(out, "</h1>\n<p class=\"soft\">%s</p>\n",
            report_setting(setting, sizeof(setting), result));
}

static void put_facts(FILE *out, const struct result *result)
{
    struct report_fact facts[REPORT_FACTS_MAX];
    size_t count = report_facts(result, facts);

    for (size_t i = 0; i < count; i++)
        if (facts[i].main)
            fprintf(out, "<p class=\"rate\">%s</p>\n", facts[i].text);
    fputs("<dl>\n", out);
    for (size_t i = 0; i < count; i++) {
        if (facts[i].main)
            continue;
        fprintf(out, "<dt>%s</dt><dd>", facts[i].label);
        escape_html(out, facts[i].text);
        fputs("</dd>\n", out);
    }
    fputs("</dl>\n", out);
}

static void put_notes(FILE *out, const struct result *result)
{
    struct result_note notes[RESULT_NOTES_MAX];
    size_t count = result_notes(result, notes);

    if (count > 0)
        fputs("<div class=\"notes\">\n", out);
    for (size_t i = 0; i < count; i++) {
        fputs("<p>", out);
        escape_html(out, notes[i].text);
        fputs("</p>\n", out);
    }
    if (count > 0)
        fputs("</div>\n", out);
}

static void put_times(FILE *out, const struct plan *plan, const struct report_times *row)
{
    char text[UNITS_TEXT];
    size_t count;
    const double *percents = report_percentiles(plan, &count);

    fprintf(out, "<tr><td>%s<td>%s", row->label,
            units_format_ns(text, sizeof(text), histogram_mean(row->times)));
    for (size_t i = 0; i < count; i++)
        fprintf(out, "<td>%s", report_percentile(text, sizeof(text), row->times, percents[i], "–"));
    fprintf(out, "<td>%s\n",
            units_format_ns(text, sizeof(text), (double)histogram_max(row->times)));
}

static void put_latencies(FILE *out, const struct result *result)
{
    struct report_times rows[REPORT_TIMES_MAX];
    size_t row_count = report_times(result, rows), count;
    const double *percents = report_percentiles(result->plan, &count);
    char name[REPORT_PERCENTILE_NAME];

    if (row_count == 0)
        return;
    fputs("<div class=\"wide\"><table>\n<tr><th>Latency<th>mean", out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, "<th>%s", report_percentile_name(name, sizeof(name), percents[i]));
    fputs("<th>max\n", out);
    for (size_t i = 0; i < row_count; i++)
        put_times(out, result->plan, &rows[i]);
    fputs("</table></div>\n", out);
}

static void put_outcome(FILE *out, const char *name, uint64_t count, bool good)
{
    char text[REPORT_NUMBER];

    fprintf(out, "<tr%s><td>%s<td>%s\n", good ? "" : " class=\"bad\"", name,
            report_group_digits(text, sizeof(text), count));
}

static void put_outcomes(FILE *out, const struct result *result)
{
    const struct tally *tally = &result->tally;

    fputs("<h2>Outcomes</h2>\n<table>\n", out);
    for (uint32_t status = 0; status < TALLY_STATUSES; status++) {
        char name[8];

        snprintf(name, sizeof(name), "%03" PRIu32, status);
        if (tally_status(tally, status) > 0)
            put_outcome(out, name, tally_status(tally, status),
                        report_is_good_status(&result->plan->checks, status));
    }
    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        if (tally_error(tally, (enum error_kind)kind) > 0)
            put_outcome(out, error_kind_labels[kind], tally_error(tally, (enum error_kind)kind),
                        false);
    if (tally_get(tally, TALLY_unanswered) > 0)
        put_outcome(out, "unanswered at the end", tally_get(tally, TALLY_unanswered), false);
    fputs("</table>\n", out);
}

/* ---- Plots ---- */

static void format_seconds(char *label, double value)
{
    snprintf(label, PLOT_LABEL, "%.10g s", value);
}

static void format_rate(char *label, double value)
{
    char text[UNITS_TEXT];

    snprintf(label, PLOT_LABEL, "%s/s", units_format_count(text, sizeof(text), value));
}

static void format_time(char *label, double value)
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
    plot->line[plot->line_count++] = (struct plot_line){name, room, count};
}

static bool is_used(const struct series *series, second_value *value)
{
    for (size_t i = 0; i < series->count; i++)
        if (value(&series->entry[i]) > 0)
            return true;
    return false;
}

static void put_rate_plot(FILE *out, const struct result *result, struct plot_point *room)
{
    const struct series *series = result->series;
    struct plot plot = {.title = "Requests a second",
                        .x = {false, format_seconds},
                        .y = {false, format_rate},
                        .shaded_to = (double)result->plan->warmup_ms / 1e3};

    add_seconds(&plot, "answered", series, answered_of, room);
    if (is_used(series, rate_of))
        add_seconds(&plot, "asked for", series, rate_of, room + series->count);
    if (is_used(series, bad_of))
        add_seconds(&plot, "errors", series, bad_of, room + 2 * series->count);
    plot_write(out, &plot);
}

static void put_latency_plot(FILE *out, const struct result *result, struct plot_point *room)
{
    static const struct {
        const char *name;
        second_value *value;
    } lines[] = {{"p50", p50_of}, {"p90", p90_of}, {"p99", p99_of}, {"max", max_of}};
    struct plot plot = {.title = "Latency over time",
                        .x = {false, format_seconds},
                        .y = {true, format_time},
                        .shaded_to = (double)result->plan->warmup_ms / 1e3};

    for (size_t i = 0; i < PLOT_LINES_MAX; i++)
        add_seconds(&plot, lines[i].name, result->series, lines[i].value,
                    room + i * result->series->count);
    plot_write(out, &plot);
}

/* Up to where one value lies beyond. Returns how many points; fewer than CURVE_MAX. */
enum { CURVE_MAX = 512 };

static size_t fill_curve(const struct histogram *times, struct plot_point *room)
{
    uint64_t values = histogram_count(times);
    double level = 0;
    size_t count = 0;

    while (count < CURVE_MAX && report_percentile_known(level, values)) {
        room[count++] =
            (struct plot_point){100 / (100 - level), (double)histogram_percentile(times, level)};
        level = report_next_level(level);
    }
    return count;
}

static void put_curve_plot(FILE *out, const struct result *result)
{
    struct report_times rows[REPORT_TIMES_MAX];
    struct plot_point room[REPORT_TIMES_MAX][CURVE_MAX];
    struct plot plot = {
        .title = "Latency by percentile", .x = {true, format_tail}, .y = {true, format_time}};

    plot.line_count = report_times(result, rows);
    for (size_t i = 0; i < plot.line_count; i++)
        plot.line[i] =
            (struct plot_line){rows[i].label, room[i], fill_curve(rows[i].times, room[i])};
    plot_write(out, &plot);
}

static int put_plots(FILE *out, const struct result *result)
{
    size_t seconds = result->series != NULL ? result->series->count : 0;
    struct plot_point *room = calloc(PLOT_LINES_MAX * seconds + 1, sizeof(*room));

    if (room == NULL)
        return -1;
    fputs("<div class=\"plots\">\n", out);
    if (seconds > 1) { /* one point is no course */
        put_rate_plot(out, result, room);
        put_latency_plot(out, result, room);
    }
    put_curve_plot(out, result);
    fputs("</div>\n", out);
    free(room);
    return 0;
}

int report_html(FILE *out, const struct result *result, bool colour)
{
    (void)colour;
    put_head(out, result);
    put_facts(out, result);
    put_notes(out, result);
    put_latencies(out, result);
    if (put_plots(out, result) != 0)
        return -1;
    put_outcomes(out, result);
    fputs("<footer><p>wsload " WEBSERVERD_VERSION "</p></footer>\n</html>\n", out);
    return 0;
}
