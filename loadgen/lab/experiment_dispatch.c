/*
 * The ways to distribute new connections to threads: CPU time, and how even the distribution is, with
 * balancing off.
 */
#include "loadgen/lab/rounds.h"
#include "loadgen/lab/verdict.h"

#include "common/units.h"

#include <math.h>

enum { CONNECTIONS = 100 };

/* The distribution is uneven if threads differ by more than this share of all connections. */
#define UNEVEN_SHARE 0.125

#define COMMON "workers.processes=2", "workers.threads=2", "workers.balance_connections=off"

static const struct way {
    const char *name;
    const char *const options[6];
} ways[] = {
    {"Kernel", {COMMON, "workers.dispatch=kernel", NULL}},
    {"Master, round robin",
     {COMMON, "workers.dispatch=master", "workers.balance=round-robin", NULL}},
    {"Master, least connections",
     {COMMON, "workers.dispatch=master", "workers.balance=least-connections", NULL}},
};

enum { WAYS = ARRAY_LENGTH(ways), KERNEL = 0, ROUND_ROBIN = 1 };

static void put_row(struct document *findings, const struct point *point)
{
    point_cell_rate(findings, point);
    point_cell(findings, point, MEASURE_P50);
    point_cell(findings, point, MEASURE_P99);
    point_cell_cpu(findings, point);
}

static void put_keepalive(struct document *findings, const struct point *points)
{
    static const char *const heads[] = {"dispatch",   "requests/s", "p50", "p99",
                                        "server CPU", "per thread", NULL};
    char spread[LAB_SPREAD];

    findings_table(findings, "Keep-alive: 100 connections on 4 threads", heads);
    for (size_t i = 0; i < WAYS; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", ways[i].name);
        put_row(findings, &points[i]);
        document_cell(findings, "%s", point_connections_text(spread, &points[i]));
    }
}

static void put_per_request(struct document *findings, const struct point *points)
{
    static const char *const heads[] = {"dispatch", "requests/s", "p50", "p99", "server CPU", NULL};

    findings_table(findings, "Connection per request", heads);
    for (size_t i = 0; i < WAYS; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", ways[i].name);
        put_row(findings, &points[i]);
    }
}

static void explain(struct document *findings, const struct point *keepalive,
                    const struct point *per_request)
{
    struct interval ratio = point_cpu_ratio(&per_request[ROUND_ROBIN], &per_request[KERNEL]);
    enum findings_kind kind =
        comparison_verdict(&(struct comparison){&per_request[ROUND_ROBIN], &per_request[KERNEL]});
    char one[UNITS_TEXT], other[UNITS_TEXT], change[LAB_RATIO];
    char advice[VERDICT_ADVICE] = "";

    if (kind == FINDINGS_UNDECIDED)
        verdict_advice(advice, &ratio, 1, 1, per_request->plan.duration_ms);
    findings_add(
        findings, kind,
        "A new connection with one request takes %s of CPU time if the kernel chooses the thread, "
        "and %s if the master accepts the connection and passes it on: %s.%s",
        lab_time(one, sizeof(one), point_own_median(&per_request[KERNEL], POINT_CPU)),
        lab_time(other, sizeof(other), point_own_median(&per_request[ROUND_ROBIN], POINT_CPU)),
        lab_change(change, &ratio), advice);
    for (size_t i = 0; i < WAYS; i++) {
        double least = point_own_median(&keepalive[i], POINT_LEAST);
        double most = point_own_median(&keepalive[i], POINT_MOST);

        if (!point_has_connections(&keepalive[i])) {
            point_explain_no_connections(findings, ways[i].name);
            continue;
        }
        findings_add(findings, FINDINGS_LESSON,
                     "%s: the thread with the most connections has %.0f of 100, the one with the "
                     "fewest %.0f%s",
                     ways[i].name, most, least,
                     most - least > CONNECTIONS * UNEVEN_SHARE
                         ? ". That is uneven: clients of the busiest thread wait while other "
                           "threads are idle."
                         : ". That is even.");
    }
}

int experiment_dispatch(struct lab *lab, struct document *findings)
{
    struct point *points = points_create(lab, 2 * WAYS);
    const struct comparison compared = {points + WAYS + ROUND_ROBIN, points + WAYS + KERNEL};

    if (points == NULL)
        return -1;
    for (size_t i = 0; i < WAYS; i++) {
        struct private_server *server = lab_server(lab, ways[i].options);

        if (server == NULL)
            return -1;
        point_init(lab, &points[i], server, LAB_SMALL, CONNECTIONS, "%s, keep-alive", ways[i].name);
        point_init(lab, &points[WAYS + i], server, LAB_SMALL, CONNECTIONS,
                   "%s, connection per request", ways[i].name);
        points[WAYS + i].plan.keepalive = false;
    }
    if (points_measure_often(lab, points, (size_t)2 * WAYS, lab->rounds) != 0 ||
        points_measure_until(lab, points, (size_t)2 * WAYS, comparisons_are_decided,
                             &(struct comparisons){&compared, 1}) != 0)
        return -1;
    put_keepalive(findings, points);
    put_per_request(findings, points + WAYS);
    points_plot_rounds(findings, "Connection per request: CPU time of the server by round", false);
    for (size_t i = 0; i < WAYS; i++)
        point_line_cpu(findings, &points[WAYS + i], ways[i].name);
    explain(findings, points, points + WAYS);
    points_add_cautions(findings, points, (size_t)2 * WAYS);
    return 0;
}
