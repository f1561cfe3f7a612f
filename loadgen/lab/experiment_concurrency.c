/* Whether the server slows down when many connect at once. */
#include "loadgen/lab/experiments.h"
#include "loadgen/lab/growth.h"

static const uint32_t steps[] = {10, 50, 100, 500, 1000};

enum { STEPS = ARRAY_LENGTH(steps) };

static void judge_keepalive(struct findings *findings, const struct curve *kept,
                            const struct curve *closed)
{
    double least = 1e9, most = 0;

    for (size_t i = 0; i < STEPS; i++) {
        double gain = point_median(&kept->points[i], MEASURE_RATE) /
                      point_median(&closed->points[i], MEASURE_RATE);

        least = gain < least ? gain : least;
        most = gain > most ? gain : most;
    }
    findings_say(
        findings, least > 1 ? FINDINGS_MET : FINDINGS_NOT_MET,
        "Keeping connections alive was %s: %.2f to %.2f times the rate of a connection for "
        "each request.",
        least > 1 ? "faster at every step" : "not faster at every step", least, most);
}

int experiment_concurrency(struct lab *lab, struct findings *findings)
{
    static const char *const options[] = {"workers.processes=4", "workers.threads=10", NULL};
    struct private_server *server = lab_server(lab, options);
    struct point *points = points_create(lab, 2 * STEPS);
    const struct curve curves[] = {{"Kept alive", points, STEPS},
                                   {"A connection for each request", points + STEPS, STEPS}};

    if (server == NULL || points == NULL)
        return -1;
    curve_begin(lab, points, server, LAB_SMALL, steps, STEPS, "kept alive");
    curve_begin(lab, points + STEPS, server, LAB_SMALL, steps, STEPS, "closed each time");
    for (size_t i = STEPS; i < (size_t)2 * STEPS; i++)
        points[i].plan.keepalive = false;
    if (points_measure(lab, points, (size_t)2 * STEPS) != 0)
        return -1;
    for (size_t i = 0; i < 2; i++)
        curve_table(findings, curves[i].name, &curves[i]);
    curves_plot(findings, "Requests a second, by connections", curves, 2, MEASURE_RATE);
    curves_plot(findings, "Mean latency, by connections", curves, 2, MEASURE_MEAN);
    for (size_t i = 0; i < 2; i++)
        curve_explain(findings, &curves[i]);
    if (growth_judge(lab, findings, curves, 2) != 0)
        return -1;
    judge_keepalive(findings, &curves[0], &curves[1]);
    points_caution(findings, points, (size_t)2 * STEPS);
    return 0;
}
