/*
 * Comma-separated values (RFC 4180, lines ended by LF): a line of names, a row for each second with
 * the warm-up's first, and the totals. Every row has the same columns; the percentiles that are not
 * kept by second stand behind the others and are empty but in the totals.
 */
#include "loadgen/report.h"

#include "common/clock.h"

#include <inttypes.h>

/* What the series has of every second. */
static bool is_kept(double percent)
{
    return percent == 50 || percent == 90 || percent == 99;
}

static double microseconds(uint64_t ns)
{
    return (double)ns / NS_PER_US;
}

static void put_names(FILE *out, const struct plan *plan)
{
    size_t count;
    const double *percents = report_percentiles(plan, &count);
    char name[REPORT_PERCENTILE_NAME];

    fputs("row,begin_s,end_s,begun,answered,bad,bytes,requests_per_second,mean_us,p50_us,p90_us,"
          "p99_us,max_us,service_p99_us,rate,connections,threads",
          out);
    for (size_t i = 0; i < count; i++)
        if (!is_kept(percents[i]))
            fprintf(out, ",%s_us", report_percentile_name(name, sizeof(name), percents[i]));
    fputc('\n', out);
}

/* Times are empty where nothing was answered: 0 would be a very good one. */
static void put_time(FILE *out, bool known, uint64_t ns)
{
    fputc(',', out);
    if (known)
        fprintf(out, "%.3f", microseconds(ns));
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
    size_t count;
    const double *percents = report_percentiles(result->plan, &count);

    for (size_t i = 0; result->series != NULL && i < result->series->count; i++) {
        const struct series_entry *entry = &result->series->entry[i];

        put_entry(out, entry->warmup ? "warmup" : "second", entry, entry_rate(entry));
        for (size_t k = 0; k < count; k++)
            if (!is_kept(percents[k]))
                fputc(',', out);
        fputc('\n', out);
    }
}

static struct series_entry total_entry(const struct result *result)
{
    const struct tally *tally = &result->tally;
    uint64_t begin_ns = result->plan->warmup_ms * NS_PER_MS;

    return (struct series_entry){
        .begin_ns = begin_ns,
        .end_ns = begin_ns + result->elapsed_ns,
        .begun = tally_get(tally, TALLY_begun),
        .answered = tally_get(tally, TALLY_answered),
        .bad = tally_bad(tally),
        .bytes = tally_get(tally, TALLY_head_bytes) + tally_get(tally, TALLY_body_bytes),
        .mean_ns = (uint64_t)histogram_mean(&tally->latency),
        .p50_ns = histogram_percentile(&tally->latency, 50),
        .p90_ns = histogram_percentile(&tally->latency, 90),
        .p99_ns = histogram_percentile(&tally->latency, 99),
        .max_ns = histogram_max(&tally->latency),
        .service_p99_ns = histogram_percentile(&tally->service, 99),
        .rate = result->rate,
        .connections = result->connections,
        .threads = result->threads,
    };
}

static void put_total(FILE *out, const struct result *result)
{
    const struct series_entry entry = total_entry(result);
    const struct histogram *times = &result->tally.latency;
    size_t count;
    const double *percents = report_percentiles(result->plan, &count);

    put_entry(out, "total", &entry, result_rate(result));
    for (size_t i = 0; i < count; i++)
        if (!is_kept(percents[i]))
            put_time(out, report_percentile_known(percents[i], histogram_count(times)),
                     histogram_percentile(times, percents[i]));
    fputc('\n', out);
}

int report_csv(FILE *out, const struct result *result, bool colour)
{
    (void)colour;
    put_names(out, result->plan);
    put_seconds(out, result);
    put_total(out, result);
    return 0;
}
