/* Markdown with tables, as forges show it: what one pastes under a change that claims to be faster. */
#include "loadgen/report/report.h"
#include "loadgen/stats/notes.h"

#include "common/units.h"

#include "loadgen/report/report_facts.h"

#include <inttypes.h>
#include <string.h>

void report_md_text(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("\\`*_[]<>|", *text) != NULL)
            fputc('\\', out);
        fputc(*text, out);
    }
}

static void put_head(FILE *out, const struct result *result)
{
    char setting[REPORT_FACT_TEXT];

    fputs("### ", out);
    report_md_text(out, result->plan->method);
    fputc(' ', out);
    report_md_text(out, result->url);
    if (result->requests > 1)
        fprintf(out, " and %zu more", result->requests - 1);
    fprintf(out, "\n\n%s (wsload %s)\n\n", report_setting(setting, sizeof(setting), result),
            WEBSERVERD_VERSION);
}

static void put_facts(FILE *out, const struct result *result)
{
    struct report_fact facts[REPORT_FACTS_MAX];
    size_t count = report_facts(result, facts);

    fputs("| | |\n|:--|:--|\n", out);
    for (size_t i = 0; i < count; i++) {
        const char *strong = facts[i].main ? "**" : "";

        fprintf(out, "| %s | %s", facts[i].label, strong);
        report_md_text(out, facts[i].text);
        fprintf(out, "%s |\n", strong);
    }
}

static void put_times(FILE *out, const struct result *result, const struct report_times *row)
{
    char text[UNITS_TEXT];
    size_t count;
    const double *percents = report_percentiles(result->plan, &count);

    fprintf(out, "| %s | %s", row->label,
            units_format_ns(text, sizeof(text), histogram_mean(row->times)));
    for (size_t i = 0; i < count; i++)
        fprintf(out, " | %s", report_percentile(text, sizeof(text), row->times, percents[i], "–"));
    fprintf(out, " | %s |\n",
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
    fputs("\n| Latency | mean", out);
    for (size_t i = 0; i < count; i++)
        fprintf(out, " | %s", report_percentile_name(name, sizeof(name), percents[i]));
    fputs(" | max |\n|:--|--:", out);
    for (size_t i = 0; i < count; i++)
        fputs("|--:", out);
    fputs("|--:|\n", out);
    for (size_t i = 0; i < row_count; i++)
        put_times(out, result, &rows[i]);
}

static void put_rounds(FILE *out, const struct result *result)
{
    struct report_round rows[REPORT_ROUND_ROWS];
    size_t count = report_rounds(result, rows);

    if (count == 0)
        return;
    fputs("\n| Rounds | median | low | high | ± |\n|:--|--:|--:|--:|--:|\n", out);
    for (size_t i = 0; i < count; i++) {
        fprintf(out, "| %s ", rows[i].label);
        for (size_t k = 0; k + 1 < REPORT_ROUND_COLUMNS; k++)
            fprintf(out, "| %s ", rows[i].cell[k]);
        fputs("|\n", out);
    }
}

static void put_outcome(FILE *out, const char *name, uint64_t count)
{
    char text[REPORT_NUMBER];

    fprintf(out, "| %s | %s |\n", name, format_integer(text, sizeof(text), count));
}

static void put_outcomes(FILE *out, const struct result *result)
{
    const struct tally *tally = &result->tally;

    fputs("\n| Outcome | Requests |\n|:--|--:|\n", out);
    for (uint32_t status = 0; status < TALLY_STATUSES; status++) {
        char name[8];

        snprintf(name, sizeof(name), "%03" PRIu32, status);
        if (tally_status(tally, status) > 0)
            put_outcome(out, name, tally_status(tally, status));
    }
    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        if (tally_error(tally, (enum error_kind)kind) > 0)
            put_outcome(out, error_kind_labels[kind], tally_error(tally, (enum error_kind)kind));
    if (tally_get(tally, TALLY_unanswered) > 0)
        put_outcome(out, "unanswered at the end", tally_get(tally, TALLY_unanswered));
}

static void put_notes(FILE *out, const struct result *result)
{
    struct result_note notes[RESULT_NOTES_MAX];
    size_t count = result_notes(result, notes);

    for (size_t i = 0; i < count; i++) {
        fputs(i == 0 ? "\n- " : "- ", out);
        report_md_text(out, notes[i].text);
        fputc('\n', out);
    }
}

int report_md(FILE *out, const struct result *result, bool colour)
{
    (void)colour;
    put_head(out, result);
    put_facts(out, result);
    put_rounds(out, result);
    put_latencies(out, result);
    put_outcomes(out, result);
    put_notes(out, result);
    return 0;
}
