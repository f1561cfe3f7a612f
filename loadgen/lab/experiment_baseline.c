/* The time of one request on an idle server, and where it is spent. */
#include "loadgen/lab/rounds.h"

#include "common/units.h"

enum { KEPT, PER_REQUEST, WAYS, REQUESTS = 1000 };

static const char *const names[WAYS] = {"keep-alive", "connection per request"};

static void describe(struct document *findings, const struct point *points)
{
    static const char *const heads[] = {"",    "requests/s", "mean",   "p50",
                                        "p99", "server CPU", "client", NULL};

    findings_table(findings, "1 KiB from the cache, one connection at a time", heads);
    for (size_t i = 0; i < WAYS; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", names[i]);
        point_cell_rate(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_MEAN);
        point_cell(findings, &points[i], MEASURE_P50);
        point_cell(findings, &points[i], MEASURE_P99);
        point_cell_cpu(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_CLIENT_SHARE);
    }
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

static void explain_connection(struct document *findings, const struct point *points)
{
    struct interval cpu = point_cpu_ratio(&points[PER_REQUEST], &points[KEPT]);
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
    struct point *points = points_create(lab, WAYS);

    if (server == NULL || points == NULL)
        return -1;
    for (size_t i = 0; i < WAYS; i++)
        point_init(lab, &points[i], server, LAB_SMALL, 1, "one connection, %s", names[i]);
    points[PER_REQUEST].plan.keepalive = false;
    points[PER_REQUEST].plan.requests = REQUESTS;
    points[PER_REQUEST].plan.duration_ms = points[PER_REQUEST].plan.warmup_ms = 0;
    if (points_measure(lab, points, WAYS) != 0)
        return -1;
    point_record(lab, &points[PER_REQUEST], "one connection");
    describe(findings, points);
    points_plot_rounds(findings, "Latency by round, keep-alive", true);
    point_line(findings, &points[KEPT], "p50", MEASURE_P50);
    point_line(findings, &points[KEPT], "p99", MEASURE_P99);
    explain(findings, &points[KEPT]);
    explain_connection(findings, points);
    points_add_cautions(findings, points, WAYS);
    return 0;
}
