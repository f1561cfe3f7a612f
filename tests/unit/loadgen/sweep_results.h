/* Invented sweeps: rates follow the Universal Scalability Law, with a ripple over the rounds. */
#ifndef TESTS_SWEEP_RESULTS_H
#define TESTS_SWEEP_RESULTS_H

#include "loadgen/cli/options.h"
#include "loadgen/sweep/sweep.h"
#include "tests/test.h"

#include <math.h>
#include <string.h>

struct invented {
    struct usl law;
    double ripple;  /* largest deviation of a round, as a part of the rate */
    double closing; /* rate of a connection per request, as a part of keep-alive's; 0: equal */
    double client_percent, server_cores, machine_percent;
    uint32_t cores;
    struct server_sizes server;
    uint32_t rounds_done; /* of 5 */
    enum trials_end end;
};

static struct plan sweep_plan;

static struct measures invent(const struct invented *invented, const struct plan *plan,
                              uint32_t round)
{
    static const double deviations[] = {0, 1, -1, 0.5, -0.5};
    double n = plan->connections_requested;
    double part = plan->keepalive || invented->closing == 0 ? 1 : invented->closing;
    double rate =
        part * usl_throughput(&invented->law, n) * (1 + invented->ripple * deviations[round % 5]);
    double us = n / rate * 1e6;
    struct measures measures;

    for (size_t i = 0; i < MEASURE_COUNT; i++)
        measures.value[i] = NAN;
    measures.value[MEASURE_RATE] = rate;
    measures.value[MEASURE_MEAN] = us;
    measures.value[MEASURE_P50] = us * 0.9;
    measures.value[MEASURE_P90] = us * 1.5;
    measures.value[MEASURE_P99] = us * 3;
    measures.value[MEASURE_MAX] = us * 10;
    measures.value[MEASURE_ERRORS] = 0;
    measures.value[MEASURE_CLIENT_SHARE] = invented->client_percent;
    measures.value[MEASURE_CLIENT_CPU] = 5;
    measures.value[MEASURE_SERVER_CORES] = invented->server_cores;
    measures.value[MEASURE_MACHINE_BUSY] = invented->machine_percent;
    return measures;
}

/* LINE is a command line without "wsload sweep". */
static struct sweep *invent_sweep(const struct invented *invented, const char *line)
{
    static char words_of[512];
    char *words[32] = {(char *)"wsload", (char *)"sweep"}, *rest = NULL, why[256] = "";
    struct sweep *sweep;
    int count = 2;

    snprintf(words_of, sizeof(words_of), "%s", line);
    for (char *word = strtok_r(words_of, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    assert_int_equal(options_parse(count, words, 4, &sweep_plan, why, sizeof(why)), OPTIONS_RUN);
    sweep = sweep_create(&sweep_plan, invented->server, why, sizeof(why));
    assert_non_null(sweep);
    sweep->machine_cores = invented->cores;
    for (uint32_t round = 0; round < invented->rounds_done; round++)
        for (size_t i = 0; i < sweep->point_count; i++) {
            const struct measures measures = invent(invented, &sweep->points[i].plan, round);

            trials_add(sweep->trials, i, &measures);
        }
    sweep->end = invented->end;
    sweep_conclude(sweep);
    return sweep;
}

#endif
