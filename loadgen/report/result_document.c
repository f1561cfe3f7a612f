#include "loadgen/report/report.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/base/resources.h"
#include "loadgen/report/latencies.h"
#include "loadgen/stats/result.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <sys/utsname.h>

enum {
    NUMBER = 32,
    LABEL_WIDTH = 13,
    TIME_WIDTH = 8,
    ROUND_WIDTH = 13,
    TIMES_MAX = 6,
    COLUMNS_MAX = PLAN_PERCENTILES_MAX + 8,
    DISTRIBUTION_ROWS = 12,
    DISTRIBUTION_WIDTH = 42, /* a row with two percentiles then has 80 characters */
};

/* A histogram of times with its name. */
struct times {
    const char *label;
    const struct histogram *histogram; /* not empty */
};

/* In a closed loop the service time is the response time. */
static size_t find_times(const struct result *result, struct times *times)
{
    const struct tally *tally = &result->tally;
    bool open = result_is_open(result);
    const struct times all[TIMES_MAX] = {
        {"response", &tally->latency},         {"service", open ? &tally->service : NULL},
        {"first byte", &tally->first_byte},    {"connecting", &tally->connect},
        {"TLS, full", &tally->full_handshake}, {"TLS, resumed", &tally->resumed_handshake},
    };
    size_t count = 0;

    for (size_t i = 0; i < TIMES_MAX; i++)
        if (all[i].histogram != NULL && histogram_count(all[i].histogram) > 0)
            times[count++] = all[i];
    return count;
}

/* ---- Facts ---- */

static void put_run_subtitle(struct document *document, const struct result *result)
{
    bool browsers = result->plan->page_loads && result->plan->http != PLAN_HTTP_2;
    char elapsed[UNITS_TEXT], rounds[48] = "", streams[48] = "";

    if (result->rounds != NULL)
        snprintf(rounds, sizeof(rounds), " in %" PRIu32 " round%s", result->rounds->requested,
                 result->rounds->requested == 1 ? "" : "s");
    if (result->plan->streams > 1)
        snprintf(streams, sizeof(streams), " of %" PRIu32 " %s", result->plan->streams,
                 browsers ? "connections" : "streams");
    document_subtitle(
        document, "%" PRIu32 " %s%s%s %s keep-alive, %" PRIu32 " thread%s, engine %s, %s%s",
        result->connections, browsers ? "browser" : "connection",
        result->connections == 1 ? "" : "s", streams, result->plan->keepalive ? "with" : "without",
        result->threads, result->threads == 1 ? "" : "s", result->engine,
        units_format_ns(elapsed, sizeof(elapsed), (double)result->elapsed_ns), rounds);
}

static void put_requests(struct document *document, const struct result *result)
{
    uint64_t unanswered = tally_get(&result->tally, TALLY_unanswered);
    uint64_t retried = tally_get(&result->tally, TALLY_retried);
    char begun[NUMBER], answered[NUMBER], failed[NUMBER], open[NUMBER], again[NUMBER];

    format_integer(begun, sizeof(begun), tally_get(&result->tally, TALLY_begun));
    format_integer(answered, sizeof(answered), tally_get(&result->tally, TALLY_answered));
    format_integer(failed, sizeof(failed), tally_errors(&result->tally));
    format_integer(open, sizeof(open), unanswered);
    format_integer(again, sizeof(again), retried);
    document_fact(document, DOCUMENT_NORMAL, "Requests", "%s: %s answered, %s failed%s%s%s%s%s%s",
                  begun, answered, failed, unanswered > 0 ? ", " : "", unanswered > 0 ? open : "",
                  unanswered > 0 ? " unanswered at the end" : "", retried > 0 ? ", " : "",
                  retried > 0 ? again : "", retried > 0 ? " sent again" : "");
    if (tally_get(&result->warmup, TALLY_begun) > 0)
        document_fact(
            document, DOCUMENT_NORMAL, "Warm-up", "%s requests, not counted",
            format_integer(begun, sizeof(begun), tally_get(&result->warmup, TALLY_begun)));
}

/* Of rounds, the median with its interval: a sum over the rounds would hide the variation. */
static void put_rate(struct document *document, const struct result *result)
{
    char rate[MEASURE_TEXT], due[NUMBER], low[MEASURE_TEXT], high[MEASURE_TEXT];
    char confidence[2 * MEASURE_TEXT + 16] = "";

    if (result->rounds != NULL && result->rounds->done > 0) {
        struct interval median = rounds_interval(result->rounds, MEASURE_RATE);

        if (!isnan(median.low))
            snprintf(confidence, sizeof(confidence), " (95 %%: %s to %s)",
                     measure_format(low, MEASURE_RATE, median.low),
                     measure_format(high, MEASURE_RATE, median.high));
        document_fact(document, DOCUMENT_STRONG, "Rate", "%s requests/s, median of %" PRIu32 "%s",
                      measure_format(rate, MEASURE_RATE, median.median), result->rounds->done,
                      confidence);
        return;
    }
    format_number(rate, sizeof(rate), result_rate(result));
    format_number(due, sizeof(due), result_rate_due(result));
    if (result_is_open(result))
        document_fact(document, DOCUMENT_STRONG, "Rate", "%s requests/s answered, target %s%s%s",
                      rate, due,
                      result->plan->page_loads    ? " visits/s"
                      : result->scenarios != NULL ? " scenarios/s"
                                                  : "",
                      result_rate_is_average(result) ? " on average" : "");
    else
        document_fact(document, DOCUMENT_STRONG, "Rate", "%s requests/s", rate);
}

static void put_received(struct document *document, const struct result *result)
{
    char body[UNITS_TEXT], all[UNITS_TEXT], each_second[UNITS_TEXT];
    uint64_t bytes = tally_get(&result->tally, TALLY_body_bytes);
    uint64_t with_heads = bytes + tally_get(&result->tally, TALLY_head_bytes);
    double seconds = (double)result->elapsed_ns / 1e9;

    document_fact(document, DOCUMENT_NORMAL, "Received", "%s (%s content), %s/s",
                  units_format_bytes(all, sizeof(all), (double)with_heads),
                  units_format_bytes(body, sizeof(body), (double)bytes),
                  units_format_bytes(each_second, sizeof(each_second),
                                     seconds > 0 ? (double)with_heads / seconds : 0));
}

/* libcurl opens connections on demand: an open loop may need fewer than allowed. */
static void put_connections(struct document *document, const struct result *result)
{
    uint64_t opened = tally_get(&result->tally, TALLY_connections_opened);
    uint64_t up = tally_get(&result->tally, TALLY_clients_up);
    uint64_t used = tally_get(&result->tally, TALLY_clients_used);
    char text[NUMBER];

    format_integer(text, sizeof(text), opened);
    if (opened == up && up == used && used < result->connections)
        document_fact(document, DOCUMENT_NORMAL, "Connections", "%s used of %" PRIu32 " allowed",
                      text, result->connections);
    else
        document_fact(document, DOCUMENT_NORMAL, "Connections",
                      "%" PRIu64 " of %" PRIu64 " established, %s opened in total", up, used, text);
}

static void put_negotiated(struct document *document, const struct negotiations *negotiations)
{
    char text[UNITS_TEXT];

    for (size_t i = 0; i < negotiations->count; i++) {
        const struct negotiation *what = &negotiations->of[i].what;
        bool tls = what->tls[0] != '\0';

        document_fact(document, DOCUMENT_NORMAL, i == 0 ? "Negotiated" : "",
                      "%s%s%s%s%s%s%s: %s connection%s", what->http, tls ? ", " : "", what->tls,
                      tls ? ", " : "", what->cipher, what->group[0] != '\0' ? ", " : "",
                      what->group,
                      format_integer(text, sizeof(text), negotiations->of[i].connections),
                      negotiations->of[i].connections == 1 ? "" : "s");
    }
}

void report_put_environment(struct document *document, const struct plan *plan, uint64_t began_ns)
{
    const curl_version_info_data *libcurl = curl_version_info(CURLVERSION_NOW);
    struct utsname machine;
    char began[UNITS_TEXT];

    if (plan->command_line == NULL || uname(&machine) != 0)
        return;
    document_fact(document, DOCUMENT_NORMAL, "Command", "%s", plan->command_line);
    document_fact(document, DOCUMENT_NORMAL, "Begun", "%s on %s, %s %s, %" PRIu32 " cores",
                  units_format_utc(began, sizeof(began), (int64_t)(began_ns / NS_PER_S)),
                  machine.nodename, machine.sysname, machine.release, resources_cores());
    document_fact(document, DOCUMENT_NORMAL, "Versions", "wsload %s, libcurl %s, %s",
                  WEBSERVERD_VERSION, libcurl->version,
                  libcurl->ssl_version != NULL ? libcurl->ssl_version : "no TLS");
}

static void put_merged(struct document *document, const struct result *result)
{
    char text[UNITS_TEXT];

    if (result->merged > 0 && result->overlap_ns > 0)
        document_fact(document, DOCUMENT_NORMAL, "Merged",
                      "%" PRIu32 " reports, at the same time for %s", result->merged,
                      units_format_ns(text, sizeof(text), (double)result->overlap_ns));
    else if (result->merged > 0)
        document_fact(document, DOCUMENT_NORMAL, "Merged",
                      "%" PRIu32 " reports, never at the same time", result->merged);
}

static void put_run_facts(struct document *document, const struct result *result)
{
    double each_ns = result_cpu_each_ns(result);
    char text[UNITS_TEXT];

    put_merged(document, result);
    put_requests(document, result);
    put_rate(document, result);
    put_received(document, result);
    put_connections(document, result);
    put_negotiated(document, &result->negotiations);
    document_fact(document, DOCUMENT_NORMAL, "Client",
                  "%.0f%% of a core per thread, %s of CPU time per request",
                  result_cpu_share(result) * 100,
                  units_format_ns(text, sizeof(text), isnan(each_ns) ? 0 : each_ns));
    if (result->server.outcome == SERVER_CHECK_SAME && result->server.counted > 0)
        document_fact(document, DOCUMENT_NORMAL, "Server", "%s counted the same: %s request%s",
                      result->server.name,
                      format_integer(text, sizeof(text), result->server.counted),
                      result->server.counted == 1 ? "" : "s");
    report_put_environment(document, result->plan, result->began_unix_ns);
}

/* ---- Tables ---- */

/* Median, confidence interval and half its width of each measure over the rounds. */
static void put_rounds(struct document *document, const struct rounds *rounds)
{
    static const struct document_column columns[] = {{"Rounds", DOCUMENT_LEFT, LABEL_WIDTH},
                                                     {"median", DOCUMENT_RIGHT, ROUND_WIDTH},
                                                     {"low", DOCUMENT_RIGHT, ROUND_WIDTH},
                                                     {"high", DOCUMENT_RIGHT, ROUND_WIDTH},
                                                     {"±", DOCUMENT_RIGHT, ROUND_WIDTH}};
    static const enum measure measures[] = {MEASURE_RATE, MEASURE_MEAN,   MEASURE_P50,
                                            MEASURE_P90,  MEASURE_P99,    MEASURE_P99_9,
                                            MEASURE_MAX,  MEASURE_ERRORS, MEASURE_CLIENT_CPU};
    char text[MEASURE_TEXT];

    if (rounds == NULL || rounds->done == 0)
        return;
    document_table(document, NULL, columns, ARRAY_LENGTH(columns));
    for (size_t i = 0; i < ARRAY_LENGTH(measures); i++) {
        struct interval of = rounds_interval(rounds, measures[i]);
        double percent = interval_percent(&of);

        if (isnan(of.median))
            continue;
        document_row(document, DOCUMENT_NORMAL);
        document_cell(document, "%s", measure_table[measures[i]].label);
        document_cell(document, "%s", measure_format(text, measures[i], of.median));
        document_cell(document, "%s", measure_format(text, measures[i], of.low));
        document_cell(document, "%s", measure_format(text, measures[i], of.high));
        document_cell(document, isnan(percent) ? "-" : "%.1f%%", percent);
    }
}

/* Omits a percentile with no value above it: it would equal the maximum. */
static void put_known_percentile(struct document *document, const struct histogram *times,
                                 double percent)
{
    char text[UNITS_TEXT];

    document_cell(
        document, "%s",
        measure_percentile_is_known(percent, histogram_count(times))
            ? units_format_ns(text, sizeof(text), (double)histogram_percentile(times, percent))
            : "–");
}

static void put_latencies(struct document *document, const struct result *result)
{
    struct document_column columns[COLUMNS_MAX] = {{"Latency", DOCUMENT_LEFT, LABEL_WIDTH},
                                                   {"mean", DOCUMENT_RIGHT, TIME_WIDTH}};
    char names[COLUMNS_MAX][REPORT_PERCENTILE_NAME], text[UNITS_TEXT];
    struct times times[TIMES_MAX];
    size_t time_count = find_times(result, times), count;
    const double *percents = report_percentiles(result->plan, &count);

    if (time_count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        columns[i + 2] = (struct document_column){report_percentile_name(names[i], percents[i]),
                                                  DOCUMENT_RIGHT, TIME_WIDTH};
    columns[count + 2] = (struct document_column){"max", DOCUMENT_RIGHT, TIME_WIDTH};
    document_table(document, NULL, columns, count + 3);
    for (size_t i = 0; i < time_count; i++) {
        const struct histogram *histogram = times[i].histogram;

        document_row(document, DOCUMENT_NORMAL);
        document_cell(document, "%s", times[i].label);
        document_cell(document, "%s",
                      units_format_ns(text, sizeof(text), histogram_mean(histogram)));
        for (size_t k = 0; k < count; k++)
            put_known_percentile(document, histogram, percents[k]);
        document_cell(document, "%s",
                      units_format_ns(text, sizeof(text), (double)histogram_max(histogram)));
    }
}

static void put_scenario_time(struct document *document, const struct histogram *times, double ns)
{
    char text[UNITS_TEXT];

    document_cell(document, "%s",
                  histogram_count(times) > 0 ? units_format_ns(text, sizeof(text), ns) : "–");
}

static void put_scenario_row(struct document *document, const struct scenario_row *row)
{
    char text[NUMBER];

    document_row(document, row->failed > 0 ? DOCUMENT_BAD : DOCUMENT_NORMAL);
    document_cell(document, "%s%s", row->weight == 0 ? "  " : "", row->name);
    document_cell(document, "%s", format_integer(text, sizeof(text), row->begun));
    document_cell(document, "%s", format_integer(text, sizeof(text), row->good));
    document_cell(document, "%s", format_integer(text, sizeof(text), row->failed));
    put_scenario_time(document, &row->times, histogram_mean(&row->times));
    put_known_percentile(document, &row->times, 50);
    put_known_percentile(document, &row->times, 99);
    put_scenario_time(document, &row->times, (double)histogram_max(&row->times));
}

static void put_scenarios(struct document *document, const struct result *result)
{
    static const struct document_column columns[] = {{"Scenario, page", DOCUMENT_LEFT, 13},
                                                     {"begun", DOCUMENT_RIGHT, 8},
                                                     {"passed", DOCUMENT_RIGHT, 8},
                                                     {"failed", DOCUMENT_RIGHT, 8},
                                                     {"mean", DOCUMENT_RIGHT, 8},
                                                     {"p50", DOCUMENT_RIGHT, 8},
                                                     {"p99", DOCUMENT_RIGHT, 8},
                                                     {"max", DOCUMENT_RIGHT, 8}};
    const struct scenario_tally *tally = result->scenarios;

    if (tally == NULL)
        return;
    document_table(document, NULL, columns, ARRAY_LENGTH(columns));
    for (size_t i = 0; i < tally->count; i++)
        put_scenario_row(document, &tally->row[i]);
    for (size_t i = 0; i < tally->count; i++)
        if (tally->row[i].why[0] != '\0')
            document_note(document, DOCUMENT_WARNING, "",
                          "%s: %" PRIu64 " response%s without a value to take; the first: %s.",
                          tally->row[i].name, tally->row[i].bad_extractions,
                          tally->row[i].bad_extractions == 1 ? "" : "s", tally->row[i].why);
}

/* What the hostile clients did, and what the honest ones lost. */
static void put_hostile(struct document *document, const struct result *result)
{
    static const struct document_column columns[] = {
        {"Hostile", DOCUMENT_LEFT, 13},    {"clients", DOCUMENT_RIGHT, 8},
        {"opened", DOCUMENT_RIGHT, 8},     {"failed", DOCUMENT_RIGHT, 8},
        {"closed", DOCUMENT_RIGHT, 8},     {"at end", DOCUMENT_RIGHT, 8},
        {"mean held", DOCUMENT_RIGHT, 11}, {"longest", DOCUMENT_RIGHT, 9}};
    static const struct document_column changes[] = {{"Honest", DOCUMENT_LEFT, 13},
                                                     {"without them", DOCUMENT_RIGHT, 14},
                                                     {"with them", DOCUMENT_RIGHT, 14},
                                                     {"change", DOCUMENT_RIGHT, 9}};
    static const enum measure measures[] = {MEASURE_RATE, MEASURE_P50, MEASURE_P99, MEASURE_MAX,
                                            MEASURE_ERRORS};
    struct measures with;
    char text[NUMBER], time[UNITS_TEXT];

    if (plan_hostile_clients(result->plan) == 0)
        return;
    document_table(document, NULL, columns, ARRAY_LENGTH(columns));
    for (size_t kind = 0; kind < PLAN_HOSTILE_KINDS; kind++) {
        const struct hostile_count *count = &result->hostile[kind];

        if (count->asked == 0)
            continue;
        document_row(document, DOCUMENT_NORMAL);
        document_cell(document, "%s", hostile_kind_names[kind]);
        document_cell(document, "%" PRIu32, count->asked);
        document_cell(document, "%s", format_integer(text, sizeof(text), count->opened));
        document_cell(document, "%s", format_integer(text, sizeof(text), count->failed));
        document_cell(document, "%s", format_integer(text, sizeof(text), count->closed));
        document_cell(document, "%" PRIu32, count->open);
        document_cell(document, "%s",
                      count->opened > 0
                          ? units_format_ns(time, sizeof(time),
                                            (double)count->held_ns / (double)count->opened)
                          : "–");
        document_cell(document, "%s",
                      units_format_ns(time, sizeof(time), (double)count->longest_ns));
    }
    if (result->alone == NULL)
        return;
    result_measure(result, &with);
    document_table(document, NULL, changes, ARRAY_LENGTH(changes));
    for (size_t i = 0; i < ARRAY_LENGTH(measures); i++) {
        double before = result->alone->value[measures[i]], after = with.value[measures[i]];

        document_row(document, DOCUMENT_NORMAL);
        document_cell(document, "%s", measure_table[measures[i]].label);
        document_cell(document, "%s", measure_format(text, measures[i], before));
        document_cell(document, "%s", measure_format(text, measures[i], after));
        document_cell(document, before > 0 && after > 0 ? "%+.0f%%" : "–",
                      100 * (after / before - 1));
    }
}

/* Begins a table that only the writers of MEDIA show. */
static void begin_table(struct document *document, enum document_media media, const char *title,
                        const struct document_column *columns, size_t count, unsigned gap)
{
    struct document_table *table = document_table(document, title, columns, count);

    if (table == NULL)
        return;
    table->media = media;
    table->column_gap = gap;
}

/* The distribution of latencies, as in the live view; pages have a plot instead. */
static void put_distribution(struct document *document, const struct result *result)
{
    static const struct document_column columns[] = {
        {NULL, DOCUMENT_RIGHT, LATENCY_BAR_LABEL_COLUMNS}, {NULL, DOCUMENT_BAR, 0}};
    struct latency_bar bars[LATENCY_BARS_MAX];
    size_t count = latency_bars(&result->tally.latency, DISTRIBUTION_ROWS, DISTRIBUTION_WIDTH,
                                result->plan->unicode, bars);

    if (count > 0)
        begin_table(document, DOCUMENT_IN_TEXT, NULL, columns, ARRAY_LENGTH(columns), 2);
    for (size_t i = 0; i < count; i++) {
        document_row(document, DOCUMENT_NORMAL);
        document_cell(document, "%s", bars[i].label);
        document_cell(document, "%s%s", bars[i].bar, bars[i].behind);
    }
}

static bool is_bad_status(const struct result *result, uint32_t status)
{
    return !plan_accepts_status(&result->plan->checks, status);
}

static void put_statuses(struct document *document, const struct result *result)
{
    static const struct document_column columns[] = {{NULL, DOCUMENT_LEFT, LABEL_WIDTH - 1},
                                                     {NULL, DOCUMENT_LEFT, 0},
                                                     {NULL, DOCUMENT_RIGHT, 14}};
    const char *label = "Statuses";
    char text[NUMBER];

    if (tally_get(&result->tally, TALLY_answered) == 0)
        return;
    begin_table(document, DOCUMENT_IN_TEXT, NULL, columns, ARRAY_LENGTH(columns), 1);
    for (uint32_t status = 0; status < TALLY_STATUSES; status++) {
        uint64_t count = tally_status(&result->tally, status);

        if (count == 0)
            continue;
        document_row(document, is_bad_status(result, status) ? DOCUMENT_BAD : DOCUMENT_NORMAL);
        document_cell(document, "%s", label);
        document_cell(document, "%03" PRIu32, status);
        document_cell(document, "%s", format_integer(text, sizeof(text), count));
        label = "";
    }
}

/* Each kind of error, with the message of the first error of that kind. */
static void put_errors(struct document *document, const struct result *result)
{
    static const struct document_column columns[] = {{NULL, DOCUMENT_LEFT, LABEL_WIDTH},
                                                     {NULL, DOCUMENT_RIGHT, 17},
                                                     {NULL, DOCUMENT_WRAPPED, 0}};
    const char *label = "Errors";
    char text[NUMBER];

    if (tally_errors(&result->tally) == 0)
        return;
    begin_table(document, DOCUMENT_IN_TEXT, NULL, columns, ARRAY_LENGTH(columns), 2);
    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++) {
        uint64_t count = tally_error(&result->tally, (enum error_kind)kind);

        if (count == 0)
            continue;
        document_row(document, DOCUMENT_BAD);
        document_cell(document, "%s", label);
        document_cell(document, "%s", format_integer(text, sizeof(text), count));
        document_cell(document, "%s", error_kind_labels[kind]);
        if (result->error_texts.first[kind][0] != '\0') {
            document_row(document, DOCUMENT_NORMAL);
            document_cell(document, "%s", "");
            document_cell(document, "%s", "");
            document_cell(document, "%s", result->error_texts.first[kind]);
        }
        label = "";
    }
}

static void put_outcome(struct document *document, const char *name, uint64_t count, bool bad)
{
    char text[NUMBER];

    if (count == 0)
        return;
    document_row(document, bad ? DOCUMENT_BAD : DOCUMENT_NORMAL);
    document_cell(document, "%s", name);
    document_cell(document, "%s", format_integer(text, sizeof(text), count));
}

/* Statuses and errors in one table. */
static void put_outcomes(struct document *document, const struct result *result)
{
    static const struct document_column columns[] = {{"Outcome", DOCUMENT_LEFT, 0},
                                                     {"Requests", DOCUMENT_RIGHT, 0}};
    const struct tally *tally = &result->tally;
    char name[8];

    begin_table(document, DOCUMENT_IN_HTML, NULL, columns, ARRAY_LENGTH(columns), 1);
    for (uint32_t status = 0; status < TALLY_STATUSES; status++) {
        snprintf(name, sizeof(name), "%03" PRIu32, status);
        put_outcome(document, name, tally_status(tally, status), is_bad_status(result, status));
    }
    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        put_outcome(document, error_kind_labels[kind], tally_error(tally, (enum error_kind)kind),
                    true);
    put_outcome(document, "unanswered at the end", tally_get(tally, TALLY_unanswered), true);
}

/* ---- Plots ---- */

/* A value of a second of the series. */
enum second_value { ANSWERED, BAD, TARGET, P50, P90, P99, MAX };

static double second_value_of(const struct series_entry *entry, enum second_value value)
{
    double seconds = (double)(entry->end_ns - entry->begin_ns) / 1e9;

    switch (value) {
    case ANSWERED:
        return seconds > 0 ? (double)entry->answered / seconds : 0;
    case BAD:
        return seconds > 0 ? (double)entry->bad / seconds : 0;
    case TARGET:
        return entry->rate;
    case P50:
        return (double)entry->p50_ns;
    case P90:
        return (double)entry->p90_ns;
    case P99:
        return (double)entry->p99_ns;
    case MAX:
        return (double)entry->max_ns;
    }
    return 0;
}

/* Omits an incomplete last second, whose rate is not comparable. */
static void put_seconds(struct document *document, const char *name, const struct series *series,
                        enum second_value value)
{
    document_line(document, name, false);
    for (size_t i = 0; i < series->count; i++) {
        const struct series_entry *entry = &series->entry[i];

        if (entry->end_ns - entry->begin_ns >= NS_PER_S / 5)
            document_point(document, (double)entry->end_ns / 1e9, second_value_of(entry, value));
    }
}

static bool is_used(const struct series *series, enum second_value value)
{
    for (size_t i = 0; i < series->count; i++)
        if (second_value_of(&series->entry[i], value) > 0)
            return true;
    return false;
}

/* A curve needs two seconds. The series of rounds has no warm-ups. */
static void put_series(struct document *document, const struct result *result)
{
    static const struct plot_axis x = {false, axis_seconds};
    const struct series *series = result->series;
    double warmup_s = result->rounds == NULL ? (double)result->plan->warmup_ms / 1e3 : 0;

    if (series == NULL || series->count < 2)
        return;
    document_plot(document, "Requests per second", x, (struct plot_axis){false, axis_rate});
    document_shade(document, warmup_s);
    put_seconds(document, "answered", series, ANSWERED);
    if (is_used(series, TARGET))
        put_seconds(document, "target", series, TARGET);
    if (is_used(series, BAD))
        put_seconds(document, "errors", series, BAD);
    document_plot(document, "Latency over time", x, (struct plot_axis){true, axis_time});
    document_shade(document, warmup_s);
    put_seconds(document, "p50", series, P50);
    put_seconds(document, "p90", series, P90);
    put_seconds(document, "p99", series, P99);
    put_seconds(document, "max", series, MAX);
}

/* Each curve ends at the last percentile that still has a value above it. */
static void put_percentile_plot(struct document *document, const struct result *result)
{
    struct times times[TIMES_MAX];
    size_t count = find_times(result, times);

    document_plot(document, "Latency by percentile", (struct plot_axis){true, axis_tail},
                  (struct plot_axis){true, axis_time});
    for (size_t i = 0; i < count; i++) {
        const struct histogram *histogram = times[i].histogram;
        uint64_t values = histogram_count(histogram);
        double level = 0;

        document_line(document, times[i].label, true);
        while (measure_percentile_is_known(level, values)) {
            document_point(document, 100 / (100 - level),
                           (double)histogram_percentile(histogram, level));
            level = report_next_level(level);
        }
    }
}

/* ---- The document ---- */

struct document *result_document(const struct result *result)
{
    const struct document_layout layout = {.indent = 2, .column_gap = 1};
    struct result_note notes[RESULT_NOTES_MAX];
    size_t note_count = result_notes(result, notes);
    struct document *document = document_create("wsload", layout);

    if (document == NULL)
        return NULL;
    if (result->plan->page_loads)
        document_title(document, "Page loads on %s", result->url);
    else if (result->scenarios != NULL)
        document_title(document, "Scenarios on %s", result->url);
    else if (result->requests > 1)
        document_title(document, "%s %s and %zu more", result->plan->method, result->url,
                       result->requests - 1);
    else
        document_title(document, "%s %s", result->plan->method, result->url);
    put_run_subtitle(document, result);
    document_legend(document,
                    "response: from the time when a request was due to its last byte; "
                    "service: from its sending to its last byte; first byte: from its "
                    "sending to the first byte of the response.%s",
                    result->rounds != NULL
                        ? " low and high are the ends of the 95 % confidence interval."
                        : "");
    put_run_facts(document, result);
    put_rounds(document, result->rounds);
    put_latencies(document, result);
    put_scenarios(document, result);
    put_hostile(document, result);
    put_distribution(document, result);
    put_statuses(document, result);
    put_errors(document, result);
    put_outcomes(document, result);
    put_series(document, result);
    put_percentile_plot(document, result);
    for (size_t i = 0; i < note_count; i++)
        document_note(document, DOCUMENT_WARNING, "", "%s", notes[i].text);
    return document;
}
