#include "loadgen/report/report.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/units.h"

#include "loadgen/report/json.h"
#include "loadgen/report/latencies.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- CSV ---- */

enum { CSV_NAME_TEXT = 1024 };

/* The percentiles that the series has for each second; others are known only for the whole run. */
static bool is_per_second(double percent)
{
    return percent == 50 || percent == 90 || percent == 99;
}

static void put_csv_heads(FILE *out, const struct result *result)
{
    size_t count;
    const double *percents = report_percentiles(result->plan, &count);
    char name[REPORT_PERCENTILE_NAME];

    fputs("row,begin_s,end_s,begun,answered,bad,bytes,requests_per_second,mean_us,p50_us,p90_us,"
          "p99_us,max_us,service_p99_us,rate,connections,threads",
          out);
    for (size_t i = 0; i < count; i++)
        if (!is_per_second(percents[i]))
            fprintf(out, ",%s_us", report_percentile_name(name, percents[i]));
    fputs(result->scenarios != NULL ? ",scenario,step\n" : "\n", out);
}

/* Empty if unknown. */
static void put_csv_time(FILE *out, bool known, uint64_t ns)
{
    fputc(',', out);
    if (known)
        fprintf(out, "%.3f", (double)ns / NS_PER_US);
}

static void put_csv_percentile(FILE *out, const struct histogram *times, double percent)
{
    put_csv_time(out, measure_percentile_is_known(percent, histogram_count(times)),
                 histogram_percentile(times, percent));
}

/* The columns of percentiles that seconds do not have; TIMES NULL leaves them empty. */
static void put_csv_percentiles(FILE *out, const struct result *result,
                                const struct histogram *times)
{
    size_t count;
    const double *percents = report_percentiles(result->plan, &count);

    for (size_t i = 0; i < count; i++) {
        if (is_per_second(percents[i]))
            continue;
        if (times != NULL)
            put_csv_percentile(out, times, percents[i]);
        else
            fputc(',', out);
    }
}

/* Ends a row that has no scenario. */
static void end_csv_row(FILE *out, const struct result *result, const struct histogram *times)
{
    put_csv_percentiles(out, result, times);
    fputs(result->scenarios != NULL ? ",,\n" : "\n", out);
}

/* A row of the type NAME. */
static void put_csv_entry(FILE *out, const struct result *result, const char *name,
                          const struct series_entry *entry, double rate,
                          const struct histogram *times)
{
    const uint64_t ns[] = {entry->mean_ns, entry->p50_ns, entry->p90_ns,
                           entry->p99_ns,  entry->max_ns, entry->service_p99_ns};

    fprintf(out, "%s,%.6f,%.6f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.3f", name,
            (double)entry->begin_ns / 1e9, (double)entry->end_ns / 1e9, entry->begun,
            entry->answered, entry->bad, entry->bytes, rate);
    for (size_t i = 0; i < ARRAY_LENGTH(ns); i++)
        put_csv_time(out, entry->answered > 0, ns[i]);
    fprintf(out, ",%.3f,%" PRIu32 ",%" PRIu32, entry->rate, entry->connections, entry->threads);
    end_csv_row(out, result, times);
}

static double second_rate(const struct series_entry *entry)
{
    uint64_t ns = entry->end_ns - entry->begin_ns;

    return ns > 0 ? (double)entry->answered * 1e9 / (double)ns : 0;
}

/*
 * A row for each round, then for median, low and high of the intervals over the rounds, which are
 * empty where rounds do not have the measure.
 */
static void put_csv_rounds(FILE *out, const struct result *result)
{
    static const enum measure columns[] = {MEASURE_RATE, MEASURE_MEAN, MEASURE_P50,
                                           MEASURE_P90,  MEASURE_P99,  MEASURE_MAX};
    static const char *const names[] = {"median", "low", "high"};

    if (result->rounds == NULL)
        return;
    for (uint32_t k = 0; k < result->rounds->done; k++) {
        const struct series_entry *total = &result->rounds->total[k];

        put_csv_entry(out, result, "round", total, second_rate(total), NULL);
    }
    for (size_t k = 0; k < ARRAY_LENGTH(names); k++) {
        fprintf(out, "%s,,,,,,", names[k]);
        for (size_t i = 0; i < ARRAY_LENGTH(columns); i++) {
            const struct interval interval = rounds_interval(result->rounds, columns[i]);
            const double values[] = {interval.median, interval.low, interval.high};

            fputc(',', out);
            if (!isnan(values[k]))
                fprintf(out, "%.3f", values[k]);
        }
        fputs(",,,,", out);
        end_csv_row(out, result, NULL);
    }
}

/* NAME in quotes, which are doubled inside (RFC 4180). */
static void put_csv_name(FILE *out, const char *name)
{
    char text[CSV_NAME_TEXT];

    escape_text(text, sizeof(text), name, strlen(name));
    fputs(",\"", out);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"')
            fputc('"', out);
        fputc(*at, out);
    }
    fputc('"', out);
}

/*
 * SCENARIO: its name. Of a step, answered has the responses; of a scenario, those that were
 * completed.
 */
static void put_csv_scenario(FILE *out, const struct result *result, const char *scenario,
                             const struct scenario_row *row)
{
    const struct histogram *times = &row->times;
    uint64_t answered = histogram_count(times);

    fprintf(out, "%s,,,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",,%.3f",
            row->weight > 0 ? "scenario" : "step", row->begun, answered, row->failed,
            result->elapsed_ns > 0 ? (double)answered * 1e9 / (double)result->elapsed_ns : 0);
    put_csv_time(out, answered > 0, (uint64_t)histogram_mean(times));
    put_csv_percentile(out, times, 50);
    put_csv_percentile(out, times, 90);
    put_csv_percentile(out, times, 99);
    put_csv_time(out, answered > 0, histogram_max(times));
    fputs(",,,,", out);
    put_csv_percentiles(out, result, times);
    put_csv_name(out, scenario);
    if (row->weight > 0)
        fputc(',', out);
    else
        put_csv_name(out, row->name);
    fputc('\n', out);
}

static int write_csv(FILE *out, const struct result *result)
{
    const struct series_entry total = result_total(result);
    const struct scenario_tally *tally = result->scenarios;
    const char *scenario = "";

    put_csv_heads(out, result);
    for (size_t i = 0; result->series != NULL && i < result->series->count; i++) {
        const struct series_entry *entry = &result->series->entry[i];

        put_csv_entry(out, result, entry->warmup ? "warmup" : "second", entry, second_rate(entry),
                      NULL);
    }
    put_csv_rounds(out, result);
    for (size_t i = 0; tally != NULL && i < tally->count; i++) {
        if (tally->row[i].weight > 0)
            scenario = tally->row[i].name;
        put_csv_scenario(out, result, scenario, &tally->row[i]);
    }
    put_csv_entry(out, result, "total", &total, result_rate(result), &result->tally.latency);
    return 0;
}

/* ---- HdrHistogram ---- */

static double milliseconds(double ns)
{
    return ns / (double)NS_PER_MS;
}

/* The number of values in the buckets up to TO. */
static uint64_t count_up_to(const struct histogram *times, uint32_t to)
{
    uint64_t count = 0;

    for (uint32_t i = 0; i <= to; i++)
        count += atomic_load_explicit(&times->bucket[i], memory_order_relaxed);
    return count;
}

static double standard_deviation(const struct histogram *times)
{
    double mean = histogram_mean(times), squares = 0;
    uint64_t count = histogram_count(times);

    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        double middle = ((double)histogram_lowest(i) + (double)histogram_highest(i)) / 2;

        squares += (double)atomic_load_explicit(&times->bucket[i], memory_order_relaxed) *
                   (middle - mean) * (middle - mean);
    }
    return count > 0 ? sqrt(squares / (double)count) : 0;
}

static int write_hdr(FILE *out, const struct result *result)
{
    const struct histogram *times = &result->tally.latency;
    uint64_t count = histogram_count(times), to = 0;
    double level = 0;

    fprintf(out, "%12s %14s %10s %14s\n\n", "Value", "Percentile", "TotalCount",
            "1/(1-Percentile)");
    while (to < count) {
        uint64_t value = histogram_percentile(times, level);

        to = count_up_to(times, histogram_index(value));
        if (to < count)
            fprintf(out, "%12.3f %2.12f %10" PRIu64 " %14.2f\n", milliseconds((double)value),
                    level / 100, to, 100 / (100 - level));
        level = report_next_level(level);
    }
    if (count > 0)
        fprintf(out, "%12.3f %2.12f %10" PRIu64 "\n", milliseconds((double)histogram_max(times)),
                1.0, count);
    fprintf(out, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n",
            milliseconds(histogram_mean(times)), milliseconds(standard_deviation(times)));
    fprintf(out, "#[Max     = %12.3f, Total count    = %12" PRIu64 "]\n",
            milliseconds((double)histogram_max(times)), count);
    fprintf(out, "#[Buckets = %12d, SubBuckets     = %12d]\n",
            HISTOGRAM_BUCKETS / HISTOGRAM_SUB_BUCKETS, HISTOGRAM_SUB_BUCKETS);
    return 0;
}

/* ---- JUnit ---- */

enum { CHECKS_MAX = PLAN_CONDITIONS_MAX * 2 + 2, CHECK_TEXT = 160 };

struct check {
    const char *name;
    bool failed;
    char text[CHECK_TEXT]; /* what was measured */
};

struct checks {
    struct check of[CHECKS_MAX];
    size_t count, failed;
};

/* Returns its text, of CHECK_TEXT bytes. */
static char *add_check(struct checks *checks, const char *name, bool failed)
{
    struct check *check = &checks->of[checks->count++];

    *check = (struct check){.name = name, .failed = failed};
    checks->failed += failed;
    return check->text;
}

static const char *format_measured(char *text, size_t size, const struct condition *condition,
                                   double value)
{
    if (condition->metric == CONDITION_PERCENTILE || condition->metric == CONDITION_MEAN ||
        condition->metric == CONDITION_MAX)
        return units_format_ns(text, size, value);
    snprintf(text, size, "%.6g", value);
    return text;
}

static void add_conditions(struct checks *checks, const struct result *result,
                           const struct condition *conditions, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct condition *condition = &conditions[i];
        bool failed = tally_meets_condition(&result->tally, condition, result_rate_ns(result)) ||
                      result->aborted_by == condition;
        char *text = add_check(checks, condition->text, failed);
        char value[UNITS_TEXT], limit[UNITS_TEXT];
        double number;

        if (!tally_condition_value(&result->tally, condition, result_rate_ns(result), &number))
            snprintf(text, CHECK_TEXT, "not measured");
        else
            snprintf(text, CHECK_TEXT, "measured: %s, limit: %s",
                     format_measured(value, sizeof(value), condition, number),
                     format_measured(limit, sizeof(limit), condition, condition->limit));
    }
}

/* Characters that XML 1.0 excludes become question marks. */
static void put_xml(FILE *out, const char *text)
{
    for (; *text != '\0'; text++)
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '"':
            fputs("&quot;", out);
            break;
        default:
            fputc((unsigned char)*text >= 0x20 ? *text : '?', out);
        }
}

static int write_junit(FILE *out, const struct result *result)
{
    const struct plan *plan = result->plan;
    uint64_t answered = tally_get(&result->tally, TALLY_answered);
    double percent = result_bad_percent(result), seconds = (double)result->elapsed_ns / 1e9;
    struct checks checks = {.count = 0};

    snprintf(add_check(&checks, "responses", answered == 0), CHECK_TEXT,
             "%" PRIu64 " of %" PRIu64 " requests were answered", answered,
             tally_get(&result->tally, TALLY_begun));
    snprintf(add_check(&checks, "errors", percent > plan->max_errors), CHECK_TEXT,
             "%" PRIu64 " errors (%.3g%%), allowed: %g%%", tally_bad(&result->tally), percent,
             plan->max_errors);
    add_conditions(&checks, result, plan->fail_if, plan->fail_if_count);
    add_conditions(&checks, result, plan->abort_on, plan->abort_on_count);
    fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n");
    fprintf(out, "  <testsuite name=\"wsload\" tests=\"%zu\" failures=\"%zu\" time=\"%.3f\">\n",
            checks.count, checks.failed, seconds);
    for (size_t i = 0; i < checks.count; i++) {
        const char *element = checks.of[i].failed ? "failure" : "system-out";

        fputs("    <testcase classname=\"", out);
        put_xml(out, result->url);
        fputs("\" name=\"", out);
        put_xml(out, checks.of[i].name);
        fprintf(out, "\" time=\"%.3f\">\n      <%s>", seconds, element);
        put_xml(out, checks.of[i].text);
        fprintf(out, "</%s>\n    </testcase>\n", element);
    }
    fputs("  </testsuite>\n</testsuites>\n", out);
    return 0;
}

/* ---- All formats ---- */

int report_write_document(FILE *out, struct document *document, enum plan_format format,
                          bool colour)
{
    int result, error;

    if (document == NULL)
        return -1;
    result = format == PLAN_FORMAT_HTML ? document_write_html(out, document)
                                        : document_write_text(out, document, colour);
    error = errno;
    document_free(document);
    errno = error;
    return result;
}

int report_write(FILE *out, const struct result *result, bool colour)
{
    switch (result->plan->format) {
    case PLAN_FORMAT_JSON:
        return result_write_json(out, result);
    case PLAN_FORMAT_CSV:
        return write_csv(out, result);
    case PLAN_FORMAT_HDR:
        return write_hdr(out, result);
    case PLAN_FORMAT_JUNIT:
        return write_junit(out, result);
    default:
        return report_write_document(out, result_document(result), result->plan->format, colour);
    }
}
