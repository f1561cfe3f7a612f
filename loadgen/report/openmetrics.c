#include "loadgen/report/openmetrics.h"

#include "common/macros.h"

#include "loadgen/report/latencies.h"

#include <inttypes.h>
#include <time.h>

static void put_head(FILE *out, const char *name, const char *unit, const char *help)
{
    fprintf(out, "# TYPE %s gauge\n", name);
    if (unit != NULL)
        fprintf(out, "# UNIT %s %s\n", name, unit);
    fprintf(out, "# HELP %s %s\n", name, help);
}

static void put_gauge(FILE *out, const char *name, const char *unit, const char *help, double value)
{
    put_head(out, name, unit, help);
    fprintf(out, "%s %.9g\n", name, value);
}

static void put_requests(FILE *out, const struct tally *tally)
{
    const struct {
        const char *outcome;
        uint64_t count;
    } rows[] = {{"answered", tally_get(tally, TALLY_answered)},
                {"failed", tally_errors(tally)},
                {"unanswered", tally_get(tally, TALLY_unanswered)},
                {"unsent", tally_unsent(tally)}};

    put_head(out, "wsload_requests", NULL, "Requests of the last run by outcome.");
    for (size_t i = 0; i < ARRAY_LENGTH(rows); i++)
        fprintf(out, "wsload_requests{outcome=\"%s\"} %" PRIu64 "\n", rows[i].outcome,
                rows[i].count);
}

static void put_statuses(FILE *out, const struct tally *tally)
{
    put_head(out, "wsload_responses", NULL, "Responses of the last run by status code.");
    for (uint32_t status = 0; status < TALLY_STATUSES; status++)
        if (tally_status(tally, status) > 0)
            fprintf(out, "wsload_responses{status=\"%03u\"} %" PRIu64 "\n", status,
                    tally_status(tally, status));
}

static void put_errors(FILE *out, const struct tally *tally)
{
    put_head(out, "wsload_errors", NULL, "Requests of the last run without a response, by kind.");
    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        fprintf(out, "wsload_errors{kind=\"%s\"} %" PRIu64 "\n", error_kind_names[kind],
                tally_error(tally, (enum error_kind)kind));
}

/* Percentiles with no value above them are omitted. */
static void put_times(FILE *out, const struct result *result, const char *name, const char *help,
                      const struct histogram *times)
{
    size_t count;
    const double *percents = report_percentiles(result->plan, &count);

    if (histogram_count(times) == 0)
        return;
    put_head(out, name, "seconds", help);
    for (size_t i = 0; i < count; i++)
        if (measure_percentile_is_known(percents[i], histogram_count(times)))
            fprintf(out, "%s{quantile=\"%.10g\"} %.9g\n", name, percents[i] / 100,
                    (double)histogram_percentile(times, percents[i]) / 1e9);
    fprintf(out, "%s{quantile=\"1\"} %.9g\n", name, (double)histogram_max(times) / 1e9);
}

int result_write_openmetrics(FILE *out, const struct result *result)
{
    const struct tally *tally = &result->tally;

    put_gauge(out, "wsload_end_timestamp_seconds", "seconds", "When the last run ended, Unix time.",
              (double)time(NULL));
    put_gauge(out, "wsload_exit_status", NULL, "Exit status of the last run; 0: success.",
              (double)result_status(result));
    put_gauge(out, "wsload_elapsed_seconds", "seconds", "Duration of the last run.",
              (double)result->elapsed_ns / 1e9);
    put_gauge(out, "wsload_requests_per_second", NULL, "Responses per second of the last run.",
              result_rate(result));
    put_gauge(out, "wsload_connections", NULL, "Connections of the last run.", result->connections);
    put_gauge(out, "wsload_received_bytes", "bytes", "Bytes received in the last run.",
              (double)(tally_get(tally, TALLY_head_bytes) + tally_get(tally, TALLY_body_bytes)));
    put_requests(out, tally);
    put_statuses(out, tally);
    put_errors(out, tally);
    put_times(out, result, "wsload_latency_seconds", "Response time by quantile.", &tally->latency);
    put_times(out, result, "wsload_service_seconds", "Service time by quantile.", &tally->service);
    put_times(out, result, "wsload_connect_seconds", "Time to connect by quantile.",
              &tally->connect);
    fputs("# EOF\n", out);
    return 0;
}
