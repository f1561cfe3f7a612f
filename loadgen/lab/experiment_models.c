/*
 * The concurrency models beside each other: event loops, a pool of threads, a thread per connection,
 * preforked processes; pools of several sizes; a full connection queue, and its order.
 */
#include "common/clock.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/lab/curves.h"
#include "loadgen/stats/measures.h"

#include <math.h>
#include <string.h>

/* The pool has the size of those of the reports 4 x 10; a process for each connection, up to 32. */
static const struct model {
    const char *name;
    const char *const options[10];
} models[] = {
    {"events", {"workers.processes=1", NULL}},
    {"pool", {"workers.model=pool", "workers.processes=4", "workers.threads=10", NULL}},
    {"thread",
     {"workers.model=thread", "workers.processes=1", "workers.threads=1000",
      "workers.max_threads=1001", NULL}},
    {"preforked",
     {"workers.model=pool", "workers.processes=32", "workers.max_processes=64", "workers.threads=1",
      "workers.max_threads=2", "workers.connection_queue=1", "workers.dispatch=master",
      "workers.balance=least-connections", NULL}},
};
static const uint32_t model_steps[] = {10, 100, 1000};
static const char *const ways[] = {"keep-alive", "connection per request"};
static const uint32_t pool_sizes[] = {1, 6, 12}, pool_connections[] = {10, 80};
static const char *const orders[] = {"fifo", "lifo", "sff"};
static const char *const policies[] = {"block", "drop-tail", "drop-head", "drop-random"};

enum {
    MODEL_EVENTS,
    MODEL_POOL,
    MODEL_THREAD,
    MODEL_PREFORKED,
    MODELS,
    MODEL_STEPS = ARRAY_LENGTH(model_steps),
    FEW_CONNECTIONS = 0, /* numbers of steps */
    SOME_CONNECTIONS,
    MOST_CONNECTIONS,
    POOL_SIZES = ARRAY_LENGTH(pool_sizes),
    POOL_STEPS = ARRAY_LENGTH(pool_connections),
    ORDERS = ARRAY_LENGTH(orders),
    POLICIES = ARRAY_LENGTH(policies),
};

enum way { KEPT, CLOSED, WAYS };

/* A trial of a stage beside the grid is measured once with --quick: its result is not close. */
static uint32_t stage_rounds(const struct lab *lab)
{
    return lab->quick ? 1 : lab->rounds;
}

/* ---- Models, connections, keep-alive ---- */

enum { GRID_POINTS = WAYS * MODELS * MODEL_STEPS };

struct model_grid {
    struct private_server *server[MODELS];
    double at_rest[MODELS]; /* bytes before the first connection */
    struct point *points;
};

static struct point *grid_point(const struct model_grid *grid, enum way way, size_t model,
                                size_t step)
{
    return &grid->points[((size_t)way * MODELS + model) * MODEL_STEPS + step];
}

static int start_models(struct lab *lab, struct model_grid *grid)
{
    grid->points = points_create(lab, GRID_POINTS);
    if (grid->points == NULL)
        return -1;
    for (size_t m = 0; m < MODELS; m++) {
        grid->server[m] = lab_server(lab, models[m].options);
        if (grid->server[m] == NULL)
            return -1;
        grid->at_rest[m] = (double)lab_memory(grid->server[m]);
    }
    return 0;
}

static int measure_models(struct lab *lab, const struct model_grid *grid)
{
    for (size_t i = 0; i < GRID_POINTS; i++) {
        enum way way = (enum way)(i / (MODELS * MODEL_STEPS));
        size_t model = i / MODEL_STEPS % MODELS, step = i % MODEL_STEPS;
        struct point *point = &grid->points[i];

        point_init(lab, point, grid->server[model], LAB_SMALL, model_steps[step], "%s, %s, %u",
                   models[model].name, ways[way], model_steps[step]);
        point->plan.keepalive = way == KEPT;
        point->plan.duration_ms = (lab->trial_ms + 1) / 2;
        point->weighed = way == KEPT && step == MOST_CONNECTIONS;
        point_let_starve(point);
        /* On a busy machine 1,000 new threads at a time may leave the clients no CPU time. */
        point->may_answer_none = way == CLOSED && step == MOST_CONNECTIONS;
    }
    return points_measure_often(lab, grid->points, GRID_POINTS, lab->rounds);
}

static char *each_text(char *buffer, double each)
{
    return isnan(each) ? strcpy(buffer, "-") : format_number(buffer, UNITS_TEXT, each);
}

static void put_each(struct document *findings, double each)
{
    char text[UNITS_TEXT];

    document_cell(findings, "%s", each_text(text, each));
}

static void put_time(struct document *findings, double us)
{
    char text[UNITS_TEXT];

    document_cell(findings, "%s", lab_time(text, sizeof(text), us));
}

/* A table with the HEADS, in which PUT_CELLS adds the cells after the first of each row. */
static void put_model_table(struct document *findings, const struct model_grid *grid, enum way way,
                            const char *title, const char *const *heads,
                            void (*put_cells)(struct document *findings, const struct point *point))
{
    findings_table(findings, title, heads);
    for (size_t m = 0; m < MODELS; m++)
        for (size_t s = 0; s < MODEL_STEPS; s++) {
            document_row(findings, DOCUMENT_NORMAL);
            document_cell(findings, "%s, %u", models[m].name, model_steps[s]);
            put_cells(findings, grid_point(grid, way, m, s));
        }
}

static void put_speed_cells(struct document *findings, const struct point *point)
{
    point_cell_rate(findings, point);
    point_cell(findings, point, MEASURE_P50);
    point_cell(findings, point, MEASURE_P99);
    point_cell(findings, point, MEASURE_MAX);
    put_each(findings, point_own_median(point, POINT_WAITING));
}

static void put_model_speed(struct document *findings, const struct model_grid *grid, enum way way)
{
    const char *const heads[] = {ways[way], "requests/s", "p50", "p99", "longest", "waiting", NULL};
    char title[LAB_TITLE];

    snprintf(title, sizeof(title), "1 KiB from the cache, %s", ways[way]);
    put_model_table(findings, grid, way, title, heads, put_speed_cells);
}

static void put_cost_cells(struct document *findings, const struct point *point)
{
    point_cell_cpu(findings, point);
    put_each(findings, point_own_median(point, POINT_SWITCHES));
    put_time(findings, point_own_median(point, POINT_QUEUE_WAIT));
    put_each(findings, point_own_median(point, POINT_LOCK_WAITS));
}

static void put_model_cost(struct document *findings, const struct model_grid *grid, enum way way)
{
    const char *const heads[] = {ways[way],    "server CPU", "switches",
                                 "queue wait", "lock waits", NULL};
    char title[LAB_TITLE];

    snprintf(title, sizeof(title), "The server, per request, %s", ways[way]);
    put_model_table(findings, grid, way, title, heads, put_cost_cells);
}

static double memory_with_most(const struct model_grid *grid, size_t model)
{
    return point_own_median(grid_point(grid, KEPT, model, MOST_CONNECTIONS), POINT_MEMORY);
}

static double memory_each(const struct model_grid *grid, size_t model)
{
    double more = memory_with_most(grid, model) - grid->at_rest[model];

    return (more < 0 ? 0 : more) / model_steps[MOST_CONNECTIONS];
}

static void put_bytes(struct document *findings, double bytes)
{
    char text[UNITS_TEXT];

    document_cell(findings, "%s",
                  isnan(bytes) ? "-" : units_format_bytes(text, sizeof(text), bytes));
}

static void put_memory(struct document *findings, const struct model_grid *grid)
{
    static const char *const heads[] = {"model", "at rest", "1,000 connections", "per connection",
                                        NULL};

    findings_table(findings, "Memory of all processes, with the segment", heads);
    for (size_t m = 0; m < MODELS; m++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", models[m].name);
        put_bytes(findings, grid->at_rest[m]);
        put_bytes(findings, memory_with_most(grid, m));
        put_bytes(findings, memory_each(grid, m));
    }
}

static void plot_models(struct document *findings, const struct model_grid *grid, enum way way)
{
    struct curve curves[MODELS];
    char title[LAB_TITLE];

    for (size_t m = 0; m < MODELS; m++)
        curves[m] =
            (struct curve){models[m].name, grid_point(grid, way, m, FEW_CONNECTIONS), MODEL_STEPS};
    snprintf(title, sizeof(title), "Requests per second by connections, %s", ways[way]);
    curves_plot(findings, title, curves, MODELS, MEASURE_RATE);
    snprintf(title, sizeof(title), "99th percentile by connections, %s", ways[way]);
    curves_plot(findings, title, curves, MODELS, MEASURE_P99);
}

static void record_models(struct lab *lab, const struct model_grid *grid)
{
    for (size_t m = 0; m < MODELS; m++)
        for (size_t s = 0; s < MODEL_STEPS; s++)
            for (enum way way = KEPT; way < WAYS; way++)
                point_record(lab, grid_point(grid, way, m, s), "%s, %s, %u", models[m].name,
                             ways[way], model_steps[s]);
}

/* With a thread for each client a pool costs what event loops cost, but for its switches. */
static void explain_pool_cpu(struct document *findings, const struct model_grid *grid)
{
    const struct point *pool = grid_point(grid, KEPT, MODEL_POOL, FEW_CONNECTIONS);
    const struct point *events = grid_point(grid, KEPT, MODEL_EVENTS, FEW_CONNECTIONS);
    const struct comparison compared = {pool, events};
    struct interval ratio = point_cpu_ratio(pool, events);
    char times[LAB_RATIO], one[UNITS_TEXT], other[UNITS_TEXT];

    findings_add(findings, comparison_verdict(&compared),
                 "With 10 connections on 40 threads, a request in the pool takes %s the CPU time "
                 "of one in an event loop, with %s context switches instead of %s: an event "
                 "loop answers all clients that are ready before it sleeps, a pool thread sleeps "
                 "after each answer.%s",
                 lab_times(times, &ratio), each_text(one, point_own_median(pool, POINT_SWITCHES)),
                 each_text(other, point_own_median(events, POINT_SWITCHES)),
                 comparison_busy(&compared));
}

static void explain_starved(struct document *findings, const struct model_grid *grid)
{
    for (size_t m = 0; m < MODELS; m++) {
        const struct point *point = grid_point(grid, KEPT, m, SOME_CONNECTIONS);
        double waiting = point_own_median(point, POINT_WAITING);

        if (isnan(waiting))
            point_explain_no_connections(findings, models[m].name);
        else if (waiting >= 1)
            findings_add(findings, FINDINGS_LESSON,
                         "%s: %.0f of 100 clients with keep-alive wait for a thread: each serves "
                         "its client until the client closes. No percentile shows it, because they "
                         "measure answers.",
                         models[m].name, waiting);
        else
            findings_add(findings, FINDINGS_LESSON,
                         "%s: none of 100 clients with keep-alive waits for a thread.",
                         models[m].name);
    }
}

static void explain_threads(struct document *findings, const struct model_grid *grid)
{
    const struct point *events = grid_point(grid, KEPT, MODEL_EVENTS, MOST_CONNECTIONS);
    const struct point *thread = grid_point(grid, KEPT, MODEL_THREAD, MOST_CONNECTIONS);
    const struct comparison compared = {thread, events};
    struct interval rate = point_rate_ratio(thread, events), cpu = point_cpu_ratio(thread, events);
    char of_rate[LAB_RATIO], of_cpu[LAB_RATIO], each[UNITS_TEXT], other[UNITS_TEXT];

    findings_add(findings, comparison_verdict(&compared),
                 "With 1,000 connections, a thread for each has a rate of %s that of event loops, "
                 "with %s the CPU time per request. A connection takes %s of memory instead of "
                 "%s.%s",
                 lab_times_alone(of_rate, &rate), lab_times(of_cpu, &cpu),
                 units_format_bytes(each, sizeof(each), memory_each(grid, MODEL_THREAD)),
                 units_format_bytes(other, sizeof(other), memory_each(grid, MODEL_EVENTS)),
                 comparison_busy(&compared));
}

/* Room for a thread for each of 1,000 connections. */
#define THREADS_MEMORY (400.0 * 1024 * 1024)

static void judge_thread_memory(struct document *findings, const struct model_grid *grid)
{
    double memory = memory_with_most(grid, MODEL_THREAD);
    char text[UNITS_TEXT];

    if (isnan(memory))
        findings_add(findings, FINDINGS_UNDECIDED,
                     "The trials were too short to weigh 1,000 threads; use a longer --duration.");
    else
        findings_add(findings, memory <= THREADS_MEMORY ? FINDINGS_MET : FINDINGS_NOT_MET,
                     "1,000 threads with a connection each take %s of memory; allowed: 400 MiB.",
                     units_format_bytes(text, sizeof(text), memory));
}

static void explain_opened(struct document *findings, const struct model_grid *grid)
{
    const struct point *few = grid_point(grid, CLOSED, MODEL_EVENTS, SOME_CONNECTIONS);
    char one[UNITS_TEXT], pool[UNITS_TEXT], thread[UNITS_TEXT], forked[UNITS_TEXT];

    findings_add(
        findings, FINDINGS_LESSON,
        "A connection per request lets a pool serve more clients than it has threads. With 100, a "
        "request takes %s of CPU time in events, %s in the pool, %s with a new thread for each "
        "connection, and %s in preforked processes, to which the master passes each connection.",
        lab_time(one, sizeof(one), point_own_median(few, POINT_CPU)),
        lab_time(
            pool, sizeof(pool),
            point_own_median(grid_point(grid, CLOSED, MODEL_POOL, SOME_CONNECTIONS), POINT_CPU)),
        lab_time(
            thread, sizeof(thread),
            point_own_median(grid_point(grid, CLOSED, MODEL_THREAD, SOME_CONNECTIONS), POINT_CPU)),
        lab_time(forked, sizeof(forked),
                 point_own_median(grid_point(grid, CLOSED, MODEL_PREFORKED, SOME_CONNECTIONS),
                                  POINT_CPU)));
}

static int compare_models(struct lab *lab, struct document *findings, struct model_grid *grid)
{
    if (start_models(lab, grid) != 0 || measure_models(lab, grid) != 0)
        return -1;
    record_models(lab, grid);
    for (enum way way = KEPT; way < WAYS; way++) {
        put_model_speed(findings, grid, way);
        put_model_cost(findings, grid, way);
        plot_models(findings, grid, way);
    }
    put_memory(findings, grid);
    explain_pool_cpu(findings, grid);
    explain_starved(findings, grid);
    explain_opened(findings, grid);
    explain_threads(findings, grid);
    judge_thread_memory(findings, grid);
    points_add_cautions(findings, grid->points, GRID_POINTS);
    return 0;
}

/* ---- Pools of 1, 6 and 12 threads ---- */

static void put_pools(struct document *findings, const struct point *points)
{
    static const char *const heads[] = {"pool",    "requests/s", "p50",        "p99",
                                        "longest", "server CPU", "queue wait", NULL};

    findings_table(findings, "Fibonacci on one core, connection per request", heads);
    for (size_t i = 0; i < (size_t)POOL_SIZES * POOL_STEPS; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "of %u, %u", pool_sizes[i / POOL_STEPS],
                      points[i].plan.connections);
        point_cell_rate(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_P50);
        point_cell(findings, &points[i], MEASURE_P99);
        point_cell(findings, &points[i], MEASURE_MAX);
        point_cell_cpu(findings, &points[i]);
        put_time(findings, point_own_median(&points[i], POINT_QUEUE_WAIT));
    }
}

static void explain_pools(struct document *findings, const struct point *points)
{
    const struct point *one = &points[POOL_STEPS - 1];
    const struct point *best = one, *most = &points[(size_t)POOL_SIZES * POOL_STEPS - 1];
    struct interval gain;
    char change[LAB_RATIO], wait[UNITS_TEXT], last[UNITS_TEXT];

    for (const struct point *point = one; point <= most; point += POOL_STEPS)
        if (point_median(point, MEASURE_RATE) > point_median(best, MEASURE_RATE))
            best = point;
    gain = point_rate_ratio(best, one);
    findings_add(
        findings, FINDINGS_LESSON,
        "With 80 clients on one core, the pool of %u is the fastest, with %s of the rate of "
        "the pool of 1. More threads do not make a core faster; they move the wait from the "
        "queue (%s on average with 1 thread, %s with 12) to the run queue of the kernel. "
        "Others published that 6 of 1, 6 and 12 are best.",
        pool_sizes[(best - points) / POOL_STEPS], lab_share(change, &gain),
        lab_time(wait, sizeof(wait), point_own_median(one, POINT_QUEUE_WAIT)),
        lab_time(last, sizeof(last), point_own_median(most, POINT_QUEUE_WAIT)));
}

static int compare_pools(struct lab *lab, struct document *findings)
{
    static const char *const options[] = {"workers.model=pool", "workers.processes=1",
                                          "arithmetic.enabled=on", NULL};
    struct private_server *server = lab_create_server(lab);
    struct point *points = points_create(lab, (size_t)POOL_SIZES * POOL_STEPS);

    if (server == NULL || points == NULL)
        return -1;
    private_server_use_core(server, machine_first_core());
    if (lab_start(lab, server, options) != 0)
        return -1;
    for (size_t i = 0; i < (size_t)POOL_SIZES * POOL_STEPS; i++) {
        uint32_t size = pool_sizes[i / POOL_STEPS], clients = pool_connections[i % POOL_STEPS];

        point_init(lab, &points[i], server, "/arithmetic/fibonacci?n=50", clients,
                   "pool of %u, %u connections", size, clients);
        points[i].plan.keepalive = false;
        snprintf(points[i].command, sizeof(points[i].command), "threads %u", size);
    }
    if (points_measure_often(lab, points, (size_t)POOL_SIZES * POOL_STEPS, stage_rounds(lab)) != 0)
        return -1;
    for (size_t i = 0; i < (size_t)POOL_SIZES * POOL_STEPS; i++)
        point_record(lab, &points[i], "pool of %u, Fibonacci, %u", pool_sizes[i / POOL_STEPS],
                     points[i].plan.connections);
    put_pools(findings, points);
    explain_pools(findings, points);
    points_add_cautions(findings, points, (size_t)POOL_SIZES * POOL_STEPS);
    return 0;
}

/* ---- A full queue ---- */

enum { FULL_CONNECTIONS = 64, FULL_PLACES = 16 };

/* One thread, and 2 ms of work for a request. */
static void init_full(struct lab *lab, struct point *point, struct private_server *pool,
                      const char *policy)
{
    point_init(lab, point, pool, "/arithmetic/square?n=7&work=2ms", FULL_CONNECTIONS, "%s", policy);
    point->plan.keepalive = false;
    snprintf(point->command, sizeof(point->command), "queue fifo %s %d", policy, FULL_PLACES);
    point_let_starve(point);
}

static void put_full(struct document *findings, const struct point *points)
{
    static const char *const heads[] = {"when full", "responses/s", "503 in %", "queue wait",
                                        "p50",       "p99",         "longest",  NULL};

    findings_table(findings, "A queue of 16 places at twice the capacity", heads);
    for (size_t i = 0; i < POLICIES; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", policies[i]);
        point_cell_rate(findings, &points[i]);
        put_each(findings, point_own_median(&points[i], POINT_DROPPED));
        put_time(findings, point_own_median(&points[i], POINT_QUEUE_WAIT));
        point_cell(findings, &points[i], MEASURE_P50);
        point_cell(findings, &points[i], MEASURE_P99);
        point_cell(findings, &points[i], MEASURE_MAX);
    }
}

static void explain_full(struct document *findings, const struct point *points, double capacity)
{
    double tail = point_own_median(&points[1], POINT_QUEUE_WAIT);
    double head = point_own_median(&points[2], POINT_QUEUE_WAIT);
    char rate[UNITS_TEXT], p99[MEASURE_TEXT], one[UNITS_TEXT], other[UNITS_TEXT];

    findings_add(findings, FINDINGS_LESSON,
                 "One thread does %s of these requests per second, and twice as many come. With "
                 "block nobody is refused, and the wait grows for as long as the overload lasts, "
                 "before the queue and in the kernel: p99 %s.",
                 format_number(rate, sizeof(rate), capacity),
                 measure_format(p99, MEASURE_P99, point_median(&points[0], MEASURE_P99)));
    findings_add(findings, FINDINGS_LESSON,
                 "The others answer about half with 503. With drop-tail the new client pays, and "
                 "those that are served have waited for the whole queue (%s); with drop-head the "
                 "oldest pays, and the served have waited %s; with drop-random half of the queue "
                 "pays at once.",
                 lab_time(one, sizeof(one), tail), lab_time(other, sizeof(other), head));
}

static int compare_policies(struct lab *lab, struct document *findings, struct private_server *pool)
{
    struct point *points = points_create(lab, POLICIES + 1), *closed = points + POLICIES;
    double capacity;

    if (points == NULL || lab_command(lab, pool, "threads 1") != 0)
        return -1;
    init_full(lab, closed, pool, policies[0]);
    closed->starves = false;
    plan_set_connections(&closed->plan, 4);
    if (points_measure_often(lab, closed, 1, 1) != 0)
        return -1;
    capacity = point_median(closed, MEASURE_RATE);
    for (size_t i = 0; i < POLICIES; i++) {
        init_full(lab, &points[i], pool, policies[i]);
        points[i].plan.rate = 2 * capacity;
        plan_set_connections(&points[i].plan, FULL_CONNECTIONS);
    }
    if (points_measure_often(lab, points, POLICIES, stage_rounds(lab)) != 0)
        return -1;
    put_full(findings, points);
    explain_full(findings, points, capacity);
    return 0;
}

/* ---- The order of the queue ---- */

enum { ORDER_CONNECTIONS = 40, SMALL_OF_TEN = 9, LARGE_BYTES = 10 * 1024 * 1024 };

#define LARGE "/large.bin"

static int put_large_file(struct lab *lab, const struct private_server *pool)
{
    void *bytes = lab_allocate(lab, 1, LARGE_BYTES);

    return bytes != NULL
               ? private_server_put(pool, LARGE, bytes, LARGE_BYTES, lab->why, sizeof(lab->why))
               : -1;
}

/* Each tenth request is for the large file. */
static void init_order(struct lab *lab, struct point *point, struct private_server *pool,
                       const char *order, const char *large_url)
{
    point_init(lab, point, pool, LAB_SMALL, ORDER_CONNECTIONS, "%s", order);
    point->plan.keepalive = false;
    snprintf(point->command, sizeof(point->command), "queue %s block 1024", order);
    while (point->plan.url_count < SMALL_OF_TEN)
        point->plan.urls[point->plan.url_count++] = point->url;
    point->plan.urls[point->plan.url_count++] = large_url;
    point_let_starve(point);
}

static void put_orders(struct document *findings, const struct point *points)
{
    static const char *const heads[] = {"order",   "requests/s", "p50", "p99",
                                        "longest", "queue wait", NULL};

    findings_table(findings, "9 of 10 requests for 1 KiB, one for 10 MiB, on 2 threads", heads);
    for (size_t i = 0; i < ORDERS; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", orders[i]);
        point_cell_rate(findings, &points[i]);
        point_cell(findings, &points[i], MEASURE_P50);
        point_cell(findings, &points[i], MEASURE_P99);
        point_cell(findings, &points[i], MEASURE_MAX);
        put_time(findings, point_own_median(&points[i], POINT_QUEUE_WAIT));
    }
}

static void explain_orders(struct document *findings, const struct point *fifo,
                           const struct point *sff)
{
    char fast[LAB_BETWEEN], slow[UNITS_TEXT], last[UNITS_TEXT], before[UNITS_TEXT];

    findings_add(
        findings, FINDINGS_LESSON,
        "With the smallest file first, half of the answers take at most %s; in the order "
        "of arrival %s. The large file pays: the longest answer takes %s instead of %s, and "
        "while small ones keep coming it waits without limit.",
        point_between(fast, sff, MEASURE_P50),
        lab_time(slow, sizeof(slow), point_median(fifo, MEASURE_P50)),
        lab_time(last, sizeof(last), point_median(sff, MEASURE_MAX)),
        lab_time(before, sizeof(before), point_median(fifo, MEASURE_MAX)));
}

static int compare_orders(struct lab *lab, struct document *findings, struct private_server *pool)
{
    struct point *points = points_create(lab, ORDERS);
    char large_url[POINT_URL];

    if (points == NULL || put_large_file(lab, pool) != 0 ||
        lab_command(lab, pool, "threads 2") != 0)
        return -1;
    snprintf(large_url, sizeof(large_url), "http://127.0.0.1:%u" LARGE, private_server_port(pool));
    for (size_t i = 0; i < ORDERS; i++)
        init_order(lab, &points[i], pool, orders[i], large_url);
    if (points_measure_often(lab, points, ORDERS, stage_rounds(lab)) != 0)
        return -1;
    put_orders(findings, points);
    explain_orders(findings, &points[0], &points[ORDERS - 1]);
    return 0;
}

/* ---- The experiment ---- */

int experiment_models(struct lab *lab, struct document *findings)
{
    static const char *const options[] = {"workers.model=pool", "workers.processes=1",
                                          "arithmetic.enabled=on", NULL};
    struct model_grid grid = {.points = NULL};
    struct private_server *pool;

    if (compare_models(lab, findings, &grid) != 0 || compare_pools(lab, findings) != 0)
        return -1;
    pool = lab_server(lab, options);
    return pool != NULL && compare_policies(lab, findings, pool) == 0
               ? compare_orders(lab, findings, pool)
               : -1;
}
