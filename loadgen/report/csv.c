#include "loadgen/report/csv.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/macros.h"

#include "loadgen/report/latencies.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { NAME_TEXT = 1024 };

/* The percentiles that the series has for each second; others are known only for the whole run. */
static bool is_per_second(double percent)
{
    return percent == 50 || percent == 90 || percent == 99;
}

static double microseconds(uint64_t ns)
{
    return (double)ns / NS_PER_US;
}

static void put_names(FILE *out, const struct result *result)
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
static void put_time(FILE *out, bool known, uint64_t ns)
{
    fputc(',', out);
    if (known)
        fprintf(out, "%.3f", microseconds(ns));
}

/* Ends a row that has no scenario. */
static void end_row(FILE *out, const struct result *result)
{
    fputs(result->scenarios != NULL ? ",,\n" : "\n", out);
}

/* Leaves the columns of the percentiles of the whole run empty, and ends the row. */
static void put_blanks(FILE *out, const struct result *result)
{
    size_t count;
    const double *percents = report_percentiles(result->plan, &count);

    for (size_t i = 0; i < count; i++)
        if (!is_per_second(percents[i]))
            fputc(',', out);
    end_row(out, result);
}

static void put_entry(FILE *out, const char *row, const struct series_entry *entry, double rate)
{
    bool known = entry->answered > 0;

    fprintf(out, "%s,%.6f,%.6f,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%.3f", row,
            (double)entry->begin_ns / 1e9, (double)entry->end_ns / 1e9, entry->begun,
            entry->answered, entry->bad, entry->bytes, rate);
    put_time(out, known, entry->mean_ns);
    put_time(out, known, entry->p50_ns);
    put_time(out, known, entry->p90_ns);
    put_time(out, known, entry->p99_ns);
    put_time(out, known, entry->max_ns);
    put_time(out, known, entry->service_p99_ns);
    fprintf(out, ",%.3f,%" PRIu32 ",%" PRIu32, entry->rate, entry->connections, entry->threads);
}

static double entry_rate(const struct series_entry *entry)
{
    uint64_t ns = entry->end_ns - entry->begin_ns;

    return ns > 0 ? (double)entry->answered * 1e9 / (double)ns : 0;
}

static void put_seconds(FILE *out, const struct result *result)
{
    for (size_t i = 0; result->series != NULL && i < result->series->count; i++) {
        const struct series_entry *entry = &result->series->entry[i];

        put_entry(out, entry->warmup ? "warmup" : "second", entry, entry_rate(entry));
        put_blanks(out, result);
    }
}

static void put_percentile(FILE *out, const struct histogram *times, double percent)
{
    put_time(out, measure_percentile_is_known(percent, histogram_count(times)),
             histogram_percentile(times, percent));
}

/* The percentiles that seconds do not have. */
static void put_percentiles(FILE *out, const struct plan *plan, const struct histogram *times)
{
    size_t count;
    const double *percents = report_percentiles(plan, &count);

    for (size_t i = 0; i < count; i++)
        if (!is_per_second(percents[i]))
            put_percentile(out, times, percents[i]);
}

static void put_total(FILE *out, const struct result *result)
{
    const struct series_entry entry = result_total(result);

    put_entry(out, "total", &entry, result_rate(result));
    put_percentiles(out, result->plan, &result->tally.latency);
    end_row(out, result);
}

/* ---- Scenarios ---- */

/* NAME in quotes, which are doubled inside (RFC 4180). */
static void put_name(FILE *out, const char *name)
{
    char text[NAME_TEXT];

    escape_text(text, sizeof(text), name, strlen(name));
    fputs(",\"", out);
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == '"')
            fputc('"', out);
        fputc(*at, out);
    }
    fputc('"', out);
}

/* SCENARIO: its name. Of a step, answered has the responses; of a scenario, those that were completed. */
static void put_scenario_row(FILE *out, const struct result *result, const char *scenario,
                             const struct scenario_row *row)
{
    const struct histogram *times = &row->times;
    uint64_t answered = histogram_count(times);
    bool known = answered > 0;

    fprintf(out, "%s,,,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",,%.3f",
            row->weight > 0 ? "scenario" : "step", row->begun, answered, row->failed,
            result->elapsed_ns > 0 ? (double)answered * 1e9 / (double)result->elapsed_ns : 0);
    put_time(out, known, (uint64_t)histogram_mean(times));
    put_percentile(out, times, 50);
    put_percentile(out, times, 90);
    put_percentile(out, times, 99);
    put_time(out, known, histogram_max(times));
    fputs(",,,,", out);
    put_percentiles(out, result->plan, times);
    put_name(out, scenario);
    if (row->weight > 0)
        fputc(',', out);
    else
        put_name(out, row->name);
    fputc('\n', out);
}

static void put_scenarios(FILE *out, const struct result *result)
{
    const struct scenario_tally *tally = result->scenarios;
    const char *scenario = "";

    for (size_t i = 0; tally != NULL && i < tally->count; i++) {
        if (tally->row[i].weight > 0)
            scenario = tally->row[i].name;
        put_scenario_row(out, result, scenario, &tally->row[i]);
    }
}

/* ---- Rounds ---- */

/*
 * A row with one value (median, low or high) of each interval over the rounds; empty where rounds
 * do not have the measure.
 */
static void put_statistic(FILE *out, const char *row, const struct result *result,
                          double (*end)(const struct interval *))
{
    static const enum measure columns[] = {MEASURE_RATE, MEASURE_MEAN, MEASURE_P50,
                                           MEASURE_P90,  MEASURE_P99,  MEASURE_MAX};

    fprintf(out, "%s,,,,,,", row);
    for (size_t i = 0; i < ARRAY_LENGTH(columns); i++) {
        const struct interval interval = rounds_interval(result->rounds, columns[i]);

        fputc(',', out);
        if (!isnan(end(&interval)))
            fprintf(out, "%.3f", end(&interval));
    }
    fputs(",,,,", out);
    put_blanks(out, result);
}

static double median_of(const struct interval *interval)
{
    return interval->median;
}

static double low_of(const struct interval *interval)
{
    return interval->low;
}

static double high_of(const struct interval *interval)
{
    return interval->high;
}

static void put_rounds(FILE *out, const struct result *result)
{
    if (result->rounds == NULL)
        return;
    for (uint32_t k = 0; k < result->rounds->done; k++) {
        const struct series_entry *total = &result->rounds->total[k];

        put_entry(out, "round", total, entry_rate(total));
        put_blanks(out, result);
    }
    put_statistic(out, "median", result, median_of);
    put_statistic(out, "low", result, low_of);
    put_statistic(out, "high", result, high_of);
}

int result_write_csv(FILE *out, const struct result *result)
{
    put_names(out, result);
    put_seconds(out, result);
    put_rounds(out, result);
    put_scenarios(out, result);
    put_total(out, result);
    return 0;
}
