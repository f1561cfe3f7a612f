#include "loadgen/report/report_facts.h"

#include "common/units.h"

#include "loadgen/report/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

char *report_setting(char *buffer, size_t size, const struct result *result)
{
    char elapsed[UNITS_TEXT], rounds[48] = "";

    if (result->rounds != NULL)
        snprintf(rounds, sizeof(rounds), " in %" PRIu32 " round%s", result->rounds->asked,
                 result->rounds->asked == 1 ? "" : "s");

    snprintf(buffer, size, "%" PRIu32 " connection%s%s, %" PRIu32 " thread%s, engine %s, %s%s",
             result->connections, result->connections == 1 ? "" : "s",
             result->plan->keepalive ? " kept alive" : ", closed after each request",
             result->threads, result->threads == 1 ? "" : "s", result->engine,
             units_format_ns(elapsed, sizeof(elapsed), (double)result->elapsed_ns), rounds);
    return buffer;
}

static struct report_fact requests_fact(const struct result *result)
{
    struct report_fact fact = {"Requests", "", false};
    char begun[REPORT_NUMBER], answered[REPORT_NUMBER], failed[REPORT_NUMBER], open[REPORT_NUMBER];
    uint64_t unanswered = tally_get(&result->tally, TALLY_unanswered);

    format_integer(begun, sizeof(begun), tally_get(&result->tally, TALLY_begun));
    format_integer(answered, sizeof(answered), tally_get(&result->tally, TALLY_answered));
    format_integer(failed, sizeof(failed), tally_errors(&result->tally));
    format_integer(open, sizeof(open), unanswered);
    snprintf(fact.text, sizeof(fact.text), "%s: %s answered, %s failed%s%s%s", begun, answered,
             failed, unanswered > 0 ? ", " : "", unanswered > 0 ? open : "",
             unanswered > 0 ? " unanswered at the end" : "");
    return fact;
}

static struct report_fact warmup_fact(const struct result *result)
{
    struct report_fact fact = {"Warm-up", "", false};
    char begun[REPORT_NUMBER];

    snprintf(fact.text, sizeof(fact.text), "%s requests before, not counted",
             format_integer(begun, sizeof(begun), tally_get(&result->warmup, TALLY_begun)));
    return fact;
}

/* What the rounds say together stands for what is uncertain: their sum is not. */
static struct report_fact median_fact(const struct rounds *rounds)
{
    struct report_fact fact = {"Rate", "", true};
    struct interval rate = rounds_interval(rounds, MEASURE_RATE);
    char median[MEASURE_TEXT], low[MEASURE_TEXT], high[MEASURE_TEXT];
    size_t used;

    used = (size_t)snprintf(fact.text, sizeof(fact.text), "%s requests/s, median of %" PRIu32,
                            measure_format(median, MEASURE_RATE, rate.median), rounds->done);
    if (!isnan(rate.low))
        snprintf(fact.text + used, sizeof(fact.text) - used, " (95 %%: %s to %s)",
                 measure_format(low, MEASURE_RATE, rate.low),
                 measure_format(high, MEASURE_RATE, rate.high));
    return fact;
}

static struct report_fact rate_fact(const struct result *result)
{
    struct report_fact fact = {"Rate", "", true};
    char rate[REPORT_NUMBER], asked[REPORT_NUMBER];

    format_number(rate, sizeof(rate), result_rate(result));
    format_number(asked, sizeof(asked), result_rate_due(result));
    if (result_is_open(result))
        snprintf(fact.text, sizeof(fact.text), "%s requests/s answered, %s asked for%s", rate,
                 asked, result_rate_is_average(result) ? " on average" : "");
    else
        snprintf(fact.text, sizeof(fact.text), "%s requests/s", rate);
    return fact;
}

static struct report_fact received_fact(const struct result *result)
{
    struct report_fact fact = {"Received", "", false};
    char body[UNITS_TEXT], all[UNITS_TEXT], each_second[UNITS_TEXT];
    uint64_t bytes = tally_get(&result->tally, TALLY_body_bytes);
    uint64_t with_heads = bytes + tally_get(&result->tally, TALLY_head_bytes);
    double seconds = (double)result->elapsed_ns / 1e9;

    snprintf(fact.text, sizeof(fact.text), "%s (%s of it content), %s/s",
             units_format_bytes(all, sizeof(all), (double)with_heads),
             units_format_bytes(body, sizeof(body), (double)bytes),
             units_format_bytes(each_second, sizeof(each_second),
                                seconds > 0 ? (double)with_heads / seconds : 0));
    return fact;
}

/* libcurl opens no more connections than are busy at a time: an open loop may do with fewer. */
static struct report_fact connections_fact(const struct result *result)
{
    struct report_fact fact = {"Connections", "", false};
    uint64_t opened = tally_get(&result->tally, TALLY_connections_opened);
    uint64_t up = tally_get(&result->tally, TALLY_clients_up);
    char text[REPORT_NUMBER];

    format_integer(text, sizeof(text), opened);
    if (opened < up)
        snprintf(fact.text, sizeof(fact.text), "%s were enough, %" PRIu32 " allowed", text,
                 result->connections);
    else
        snprintf(fact.text, sizeof(fact.text),
                 "%" PRIu64 " of %" PRIu64 " came up, %s opened in all", up,
                 tally_get(&result->tally, TALLY_clients_used), text);
    return fact;
}

static struct report_fact client_fact(const struct result *result)
{
    struct report_fact fact = {"Client", "", false};
    double each_ns = result_cpu_each_ns(result);
    char each[UNITS_TEXT];

    snprintf(fact.text, sizeof(fact.text),
             "%.0f%% of a core for each thread, %s of CPU time a request",
             result_cpu_share(result) * 100,
             units_format_ns(each, sizeof(each), isnan(each_ns) ? 0 : each_ns));
    return fact;
}

static struct report_fact server_fact(const struct result *result)
{
    struct report_fact fact = {"Server", "", false};
    char counted[REPORT_NUMBER];

    snprintf(fact.text, sizeof(fact.text), "%s counted %s request%s: the same", result->server.name,
             format_integer(counted, sizeof(counted), result->server.counted),
             result->server.counted == 1 ? "" : "s");
    return fact;
}

size_t report_facts(const struct result *result, struct report_fact *facts)
{
    size_t count = 0;

    facts[count++] = requests_fact(result);
    if (tally_get(&result->warmup, TALLY_begun) > 0)
        facts[count++] = warmup_fact(result);
    facts[count++] = result->rounds != NULL && result->rounds->done > 0
                         ? median_fact(result->rounds)
                         : rate_fact(result);
    facts[count++] = received_fact(result);
    facts[count++] = connections_fact(result);
    facts[count++] = client_fact(result);
    if (result->server.outcome == SERVER_CHECK_SAME && result->server.counted > 0)
        facts[count++] = server_fact(result);
    return count;
}

/* In an open loop the two times of an answer differ; in a closed loop they are one. */
size_t report_times(const struct result *result, struct report_times *rows)
{
    const struct tally *tally = &result->tally;
    bool open = result_is_open(result);
    const struct report_times all[REPORT_TIMES_MAX] = {
        {open ? "response" : "whole answer", &tally->latency},
        {"service", open ? &tally->service : NULL},
        {"first byte", &tally->first_byte},
        {"connecting", &tally->connect},
    };
    size_t count = 0;

    for (size_t i = 0; i < REPORT_TIMES_MAX; i++)
        if (all[i].times != NULL && histogram_count(all[i].times) > 0)
            rows[count++] = all[i];
    return count;
}

/* Beyond the last known percentile it would be the maximum under another name. */
char *report_percentile(char *buffer, size_t size, const struct histogram *times, double percent,
                        const char *dash)
{
    if (measure_percentile_is_known(percent, histogram_count(times)))
        return units_format_ns(buffer, size, (double)histogram_percentile(times, percent));
    snprintf(buffer, size, "%s", dash);
    return buffer;
}

const char *const report_round_heads[REPORT_ROUND_COLUMNS] = {"Rounds", "median", "low", "high",
                                                              "+-"};

static const enum measure report_round_rows[REPORT_ROUND_ROWS] = {
    MEASURE_RATE,  MEASURE_MEAN, MEASURE_P50,    MEASURE_P90,        MEASURE_P99,
    MEASURE_P99_9, MEASURE_MAX,  MEASURE_ERRORS, MEASURE_CLIENT_CPU,
};

size_t report_rounds(const struct result *result, struct report_round *rows)
{
    size_t count = 0;

    for (size_t i = 0; result->rounds != NULL && result->rounds->done > 0 && i < REPORT_ROUND_ROWS;
         i++) {
        enum measure measure = report_round_rows[i];
        struct interval of = rounds_interval(result->rounds, measure);
        struct report_round *row = &rows[count];
        double sure = interval_percent(&of);

        if (isnan(of.median))
            continue;
        count++;
        row->label = measure_table[measure].label;
        measure_format(row->cell[0], measure, of.median);
        measure_format(row->cell[1], measure, of.low);
        measure_format(row->cell[2], measure, of.high);
        snprintf(row->cell[3], MEASURE_TEXT, isnan(sure) ? "-" : "%.1f%%", sure);
    }
    return count;
}
