/* Invented results, for the tests of reports. */
#ifndef TESTS_LOAD_RESULTS_H
#define TESTS_LOAD_RESULTS_H

#include "common/clock.h"
#include "loadgen/report/report.h"
#include "loadgen/stats/result.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct plan plan;
static struct result result;

static void record(uint64_t count, enum error_kind error, uint32_t status, uint64_t latency_ns)
{
    const struct transaction transaction = {
        .error = error,
        .status = status,
        .bad_status = status >= 400,
        .first_byte_ns = latency_ns / 2,
        .service_ns = latency_ns,
        .latency_ns = latency_ns,
        .head_bytes = 24,
        .body_bytes = 1000,
    };

    tally_count(&result.tally, TALLY_begun, count);
    for (uint64_t i = 0; i < count; i++)
        tally_record(&result.tally, &transaction);
}

static void begin(void)
{
    plan = (struct plan){.method = "GET",
                         .streams = 1,
                         .connections_requested = 100,
                         .connections = 100,
                         .threads = 2,
                         .requests = 20000,
                         .rounds = 1,
                         .keepalive = true};
    memset(&result, 0, sizeof(result));
    result.plan = &plan;
    result.url = "http://127.0.0.1:8080/";
    result.engine = "curl";
    result.requests = 1;
    result.connections = 100;
    result.threads = 2;
    result.elapsed_ns = 2 * NS_PER_S;
    result.thread_ns = 4 * NS_PER_S;
    result.cpu_ns = NS_PER_S;
    tally_count(&result.tally, TALLY_clients_up, 100);
    tally_count(&result.tally, TALLY_clients_used, 100);
    tally_count(&result.tally, TALLY_connections_opened, 234);
}

/* No errors, one slow response. */
static inline void fill_good(void)
{
    begin();
    record(19999, ERROR_KIND_NONE, 200, 64 * NS_PER_US);
    record(1, ERROR_KIND_NONE, 304, 2 * NS_PER_S);
}

/* Errors of several kinds. */
static inline void fill_bad(void)
{
    begin();
    plan.keepalive = false;
    plan.method = "HEAD";
    plan.connections_requested = 500;
    plan.connections = result.connections = 101;
    plan.threads = result.threads = 1;
    result.thread_ns = 2 * NS_PER_S;
    tally_count(&result.tally, TALLY_clients_used, 1);
    plan.requests = 101;
    record(50, ERROR_KIND_NONE, 200, NS_PER_MS);
    record(10, ERROR_KIND_NONE, 404, NS_PER_MS);
    record(30, ERROR_KIND_REFUSED, 0, 0);
    record(9, ERROR_KIND_OTHER, 0, 0);
    tally_count(&result.tally, TALLY_begun, 2);
    tally_count(&result.tally, TALLY_unanswered, 2);
    error_texts_record(&result.error_texts, ERROR_KIND_OTHER, "No route to host");
    result.cpu_ns = 19 * NS_PER_S / 10;
    result.interrupted = true;
}

/* The report of the result; the caller frees it. */
static inline char *make_report(enum plan_format format, bool colour)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    plan.format = format;
    if (out == NULL || report_write(out, &result, colour) != 0 || fclose(out) != 0)
        return NULL;
    return text;
}

/* Makes the result one of ROUNDS rounds, none of them complete. */
static inline void begin_repeat(uint32_t rounds)
{
    result.rounds = calloc(1, sizeof(*result.rounds));
    result.rounds->trials = trials_create(1, rounds);
    result.rounds->total = calloc(rounds, sizeof(*result.rounds->total));
    result.rounds->requested = rounds;
}

/* Adds a round with the rate RATE and all times RATE microseconds. */
static inline void add_round(double rate)
{
    struct measures measures;

    for (size_t i = 0; i < MEASURE_COUNT; i++)
        measures.value[i] = rate;
    measures.value[MEASURE_RATE] = rate;
    measures.value[MEASURE_P99_9] = NAN;
    trials_add(result.rounds->trials, 0, &measures);
    result.rounds->total[result.rounds->done++] =
        (struct series_entry){.end_ns = NS_PER_S, .answered = (uint64_t)rate};
}

static inline void end_repeat(void)
{
    rounds_free(result.rounds);
    result.rounds = NULL;
}

#endif
