#include "loadgen/lab/findings.h"

#include "common/clock.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/lab/points.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS_MAX = 16, SENTENCE = 700, TABLE_TITLE = 160 };

static const struct {
    enum document_tone tone;
    const char *lead;
} kinds[] = {
    [FINDINGS_LESSON] = {DOCUMENT_NORMAL, ""},
    [FINDINGS_MET] = {DOCUMENT_NORMAL, "Met:"},
    [FINDINGS_NOT_MET] = {DOCUMENT_BAD, "Not met:"},
    [FINDINGS_UNDECIDED] = {DOCUMENT_NORMAL, "Not decided:"},
    [FINDINGS_CAUTION] = {DOCUMENT_NORMAL, "Note:"},
};

struct document *findings_create(const char *title)
{
    const struct document_layout layout = {
        .column_gap = 2, .underlines_title = true, .draws_plots = true};
    struct document *findings = document_create("wsload lab", layout);

    if (findings != NULL)
        document_title(findings, "%s", title);
    return findings;
}

void findings_table(struct document *findings, const char *title, const char *const *heads)
{
    struct document_column columns[COLUMNS_MAX];
    size_t count = 0;

    for (; count < COLUMNS_MAX && heads[count] != NULL; count++)
        columns[count] =
            (struct document_column){heads[count], count == 0 ? DOCUMENT_LEFT : DOCUMENT_RIGHT, 0};
    document_table(findings, title, columns, count);
}

void findings_add(struct document *findings, enum findings_kind kind, const char *format, ...)
{
    char text[SENTENCE];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    document_note(findings, kinds[kind].tone, kinds[kind].lead, "%s", text);
}

/* ---- For pages ---- */

/* The units of values that are not measures of a run. */
enum published_unit { PUBLISHED_COUNT, PUBLISHED_BYTES, PUBLISHED_PERCENT };

/*
 * A result of the same experiment that others published, or the settings of the results that follow
 * it, or why those of a source are not compared (published.def).
 */
struct published {
    const char *experiment;
    const char *settings; /* NULL: a result */
    bool compared;        /* false: the settings are the reason why nothing is */
    int source;           /* who published it; -1: settings of ours */
    const char *point;
    enum measure measure;
    const char *label; /* NULL: that of the measure */
    enum published_unit unit;
    double value; /* NAN: not published */
};

enum {
#define PUBLISHED_SOURCE(id, authors, title, year) SOURCE_##id,
#include "loadgen/lab/published.def"
};

/* The result or settings of EXPERIMENT that follow AFTER (NULL: the first); NULL at the end. */
static const struct published *published_entry(const char *experiment,
                                               const struct published *after)
{
    static const struct published all[] = {
#define PUBLISHED_THEIRS(experiment, source, settings)                                             \
    {#experiment, settings, true, SOURCE_##source, NULL, MEASURE_COUNT, NULL, PUBLISHED_COUNT, 0},
#define PUBLISHED_APART(experiment, source, reason)                                                \
    {#experiment, reason, false, SOURCE_##source, NULL, MEASURE_COUNT, NULL, PUBLISHED_COUNT, 0},
#define PUBLISHED_OURS(experiment, settings)                                                       \
    {#experiment, settings, true, -1, NULL, MEASURE_COUNT, NULL, PUBLISHED_COUNT, 0},
#define PUBLISHED(experiment, point, measure, value)                                               \
    {#experiment, NULL, true, -1, point, MEASURE_##measure, NULL, PUBLISHED_COUNT, value},
#define PUBLISHED_VALUE(experiment, point, label, unit, value)                                     \
    {#experiment, NULL, true, -1, point, MEASURE_COUNT, label, PUBLISHED_##unit, value},
#include "loadgen/lab/published.def"
    };

    for (const struct published *at = after != NULL ? after + 1 : all; at < all + ARRAY_LENGTH(all);
         at++)
        if (strcmp(at->experiment, experiment) == 0)
            return at;
    return NULL;
}

/* Our result for ONE; NAN if the point was not measured. */
static double own_value(const struct published_own *own, const struct published *one)
{
    for (size_t i = 0; one->label != NULL && i < own->value_count; i++)
        if (strcmp(own->values[i].point, one->point) == 0 &&
            strcmp(own->values[i].label, one->label) == 0)
            return own->values[i].value;
    for (size_t i = 0; one->label == NULL && i < own->count; i++)
        if (strcmp(own->of[i].point, one->point) == 0)
            return own->of[i].medians.value[one->measure];
    return NAN;
}

/* VALUE in the unit of ONE. */
static void put_published_value(struct document *findings, const struct published *one,
                                double value)
{
    char text[MEASURE_TEXT];

    if (isnan(value))
        document_cell(findings, "-");
    else if (one->label == NULL)
        document_cell(findings, "%s", measure_format(text, one->measure, value));
    else if (one->unit == PUBLISHED_BYTES)
        document_cell(findings, "%.1f MB", value / 1e6);
    else if (one->unit == PUBLISHED_PERCENT)
        document_cell(findings, "%.1f%%", value);
    else
        document_cell(findings, "%s", format_number(text, sizeof(text), value));
}

static void put_published(struct document *findings, const struct published *one, double value)
{
    char text[MEASURE_TEXT];

    document_row(findings, DOCUMENT_NORMAL);
    document_cell(findings, "%s", one->point);
    document_cell(findings, "%s",
                  one->label != NULL ? one->label : measure_table[one->measure].label);
    put_published_value(findings, one, one->value);
    put_published_value(findings, one, value);
    if (isnan(value) || isnan(one->value) || one->value <= 0)
        document_cell(findings, "-");
    else
        document_cell(findings, "%s", format_number(text, sizeof(text), value / one->value));
}

static const struct {
    const char *authors, *title, *year;
} published_sources[] = {
#define PUBLISHED_SOURCE(id, authors, title, year) [SOURCE_##id] = {authors, title, year},
#include "loadgen/lab/published.def"
};

static void put_published_settings(struct document *findings, const struct published *entry)
{
    if (entry->source >= 0)
        document_note(findings, DOCUMENT_QUIET, "Source:", "%s: %s, %s.",
                      published_sources[entry->source].authors,
                      published_sources[entry->source].title,
                      published_sources[entry->source].year);
    document_note(findings, DOCUMENT_QUIET,
                  !entry->compared     ? "Not compared:"
                  : entry->source >= 0 ? "Theirs:"
                                       : "Ours:",
                  "%s.", entry->settings);
}

/* The title names who published the rows; the notes of the section have the whole source. */
static void begin_published_table(struct document *findings, int source)
{
    static const char *const heads[] = {"point", "measure", "published", "ours", "ratio", NULL};
    char title[TABLE_TITLE];

    snprintf(title, sizeof(title), "%s, %s", published_sources[source].authors,
             published_sources[source].year);
    findings_table(findings, title, heads);
}

void findings_add_published(struct document *findings, const char *experiment,
                            const struct published_own *own)
{
    const struct published *entry = published_entry(experiment, NULL);
    int source = -1; /* of a table that is not begun */

    if (entry != NULL)
        document_section(findings, "Published by others, of their servers on their machines", NULL);
    if (entry != NULL && own->why[0] != '\0')
        document_note(findings, DOCUMENT_QUIET, "Not compared:", "%s.", own->why);
    for (; entry != NULL; entry = published_entry(experiment, entry)) {
        if (entry->settings != NULL) {
            put_published_settings(findings, entry);
            source = entry->source >= 0 ? entry->source : source;
        } else if (own->why[0] == '\0') {
            if (source >= 0)
                begin_published_table(findings, source);
            source = -1;
            put_published(findings, entry, own_value(own, entry));
        }
    }
}

void findings_add_terms(struct document *findings)
{
    static const struct {
        const char *term, *text;
    } terms[] = {
        {"Response", "time from when a request was due to its last byte. Mean, p50, p99, max and "
                     "latency are of it, unless the service is named. In a closed loop a request "
                     "is due when it is sent"},
        {"Service", "time from when a request was sent to its last byte"},
        {"First byte", "time from when a request was sent to the first byte of the response"},
        {"Server CPU", "CPU time of all processes of the server, divided by the responses"},
        {"Switches", "context switches of the server's threads per request"},
        {"± and bars", "half the width, and the ends, of the 95% confidence interval of the "
                       "median over the rounds"},
    };

    document_section(findings, "Terms", NULL);
    for (size_t i = 0; i < ARRAY_LENGTH(terms); i++)
        document_fact(findings, DOCUMENT_NORMAL, terms[i].term, "%s.", terms[i].text);
}

void findings_add_machine(struct document *findings, const struct machine *machine)
{
    for (size_t i = 0; i < machine->count; i++)
        document_fact(findings, DOCUMENT_NORMAL, machine->fact[i].label, "%s",
                      machine->fact[i].text);
}

void findings_summarise(const struct document *findings, char *summary, size_t size)
{
    static const struct {
        enum findings_kind kind;
        const char *word;
    } verdicts[] = {
        {FINDINGS_MET, "met"}, {FINDINGS_NOT_MET, "not met"}, {FINDINGS_UNDECIDED, "not decided"}};
    const struct document_section *section = &findings->sections[0];
    int length = 0;

    snprintf(summary, size, "no criteria");
    for (size_t i = 0; i < ARRAY_LENGTH(verdicts); i++) {
        size_t count = 0;

        for (size_t k = 0; k < section->note_count; k++)
            count += strcmp(section->notes[k].lead, kinds[verdicts[i].kind].lead) == 0;
        if (count > 0 && length >= 0 && (size_t)length < size)
            length += snprintf(summary + length, size - (size_t)length, "%s%zu %s",
                               length > 0 ? ", " : "", count, verdicts[i].word);
    }
}

/* ---- Verdicts ---- */

/* Keeps an exact number of values from being rounded up. */
#define ROUNDING 1e-6

enum findings_kind verdict_at_most(const struct interval *value, double limit)
{
    if (value->high <= limit)
        return FINDINGS_MET;
    if (value->low > limit)
        return FINDINGS_NOT_MET;
    return FINDINGS_UNDECIDED;
}

enum findings_kind verdict_above(const struct interval *value, double limit)
{
    if (value->low > limit)
        return FINDINGS_MET;
    if (value->high <= limit)
        return FINDINGS_NOT_MET;
    return FINDINGS_UNDECIDED;
}

double verdict_values_needed(const struct interval *value, double limit)
{
    double distance = fabs(value->median - limit);
    double reach = value->median > limit ? value->median - value->low : value->high - value->median;

    if (isnan(value->low) || isnan(value->high))
        return NAN;
    return ceil((double)value->count * pow(reach / distance, 2) - ROUNDING);
}

char *verdict_advice(char *buffer, const struct interval *value, double limit,
                     uint32_t values_a_round, uint64_t trial_ms)
{
    double rounds = ceil(verdict_values_needed(value, limit) / values_a_round);
    char time[UNITS_TEXT];

    if (isnan(rounds))
        snprintf(buffer, VERDICT_ADVICE,
                 " At least %d rounds (--rounds) are necessary to estimate how many decide.",
                 (STATISTICS_INTERVAL_MIN + (int)values_a_round - 1) / (int)values_a_round);
    else if (rounds <= POINT_ROUNDS)
        snprintf(buffer, VERDICT_ADVICE,
                 " About %.0f rounds (--rounds %.0f, or --until-decided) would decide.", rounds,
                 rounds);
    else if (isinf(rounds))
        snprintf(buffer, VERDICT_ADVICE, " The median is at the limit: no number decides.");
    else
        snprintf(buffer, VERDICT_ADVICE,
                 " It is close to the limit: about %d rounds with trials of %s would decide.",
                 POINT_ROUNDS,
                 units_format_ns(time, sizeof(time),
                                 (double)trial_ms * (double)NS_PER_MS * rounds / POINT_ROUNDS));
    return buffer;
}
