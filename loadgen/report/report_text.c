#include "loadgen/report/report.h"
#include "loadgen/stats/notes.h"

#include "common/units.h"

#include "loadgen/report/latency_bars.h"
#include "loadgen/report/report_facts.h"
#include "loadgen/report/report_page.h"

#include <inttypes.h>
#include <string.h>

enum {
    LABEL = 13,             /* columns of a label, without its indent of 2 */
    ERROR_TEXT_COLUMN = 33, /* what was said about an error stands below its name */
    ROUND_CELL = 13,
    TIME = 8, /* columns of a time, the blank before it included */
    DISTRIBUTION_ROWS = 12,
    DISTRIBUTION_WIDTH = 42, /* columns of the longest bar: its row has 80 with two percentiles */
};

static void put_label(const struct page *page, const char *label)
{
    fprintf(page->out, "  %-*s", LABEL, label);
}

static void put_head(const struct page *page, const struct result *result)
{
    char setting[REPORT_FACT_TEXT];

    fprintf(page->out, "%s%s %s%s", page_style(page, PAGE_BOLD), result->plan->method, result->url,
            page_style(page, PAGE_PLAIN));
    if (result->requests > 1)
        fprintf(page->out, " and %zu more", result->requests - 1);
    fprintf(page->out, "\n%s\n\n", report_setting(setting, sizeof(setting), result));
}

static void put_facts(const struct page *page, const struct result *result)
{
    struct report_fact facts[REPORT_FACTS_MAX];
    size_t count = report_facts(result, facts);

    for (size_t i = 0; i < count; i++) {
        put_label(page, facts[i].label);
        fprintf(page->out, "%s%s%s\n", facts[i].main ? page_style(page, PAGE_BOLD) : "",
                facts[i].text, facts[i].main ? page_style(page, PAGE_PLAIN) : "");
    }
}

/* Room for the percentile's name, where that is longer than a time. */
static int column_of(double percent)
{
    char name[REPORT_PERCENTILE_NAME];
    int length = (int)strlen(report_percentile_name(name, sizeof(name), percent));

    return length < TIME ? TIME : length + 1;
}

static void put_times(const struct page *page, const struct plan *plan,
                      const struct report_times *row)
{
    char text[UNITS_TEXT];
    size_t count;
    const double *percents = report_percentiles(plan, &count);

    put_label(page, row->label);
    fprintf(page->out, "%*s", TIME,
            units_format_ns(text, sizeof(text), histogram_mean(row->times)));
    for (size_t i = 0; i < count; i++)
        fprintf(page->out, "%*s", column_of(percents[i]),
                report_percentile(text, sizeof(text), row->times, percents[i], "-"));
    fprintf(page->out, "%*s\n", TIME,
            units_format_ns(text, sizeof(text), (double)histogram_max(row->times)));
}

static void put_latencies(const struct page *page, const struct result *result)
{
    struct report_times rows[REPORT_TIMES_MAX];
    size_t row_count = report_times(result, rows), count;
    const double *percents = report_percentiles(result->plan, &count);
    char name[REPORT_PERCENTILE_NAME];

    if (row_count == 0)
        return;
    fprintf(page->out, "\n  %-*s%*s", LABEL, "Latency", TIME, "mean");
    for (size_t i = 0; i < count; i++)
        fprintf(page->out, "%*s", column_of(percents[i]),
                report_percentile_name(name, sizeof(name), percents[i]));
    fprintf(page->out, "%*s\n", TIME, "max");
    for (size_t i = 0; i < row_count; i++)
        put_times(page, result->plan, &rows[i]);
}

/* Where the latencies lie, as on the live view. */
static void put_distribution(const struct page *page, const struct result *result)
{
    struct latency_bar bars[LATENCY_BARS_MAX];
    size_t count = latency_bars(&result->tally.latency, DISTRIBUTION_ROWS, DISTRIBUTION_WIDTH,
                                result->plan->unicode, bars);

    if (count > 0)
        fputc('\n', page->out);
    for (size_t i = 0; i < count; i++)
        fprintf(page->out, "  %*s  %s%s%s%s\n", LATENCY_BAR_LABEL_COLUMNS, bars[i].label,
                page_style(page, PAGE_CYAN), bars[i].bar, page_style(page, PAGE_PLAIN),
                bars[i].behind);
}

static void put_rounds(const struct page *page, const struct result *result)
{
    struct report_round rows[REPORT_ROUND_ROWS];
    size_t count = report_rounds(result, rows);

    if (count == 0)
        return;
    fprintf(page->out, "\n  %-*s", LABEL, report_round_heads[0]);
    for (size_t i = 1; i < REPORT_ROUND_COLUMNS; i++)
        fprintf(page->out, "%*s", ROUND_CELL, report_round_heads[i]);
    fputc('\n', page->out);
    for (size_t i = 0; i < count; i++) {
        put_label(page, rows[i].label);
        for (size_t k = 0; k + 1 < REPORT_ROUND_COLUMNS; k++)
            fprintf(page->out, "%*s", ROUND_CELL, rows[i].cell[k]);
        fputc('\n', page->out);
    }
}

static void put_statuses(const struct page *page, const struct result *result)
{
    const struct tally *tally = &result->tally;
    const char *label = "Statuses";

    if (tally_get(tally, TALLY_answered) == 0)
        return;
    fputc('\n', page->out);
    for (uint32_t status = 0; status < TALLY_STATUSES; status++) {
        bool bad = !plan_is_good_status(&result->plan->checks, status);
        char count[REPORT_NUMBER];

        if (tally_status(tally, status) == 0)
            continue;
        put_label(page, label);
        fprintf(page->out, "%s%03" PRIu32 " %13s%s\n", bad ? page_style(page, PAGE_RED) : "",
                status, format_integer(count, sizeof(count), tally_status(tally, status)),
                bad ? page_style(page, PAGE_PLAIN) : "");
        label = "";
    }
}

static void put_errors(const struct page *page, const struct result *result)
{
    const char *label = "Errors";

    if (tally_errors(&result->tally) == 0)
        return;
    fputc('\n', page->out);
    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++) {
        uint64_t count = tally_error(&result->tally, (enum error_kind)kind);
        char text[REPORT_NUMBER];

        if (count == 0)
            continue;
        put_label(page, label);
        fprintf(page->out, "%s%17s%s  %s\n", page_style(page, PAGE_RED),
                format_integer(text, sizeof(text), count), page_style(page, PAGE_PLAIN),
                error_kind_labels[kind]);
        if (result->error_texts.first[kind][0] != '\0') {
            fprintf(page->out, "%*s", ERROR_TEXT_COLUMN, "");
            page_wrap(page, ERROR_TEXT_COLUMN, result->error_texts.first[kind]);
        }
        label = "";
    }
}

static void put_notes(const struct page *page, const struct result *result)
{
    struct result_note notes[RESULT_NOTES_MAX];
    size_t count = result_notes(result, notes);

    for (size_t i = 0; i < count; i++) {
        fprintf(page->out, "%s  %s!%s", i == 0 ? "\n" : "", page_style(page, PAGE_YELLOW),
                page_style(page, PAGE_PLAIN));
        page_wrap(page, 3, notes[i].text);
    }
}

int report_text(FILE *out, const struct result *result, bool colour)
{
    const struct page page = {out, colour};

    put_head(&page, result);
    put_facts(&page, result);
    put_rounds(&page, result);
    put_latencies(&page, result);
    put_distribution(&page, result);
    put_statuses(&page, result);
    put_errors(&page, result);
    put_notes(&page, result);
    return 0;
}
