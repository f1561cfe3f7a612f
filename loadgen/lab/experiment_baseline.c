/* The time of one request on an idle server, and where it is spent. */
#include "loadgen/lab/rounds.h"

#include "common/units.h"

static void describe(struct document *findings, const struct point *point)
{
    static const char *const heads[] = {"connections", "requests/s", "mean",   "p50",
                                        "p99",         "server CPU", "client", NULL};

    findings_table(findings, "1 KiB from the cache, keep-alive", heads);
    document_row(findings, DOCUMENT_NORMAL);
    document_cell(findings, "1");
    point_cell_rate(findings, point);
    point_cell(findings, point, MEASURE_MEAN);
    point_cell(findings, point, MEASURE_P50);
    point_cell(findings, point, MEASURE_P99);
    point_cell_cpu(findings, point);
    point_cell(findings, point, MEASURE_CLIENT_SHARE);
}

static void explain(struct document *findings, const struct point *point)
{
    double mean = point_median(point, MEASURE_MEAN), cpu = point_own_median(point, POINT_CPU);
    double rate = point_median(point, MEASURE_RATE);
    char one[LAB_BETWEEN], other[UNITS_TEXT], number[LAB_BETWEEN];

    findings_add(findings, FINDINGS_LESSON,
                 "A request takes %s, of which the server uses %s of CPU time (%.0f%%). The rest "
                 "is the client, the loopback interface, and the wake-ups of two processes.",
                 point_between(one, point, MEASURE_MEAN), lab_time(other, sizeof(other), cpu),
                 cpu / mean * 100);
    findings_add(
        findings, FINDINGS_LESSON,
        "One connection waits for each response, so its rate is 1 / latency: %s requests/s. The "
        "server used %.0f%% of one core; more connections can use the rest.",
        point_between(number, point, MEASURE_RATE), rate * cpu / 1e6 * 100);
}

int experiment_baseline(struct lab *lab, struct document *findings)
{
    static const char *const options[] = {"workers.processes=1", "workers.threads=1", NULL};
    struct private_server *server = lab_server(lab, options);
    struct point *point = points_create(lab, 1);

    if (server == NULL || point == NULL)
        return -1;
    point_init(lab, point, server, LAB_SMALL, 1, "one connection");
    if (points_measure(lab, point, 1) != 0)
        return -1;
    point_record(lab, point, "one connection");
    describe(findings, point);
    points_plot_rounds(findings, "Latency by round", true);
    point_line(findings, point, "p50", MEASURE_P50);
    point_line(findings, point, "p99", MEASURE_P99);
    explain(findings, point);
    points_add_cautions(findings, point, 1);
    return 0;
}
