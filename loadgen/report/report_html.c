/*
 * A page that needs nothing but itself: facts, plots over time and of the distribution, tables. It is
 * readable on a phone, in the dark and on paper.
 */
#include "loadgen/report/report.h"
#include "loadgen/stats/notes.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/units.h"

#include "loadgen/report/report_facts.h"
#include "loadgen/report/report_plots.h"
#include "loadgen/report/report_style.h"

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

static void put_rounds(FILE *out, const struct result *result)
{
    struct report_round rows[REPORT_ROUND_ROWS];
    size_t count = report_rounds(result, rows);

    if (count == 0)
        return;
    fputs("<div class=\"wide\"><table>\n<tr><th>Rounds<th>median<th>low<th>high<th>±\n", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "<tr><td>%s", rows[i].label);
        for (size_t k = 0; k + 1 < REPORT_ROUND_COLUMNS; k++)
            fprintf(out, "<td>%s", rows[i].cell[k]);
        fputc('\n', out);
    }
    fputs("</table></div>\n<p class=\"soft\">low and high: 95 % confidence</p>\n", out);
}

static void put_outcome(FILE *out, const char *name, uint64_t count, bool good)
{
    char text[REPORT_NUMBER];

    fprintf(out, "<tr%s><td>%s<td>%s\n", good ? "" : " class=\"bad\"", name,
            format_integer(text, sizeof(text), count));
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
                        plan_is_good_status(&result->plan->checks, status));
    }
    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        if (tally_error(tally, (enum error_kind)kind) > 0)
            put_outcome(out, error_kind_labels[kind], tally_error(tally, (enum error_kind)kind),
                        false);
    if (tally_get(tally, TALLY_unanswered) > 0)
        put_outcome(out, "unanswered at the end", tally_get(tally, TALLY_unanswered), false);
    fputs("</table>\n", out);
}

static void put_plot(void *context, const struct plot *plot)
{
    plot_write(context, plot);
}

static int put_plots(FILE *out, const struct result *result)
{
    int written;

    fputs("<div class=\"plots\">\n", out);
    written = report_plots(result, put_plot, out);
    fputs("</div>\n", out);
    return written;
}

int report_html(FILE *out, const struct result *result, bool colour)
{
    (void)colour;
    put_head(out, result);
    put_facts(out, result);
    put_notes(out, result);
    put_rounds(out, result);
    put_latencies(out, result);
    if (put_plots(out, result) != 0)
        return -1;
    put_outcomes(out, result);
    fputs("<footer><p>wsload " WEBSERVERD_VERSION "</p></footer>\n</html>\n", out);
    return 0;
}
