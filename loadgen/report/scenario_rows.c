#include "loadgen/report/scenario_rows.h"

#include "common/macros.h"
#include "common/units.h"

#include "loadgen/base/format.h"

#include <inttypes.h>

static void put_time(struct document *document, const struct histogram *times, double ns)
{
    char text[UNITS_TEXT];

    document_cell(document, "%s",
                  histogram_count(times) > 0 ? units_format_ns(text, sizeof(text), ns) : "–");
}

/* Omits a percentile with no value above it. */
static void put_percentile(struct document *document, const struct histogram *times, double percent)
{
    char text[UNITS_TEXT];

    document_cell(
        document, "%s",
        measure_percentile_is_known(percent, histogram_count(times))
            ? units_format_ns(text, sizeof(text), (double)histogram_percentile(times, percent))
            : "–");
}

static void put_row(struct document *document, const struct scenario_row *row)
{
    bool bad = row->failed > 0;
    char text[32];

    document_row(document, bad ? DOCUMENT_BAD : DOCUMENT_NORMAL);
    document_cell(document, "%s%s", row->weight == 0 ? "  " : "", row->name);
    document_cell(document, "%s", format_integer(text, sizeof(text), row->begun));
    document_cell(document, "%s", format_integer(text, sizeof(text), row->good));
    document_cell(document, "%s", format_integer(text, sizeof(text), row->failed));
    put_time(document, &row->times, histogram_mean(&row->times));
    put_percentile(document, &row->times, 50);
    put_percentile(document, &row->times, 99);
    put_time(document, &row->times, (double)histogram_max(&row->times));
}

void scenarios_document(struct document *document, const struct result *result)
{
    static const struct document_column columns[] = {
        {"Scenario", DOCUMENT_LEFT, 13}, {"begun", DOCUMENT_RIGHT, 8},
        {"passed", DOCUMENT_RIGHT, 8},   {"failed", DOCUMENT_RIGHT, 8},
        {"mean", DOCUMENT_RIGHT, 8},     {"p50", DOCUMENT_RIGHT, 8},
        {"p99", DOCUMENT_RIGHT, 8},      {"max", DOCUMENT_RIGHT, 8}};
    const struct scenario_tally *tally = result->scenarios;

    if (tally == NULL)
        return;
    document_table(document, NULL, columns, ARRAY_LENGTH(columns));
    for (size_t i = 0; i < tally->count; i++)
        put_row(document, &tally->row[i]);
    for (size_t i = 0; i < tally->count; i++)
        if (tally->row[i].why[0] != '\0')
            document_note(document, DOCUMENT_WARNING, "",
                          "%s: %" PRIu64 " response%s without a value to take; the first: %s.",
                          tally->row[i].name, tally->row[i].bad_extractions,
                          tally->row[i].bad_extractions == 1 ? "" : "s", tally->row[i].why);
}
