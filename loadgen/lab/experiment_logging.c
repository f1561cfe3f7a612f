/* The cost of the access log. */
#include "common/units.h"

#include "loadgen/lab/machine.h"
#include "loadgen/lab/points.h"

#include <math.h>

enum { CONNECTIONS = 100, MANY_CONNECTIONS = 1000, MANY = 2 };

static const struct level {
    const char *name;
    const char *const options[4];
} log_levels[] = {
    {"off", {"log.access=off", "log.error=/dev/null", "log.level=error", NULL}},
    {"errors only", {"log.access=off", "log.level=warn", NULL}},
    {"full", {"log.level=info", NULL}},
};

enum { LOG_LEVELS = ARRAY_LENGTH(log_levels), OFF = 0, FULL = LOG_LEVELS - 1 };

/* The points of OFF and FULL with many connections follow those of all levels. */
static void put_logging_table(struct document *findings, const struct point *points)
{
    static const char *const heads[] = {"log",        "requests/s", "mean", "p99",
                                        "server CPU", "client",     NULL};

    findings_table(findings, "1 KiB from the cache, keep-alive", heads);
    for (size_t i = 0; i < LOG_LEVELS + MANY; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s, %u",
                      log_levels[i < LOG_LEVELS    ? i
                                 : i == LOG_LEVELS ? OFF
                                                   : FULL]
                          .name,
                      points[i].plan.connections);
        point_cell_rate(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_MEAN);
        point_cell(findings, &points[i], MEASURE_P99);
        point_cell_cpu(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_CLIENT_SHARE);
    }
}

/* The difference is significant if the interval excludes 1. */
static void explain_logging(struct document *findings, const struct point *off,
                            const struct point *full)
{
    double without = point_own_median(off, POINT_CPU);
    const struct comparison compared = {full, off};
    struct interval cpu = point_cpu_ratio(full, off), rate = point_rate_ratio(full, off);
    char more[UNITS_TEXT], change[LAB_RATIO], share[LAB_RATIO], advice[VERDICT_ADVICE];

    lab_change(change, &cpu);
    verdict_advice(advice, &cpu, 1, 1, off->plan.duration_ms);
    if (cpu.low > 1)
        findings_add(findings, FINDINGS_LESSON,
                     "A log line takes %s of CPU time, including formatting and writing in the "
                     "logger process. That changes the CPU time of a request by %s.%s",
                     lab_time(more, sizeof(more), (cpu.median - 1) * without), change,
                     comparison_busy(&compared));
    else
        findings_add(findings, FINDINGS_UNDECIDED,
                     "The CPU time of a log line is below the noise of these rounds: it changes "
                     "that of a request by %s.%s%s",
                     change, advice, comparison_busy(&compared));
    findings_add(findings, FINDINGS_LESSON,
                 "With the full log the rate is %s of that without a log: threads only "
                 "add a record to a ring; a separate process writes the file.",
                 lab_share(share, &rate));
}

static void record_logging(struct lab *lab, const struct point *points)
{
    for (size_t i = 0; i < LOG_LEVELS; i++)
        point_record(lab, &points[i], "log %s", log_levels[i].name);
    point_record(lab, &points[LOG_LEVELS], "log off, %d connections", MANY_CONNECTIONS);
    point_record(lab, &points[LOG_LEVELS + 1], "log full, %d connections", MANY_CONNECTIONS);
    lab_record_value(lab, "log full", "RSS",
                     (double)usage_of(private_server_pid(points[FULL].server)).resident);
    lab_record_value(lab, "log off", "RSS",
                     (double)usage_of(private_server_pid(points[OFF].server)).resident);
}

int experiment_logging(struct lab *lab, struct document *findings)
{
    struct point *points = points_create(lab, LOG_LEVELS + MANY);
    const struct comparison compared = {points + FULL, points + OFF};

    if (points == NULL)
        return -1;
    for (size_t i = 0; i < LOG_LEVELS; i++) {
        struct private_server *server = lab_server(lab, log_levels[i].options);

        if (server == NULL)
            return -1;
        point_init(lab, &points[i], server, LAB_SMALL, CONNECTIONS, "log %s", log_levels[i].name);
    }
    point_init(lab, &points[LOG_LEVELS], points[OFF].server, LAB_SMALL, MANY_CONNECTIONS,
               "log off, %d connections", MANY_CONNECTIONS);
    point_init(lab, &points[LOG_LEVELS + 1], points[FULL].server, LAB_SMALL, MANY_CONNECTIONS,
               "log full, %d connections", MANY_CONNECTIONS);
    if (points_measure_compared(lab, points, LOG_LEVELS + MANY, &compared, 1) != 0)
        return -1;
    record_logging(lab, points);
    put_logging_table(findings, points);
    points_plot_rounds(findings, "CPU time of the server per request, by round", false);
    for (size_t i = 0; i < LOG_LEVELS; i++)
        point_line_cpu(findings, &points[i], log_levels[i].name);
    explain_logging(findings, &points[OFF], &points[FULL]);
    points_add_cautions(findings, points, LOG_LEVELS + MANY);
    return 0;
}
