#include "loadgen/lab/growth.h"

#include "common/units.h"

#include "loadgen/stats/statistics.h"

/* A request may cost so much more with many connections, in percent. */
#define TOLERANCE 10.0

/* Pairs for each round of the experiment, and the longest trial: many tell more than long ones. */
enum { PAIRS_A_ROUND = 3, LONGEST_MS = 1000 };

/* What is measured of a curve: webserverd with few and many connections, and the bare server. */
enum { FEW, MANY, BARE_FEW, BARE_MANY, PARTS };

static double percent(double ratio)
{
    return (ratio - 1) * 100;
}

enum findings_kind growth_verdict(const struct interval *ratio)
{
    if (percent(ratio->high) <= TOLERANCE)
        return FINDINGS_MET;
    if (percent(ratio->low) > TOLERANCE)
        return FINDINGS_NOT_MET;
    return FINDINGS_UNDECIDED;
}

static double cpu(const struct point *point)
{
    return point_own_median(point, POINT_CPU);
}

static void put_row(struct findings *findings, const char *server, const char *curve,
                    const struct point *pair)
{
    struct interval ratio = point_cpu_ratio(&pair[1], &pair[0]);

    findings_row(findings);
    findings_cell(findings, "%s, %s", server, curve);
    point_cell_cpu(findings, &pair[0]);
    point_cell_cpu(findings, &pair[1]);
    findings_cell(findings, "%+.1f%%", percent(ratio.median));
    findings_cell(findings, "%zu", ratio.count);
}

static const char *advice(enum findings_kind verdict)
{
    return verdict == FINDINGS_UNDECIDED
               ? " More rounds (--rounds) or a quieter machine would tell."
               : "";
}

static void judge_all(struct findings *findings, const char *name, const struct point *parts)
{
    struct interval ratio = point_cpu_ratio(&parts[MANY], &parts[FEW]);
    enum findings_kind verdict = growth_verdict(&ratio);
    char few[UNITS_TEXT], many[UNITS_TEXT], sure[LAB_SURE];

    findings_say(findings, verdict,
                 "%s: a request cost the server %s of processor time with %d connections and %s "
                 "with %d: %+.1f%% (%s); up to %+.0f%% is allowed.%s",
                 name, lab_time(few, sizeof(few), cpu(&parts[FEW])), GROWTH_FEW,
                 lab_time(many, sizeof(many), cpu(&parts[MANY])), GROWTH_MANY,
                 percent(ratio.median), lab_sure(sure, sizeof(sure), &ratio), TOLERANCE,
                 advice(verdict));
}

/* What would have become of a request if the kernel took as much for many connections as for few. */
static struct interval own_ratio(const struct point *parts)
{
    double ratios[POINT_ROUNDS];

    for (uint32_t i = 0; i < parts[FEW].rounds; i++) {
        double kernel = parts[BARE_MANY].value[POINT_CPU][i] - parts[BARE_FEW].value[POINT_CPU][i];

        ratios[i] = (parts[MANY].value[POINT_CPU][i] - kernel) / parts[FEW].value[POINT_CPU][i];
    }
    return statistics_interval(ratios, parts[FEW].rounds);
}

static void judge_own(struct findings *findings, const char *name, const struct point *parts)
{
    struct interval ratio = own_ratio(parts);
    enum findings_kind verdict = growth_verdict(&ratio);
    char few[UNITS_TEXT], many[UNITS_TEXT], sure[LAB_SURE];

    findings_say(findings, verdict,
                 "%s: a server that only reads and writes, measured in turns with it, went from %s "
                 "to %s. Without what the kernel takes there, a request cost ours %+.1f%% (%s); up "
                 "to %+.0f%% is allowed.%s",
                 name, lab_time(few, sizeof(few), cpu(&parts[BARE_FEW])),
                 lab_time(many, sizeof(many), cpu(&parts[BARE_MANY])), percent(ratio.median),
                 lab_sure(sure, sizeof(sure), &ratio), TOLERANCE, advice(verdict));
}

static void tell(struct findings *findings, const struct point *points, const struct curve *curves,
                 size_t count)
{
    static const char *const heads[] = {"",       "100 connections", "1000 connections",
                                        "change", "pairs",           NULL};

    findings_table(findings, "Server's processor time for a request, in pairs of short trials",
                   heads);
    for (size_t i = 0; i < count; i++, points += PARTS) {
        put_row(findings, "webserverd", curves[i].name, &points[FEW]);
        put_row(findings, "bare", curves[i].name, &points[BARE_FEW]);
        judge_all(findings, curves[i].name, points);
        judge_own(findings, curves[i].name, points);
    }
}

/* Both of a pair have the same time to warm up. */
static void make_pair(struct point *pair, const struct curve *curve)
{
    pair[0] = *curve_at(curve, GROWTH_FEW);
    pair[1] = *curve_at(curve, GROWTH_MANY);
    pair[0].plan.warmup_ms = pair[1].plan.warmup_ms;
    for (size_t i = 0; i < 2; i++)
        if (pair[i].plan.duration_ms > LONGEST_MS)
            pair[i].plan.duration_ms = LONGEST_MS;
}

static int make_parts(struct lab *lab, struct point *parts, const struct curve *curve)
{
    const struct bare_server *bare = lab_bare_server(lab);

    if (bare == NULL)
        return -1;
    make_pair(&parts[FEW], curve);
    make_pair(&parts[BARE_FEW], curve);
    point_ask_bare(&parts[BARE_FEW], bare);
    point_ask_bare(&parts[BARE_MANY], bare);
    return 0;
}

static uint32_t pairs_for(const struct lab *lab)
{
    uint32_t pairs = lab->rounds * PAIRS_A_ROUND;

    return pairs < POINT_ROUNDS ? pairs : POINT_ROUNDS;
}

int growth_judge(struct lab *lab, struct findings *findings, const struct curve *curves,
                 size_t count)
{
    struct point *points = points_create(lab, PARTS * count);

    if (points == NULL)
        return -1;
    for (size_t i = 0; i < count; i++)
        if (make_parts(lab, &points[PARTS * i], &curves[i]) != 0)
            return -1;
    if (points_measure_often(lab, points, PARTS * count, pairs_for(lab)) != 0)
        return -1;
    tell(findings, points, curves, count);
    return 0;
}
