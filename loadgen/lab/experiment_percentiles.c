/* Where the server is idle, full and overloaded, and what closing connections early does to that. */
#include "loadgen/lab/curves.h"
#include "loadgen/lab/experiments.h"

#include <string.h>

static const uint32_t steps[] = {1, 2, 4, 8, 10, 15, 20, 25, 30};

enum { STEPS = ARRAY_LENGTH(steps), LIMIT = 10 };

/* Parts of the highest rate. */
#define FULL_FROM      0.9
#define COLLAPSE_BELOW 0.5

static const char *zone_of(const struct curve *curve, size_t i)
{
    const struct point *peak = curve_peak(curve);
    double part = point_median(&curve->points[i], MEASURE_RATE) / point_median(peak, MEASURE_RATE);

    if (part >= FULL_FROM)
        return "full";
    if (&curve->points[i] < peak)
        return "rising";
    return part >= COLLAPSE_BELOW ? "falling" : "collapse";
}

static void put_table(struct findings *findings, const struct curve *curve)
{
    static const char *const heads[] = {"connections", "requests/s", "p50",  "p90",
                                        "p99",         "server CPU", "zone", NULL};

    findings_table(findings, curve->name, heads);
    for (size_t i = 0; i < curve->count; i++) {
        const struct point *point = &curve->points[i];

        findings_row(findings);
        findings_cell(findings, "%u", point->plan.connections);
        point_cell_rate(findings, point);
        point_cell(findings, point, MEASURE_P50);
        point_cell(findings, point, MEASURE_P90);
        point_cell(findings, point, MEASURE_P99);
        point_cell_cpu(findings, point);
        findings_cell(findings, "%s", zone_of(curve, i));
    }
}

/* The first point of a zone, or NULL. */
static const struct point *first_in(const struct curve *curve, const char *zone)
{
    for (size_t i = 0; i < curve->count; i++)
        if (strcmp(zone_of(curve, i), zone) == 0)
            return &curve->points[i];
    return NULL;
}

static void explain_zones(struct findings *findings, const struct curve *curve)
{
    const struct point *full = first_in(curve, "full"), *collapse = first_in(curve, "collapse");
    const struct point *falling = first_in(curve, "falling"), *last = &curve->points[STEPS - 1];

    findings_say(findings, FINDINGS_LESSON,
                 "%s: full (nine tenths of its highest rate) from %u connections on; more only "
                 "wait: p99 was %.1f times as long with %u.",
                 curve->name, full->plan.connections,
                 point_median(last, MEASURE_P99) / point_median(full, MEASURE_P99),
                 last->plan.connections);
    if (collapse != NULL)
        findings_say(findings, FINDINGS_LESSON,
                     "%s: it collapsed to less than half of its highest rate at %u connections.",
                     curve->name, collapse->plan.connections);
    else if (falling != NULL)
        findings_say(findings, FINDINGS_LESSON,
                     "%s: its rate fell below nine tenths of the highest at %u connections; it did "
                     "not collapse.",
                     curve->name, falling->plan.connections);
    else
        findings_say(findings, FINDINGS_LESSON, "%s: there was no collapse up to %u connections.",
                     curve->name, last->plan.connections);
}

/* What it costs to send clients away who would have come again. */
static void explain_limit(struct findings *findings, const struct curve *always,
                          const struct curve *limited)
{
    const struct point *kept = &always->points[STEPS - 1], *closed = &limited->points[STEPS - 1];
    const struct point *few = curve_at(limited, LIMIT - 2);

    findings_say(findings, FINDINGS_LESSON,
                 "keepalive_below = %d: below the limit it served %.2f times the rate of the other "
                 "server (with %u connections), above it %.2f times (with %u), for %.1f times the "
                 "processor time: connections that are opened anew are what a busy server can "
                 "afford least.",
                 LIMIT,
                 point_median(few, MEASURE_RATE) /
                     point_median(curve_at(always, LIMIT - 2), MEASURE_RATE),
                 few->plan.connections,
                 point_median(closed, MEASURE_RATE) / point_median(kept, MEASURE_RATE),
                 closed->plan.connections,
                 point_own_median(closed, POINT_CPU) / point_own_median(kept, POINT_CPU));
}

int experiment_percentiles(struct lab *lab, struct findings *findings)
{
    static const char *const limited[] = {"connections.keepalive_below=10", NULL};
    struct private_server *always = lab_server(lab, NULL), *below = NULL;
    struct point *points = points_create(lab, 2 * STEPS);
    const struct curve curves[] = {{"Always kept alive", points, STEPS},
                                   {"Kept alive below 10", points + STEPS, STEPS}};

    if (always != NULL)
        below = lab_server(lab, limited);
    if (below == NULL || points == NULL)
        return -1;
    curve_begin(lab, points, always, LAB_SMALL, steps, STEPS, "kept alive");
    curve_begin(lab, points + STEPS, below, LAB_SMALL, steps, STEPS, "keepalive_below = 10");
    if (points_measure(lab, points, (size_t)2 * STEPS) != 0)
        return -1;
    for (size_t i = 0; i < 2; i++)
        put_table(findings, &curves[i]);
    curves_plot(findings, "Requests a second, by connections", curves, 2, MEASURE_RATE);
    curves_plot(findings, "50th percentile, by connections", curves, 2, MEASURE_P50);
    curves_plot(findings, "99th percentile, by connections", curves, 2, MEASURE_P99);
    for (size_t i = 0; i < 2; i++)
        explain_zones(findings, &curves[i]);
    explain_limit(findings, &curves[0], &curves[1]);
    points_caution(findings, points, (size_t)2 * STEPS);
    return 0;
}
