/*
 * The experiments that vary the number of connections: baseline (one), concurrency, and percentiles
 * with connections.keepalive_max_open.
 */
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/lab/curves.h"
#include "loadgen/stats/scaling.h"

#include <math.h>
#include <sys/resource.h>

/* ---- baseline: how long does one request take on an idle server? ---- */

enum { BASELINE_KEPT, BASELINE_PER_REQUEST, BASELINE_WAYS, BASELINE_REQUESTS = 1000 };

static const char *const baseline_ways[BASELINE_WAYS] = {"keep-alive", "connection per request"};

static void put_baseline_table(struct document *findings, const struct point *points)
{
    static const char *const heads[] = {"",    "requests/s", "mean",   "p50",
                                        "p99", "server CPU", "client", NULL};

    findings_table(findings, "1 KiB from the cache, one connection at a time", heads);
    for (size_t i = 0; i < BASELINE_WAYS; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", baseline_ways[i]);
        point_cell_rate(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_MEAN);
        point_cell(findings, &points[i], MEASURE_P50);
        point_cell(findings, &points[i], MEASURE_P99);
        point_cell_cpu(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_CLIENT_SHARE);
    }
}

static void explain_baseline(struct document *findings, const struct point *point)
{
    double mean = point_median(point, MEASURE_MEAN), cpu = point_own_median(point, POINT_CPU);
    double rate = point_median(point, MEASURE_RATE);
    char one[LAB_BETWEEN], other[UNITS_TEXT], number[UNITS_TEXT];

    findings_add(findings, FINDINGS_LESSON,
                 "A request takes %s, of which the server uses %s of CPU time (%.0f%%). The rest "
                 "is the client, the loopback interface, and the wake-ups of two processes.",
                 point_between(one, point, MEASURE_MEAN), lab_time(other, sizeof(other), cpu),
                 cpu / mean * 100);
    findings_add(
        findings, FINDINGS_LESSON,
        "One connection waits for each response, so its rate is 1 / latency: %s requests/s. The "
        "server used %.0f%% of one core; more connections can use the rest.",
        format_number(number, sizeof(number), rate), rate * cpu / 1e6 * 100);
}

static void explain_opening(struct document *findings, const struct point *points)
{
    struct interval cpu = point_cpu_ratio(&points[BASELINE_PER_REQUEST], &points[BASELINE_KEPT]);
    char times[LAB_RATIO];

    findings_add(findings, FINDINGS_LESSON,
                 "With a connection per request the server uses %s the CPU time: the "
                 "kernel opens and closes the connection.",
                 lab_times(times, &cpu));
}

int experiment_baseline(struct lab *lab, struct document *findings)
{
    static const char *const options[] = {"workers.processes=1", "workers.threads=1", NULL};
    struct private_server *server = lab_server(lab, options);
    struct point *points = points_create(lab, BASELINE_WAYS);

    if (server == NULL || points == NULL)
        return -1;
    for (size_t i = 0; i < BASELINE_WAYS; i++)
        point_init(lab, &points[i], server, LAB_SMALL, 1, "one connection, %s", baseline_ways[i]);
    points[BASELINE_PER_REQUEST].plan.keepalive = false;
    points[BASELINE_PER_REQUEST].plan.requests = BASELINE_REQUESTS;
    points[BASELINE_PER_REQUEST].plan.duration_ms = points[BASELINE_PER_REQUEST].plan.warmup_ms = 0;
    if (points_measure(lab, points, BASELINE_WAYS) != 0)
        return -1;
    point_record(lab, &points[BASELINE_PER_REQUEST], "one connection");
    put_baseline_table(findings, points);
    points_plot_rounds(findings, "Latency by round, keep-alive", true);
    point_line(findings, &points[BASELINE_KEPT], "p50", MEASURE_P50);
    point_line(findings, &points[BASELINE_KEPT], "p99", MEASURE_P99);
    explain_baseline(findings, &points[BASELINE_KEPT]);
    explain_opening(findings, points);
    points_add_cautions(findings, points, BASELINE_WAYS);
    return 0;
}

/* ---- concurrency: what do more connections gain, and what do they cost? ---- */

static const uint32_t concurrency_steps[] = {10, 50, 100, 500, 1000, 2000, 5000};

enum {
    CONCURRENCY_STEPS = ARRAY_LENGTH(concurrency_steps),
    CLOSED_STEPS = 5, /* of a connection per request */
    OTHER_FILES = 200,
    FIXED_WORK = 50000, /* requests */
};

/* Points with keep-alive, then those with a connection per request. */
struct grown {
    struct point *points;
    size_t kept; /* steps with keep-alive that the limit on open files allows */
};

/* The limit on open files applies to client and server separately. */
static size_t allowed_steps(void)
{
    struct rlimit limit;
    size_t count = 0;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return CONCURRENCY_STEPS;
    while (count < CONCURRENCY_STEPS && concurrency_steps[count] + OTHER_FILES <= limit.rlim_max)
        count++;
    return count;
}

/* The steps with keep-alive against those with a connection per request. */
static enum findings_kind keepalive_verdict(const struct grown *grown, struct interval *closest)
{
    enum findings_kind verdict = FINDINGS_MET;

    *closest = (struct interval){INFINITY, NAN, NAN, 0};
    for (size_t i = 0; i < CLOSED_STEPS; i++) {
        struct interval gain = point_rate_ratio(&grown->points[i], &grown->points[grown->kept + i]);
        enum findings_kind of_step = verdict_above(&gain, 1);

        if (of_step == FINDINGS_NOT_MET ||
            (of_step == FINDINGS_UNDECIDED && verdict == FINDINGS_MET))
            verdict = of_step;
        if (gain.median < closest->median)
            *closest = gain;
    }
    return verdict;
}

static bool keepalive_is_decided(const void *grown)
{
    struct interval closest;

    return keepalive_verdict(grown, &closest) != FINDINGS_UNDECIDED;
}

static void judge_keepalive(struct document *findings, const struct grown *grown)
{
    static const char *const words[] = {[FINDINGS_MET] = "faster at every step",
                                        [FINDINGS_NOT_MET] = "not faster at every step",
                                        [FINDINGS_UNDECIDED] = "not certainly faster at every "
                                                               "step"};
    struct interval closest;
    enum findings_kind verdict = keepalive_verdict(grown, &closest);
    char times[LAB_RATIO], advice[VERDICT_ADVICE] = "";

    if (verdict == FINDINGS_UNDECIDED)
        verdict_advice(advice, &closest, 1, 1, grown->points[0].plan.duration_ms);
    findings_add(findings, verdict,
                 "Keep-alive is %s: at least %s the rate of a connection per request.%s%s",
                 words[verdict], lab_times(times, &closest), advice,
                 points_busy(grown->points, grown->kept + CLOSED_STEPS));
}

/* How long a fixed number of requests takes. */
static void explain_fixed_work(struct document *findings, const struct curve *curve)
{
    const struct point *first = &curve->points[0], *peak = curve_peak(curve);
    char number[UNITS_TEXT], one[UNITS_TEXT], other[UNITS_TEXT];

    findings_add(findings, FINDINGS_LESSON, "%s: %s requests take %s with %u connections%s%s%s",
                 curve->name, format_number(number, sizeof(number), FIXED_WORK),
                 lab_time(one, sizeof(one), FIXED_WORK / point_median(first, MEASURE_RATE) * 1e6),
                 first->plan.connections, peak != first ? " and at least " : "",
                 peak != first ? lab_time(other, sizeof(other),
                                          FIXED_WORK / point_median(peak, MEASURE_RATE) * 1e6)
                               : "",
                 peak != first ? " with any other number of them."
                               : ", less than with any other number of them.");
}

static int measure_concurrency(struct lab *lab, const struct grown *grown)
{
    static const char *const options[] = {"workers.processes=4", "workers.threads=10", NULL};
    struct private_server *server = lab_server(lab, options);
    struct point *closed = grown->points + grown->kept;
    size_t count = grown->kept + CLOSED_STEPS;

    if (server == NULL)
        return -1;
    curve_init(lab, grown->points, server, LAB_SMALL, concurrency_steps, grown->kept, "keep-alive");
    curve_init(lab, closed, server, LAB_SMALL, concurrency_steps, CLOSED_STEPS,
               "connection per request");
    for (size_t i = 0; i < CLOSED_STEPS; i++)
        closed[i].plan.keepalive = false;
    return points_measure_often(lab, grown->points, count, lab->rounds) != 0
               ? -1
               : points_measure_until(lab, grown->points, count, keepalive_is_decided, grown);
}

int experiment_concurrency(struct lab *lab, struct document *findings)
{
    const struct grown grown = {points_create(lab, CONCURRENCY_STEPS + CLOSED_STEPS),
                                allowed_steps()};
    const struct curve curves[] = {
        {"Keep-alive", grown.points, grown.kept},
        {"Connection per request", grown.points + grown.kept, CLOSED_STEPS}};

    if (grown.points == NULL)
        return -1;
    if (grown.kept < CLOSED_STEPS)
        return lab_fail(lab, "the limit of open files is too low (ulimit -Hn)");
    if (measure_concurrency(lab, &grown) != 0)
        return -1;
    for (size_t i = 0; i < 2; i++) {
        curve_record(lab, &curves[i]);
        curve_table(findings, curves[i].name, &curves[i]);
    }
    curves_plot(findings, "Requests per second by connections", curves, 2, MEASURE_RATE);
    curves_plot(findings, "Mean latency by connections", curves, 2, MEASURE_MEAN);
    curves_plot(findings, "99th percentile by connections", curves, 2, MEASURE_P99);
    curves_explain(findings, curves, 2);
    explain_fixed_work(findings, &curves[1]);
    if (growth_judge(lab, findings, curves, 2) != 0)
        return -1;
    judge_keepalive(findings, &grown);
    if (grown.kept < CONCURRENCY_STEPS)
        findings_add(findings, FINDINGS_CAUTION,
                     "Steps from %u connections on are left out: the limit of open files is too "
                     "low (ulimit -Hn).",
                     concurrency_steps[grown.kept]);
    points_add_cautions(findings, grown.points, grown.kept + CLOSED_STEPS);
    return 0;
}

/* ---- percentiles: where does it saturate, and what is the latency there? ---- */

static const uint32_t zone_steps[] = {1, 2, 4, 8, 10, 15, 20, 25, 30};

enum { ZONE_STEPS = ARRAY_LENGTH(zone_steps), KEEPALIVE_LIMIT = 10 };

/* Trials of 10 s at the default of 3 s, as in the published ones. */
enum { TRIALS_LONG = 10, TRIALS_LONG_OF = 3 };

/* Below this share of the maximum rate the server has collapsed. */
#define COLLAPSE 0.5

struct zoned {
    const struct curve *curve;
    struct zones zones;
    enum zone zone[ZONE_STEPS];
};

static struct zoned find_point_zones(const struct curve *curve)
{
    struct zoned zoned = {.curve = curve};
    struct zone_point points[ZONE_STEPS];

    for (size_t i = 0; i < ZONE_STEPS; i++) {
        struct interval rate = point_interval(&curve->points[i], MEASURE_RATE);

        points[i] = (struct zone_point){zone_steps[i], rate.median,
                                        point_median(&curve->points[i], MEASURE_ERRORS), rate.high};
    }
    zoned.zones = zones_find(points, ZONE_STEPS, zoned.zone);
    return zoned;
}

static void put_zone_table(struct document *findings, const struct zoned *zoned)
{
    static const char *const heads[] = {"connections", "requests/s", "p50",  "p90",
                                        "p99",         "server CPU", "zone", NULL};

    findings_table(findings, zoned->curve->name, heads);
    for (size_t i = 0; i < ZONE_STEPS; i++) {
        const struct point *point = &zoned->curve->points[i];

        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%u", zone_steps[i]);
        point_cell_rate(findings, point);
        point_cell(findings, point, MEASURE_P50);
        point_cell(findings, point, MEASURE_P90);
        point_cell(findings, point, MEASURE_P99);
        point_cell_cpu(findings, point);
        document_cell(findings, "%s", zone_names[zoned->zone[i]]);
    }
}

static double share_of_best(const struct zoned *zoned, size_t i)
{
    const struct point *points = zoned->curve->points;

    return point_median(&points[i], MEASURE_RATE) /
           point_median(&points[zoned->zones.best], MEASURE_RATE);
}

static void explain_overload(struct document *findings, const struct zoned *zoned)
{
    size_t first = ZONE_STEPS, lowest = zoned->zones.best;

    for (size_t i = zoned->zones.best + 1; i < ZONE_STEPS; i++) {
        if (zoned->zone[i] == ZONE_OVERLOAD && first == ZONE_STEPS)
            first = i;
        if (share_of_best(zoned, i) < share_of_best(zoned, lowest))
            lowest = i;
    }
    if (first == ZONE_STEPS)
        findings_add(findings, FINDINGS_LESSON, "%s: no overload up to %u connections.",
                     zoned->curve->name, zone_steps[ZONE_STEPS - 1]);
    else
        findings_add(findings, FINDINGS_LESSON,
                     "%s: overload from %u connections on; the lowest rate there is %.0f%% of the "
                     "maximum, with %u%s",
                     zoned->curve->name, zone_steps[first], share_of_best(zoned, lowest) * 100,
                     zone_steps[lowest],
                     share_of_best(zoned, lowest) < COLLAPSE ? ": a collapse." : ".");
}

static void explain_zones(struct document *findings, const struct zoned *zoned)
{
    const struct point *points = zoned->curve->points;
    size_t first = 0;

    while (first < ZONE_STEPS && zoned->zone[first] == ZONE_LINEAR)
        first++;
    if (first == ZONE_STEPS) {
        findings_add(findings, FINDINGS_LESSON,
                     "%s: the rate grows up to %u connections and is not saturated.",
                     zoned->curve->name, zone_steps[ZONE_STEPS - 1]);
        return;
    }
    findings_add(findings, FINDINGS_LESSON,
                 "%s: the plateau begins at %u connections; with %u the p99 is %.1f times as high.",
                 zoned->curve->name, zone_steps[first], zone_steps[ZONE_STEPS - 1],
                 point_median(&points[ZONE_STEPS - 1], MEASURE_P99) /
                     point_median(&points[first], MEASURE_P99));
    explain_overload(findings, zoned);
}

/* The cost of closing connections that clients would have reused. */
static void explain_keepalive_limit(struct document *findings, const struct curve *always,
                                    const struct curve *limited)
{
    const struct point *kept = &always->points[ZONE_STEPS - 1],
                       *closed = &limited->points[ZONE_STEPS - 1];
    const struct point *few = curve_at(limited, KEEPALIVE_LIMIT);
    struct interval below = point_rate_ratio(few, curve_at(always, KEEPALIVE_LIMIT));
    struct interval above = point_rate_ratio(closed, kept), cpu = point_cpu_ratio(closed, kept);
    const struct named_ratio ratios[] = {{"rate, limited over unlimited, 10 connections", below},
                                         {"rate, limited over unlimited, 30 connections", above},
                                         {"CPU time, limited over unlimited, 30", cpu}};
    char of_below[LAB_RATIO], of_above[LAB_RATIO], of_cpu[LAB_RATIO];

    lab_put_ratios(findings, ratios, ARRAY_LENGTH(ratios));
    findings_add(findings, FINDINGS_LESSON,
                 "keepalive_max_open = %d: the rate is %s that of the server without it up to "
                 "the limit (with %u connections) and %s above it (with %u), with %s "
                 "the CPU time per request: reconnecting is expensive for a busy server.",
                 KEEPALIVE_LIMIT, lab_times_alone(of_below, &below), few->plan.connections,
                 lab_times(of_above, &above), closed->plan.connections,
                 lab_times_alone(of_cpu, &cpu));
}

static void explain_cores(const struct lab *lab, struct document *findings,
                          const struct zoned *zoned)
{
    const struct point *best = &zoned->curve->points[zoned->zones.best];
    double per_core = point_median(best, MEASURE_RATE) / lab->cores;
    char rate[UNITS_TEXT], alone[UNITS_TEXT];

    findings_add(findings, FINDINGS_LESSON,
                 "%s: at the maximum, %s requests/s for each core of this machine, which the "
                 "client uses, too; a core that only runs the server does %s.",
                 zoned->curve->name, format_number(rate, sizeof(rate), per_core),
                 format_number(alone, sizeof(alone), 1e6 / point_own_median(best, POINT_CPU)));
}

int experiment_percentiles(struct lab *lab, struct document *findings)
{
    static const char *const unlimited[] = {"workers.processes=1", "workers.threads=12", NULL};
    static const char *const limited[] = {"workers.processes=1", "workers.threads=12",
                                          "connections.keepalive_max_open=10", NULL};
    struct private_server *always = lab_server(lab, unlimited), *capped = NULL;
    struct point *points = points_create(lab, 2 * ZONE_STEPS);
    const struct curve curves[] = {{"Keep-alive", points, ZONE_STEPS},
                                   {"Keep-alive up to 10", points + ZONE_STEPS, ZONE_STEPS}};
    struct zoned zoned[2];

    if (always != NULL)
        capped = lab_server(lab, limited);
    if (capped == NULL || points == NULL)
        return -1;
    curve_init(lab, points, always, LAB_SMALL, zone_steps, ZONE_STEPS, "keep-alive");
    curve_init(lab, points + ZONE_STEPS, capped, LAB_SMALL, zone_steps, ZONE_STEPS,
               "keepalive_max_open = 10");
    for (size_t i = 0; i < (size_t)2 * ZONE_STEPS; i++)
        points[i].plan.duration_ms =
            lab->quick ? (lab->trial_ms + 1) / 2 : lab->trial_ms * TRIALS_LONG / TRIALS_LONG_OF;
    if (points_measure(lab, points, (size_t)2 * ZONE_STEPS) != 0)
        return -1;
    for (size_t i = 0; i < 2; i++) {
        zoned[i] = find_point_zones(&curves[i]);
        put_zone_table(findings, &zoned[i]);
    }
    curves_plot(findings, "Requests per second by connections", curves, 2, MEASURE_RATE);
    curves_plot(findings, "50th percentile by connections", curves, 2, MEASURE_P50);
    curves_plot(findings, "99th percentile by connections", curves, 2, MEASURE_P99);
    for (size_t i = 0; i < 2; i++)
        explain_zones(findings, &zoned[i]);
    explain_keepalive_limit(findings, &curves[0], &curves[1]);
    explain_cores(lab, findings, &zoned[1]);
    points_add_cautions(findings, points, (size_t)2 * ZONE_STEPS);
    return 0;
}
