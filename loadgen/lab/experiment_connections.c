/* The experiments that vary the number of connections: concurrency, scaling, connections. */
#include "loadgen/lab/curves.h"

#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/lab/rounds.h"
#include "loadgen/lab/verdict.h"

#include <math.h>
#include <sys/resource.h>

/* ---- concurrency: does the server slow down with many connections? ---- */

static const uint32_t concurrency_steps[] = {10, 50, 100, 500, 1000};

enum { CONCURRENCY_STEPS = ARRAY_LENGTH(concurrency_steps) };

/* The points of the first curve against those of the second. */
static enum findings_kind keepalive_verdict(const struct point *points, struct interval *closest)
{
    enum findings_kind verdict = FINDINGS_MET;

    *closest = (struct interval){INFINITY, NAN, NAN, 0};
    for (size_t i = 0; i < CONCURRENCY_STEPS; i++) {
        struct interval gain = point_rate_ratio(&points[i], &points[CONCURRENCY_STEPS + i]);
        enum findings_kind of_step = verdict_above(&gain, 1);

        if (of_step == FINDINGS_NOT_MET ||
            (of_step == FINDINGS_UNDECIDED && verdict == FINDINGS_MET))
            verdict = of_step;
        if (gain.median < closest->median)
            *closest = gain;
    }
    return points_verdict(points, (size_t)2 * CONCURRENCY_STEPS, verdict);
}

static bool keepalive_is_decided(const void *points)
{
    struct interval closest;

    return keepalive_verdict(points, &closest) != FINDINGS_UNDECIDED;
}

static void judge_keepalive(struct document *findings, const struct point *points)
{
    static const char *const words[] = {[FINDINGS_MET] = "faster at every step",
                                        [FINDINGS_NOT_MET] = "not faster at every step",
                                        [FINDINGS_UNDECIDED] = "not certainly faster at every "
                                                               "step"};
    struct interval closest;
    enum findings_kind verdict = keepalive_verdict(points, &closest);
    char times[LAB_RATIO], advice[VERDICT_ADVICE] = "";

    if (verdict == FINDINGS_UNDECIDED)
        verdict_advice(advice, &closest, 1, 1, points[0].plan.duration_ms);
    findings_add(findings, verdict,
                 "Keep-alive is %s: at least %s the rate of a connection per request.%s",
                 words[verdict], lab_times(times, &closest), advice);
}

int experiment_concurrency(struct lab *lab, struct document *findings)
{
    static const char *const options[] = {"workers.processes=4", "workers.threads=10", NULL};
    struct private_server *server = lab_server(lab, options);
    struct point *points = points_create(lab, 2 * CONCURRENCY_STEPS);
    const struct curve curves[] = {
        {"Keep-alive", points, CONCURRENCY_STEPS},
        {"Connection per request", points + CONCURRENCY_STEPS, CONCURRENCY_STEPS}};

    if (server == NULL || points == NULL)
        return -1;
    curve_init(lab, points, server, LAB_SMALL, concurrency_steps, CONCURRENCY_STEPS, "keep-alive");
    curve_init(lab, points + CONCURRENCY_STEPS, server, LAB_SMALL, concurrency_steps,
               CONCURRENCY_STEPS, "connection per request");
    for (size_t i = CONCURRENCY_STEPS; i < (size_t)2 * CONCURRENCY_STEPS; i++)
        points[i].plan.keepalive = false;
    if (points_measure_often(lab, points, (size_t)2 * CONCURRENCY_STEPS, lab->rounds) != 0 ||
        points_measure_until(lab, points, (size_t)2 * CONCURRENCY_STEPS, keepalive_is_decided,
                             points) != 0)
        return -1;
    for (size_t i = 0; i < 2; i++) {
        curve_record(lab, &curves[i]);
        curve_table(findings, curves[i].name, &curves[i]);
    }
    curves_plot(findings, "Requests per second by connections", curves, 2, MEASURE_RATE);
    curves_plot(findings, "Mean latency by connections", curves, 2, MEASURE_MEAN);
    for (size_t i = 0; i < 2; i++)
        curve_explain(findings, &curves[i]);
    if (growth_judge(lab, findings, curves, 2) != 0)
        return -1;
    judge_keepalive(findings, points);
    points_add_cautions(findings, points, (size_t)2 * CONCURRENCY_STEPS);
    return 0;
}

/* ---- scaling: how many connections finish fixed work fastest? ---- */

static const uint32_t scaling_steps[] = {10, 50, 100, 500, 1000};

enum {
    SCALING_STEPS = ARRAY_LENGTH(scaling_steps),
    REQUESTS = 50000,
    REQUESTS_QUICK = 5000,
    REQUESTS_LEAST = 1000, /* one for each connection */
};

static void explain_scaling(struct document *findings, const struct curve *curve, uint64_t requests)
{
    const struct point *first = &curve->points[0], *peak = curve_peak(curve);
    char one[UNITS_TEXT], other[UNITS_TEXT];
    double slowest = (double)requests / point_median(first, MEASURE_RATE) * 1e6;
    double fastest = (double)requests / point_median(peak, MEASURE_RATE) * 1e6;

    if (peak == first)
        findings_add(findings, FINDINGS_LESSON,
                     "The fewest connections finish first, in %s: %u connections already keep this "
                     "machine busy.",
                     lab_time(one, sizeof(one), slowest), first->plan.connections);
    else
        findings_add(findings, FINDINGS_LESSON,
                     "The requests take %s with %u connections and %s with %u: %.0f%% less.",
                     lab_time(one, sizeof(one), slowest), first->plan.connections,
                     lab_time(other, sizeof(other), fastest), peak->plan.connections,
                     (1 - fastest / slowest) * 100);
}

int experiment_scaling(struct lab *lab, struct document *findings)
{
    static const char *const options[] = {"workers.processes=4", "workers.threads=10", NULL};
    struct private_server *server = lab_server(lab, options);
    struct point *points = points_create(lab, SCALING_STEPS);
    const struct curve curve = {"Connection per request", points, SCALING_STEPS};
    uint64_t requests = lab_requests(lab, lab->quick ? REQUESTS_QUICK : REQUESTS, REQUESTS_LEAST);
    char title[LAB_TITLE], number[UNITS_TEXT];

    if (server == NULL || points == NULL)
        return -1;
    curve_init(lab, points, server, LAB_SMALL, scaling_steps, SCALING_STEPS,
               "fixed number of requests");
    for (size_t i = 0; i < SCALING_STEPS; i++) {
        points[i].plan.requests = requests;
        points[i].plan.duration_ms = points[i].plan.warmup_ms = 0;
        points[i].plan.keepalive = false;
    }
    if (points_measure(lab, points, SCALING_STEPS) != 0)
        return -1;
    snprintf(title, sizeof(title), "%s requests, connection per request",
             format_number(number, sizeof(number), (double)requests));
    curve_record(lab, &curve);
    curve_table(findings, title, &curve);
    curves_plot(findings, "Requests per second by connections", &curve, 1, MEASURE_RATE);
    curves_plot(findings, "Mean latency by connections", &curve, 1, MEASURE_MEAN);
    explain_scaling(findings, &curve, requests);
    curve_explain(findings, &curve);
    points_add_cautions(findings, points, SCALING_STEPS);
    return 0;
}

/* ---- connections: how many are too many? ---- */

static const uint32_t connection_steps[] = {100, 500, 1000, 2000, 5000};

enum { CONNECTION_STEPS = ARRAY_LENGTH(connection_steps), OTHER_FILES = 200 };

/*
 * The number of steps that the limit on open files allows. The limit applies to client and server
 * separately.
 */
static size_t allowed_steps(void)
{
    struct rlimit limit;
    size_t count = 0;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return CONNECTION_STEPS;
    while (count < CONNECTION_STEPS && connection_steps[count] + OTHER_FILES <= limit.rlim_max)
        count++;
    return count;
}

int experiment_connections(struct lab *lab, struct document *findings)
{
    size_t count = allowed_steps();
    struct private_server *server = lab_server(lab, NULL);
    struct point *points = points_create(lab, CONNECTION_STEPS);
    const struct curve curve = {"Keep-alive", points, count};

    if (server == NULL || points == NULL)
        return -1;
    if (count == 0)
        return lab_fail(lab, "the limit of open files is too low (ulimit -Hn)");
    curve_init(lab, points, server, LAB_SMALL, connection_steps, count, "keep-alive");
    if (points_measure(lab, points, count) != 0)
        return -1;
    curve_record(lab, &curve);
    curve_table(findings, "1 KiB from the cache, keep-alive", &curve);
    curves_plot(findings, "Requests per second by connections", &curve, 1, MEASURE_RATE);
    curves_plot(findings, "99th percentile by connections", &curve, 1, MEASURE_P99);
    curve_explain(findings, &curve);
    if (curve_at(&curve, GROWTH_MANY) != NULL && growth_judge(lab, findings, &curve, 1) != 0)
        return -1;
    if (count < CONNECTION_STEPS)
        findings_add(findings, FINDINGS_CAUTION,
                     "Steps from %u connections on are left out: the limit of open files is too "
                     "low (ulimit -Hn).",
                     connection_steps[count]);
    points_add_cautions(findings, points, count);
    return 0;
}
