/* How long a given number of requests takes, by how many connections share the work. */
#include "loadgen/lab/curves.h"
#include "loadgen/lab/experiments.h"

#include "common/units.h"

static const uint32_t steps[] = {10, 50, 100, 250, 500, 1000};

enum { STEPS = ARRAY_LENGTH(steps), REQUESTS = 50000, REQUESTS_QUICK = 5000 };

static void explain(struct findings *findings, const struct curve *curve, uint64_t requests)
{
    const struct point *first = &curve->points[0], *peak = curve_peak(curve);
    char one[UNITS_TEXT], other[UNITS_TEXT];
    double slowest = (double)requests / point_median(first, MEASURE_RATE) * 1e6;
    double fastest = (double)requests / point_median(peak, MEASURE_RATE) * 1e6;

    if (peak == first)
        findings_say(findings, FINDINGS_LESSON,
                     "The work was done soonest, in %s, by the fewest connections: %u keep this "
                     "machine busy already.",
                     lab_time(one, sizeof(one), slowest), first->plan.connections);
    else
        findings_say(findings, FINDINGS_LESSON,
                     "The same requests took %s with %u connections and %s with %u: %.0f%% less.",
                     lab_time(one, sizeof(one), slowest), first->plan.connections,
                     lab_time(other, sizeof(other), fastest), peak->plan.connections,
                     (1 - fastest / slowest) * 100);
}

int experiment_scaling(struct lab *lab, struct findings *findings)
{
    struct private_server *server = lab_server(lab, NULL);
    struct point *points = points_create(lab, STEPS);
    const struct curve curve = {"A connection for each request", points, STEPS};
    uint64_t requests = lab->quick ? REQUESTS_QUICK : REQUESTS;
    char title[FINDINGS_TITLE], number[UNITS_TEXT];

    if (server == NULL || points == NULL)
        return -1;
    curve_begin(lab, points, server, LAB_SMALL, steps, STEPS, "a number of requests");
    for (size_t i = 0; i < STEPS; i++) {
        points[i].plan.requests = requests;
        points[i].plan.duration_ms = points[i].plan.warmup_ms = 0;
        points[i].plan.keepalive = false;
    }
    if (points_measure(lab, points, STEPS) != 0)
        return -1;
    snprintf(title, sizeof(title), "%s requests, a connection for each",
             lab_number(number, sizeof(number), (double)requests));
    curve_table(findings, title, &curve);
    curves_plot(findings, "Requests a second, by connections", &curve, 1, MEASURE_RATE);
    curves_plot(findings, "Mean latency, by connections", &curve, 1, MEASURE_MEAN);
    explain(findings, &curve, requests);
    curve_explain(findings, &curve);
    points_caution(findings, points, STEPS);
    return 0;
}
