#include "loadgen/lab/curves.h"

#include "common/clock.h"
#include "common/units.h"

#include "loadgen/report/plot_axes.h"

#include <math.h>

void curve_begin(struct lab *lab, struct point *first, struct private_server *server,
                 const char *path, const uint32_t *connections, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        point_begin(lab, &first[i], server, path, connections[i], "%s, %u connections", name,
                    connections[i]);
}

void curve_table(struct findings *findings, const char *title, const struct curve *curve)
{
    static const char *const heads[] = {"connections", "requests/s", "mean",   "p50",
                                        "p99",         "server CPU", "client", NULL};

    findings_table(findings, title, heads);
    for (size_t i = 0; i < curve->count; i++) {
        const struct point *point = &curve->points[i];

        findings_row(findings);
        findings_cell(findings, "%u", point->plan.connections);
        point_cell_rate(findings, point);
        point_cell(findings, point, MEASURE_MEAN);
        point_cell(findings, point, MEASURE_P50);
        point_cell(findings, point, MEASURE_P99);
        point_cell_cpu(findings, point);
        point_cell(findings, point, MEASURE_CLIENT_SHARE);
    }
}

void curves_plot(struct findings *findings, const char *title, const struct curve *curves,
                 size_t count, enum measure measure)
{
    bool rate = measure == MEASURE_RATE;
    double scale = rate ? 1 : (double)NS_PER_US;

    findings_plot(findings, title, (struct plot_axis){true, axis_count},
                  (struct plot_axis){!rate, rate ? axis_rate : axis_time});
    for (size_t i = 0; i < count; i++) {
        findings_line(findings, curves[i].name);
        for (size_t k = 0; k < curves[i].count; k++) {
            const struct point *point = &curves[i].points[k];
            struct interval interval = point_interval(point, measure);

            findings_dot(findings, point->plan.connections, interval.median * scale);
            findings_bar(findings, interval.low * scale, interval.high * scale);
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

/* By Little's law the mean latency is connections / rate: it has to grow where the rate does not. */
void curve_explain(struct findings *findings, const struct curve *curve)
{
    const struct point *first = &curve->points[0], *last = &curve->points[curve->count - 1];
    const struct point *peak = curve_peak(curve);
    double of_peak = point_median(last, MEASURE_RATE) / point_median(peak, MEASURE_RATE) * 100;
    double rates = point_median(last, MEASURE_RATE) / point_median(first, MEASURE_RATE);
    double times = point_median(last, MEASURE_MEAN) / point_median(first, MEASURE_MEAN);
    char most[UNITS_TEXT];

    findings_say(findings, FINDINGS_LESSON,
                 "%s: the highest rate, %s requests/s, came with %u connections; with %u it was "
                 "%.0f%% of that.",
                 curve->name, lab_number(most, sizeof(most), point_median(peak, MEASURE_RATE)),
                 peak->plan.connections, last->plan.connections, of_peak);
    findings_say(
        findings, FINDINGS_LESSON,
        "%s: %.3g times the connections brought %.2f times the rate and %.3g times the mean "
        "latency%s",
        curve->name, (double)last->plan.connections / first->plan.connections, rates, times,
        rates < 2 ? ": more connections did not make it faster, they waited their turn "
                    "(latency = connections / rate, Little's law)."
                  : ".");
}
