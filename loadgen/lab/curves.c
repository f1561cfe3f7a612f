#include "loadgen/lab/curves.h"

#include "common/clock.h"
#include "common/tables.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/stats/measures.h"

#include <math.h>
#include <stdio.h>

void curve_init(struct lab *lab, struct point *first, struct private_server *server,
                const char *path, const uint32_t *connections, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        point_init(lab, &first[i], server, path, connections[i], "%s, %u connections", name,
                   connections[i]);
}

void curve_table(struct document *findings, const char *title, const struct curve *curve)
{
    static const char *const heads[] = {"connections", "requests/s", "mean",     "p50",
                                        "p99",         "server CPU", "switches", NULL};

    findings_table(findings, title, heads);
    for (size_t i = 0; i < curve->count; i++) {
        const struct point *point = &curve->points[i];

        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%u", point->plan.connections);
        point_cell_rate(findings, point);
        point_cell(findings, point, MEASURE_MEAN);
        point_cell(findings, point, MEASURE_P50);
        point_cell(findings, point, MEASURE_P99);
        point_cell_cpu(findings, point);
        document_cell(findings, "%.2g", point_own_median(point, POINT_SWITCHES));
    }
}

void curve_record(struct lab *lab, const struct curve *curve)
{
    for (size_t i = 0; i < curve->count; i++)
        point_record(lab, &curve->points[i], "%s, %u", curve->name,
                     curve->points[i].plan.connections_requested);
}

void curves_plot(struct document *findings, const char *title, const struct curve *curves,
                 size_t count, enum measure measure)
{
    bool rate = measure == MEASURE_RATE;
    double scale = rate ? 1 : (double)NS_PER_US;

    document_plot(findings, title, (struct plot_axis){true, axis_count},
                  (struct plot_axis){!rate, rate ? axis_rate : axis_time});
    for (size_t i = 0; i < count; i++) {
        document_line(findings, curves[i].name, false);
        for (size_t k = 0; k < curves[i].count; k++) {
            const struct point *point = &curves[i].points[k];
            struct interval interval = point_interval(point, measure);

            document_point_between(findings, point->plan.connections, interval.median * scale,
                                   interval.low * scale, interval.high * scale);
        }
    }
}

const struct point *curve_at(const struct curve *curve, uint32_t connections)
{
    for (size_t i = 0; i < curve->count; i++)
        if (curve->points[i].plan.connections == connections)
            return &curve->points[i];
    return NULL;
}

const struct point *curve_peak(const struct curve *curve)
{
    const struct point *peak = &curve->points[0];

    for (size_t i = 1; i < curve->count; i++)
        if (point_median(&curve->points[i], MEASURE_RATE) > point_median(peak, MEASURE_RATE))
            peak = &curve->points[i];
    return peak;
}

/* A rate that changes by less than this share counts as unchanged. */
#define UNCHANGED 0.1

const char *curve_reason(const struct interval *rates)
{
    if (!(rates->high > 0))
        return "There are too few rounds to tell whether the rate changes.";
    if (rates->high < 1 - UNCHANGED)
        return "Additional connections cost work that answers nothing, and wait longer for it.";
    if (rates->low > 1 + UNCHANGED)
        return "The first connections do not keep the server busy; more of them do.";
    if (rates->low >= 1 - UNCHANGED && rates->high <= 1 + UNCHANGED)
        return "The rate stays, so additional connections only wait (Little's law: mean latency = "
               "connections / rate).";
    return "The interval does not tell whether the rate changes.";
}

static void curve_explain(struct document *findings, const struct curve *curve,
                          struct named_ratio *row)
{
    const struct point *first = &curve->points[0], *last = &curve->points[curve->count - 1];
    const struct point *peak = curve_peak(curve);
    uint32_t few = first->plan.connections, many = last->plan.connections;
    struct interval of_peak = point_rate_ratio(last, peak), rates = point_rate_ratio(last, first);
    struct interval times = point_ratio(last, first, MEASURE_MEAN);
    char number[UNITS_TEXT], rate[LAB_RATIO], latency[LAB_RATIO], core[UNITS_TEXT];

    snprintf(row[0].name, LAB_TITLE, "%s: rate, %u over %u", curve->name, many, few);
    snprintf(row[1].name, LAB_TITLE, "%s: rate, %u over %u (the peak)", curve->name, many,
             peak->plan.connections);
    snprintf(row[2].name, LAB_TITLE, "%s: mean latency, %u over %u", curve->name, many, few);
    row[0].ratio = rates;
    row[1].ratio = of_peak;
    row[2].ratio = times;
    findings_add(findings, FINDINGS_LESSON,
                 "%s: from %u to %u connections the rate is %s; the mean latency is %s as high. %s",
                 curve->name, few, many, lab_times(rate, &rates), lab_times_alone(latency, &times),
                 curve_reason(&rates));
    findings_add(findings, FINDINGS_LESSON,
                 "%s: the maximum is %s requests/s with %u connections, for which the server does "
                 "%s requests per second of CPU time: the rate of one core without a client.",
                 curve->name,
                 format_number(number, sizeof(number), point_median(peak, MEASURE_RATE)),
                 peak->plan.connections,
                 format_number(core, sizeof(core), 1e6 / point_own_median(peak, POINT_CPU)));
}

void curves_explain(struct document *findings, const struct curve *curves, size_t count)
{
    enum { ROWS = 3 };
    struct named_ratio rows[ROWS * CURVES_MAX];

    count = count < CURVES_MAX ? count : CURVES_MAX;
    for (size_t i = 0; i < count; i++)
        curve_explain(findings, &curves[i], &rows[ROWS * i]);
    lab_put_ratios(findings, rows, ROWS * count);
}

/* ---- Growth of the cost of a request ---- */

/* The allowed increase of the CPU time per request, in percent. */
#define TOLERANCE 10.0

/*
 * Pairs in each round of the experiment, and the maximum duration of a trial: many short trials
 * give a narrower interval than few long ones.
 */
enum { PAIRS_A_ROUND = 3, LONGEST_MS = 1000, LONGEST_QUICK_MS = 120 };

/* The points of a curve: webserverd and the bare server, with few and with many connections. */
enum { FEW, MANY, BARE_FEW, BARE_MANY, PARTS };

enum findings_kind growth_verdict(const struct interval *ratio)
{
    return verdict_at_most(ratio, 1 + TOLERANCE / 100);
}

static void put_growth_row(struct document *findings, const char *server, const char *curve,
                           const struct point *pair)
{
    struct interval ratio = point_cpu_ratio(&pair[1], &pair[0]);

    document_row(findings, DOCUMENT_NORMAL);
    document_cell(findings, "%s, %s", server, curve);
    point_cell_cpu(findings, &pair[0]);
    point_cell_cpu(findings, &pair[1]);
    document_cell(findings, "%+.1f%%", (ratio.median - 1) * 100);
    document_cell(findings, "%zu", ratio.count);
}

/* The verdict on RATIO from the trials of PARTS; writes ADVICE, which is "" if it is decided. */
static enum findings_kind judge_ratio(const struct interval *ratio, const struct point *parts,
                                      char *advice)
{
    enum findings_kind verdict = growth_verdict(ratio);

    advice[0] = '\0';
    if (verdict == FINDINGS_UNDECIDED)
        verdict_advice(advice, ratio, 1 + TOLERANCE / 100, PAIRS_A_ROUND,
                       parts[FEW].plan.duration_ms);
    return verdict;
}

static void judge_total(struct document *findings, const char *name, const struct point *parts)
{
    struct interval ratio = point_cpu_ratio(&parts[MANY], &parts[FEW]);
    char few[UNITS_TEXT], many[UNITS_TEXT], change[LAB_RATIO], advice[VERDICT_ADVICE];
    enum findings_kind verdict = judge_ratio(&ratio, parts, advice);

    findings_add(
        findings, verdict,
        "%s: a request takes %s of the server's CPU time with %d connections and %s with "
        "%d: %s; allowed: %+.0f%%.%s%s",
        name, lab_time(few, sizeof(few), point_own_median(&parts[FEW], POINT_CPU)), GROWTH_FEW,
        lab_time(many, sizeof(many), point_own_median(&parts[MANY], POINT_CPU)), GROWTH_MANY,
        lab_change(change, &ratio), TOLERANCE, advice, points_busy(parts, PARTS));
}

/*
 * The ratio for webserverd after subtracting the increase of the bare server, which is the
 * kernel's.
 */
static struct interval own_ratio(const struct point *parts)
{
    double ratios[POINT_ROUNDS];

    for (uint32_t i = 0; i < parts[FEW].rounds; i++) {
        double kernel = parts[BARE_MANY].value[POINT_CPU][i] - parts[BARE_FEW].value[POINT_CPU][i];

        ratios[i] = figure_quotient(parts[MANY].value[POINT_CPU][i] - kernel,
                                    parts[FEW].value[POINT_CPU][i]);
    }
    return statistics_interval(ratios, parts[FEW].rounds);
}

static void judge_own(struct document *findings, const char *name, const struct point *parts)
{
    struct interval ratio = own_ratio(parts);
    char few[UNITS_TEXT], many[UNITS_TEXT], change[LAB_RATIO], advice[VERDICT_ADVICE];
    enum findings_kind verdict = judge_ratio(&ratio, parts, advice);

    findings_add(findings, verdict,
                 "%s: a server that only reads and writes, measured in alternation, takes %s and "
                 "%s. Without that increase, which the kernel causes, the CPU time of webserverd "
                 "changes by %s; allowed: %+.0f%%.%s%s",
                 name, lab_time(few, sizeof(few), point_own_median(&parts[BARE_FEW], POINT_CPU)),
                 lab_time(many, sizeof(many), point_own_median(&parts[BARE_MANY], POINT_CPU)),
                 lab_change(change, &ratio), TOLERANCE, advice, points_busy(parts, PARTS));
}

static void add_growth(struct document *findings, const struct point *points,
                       const struct curve *curves, size_t count)
{
    static const char *const heads[] = {"",       "100 connections", "1000 connections",
                                        "change", "pairs",           NULL};

    findings_table(findings, "CPU time of the server per request, in pairs of short trials", heads);
    for (size_t i = 0; i < count; i++, points += PARTS) {
        put_growth_row(findings, "webserverd", curves[i].name, &points[FEW]);
        put_growth_row(findings, "bare", curves[i].name, &points[BARE_FEW]);
        judge_total(findings, curves[i].name, points);
        judge_own(findings, curves[i].name, points);
    }
}

/* Both points of a pair have the same warm-up. */
static void make_pair(const struct lab *lab, struct point *pair, const struct curve *curve)
{
    uint64_t longest_ms = lab->quick ? LONGEST_QUICK_MS : LONGEST_MS;

    pair[0] = *curve_at(curve, GROWTH_FEW);
    pair[1] = *curve_at(curve, GROWTH_MANY);
    pair[0].plan.warmup_ms = pair[1].plan.warmup_ms;
    for (size_t i = 0; i < 2; i++)
        if (pair[i].plan.duration_ms > longest_ms)
            pair[i].plan.duration_ms = longest_ms;
}

static void make_parts(const struct lab *lab, struct point *parts, const struct curve *curve,
                       const struct bare_server *bare)
{
    make_pair(lab, &parts[FEW], curve);
    make_pair(lab, &parts[BARE_FEW], curve);
    point_use_bare(&parts[BARE_FEW], bare);
    point_use_bare(&parts[BARE_MANY], bare);
}

/* The points of COUNT curves. */
struct growth {
    const struct point *points;
    size_t count;
};

static bool growth_is_decided(const void *context)
{
    const struct growth *growth = context;

    for (size_t i = 0; i < growth->count; i++) {
        const struct point *parts = &growth->points[PARTS * i];
        struct interval total = point_cpu_ratio(&parts[MANY], &parts[FEW]), own = own_ratio(parts);
        char advice[VERDICT_ADVICE];

        if (judge_ratio(&total, parts, advice) == FINDINGS_UNDECIDED ||
            judge_ratio(&own, parts, advice) == FINDINGS_UNDECIDED)
            return false;
    }
    return true;
}

int growth_judge(struct lab *lab, struct document *findings, const struct curve *curves,
                 size_t count)
{
    struct point *points = points_create(lab, PARTS * count);
    const struct bare_server *bare = lab_bare_server(lab, (struct bare_way){.work_ns = 0});
    uint32_t pairs = lab->rounds * PAIRS_A_ROUND;

    if (points == NULL || bare == NULL)
        return -1;
    for (size_t i = 0; i < count; i++)
        make_parts(lab, &points[PARTS * i], &curves[i], bare);
    if (points_measure_often(lab, points, PARTS * count,
                             pairs < POINT_ROUNDS ? pairs : POINT_ROUNDS) != 0 ||
        points_measure_until(lab, points, PARTS * count, growth_is_decided,
                             &(const struct growth){points, count}) != 0)
        return -1;
    add_growth(findings, points, curves, count);
    return 0;
}
