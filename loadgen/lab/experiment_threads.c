/*
 * The best number of threads per core, for fast requests and for requests that need CPU time; and
 * how evenly connections are spread over threads, with balancing and without.
 */
#include "common/tables.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/lab/points.h"
#include "loadgen/stats/measures.h"

#include <math.h>
#include <string.h>

static const char *const functions[][2] = {{"Fibonacci", "/arithmetic/fibonacci?n=50"},
                                           {"Square", "/arithmetic/square?n=7"},
                                           {"Cube", "/arithmetic/cube?n=-3"}};
static const uint32_t threads[] = {1, 6, 12};
static const uint32_t connections[] = {10, 20, 40, 80};
static const uint32_t offload[] = {1, 2, 4, 8};

/* The same function with more and more CPU time. */
static const struct {
    const char *name, *path;
} levels[] = {{"no work", "/arithmetic/square?n=7"},
              {"1 ms", "/arithmetic/square?n=7&work=1ms"},
              {"4 ms", "/arithmetic/square?n=7&work=4ms"}};
static const uint32_t level_connections[] = {1, 2, 4, 10, 40};

enum {
    FUNCTIONS = ARRAY_LENGTH(functions),
    THREADS = ARRAY_LENGTH(threads),
    STEPS = ARRAY_LENGTH(connections),
    GRID = FUNCTIONS * THREADS * STEPS,
    OFFLOAD = ARRAY_LENGTH(offload),
    OFFLOAD_CONNECTIONS = 20,
    SPREADS = 2, /* balancing off, on */
    SPREAD_THREADS = 4,
    SPREAD_CONNECTIONS = 100,
    SPREAD_MS = 4000,   /* balancing acts within two or three seconds */
    SPREAD_TRIALS = 10, /* the maximum, in trial durations */
    LEVELS = ARRAY_LENGTH(levels),
    LEVEL_STEPS = ARRAY_LENGTH(level_connections),
    WORK = LEVELS * LEVEL_STEPS,
    ALL = GRID + OFFLOAD + WORK + SPREADS,
    WORK_US = 2000,
};

/* A gain below 5 % counts as none. */
#define WORTH 1.05

/* ---- Serving threads ---- */

static struct point *grid_at(struct point *grid, size_t function, size_t thread, size_t step)
{
    return &grid[(function * THREADS + thread) * STEPS + step];
}

static int begin_grid(struct lab *lab, struct point *grid, struct private_server *server)
{
    for (size_t f = 0; f < FUNCTIONS; f++)
        for (size_t t = 0; t < THREADS; t++)
            for (size_t s = 0; s < STEPS; s++) {
                struct point *point = grid_at(grid, f, t, s);

                point_init(lab, point, server, functions[f][1], connections[s],
                           "%s, %u %s, %u connections", functions[f][0], threads[t],
                           units_plural(threads[t], "thread", "threads"), connections[s]);
                snprintf(point->command, sizeof(point->command), "threads %u", threads[t]);
                point->plan.duration_ms = (lab->trial_ms + 3) / (lab->quick ? 4 : 2);
            }
    return points_measure_often(lab, grid, GRID, lab->rounds); /* no percentiles are needed */
}

static void record_grid(struct lab *lab, struct point *grid)
{
    for (size_t f = 0; f < FUNCTIONS; f++)
        for (size_t t = 0; t < THREADS; t++)
            for (size_t s = 0; s < STEPS; s++)
                point_record(lab, grid_at(grid, f, t, s), "%s, %u %s, %u connections",
                             functions[f][0], threads[t],
                             units_plural(threads[t], "thread", "threads"), connections[s]);
}

/* A row for each number of threads, with a cell of MEASURE for each number of connections. */
static void put_grid_table(struct document *findings, struct point *grid, size_t function,
                           enum measure measure)
{
    static const char *const heads[] = {"threads",        "10 connections", "20 connections",
                                        "40 connections", "80 connections", NULL};
    char title[LAB_TITLE];

    snprintf(title, sizeof(title), "%s: %s on one core", functions[function][0],
             measure == MEASURE_RATE ? "requests/s" : "mean response time");
    findings_table(findings, title, heads);
    for (size_t t = 0; t < THREADS; t++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%u", threads[t]);
        for (size_t s = 0; s < STEPS; s++)
            if (measure == MEASURE_RATE)
                point_cell_rate(findings, grid_at(grid, function, t, s));
            else
                point_cell(findings, grid_at(grid, function, t, s), measure);
    }
}

static void put_grid(struct document *findings, struct point *grid, size_t function)
{
    char title[LAB_TITLE];

    put_grid_table(findings, grid, function, MEASURE_RATE);
    put_grid_table(findings, grid, function, MEASURE_MEAN);
    snprintf(title, sizeof(title), "%s: requests/s on one core", functions[function][0]);
    document_plot(findings, title, (struct plot_axis){true, axis_count},
                  (struct plot_axis){false, axis_rate});
    for (size_t t = 0; t < THREADS; t++) {
        char name[LAB_LABEL];

        snprintf(name, sizeof(name), "%u thread%s", threads[t], threads[t] == 1 ? "" : "s");
        document_line(findings, name, false);
        for (size_t s = 0; s < STEPS; s++)
            document_point(findings, connections[s],
                           point_median(grid_at(grid, function, t, s), MEASURE_RATE));
    }
}

/* The mean rate of a number of threads over all functions and connections. */
static double mean_rate(struct point *grid, size_t thread)
{
    double sum = 0;

    for (size_t f = 0; f < FUNCTIONS; f++)
        for (size_t s = 0; s < STEPS; s++)
            sum += point_median(grid_at(grid, f, thread, s), MEASURE_RATE);
    return sum / (FUNCTIONS * STEPS);
}

/* The rounds' ratios of the mean rates of two numbers of threads. */
static struct interval grid_ratio(struct point *grid, size_t over, size_t under)
{
    uint32_t rounds = grid->rounds < POINT_ROUNDS ? grid->rounds : POINT_ROUNDS;
    double ratios[POINT_ROUNDS];

    for (uint32_t round = 0; round < rounds; round++) {
        double sums[2] = {0, 0};

        for (size_t f = 0; f < FUNCTIONS; f++)
            for (size_t s = 0; s < STEPS; s++) {
                sums[0] += point_rate(grid_at(grid, f, over, s), round);
                sums[1] += point_rate(grid_at(grid, f, under, s), round);
            }
        ratios[round] = figure_quotient(sums[0], sums[1]);
    }
    return statistics_interval(ratios, rounds);
}

static void explain_grid(struct document *findings, struct point *grid)
{
    size_t best = 0, worst = 0;
    struct interval gain;
    bool decided;
    char one[UNITS_TEXT], other[UNITS_TEXT], change[LAB_RATIO];

    for (size_t t = 1; t < THREADS; t++) {
        best = mean_rate(grid, t) > mean_rate(grid, best) ? t : best;
        worst = mean_rate(grid, t) < mean_rate(grid, worst) ? t : worst;
    }
    gain = grid_ratio(grid, best, worst);
    decided = verdict_above(&gain, 1) != FINDINGS_UNDECIDED;
    findings_add(
        findings, decided ? FINDINGS_LESSON : FINDINGS_UNDECIDED,
        "On one core, the best number of serving threads is %u (%s requests/s on "
        "average), the worst %u (%s; the best has %s): %s Others published that 6 of 1, "
        "6 and 12 are best.",
        threads[best], format_number(one, sizeof(one), mean_rate(grid, best)), threads[worst],
        format_number(other, sizeof(other), mean_rate(grid, worst)), lab_change(change, &gain),
        !decided              ? "the difference is below the noise of these rounds."
        : gain.median < WORTH ? "their number hardly matters."
        : best == 0 ? "one event loop keeps a core busy; more threads only add context switches."
                    : "more threads than cores are better, which event loops do not explain; "
                      "repeat with more rounds.");
}

/* ---- Offload threads ---- */

static int begin_offload(struct lab *lab, struct point *points, struct private_server *server)
{
    for (size_t i = 0; i < OFFLOAD; i++) {
        point_init(lab, &points[i], server, "/arithmetic/square?n=7&work=2ms", OFFLOAD_CONNECTIONS,
                   "2 ms of work, %u offload threads", offload[i]);
        snprintf(points[i].command, sizeof(points[i].command), "offload-threads %u", offload[i]);
    }
    /* Few responses, and no 99th percentile then: longer trials would say nothing else. */
    return points_measure_often(lab, points, OFFLOAD, lab->rounds);
}

static void put_offload(struct document *findings, const struct point *points)
{
    static const char *const heads[] = {"offload threads", "requests/s", "p50", "p99",
                                        "server CPU",      NULL};

    findings_table(findings, "2 ms of work per request, 20 connections, all cores", heads);
    document_plot(findings, "2 ms of work: requests per second by offload threads",
                  (struct plot_axis){true, axis_count}, (struct plot_axis){false, axis_rate});
    document_line(findings, "answered", false);
    for (size_t i = 0; i < OFFLOAD; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%u", offload[i]);
        point_cell_rate(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_P50);
        point_cell(findings, &points[i], MEASURE_P99);
        point_cell_cpu(findings, &points[i]);
        document_point(findings, offload[i], point_median(&points[i], MEASURE_RATE));
    }
}

static void explain_offload(struct document *findings, const struct lab *lab,
                            const struct point *points)
{
    double most = lab->cores * 1e6 / WORK_US;
    char one[UNITS_TEXT], other[LAB_BETWEEN];
    size_t enough = 0;

    for (size_t i = 1; i < OFFLOAD; i++)
        if (point_median(&points[i], MEASURE_RATE) >
            point_median(&points[enough], MEASURE_RATE) * WORTH)
            enough = i;
    findings_add(findings, FINDINGS_LESSON,
                 "With 2 ms of CPU time per request, %u core%s can serve at most %.0f requests/s. "
                 "One offload thread serves %s, %u serve %s, and more add less than 5%%.",
                 lab->cores, lab->cores == 1 ? "" : "s", most,
                 format_number(one, sizeof(one), point_median(&points[0], MEASURE_RATE)),
                 offload[enough], point_between(other, &points[enough], MEASURE_RATE));
    findings_add(findings, FINDINGS_LESSON, "%s",
                 enough > 0 && offload[enough] <= lab->cores
                     ? "More threads help computing up to the number of cores."
                 : enough == 0
                     ? "More offload threads do not help: the cores are busy with other work."
                     : "More threads than cores still help, which is unexpected on an otherwise "
                       "idle machine.");
}

/* ---- Heavier functions ---- */

/* The rate is on its plateau at this share of the maximum. */
#define PLATEAU 0.95

static struct point *at_level(struct point *points, size_t level, size_t step)
{
    return &points[level * LEVEL_STEPS + step];
}

static int begin_levels(struct lab *lab, struct point *points, struct private_server *server)
{
    for (size_t level = 0; level < LEVELS; level++)
        for (size_t s = 0; s < LEVEL_STEPS; s++) {
            struct point *point = at_level(points, level, s);

            point_init(lab, point, server, levels[level].path, level_connections[s],
                       "%s, %u connections", levels[level].name, level_connections[s]);
            snprintf(point->command, sizeof(point->command), "offload-threads %u", lab->cores);
            point->plan.duration_ms = (lab->trial_ms + 3) / (lab->quick ? 4 : 2);
        }
    return points_measure_often(lab, points, WORK, lab->rounds); /* no percentiles are needed */
}

static void put_levels(struct document *findings, struct point *points, enum measure measure)
{
    const char *const heads[] = {"connections", levels[0].name, levels[1].name, levels[2].name,
                                 NULL};
    bool rate = measure == MEASURE_RATE;

    findings_table(findings,
                   rate ? "CPU time per request: requests/s, all cores"
                        : "CPU time per request: mean response time, all cores",
                   heads);
    for (size_t s = 0; s < LEVEL_STEPS; s++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%u", level_connections[s]);
        for (size_t level = 0; level < LEVELS; level++)
            if (rate)
                point_cell_rate(findings, at_level(points, level, s));
            else
                point_cell(findings, at_level(points, level, s), measure);
    }
}

static void plot_levels(struct document *findings, struct point *points)
{
    document_plot(findings, "Requests per second by connections and CPU time per request",
                  (struct plot_axis){true, axis_count}, (struct plot_axis){true, axis_rate});
    for (size_t level = 0; level < LEVELS; level++) {
        document_line(findings, levels[level].name, false);
        for (size_t s = 0; s < LEVEL_STEPS; s++) {
            struct interval rate = point_interval(at_level(points, level, s), MEASURE_RATE);

            document_point_between(findings, level_connections[s], rate.median, rate.low,
                                   rate.high);
        }
    }
}

/* The fewest connections on the plateau. */
static uint32_t saturation(struct point *points, size_t level)
{
    double most = 0;
    size_t s = 0;

    for (size_t i = 0; i < LEVEL_STEPS; i++)
        most = fmax(most, point_median(at_level(points, level, i), MEASURE_RATE));
    while (s < LEVEL_STEPS - 1 &&
           point_median(at_level(points, level, s), MEASURE_RATE) < PLATEAU * most)
        s++;
    return level_connections[s];
}

/* The mean response time with the most connections over that with one. */
static char *write_growth(char *text, size_t size, struct named_ratio *row, struct point *points,
                          size_t level)
{
    char times[LAB_RATIO];

    row->ratio = point_ratio(at_level(points, level, LEVEL_STEPS - 1), at_level(points, level, 0),
                             MEASURE_MEAN);
    snprintf(row->name, sizeof(row->name), "mean response time, 40 over 1 connections, %s",
             levels[level].name);
    snprintf(text, size, "%s with %s", lab_times_alone(times, &row->ratio), levels[level].name);
    return text;
}

static void explain_levels(struct document *findings, struct point *points)
{
    uint32_t light = saturation(points, 0), middle = saturation(points, 1);
    uint32_t heavy = saturation(points, LEVELS - 1);
    bool sooner = heavy <= middle && middle <= light && heavy < light;
    struct named_ratio rows[LEVELS];
    char a[2 * LAB_RATIO], b[2 * LAB_RATIO], c[2 * LAB_RATIO];

    findings_add(findings, FINDINGS_LESSON,
                 "The rate rises to a plateau: with %s per request it is reached with %u "
                 "connections, with %s with %u, with %s with %u. Heavier functions %s sooner; "
                 "others published that they do.",
                 levels[0].name, light, levels[1].name, middle, levels[2].name, heavy,
                 sooner ? "saturate" : "do not saturate");
    findings_add(findings, FINDINGS_LESSON,
                 "From 1 to %u connections the mean response time grows to %s, %s and %s: beyond "
                 "the plateau each connection waits for the work of all others.",
                 level_connections[LEVEL_STEPS - 1],
                 write_growth(a, sizeof(a), &rows[0], points, 0),
                 write_growth(b, sizeof(b), &rows[1], points, 1),
                 write_growth(c, sizeof(c), &rows[LEVELS - 1], points, LEVELS - 1));
    lab_put_ratios(findings, rows, LEVELS);
}

/* ---- Balancing ---- */

static int begin_spread(struct lab *lab, struct point *points, struct private_server *server)
{
    static const char *const switches[SPREADS] = {"off", "on"};
    uint64_t most_ms = lab->trial_ms * SPREAD_TRIALS;

    for (size_t i = 0; i < SPREADS; i++) {
        point_init(lab, &points[i], server, functions[1][1], SPREAD_CONNECTIONS,
                   "%d threads, balancing %s", SPREAD_THREADS, switches[i]);
        snprintf(points[i].command, sizeof(points[i].command), "balance %s", switches[i]);
        points[i].plan.duration_ms = most_ms < SPREAD_MS ? most_ms : SPREAD_MS;
    }
    return points_measure_often(lab, points, SPREADS, lab->quick ? 1 : lab->rounds);
}

static void put_spread(struct document *findings, const struct point *points)
{
    static const char *const heads[] = {
        "balancing", "connections of each thread", "requests/s", "p50", "p99", NULL};
    char spread[SPREADS][LAB_SPREAD];

    findings_table(findings, "100 connections with keep-alive on 4 threads, all cores", heads);
    for (size_t i = 0; i < SPREADS; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", i == 0 ? "off" : "on");
        document_cell(findings, "%s", point_connections_text(spread[i], &points[i]));
        point_cell_rate(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_P50);
        point_cell(findings, &points[i], MEASURE_P99);
    }
    if (!point_has_connections(&points[0]) || !point_has_connections(&points[1])) {
        point_explain_no_connections(findings, "Balancing");
        return;
    }
    findings_add(findings, FINDINGS_LESSON,
                 "The kernel chooses a thread for each new connection by a hash, so that threads "
                 "get %s of 100. With balancing, connections move to threads with fewer: %s. The "
                 "same happens to threads that are added under load.",
                 spread[0], spread[1]);
}

/* ---- The experiment ---- */

int experiment_threads(struct lab *lab, struct document *findings)
{
    static const char *const options[] = {"workers.processes=1", "arithmetic.enabled=on", NULL};
    static const char *const spread_options[] = {"workers.processes=1", "workers.threads=4",
                                                 "arithmetic.enabled=on", NULL};
    struct private_server *one_core = lab_create_server(lab), *all_cores = lab_server(lab, options),
                          *spread = lab_server(lab, spread_options);
    struct point *grid = points_create(lab, ALL);

    if (one_core == NULL || all_cores == NULL || spread == NULL || grid == NULL)
        return -1;
    private_server_use_core(one_core, machine_first_core());
    if (lab_start(lab, one_core, options) != 0 || begin_grid(lab, grid, one_core) != 0 ||
        begin_offload(lab, grid + GRID, all_cores) != 0 ||
        begin_levels(lab, grid + GRID + OFFLOAD, all_cores) != 0 ||
        begin_spread(lab, grid + GRID + OFFLOAD + WORK, spread) != 0)
        return -1;
    record_grid(lab, grid);
    for (size_t f = 0; f < FUNCTIONS; f++)
        put_grid(findings, grid, f);
    put_offload(findings, grid + GRID);
    put_levels(findings, grid + GRID + OFFLOAD, MEASURE_RATE);
    put_levels(findings, grid + GRID + OFFLOAD, MEASURE_MEAN);
    plot_levels(findings, grid + GRID + OFFLOAD);
    put_spread(findings, grid + GRID + OFFLOAD + WORK);
    explain_grid(findings, grid);
    explain_levels(findings, grid + GRID + OFFLOAD);
    explain_offload(findings, lab, grid + GRID);
    points_add_cautions(findings, grid, ALL);
    return 0;
}

/* ---- dispatch: who distributes new connections to threads ---- */

enum { DISPATCH_CONNECTIONS = 100 };

/* The distribution is uneven if threads differ by more than this share of all connections. */
#define UNEVEN_SHARE 0.125

#define COMMON "workers.processes=2", "workers.threads=2", "workers.balance_connections=off"

static const struct way {
    const char *name;
    const char *const options[6];
} dispatch_ways[] = {
    {"Kernel", {COMMON, "workers.dispatch=kernel", NULL}},
    {"Master, round robin",
     {COMMON, "workers.dispatch=master", "workers.balance=round-robin", NULL}},
    {"Master, least connections",
     {COMMON, "workers.dispatch=master", "workers.balance=least-connections", NULL}},
};

enum { DISPATCH_WAYS = ARRAY_LENGTH(dispatch_ways), KERNEL = 0, ROUND_ROBIN = 1 };

static void put_dispatch_cells(struct document *findings, const struct point *point)
{
    point_cell_rate(findings, point);
    point_cell(findings, point, MEASURE_P50);
    point_cell(findings, point, MEASURE_P99);
    point_cell_cpu(findings, point);
}

static void put_dispatch_kept(struct document *findings, const struct point *points)
{
    static const char *const heads[] = {"dispatch",   "requests/s", "p50", "p99",
                                        "server CPU", "per thread", NULL};
    char spread[LAB_SPREAD];

    findings_table(findings, "Keep-alive: 100 connections on 4 threads", heads);
    for (size_t i = 0; i < DISPATCH_WAYS; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", dispatch_ways[i].name);
        put_dispatch_cells(findings, &points[i]);
        document_cell(findings, "%s", point_connections_text(spread, &points[i]));
    }
}

static void put_dispatch_opened(struct document *findings, const struct point *points)
{
    static const char *const heads[] = {"dispatch", "requests/s", "p50", "p99", "server CPU", NULL};

    findings_table(findings, "Connection per request", heads);
    for (size_t i = 0; i < DISPATCH_WAYS; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", dispatch_ways[i].name);
        put_dispatch_cells(findings, &points[i]);
    }
}

static void explain_dispatch(struct document *findings, const struct point *keepalive,
                             const struct point *per_request)
{
    struct interval ratio = point_cpu_ratio(&per_request[ROUND_ROBIN], &per_request[KERNEL]);
    const struct comparison compared = {&per_request[ROUND_ROBIN], &per_request[KERNEL]};
    enum findings_kind kind = comparison_verdict(&compared);
    char one[UNITS_TEXT], other[UNITS_TEXT], change[LAB_RATIO];
    char advice[VERDICT_ADVICE] = "";

    if (kind == FINDINGS_UNDECIDED)
        verdict_advice(advice, &ratio, 1, 1, per_request->plan.duration_ms);
    findings_add(
        findings, kind,
        "A new connection with one request takes %s of CPU time if the kernel chooses the thread, "
        "and %s if the master accepts the connection and passes it on: %s.%s%s",
        lab_time(one, sizeof(one), point_own_median(&per_request[KERNEL], POINT_CPU)),
        lab_time(other, sizeof(other), point_own_median(&per_request[ROUND_ROBIN], POINT_CPU)),
        lab_change(change, &ratio), advice, comparison_busy(&compared));
    for (size_t i = 0; i < DISPATCH_WAYS; i++) {
        double least = point_own_median(&keepalive[i], POINT_LEAST);
        double most = point_own_median(&keepalive[i], POINT_MOST);

        if (!point_has_connections(&keepalive[i])) {
            point_explain_no_connections(findings, dispatch_ways[i].name);
            continue;
        }
        findings_add(findings, FINDINGS_LESSON,
                     "%s: the thread with the most connections has %.0f of 100, the one with the "
                     "fewest %.0f%s",
                     dispatch_ways[i].name, most, least,
                     most - least > DISPATCH_CONNECTIONS * UNEVEN_SHARE
                         ? ". That is uneven: clients of the busiest thread wait while other "
                           "threads are idle."
                         : ". That is even.");
    }
}

int experiment_dispatch(struct lab *lab, struct document *findings)
{
    struct point *points = points_create(lab, 2 * DISPATCH_WAYS);
    const struct comparison compared = {points + DISPATCH_WAYS + ROUND_ROBIN,
                                        points + DISPATCH_WAYS + KERNEL};

    if (points == NULL)
        return -1;
    for (size_t i = 0; i < DISPATCH_WAYS; i++) {
        struct private_server *server = lab_server(lab, dispatch_ways[i].options);

        if (server == NULL)
            return -1;
        point_init(lab, &points[i], server, LAB_SMALL, DISPATCH_CONNECTIONS, "%s, keep-alive",
                   dispatch_ways[i].name);
        point_init(lab, &points[DISPATCH_WAYS + i], server, LAB_SMALL, DISPATCH_CONNECTIONS,
                   "%s, connection per request", dispatch_ways[i].name);
        points[DISPATCH_WAYS + i].plan.keepalive = false;
    }
    if (points_measure_compared(lab, points, (size_t)2 * DISPATCH_WAYS, &compared, 1) != 0)
        return -1;
    put_dispatch_kept(findings, points);
    put_dispatch_opened(findings, points + DISPATCH_WAYS);
    points_plot_rounds(findings, "Connection per request: CPU time of the server by round", false);
    for (size_t i = 0; i < DISPATCH_WAYS; i++)
        point_line_cpu(findings, &points[DISPATCH_WAYS + i], dispatch_ways[i].name);
    explain_dispatch(findings, points, points + DISPATCH_WAYS);
    points_add_cautions(findings, points, (size_t)2 * DISPATCH_WAYS);
    return 0;
}
