#include "loadgen/report/report.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/report/document.h"
#include "loadgen/report/json.h"
#include "loadgen/report/latencies.h"
#include "loadgen/stats/measures.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIGNIFICANT 0.01

enum { ENOUGH_SECONDS = 20, ENOUGH_ROUNDS = 5 };

static const struct row {
    const char *label;
    enum measure round_measure;
    const char *second_member; /* NULL: responses per second */
} rows[] = {
    {"requests/s", MEASURE_RATE, NULL},
    {"p50", MEASURE_P50, "p50_us"},
    {"p90", MEASURE_P90, "p90_us"},
    {"p99", MEASURE_P99, "p99_us"},
};

/* ---- Reading ---- */

json_t *compare_read_one(const char *file, char *why, size_t size)
{
    json_error_t error;
    FILE *in = fopen(file, "re");
    json_t *report;

    if (in == NULL) {
        snprintf(why, size, "cannot read the report %s: %s", file, strerror(errno));
        return NULL;
    }
    report = json_loadf(in, 0, &error);
    fclose(in);
    if (report == NULL) {
        snprintf(why, size, "%s is not JSON: line %d: %s", file, error.line, error.text);
        return NULL;
    }
    if (!json_is_array(json_object_get(report, "seconds")) ||
        !json_is_object(json_object_get(report, "plan"))) {
        snprintf(why, size, "%s is not a report of a run; create one with wsload --json -o FILE",
                 file);
        json_decref(report);
        return NULL;
    }
    if (json_integer_value(json_object_get(report, "schema")) > REPORT_SCHEMA) {
        snprintf(why, size, "%s has schema %" JSON_INTEGER_FORMAT "; this wsload reads up to %d",
                 file, json_integer_value(json_object_get(report, "schema")), REPORT_SCHEMA);
        json_decref(report);
        return NULL;
    }
    return report;
}

/* Adds the rounds of FROM to INTO; a report without rounds is one round. */
static void append_rounds(json_t *into, const json_t *from)
{
    static const char *const times[] = {"p50", "p90", "p99"};
    json_t *rounds = json_object_get(from, "rounds"), *round;
    char name[16];

    if (json_is_array(rounds)) {
        json_array_extend(into, rounds);
        return;
    }
    round = json_object();
    json_object_set(round, measure_table[MEASURE_RATE].name,
                    json_object_get(from, "requests_per_second"));
    for (size_t i = 0; i < ARRAY_LENGTH(times); i++) {
        snprintf(name, sizeof(name), "%s_us", times[i]);
        json_object_set(round, name,
                        json_object_get(json_object_get(from, "latency_us"), times[i]));
    }
    json_array_append_new(into, round);
}

/* The first report, with the rounds of all reports. FILES is modified. */
static json_t *read_several(char *files, char *why, size_t size)
{
    json_t *whole = NULL, *rounds = json_array(), *report;
    char *rest = NULL;

    for (char *file = strtok_r(files, ",", &rest); file; file = strtok_r(NULL, ",", &rest)) {
        report = compare_read_one(file, why, size);
        if (report == NULL) {
            json_decref(whole);
            json_decref(rounds);
            return NULL;
        }
        append_rounds(rounds, report);
        if (whole == NULL)
            whole = report;
        else
            json_decref(report);
    }
    if (whole != NULL)
        json_object_set(whole, "rounds", rounds);
    json_decref(rounds);
    return whole;
}

json_t *compare_read(const char *files, char *why, size_t size)
{
    char *words;
    json_t *report;

    if (strchr(files, ',') == NULL || access(files, R_OK) == 0)
        return compare_read_one(files, why, size);
    snprintf(why, size, "out of memory");
    words = strdup(files);
    report = words != NULL ? read_several(words, why, size) : NULL;
    free(words);
    return report;
}

/* ---- Comparing ---- */

static double number_member(const json_t *second, const char *member)
{
    return json_number_value(json_object_get(second, member));
}

/*
 * Whether a second is compared: not the warm-up, an incomplete last second, or one without
 * responses.
 */
static bool is_counted(const json_t *second)
{
    return !json_is_true(json_object_get(second, "warmup")) &&
           number_member(second, "end_s") - number_member(second, "begin_s") >= 0.2 &&
           number_member(second, "answered") > 0;
}

/* Changes are ratios, and slow seconds are outliers, so logarithms are compared. */
static double logarithm(double value)
{
    return log(fmax(value, 1e-3));
}

/* Fills VALUES, with room for one of each second. Returns the number of values. */
static size_t collect_seconds(const json_t *seconds, const struct row *row, double *values)
{
    size_t count = 0, i;
    const json_t *second;

    json_array_foreach(seconds, i, second)
    {
        if (is_counted(second))
            values[count++] = logarithm(
                row->second_member != NULL
                    ? number_member(second, row->second_member)
                    : number_member(second, "answered") /
                          (number_member(second, "end_s") - number_member(second, "begin_s")));
    }
    return count;
}

/* As collect_seconds(), for rounds. */
static size_t collect_rounds(const json_t *rounds, const struct row *row, double *values)
{
    size_t count = 0, i;
    const json_t *round;

    json_array_foreach(rounds, i, round)
    {
        double value = number_member(round, measure_table[row->round_measure].name);

        if (value > 0)
            values[count++] = logarithm(value);
    }
    return count;
}

/* How A and B differ in one measure. */
struct difference {
    double a, b; /* medians */
    double p;    /* NAN: too few values */
};

static bool is_significant(const struct difference *difference)
{
    return difference->p < SIGNIFICANT &&
           (difference->a < difference->b || difference->a > difference->b);
}

static bool is_better(const struct row *row, const struct difference *difference)
{
    return (difference->b > difference->a) == (row->second_member == NULL);
}

static void put_median(struct document *document, const struct row *row, double value)
{
    char text[UNITS_TEXT];

    if (isnan(value))
        document_cell(document, "-");
    else if (row->second_member == NULL)
        document_cell(document, "%s", format_integer(text, sizeof(text), (uint64_t)(value + 0.5)));
    else
        document_cell(document, "%s", units_format_ns(text, sizeof(text), value * 1e3));
}

static void put_difference(struct document *document, const struct row *row,
                           const struct difference *difference)
{
    const char *verdict = "no difference found";

    if (isnan(difference->p))
        verdict = "too few to tell";
    else if (is_significant(difference))
        verdict = is_better(row, difference) ? "B is better" : "B is worse";
    document_row(document, DOCUMENT_NORMAL);
    document_cell(document, "%s", row->label);
    put_median(document, row, difference->a);
    put_median(document, row, difference->b);
    if (difference->a > 0 && !isnan(difference->b))
        document_cell(document, "%+.1f%%", 100 * (difference->b / difference->a - 1));
    else
        document_cell(document, "-");
    document_cell(document,
                  isnan(difference->p)    ? "-"
                  : difference->p < 0.001 ? "<0.001"
                                          : "%.3f",
                  difference->p);
    document_cell(document, "%s", verdict);
}

/* The arrays to compare: the rounds if both reports have enough, else the seconds. */
struct sides {
    bool by_round;
    const json_t *a, *b;
};

/* Returns whether B is worse. */
static bool compare_row(struct document *document, const struct row *row, const struct sides *sides)
{
    size_t (*collect)(const json_t *, const struct row *, double *) =
        sides->by_round ? collect_rounds : collect_seconds;
    size_t a_most = json_array_size(sides->a), b_most = json_array_size(sides->b);
    double *of_a = calloc(a_most + b_most + 1, sizeof(*of_a));
    struct difference difference = {NAN, NAN, NAN};

    if (of_a != NULL) {
        double *of_b = of_a + a_most;
        size_t a_count = collect(sides->a, row, of_a), b_count = collect(sides->b, row, of_b);

        difference.p = (sides->by_round ? statistics_p_value_of_runs
                                        : statistics_p_value)(of_a, a_count, of_b, b_count);
        difference.a = exp(statistics_median(of_a, a_count));
        difference.b = exp(statistics_median(of_b, b_count));
    }
    put_difference(document, row, &difference);
    free(of_a);
    return is_significant(&difference) && !is_better(row, &difference);
}

/* ---- The document ---- */

/* A setting that differs may be the cause of any difference. */
static void note_settings(struct document *document, const json_t *a, const json_t *b)
{
    const json_t *value;
    const char *key;

    json_object_foreach((json_t *)(uintptr_t)a, key, value)
    {
        if (!json_equal(value, json_object_get(b, key)))
            document_note(document, DOCUMENT_WARNING, "", "The runs differ in the setting %s.",
                          key);
    }
}

static size_t count_seconds(const json_t *report)
{
    size_t count = 0, i;
    const json_t *second;

    json_array_foreach(json_object_get(report, "seconds"), i, second)
    {
        count += is_counted(second);
    }
    return count;
}

static void note_seconds(struct document *document, const json_t *a, const json_t *b)
{
    size_t of_a = count_seconds(a), of_b = count_seconds(b), seconds = of_a < of_b ? of_a : of_b;

    if (seconds < ENOUGH_SECONDS)
        document_note(document, DOCUMENT_WARNING, "",
                      "Only %zu seconds are compared; use runs of at least %d seconds.", seconds,
                      ENOUGH_SECONDS);
    document_note(document, DOCUMENT_WARNING, "",
                  "Other activity of the machine also makes single runs differ. Use several runs "
                  "(--repeat) before you trust a small difference.");
}

static void note_few_rounds(struct document *document, const struct sides *sides)
{
    size_t of_a = json_array_size(sides->a), of_b = json_array_size(sides->b);
    size_t rounds = of_a < of_b ? of_a : of_b;

    if (rounds < ENOUGH_ROUNDS)
        document_note(document, DOCUMENT_WARNING, "",
                      "Only %zu rounds are compared; use at least %d.", rounds, ENOUGH_ROUNDS);
}

bool compare_write(FILE *out, const json_t *a, const json_t *b)
{
    const json_t *a_rounds = json_object_get(a, "rounds"), *b_rounds = json_object_get(b, "rounds");
    bool by_round = json_array_size(a_rounds) >= STATISTICS_INTERVAL_MIN &&
                    json_array_size(b_rounds) >= STATISTICS_INTERVAL_MIN;
    const struct sides sides = {by_round, by_round ? a_rounds : json_object_get(a, "seconds"),
                                by_round ? b_rounds : json_object_get(b, "seconds")};
    const struct document_column columns[] = {
        {by_round ? "By round" : "By second", DOCUMENT_LEFT, 12},
        {"median A", DOCUMENT_RIGHT, 12},
        {"median B", DOCUMENT_RIGHT, 12},
        {"change", DOCUMENT_RIGHT, 10},
        {"p-value", DOCUMENT_RIGHT, 10},
        {"", DOCUMENT_LEFT, 0}};
    struct document *document =
        document_create("wsload", (struct document_layout){.indent = 2, .column_gap = 2});
    bool worse = false;

    if (document == NULL)
        return false;
    document_table(document, NULL, columns, ARRAY_LENGTH(columns));
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        worse = compare_row(document, &rows[i], &sides) || worse;
    note_settings(document, json_object_get(a, "plan"), json_object_get(b, "plan"));
    if (by_round)
        note_few_rounds(document, &sides);
    else
        note_seconds(document, a, b);
    document_write_text(out, document, false);
    document_free(document);
    return worse;
}

/* ---- A baseline ---- */

/* The member NAME of OBJECT; NAN if it is not a number. */
static double known_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);

    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* A time of REPORT in ns. */
static double baseline_time(const json_t *report, const struct condition *condition)
{
    static const char *const series[] = {
        [CONDITION_LATENCY] = "latency_us",
        [CONDITION_SERVICE] = "service_us",
        [CONDITION_FIRST_BYTE] = "first_byte_us",
        [CONDITION_CONNECT] = "connect_us",
        [CONDITION_FULL_HANDSHAKE] = "full_handshake_us",
        [CONDITION_RESUMED_HANDSHAKE] = "resumed_handshake_us",
    };
    const json_t *times = json_object_get(report, series[condition->series]);
    char name[REPORT_PERCENTILE_NAME] = "max";

    if (condition->metric == CONDITION_PERCENTILE)
        report_percentile_name(name, condition->percent);
    else if (condition->metric == CONDITION_MEAN)
        snprintf(name, sizeof(name), "mean");
    return known_number(times, name) * (double)NS_PER_US;
}

static double baseline_errors(const json_t *report)
{
    const json_t *requests = json_object_get(report, "requests");
    bool has_extractions = json_object_get(requests, "bad_extractions") != NULL; /* not if older */

    return known_number(requests, "failed") + known_number(requests, "unanswered") +
           known_number(requests, "bad_statuses") + known_number(requests, "bad_contents") +
           (has_extractions ? known_number(requests, "bad_extractions") : 0);
}

/* The number that CONDITION is about; NAN: unknown. */
static double baseline_value(const json_t *report, const struct condition *condition)
{
    const json_t *statuses = json_object_get(report, "statuses");
    char status[16];

    switch (condition->metric) {
    case CONDITION_PERCENTILE:
    case CONDITION_MEAN:
    case CONDITION_MAX:
        return baseline_time(report, condition);
    case CONDITION_RATE:
        return known_number(report, "requests_per_second");
    case CONDITION_ERRORS:
        return baseline_errors(report);
    case CONDITION_ERROR_PERCENT:
        return known_number(json_object_get(report, "requests"), "error_percent");
    case CONDITION_STATUS:
        snprintf(status, sizeof(status), "%03u", condition->status);
        return json_object_get(statuses, status) != NULL ? known_number(statuses, status) : 0;
    }
    return NAN;
}

static int apply_baseline(struct condition *conditions, size_t count, const json_t *report,
                          const char *file, char *why, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        double value = baseline_value(report, &conditions[i]);

        if (!conditions[i].relative)
            continue;
        if (isnan(value)) {
            snprintf(why, size, "the baseline %s has no number for the condition %s", file,
                     conditions[i].text);
            return -1;
        }
        condition_set_baseline(&conditions[i], value);
    }
    return 0;
}

int baseline_apply(struct plan *plan, char *why, size_t size)
{
    json_t *report;
    int result;

    if (plan->baseline == NULL)
        return 0;
    report = compare_read_one(plan->baseline, why, size);
    if (report == NULL)
        return -1;
    result = apply_baseline(plan->fail_if, plan->fail_if_count, report, plan->baseline, why, size);
    if (result == 0)
        result =
            apply_baseline(plan->abort_on, plan->abort_on_count, report, plan->baseline, why, size);
    json_decref(report);
    return result;
}
