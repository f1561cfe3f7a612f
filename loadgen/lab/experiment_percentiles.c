/* The load at which the server saturates, and the effect of connections.keepalive_max_open. */
#include "loadgen/lab/curves.h"
#include "loadgen/lab/rounds.h"
#include "loadgen/stats/scaling.h"

#include "common/units.h"

#include "loadgen/base/format.h"

static const uint32_t steps[] = {1, 2, 4, 8, 10, 15, 20, 25, 30};

enum { STEPS = ARRAY_LENGTH(steps), LIMIT = 10 };

/* Trials of 10 s at the default of 3 s, as in the published ones. */
enum { TRIALS_LONG = 10, TRIALS_LONG_OF = 3 };

/* Below this share of the maximum rate the server has collapsed. */
#define COLLAPSE 0.5

struct zoned {
    const struct curve *curve;
    struct zones zones;
    enum zone zone[STEPS];
};

static struct zoned find_zones(const struct curve *curve)
{
    struct zoned zoned = {.curve = curve};
    struct zone_point points[STEPS];

    for (size_t i = 0; i < STEPS; i++) {
        struct interval rate = point_interval(&curve->points[i], MEASURE_RATE);

        points[i] = (struct zone_point){steps[i], rate.median,
                                        point_median(&curve->points[i], MEASURE_ERRORS), rate.high};
    }
    zoned.zones = zones_find(points, STEPS, zoned.zone);
    return zoned;
}

static void put_table(struct document *findings, const struct zoned *zoned)
{
    static const char *const heads[] = {"connections", "requests/s", "p50",  "p90",
                                        "p99",         "server CPU", "zone", NULL};

    findings_table(findings, zoned->curve->name, heads);
    for (size_t i = 0; i < STEPS; i++) {
        const struct point *point = &zoned->curve->points[i];

        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%u", steps[i]);
        point_cell_rate(findings, point);
        point_cell(findings, point, MEASURE_P50);
        point_cell(findings, point, MEASURE_P90);
        point_cell(findings, point, MEASURE_P99);
        point_cell_cpu(findings, point);
        document_cell(findings, "%s", zone_names[zoned->zone[i]]);
    }
}

static double part_of_best(const struct zoned *zoned, size_t i)
{
    const struct point *points = zoned->curve->points;

    return point_median(&points[i], MEASURE_RATE) /
           point_median(&points[zoned->zones.best], MEASURE_RATE);
}

static void explain_overload(struct document *findings, const struct zoned *zoned)
{
    size_t first = STEPS, lowest = zoned->zones.best;

    for (size_t i = zoned->zones.best + 1; i < STEPS; i++) {
        if (zoned->zone[i] == ZONE_OVERLOAD && first == STEPS)
            first = i;
        if (part_of_best(zoned, i) < part_of_best(zoned, lowest))
            lowest = i;
    }
    if (first == STEPS)
        findings_add(findings, FINDINGS_LESSON, "%s: no overload up to %u connections.",
                     zoned->curve->name, steps[STEPS - 1]);
    else
        findings_add(findings, FINDINGS_LESSON,
                     "%s: overload from %u connections on; the lowest rate there is %.0f%% of the "
                     "maximum, with %u%s",
                     zoned->curve->name, steps[first], part_of_best(zoned, lowest) * 100,
                     steps[lowest], part_of_best(zoned, lowest) < COLLAPSE ? ": a collapse." : ".");
}

static void explain_zones(struct document *findings, const struct zoned *zoned)
{
    const struct point *points = zoned->curve->points;
    size_t first = 0;

    while (first < STEPS && zoned->zone[first] == ZONE_LINEAR)
        first++;
    if (first == STEPS) {
        findings_add(findings, FINDINGS_LESSON,
                     "%s: the rate grows up to %u connections and is not saturated.",
                     zoned->curve->name, steps[STEPS - 1]);
        return;
    }
    findings_add(findings, FINDINGS_LESSON,
                 "%s: the plateau begins at %u connections; with %u the p99 is %.1f times as high: "
                 "additional connections only add waiting time.",
                 zoned->curve->name, steps[first], steps[STEPS - 1],
                 point_median(&points[STEPS - 1], MEASURE_P99) /
                     point_median(&points[first], MEASURE_P99));
    explain_overload(findings, zoned);
}

/* The cost of closing connections that clients would have reused. */
static void explain_limit(struct document *findings, const struct curve *always,
                          const struct curve *limited)
{
    const struct point *kept = &always->points[STEPS - 1], *closed = &limited->points[STEPS - 1];
    const struct point *few = curve_at(limited, LIMIT);
    struct interval below = point_rate_ratio(few, curve_at(always, LIMIT));
    struct interval above = point_rate_ratio(closed, kept), cpu = point_cpu_ratio(closed, kept);
    char of_below[LAB_RATIO], of_above[LAB_RATIO], of_cpu[LAB_RATIO];

    findings_add(findings, FINDINGS_LESSON,
                 "keepalive_max_open = %d: the rate is %s that of the server without it up to "
                 "the limit (with %u connections) and %s above it (with %u), with %s "
                 "the CPU time per request: reconnecting is expensive for a busy server.",
                 LIMIT, lab_times(of_below, &below), few->plan.connections,
                 lab_times(of_above, &above), closed->plan.connections, lab_times(of_cpu, &cpu));
}

static void explain_cores(struct lab *lab, struct document *findings, const struct zoned *zoned)
{
    const struct point *best = &zoned->curve->points[zoned->zones.best];
    double per_core = point_median(best, MEASURE_RATE) / lab->cores;
    char rate[UNITS_TEXT], alone[UNITS_TEXT];

    lab_record_value(lab, "Keep-alive up to 10", "peak per core", per_core);
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
    struct point *points = points_create(lab, 2 * STEPS);
    const struct curve curves[] = {{"Keep-alive", points, STEPS},
                                   {"Keep-alive up to 10", points + STEPS, STEPS}};
    struct zoned zoned[2];

    if (always != NULL)
        capped = lab_server(lab, limited);
    if (capped == NULL || points == NULL)
        return -1;
    curve_init(lab, points, always, LAB_SMALL, steps, STEPS, "keep-alive");
    curve_init(lab, points + STEPS, capped, LAB_SMALL, steps, STEPS, "keepalive_max_open = 10");
    for (size_t i = 0; i < (size_t)2 * STEPS && !lab->quick; i++)
        points[i].plan.duration_ms = lab->trial_ms * TRIALS_LONG / TRIALS_LONG_OF;
    if (points_measure(lab, points, (size_t)2 * STEPS) != 0)
        return -1;
    for (size_t i = 0; i < 2; i++) {
        curve_record(lab, &curves[i]);
        zoned[i] = find_zones(&curves[i]);
        put_table(findings, &zoned[i]);
    }
    curves_plot(findings, "Requests per second by connections", curves, 2, MEASURE_RATE);
    curves_plot(findings, "50th percentile by connections", curves, 2, MEASURE_P50);
    curves_plot(findings, "99th percentile by connections", curves, 2, MEASURE_P99);
    for (size_t i = 0; i < 2; i++)
        explain_zones(findings, &zoned[i]);
    explain_limit(findings, &curves[0], &curves[1]);
    explain_cores(lab, findings, &zoned[1]);
    points_add_cautions(findings, points, (size_t)2 * STEPS);
    return 0;
}
