/*
 * The experiments for teaching (lessons.def): a question, a prediction that the reader makes first,
 * a run, what it teaches, what to try next. They share how they ask, measure and report.
 */
#include "common/clock.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/base/interrupts.h"
#include "loadgen/lab/points.h"
#include "loadgen/stats/measures.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CHOICES = 3, ANSWER = 64 };

/* The choice that the measurements confirm (CHOICES: none), and points_busy(). */
struct outcome {
    size_t choice;
    const char *busy;
};

/* Runs the lesson, adds what it teaches, and sets *OUTCOME. */
typedef int teach(struct lab *lab, struct document *findings, struct outcome *outcome);

struct lesson {
    const char *predict, *choice[CHOICES], *next;
    teach *run;
};

/* ---- The reader's prediction ---- */

/* Waits for input, or a signal. Returns false if the lab is interrupted. */
static bool wait_for_answer(struct lab *lab)
{
    struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = interrupts_fd(), .events = POLLIN}};

    poll(fds, ARRAY_LENGTH(fds), -1);
    return !lab_is_interrupted(lab);
}

/* Asks on the terminal. Returns 0 with *PREDICTED, which is CHOICES for none; -1: interrupted. */
static int ask_prediction(struct lab *lab, const struct lesson *lesson, size_t *predicted)
{
    char answer[ANSWER];

    *predicted = CHOICES;
    if (!lab->asks)
        return 0;
    printf("\n%s\n", lesson->predict);
    for (size_t i = 0; i < CHOICES; i++)
        printf("  %c  %s\n", (int)('a' + i), lesson->choice[i]);
    for (;;) {
        printf("Your prediction (a, b or c; Enter: none): ");
        fflush(stdout);
        if (!wait_for_answer(lab))
            return -1;
        if (fgets(answer, sizeof(answer), stdin) == NULL || answer[0] == '\n')
            return 0;
        *predicted = (size_t)(tolower((unsigned char)answer[0]) - 'a');
        if (*predicted < CHOICES && answer[1] == '\n')
            return 0;
        *predicted = CHOICES;
    }
}

static int conduct_lesson(struct lab *lab, struct document *findings, const struct lesson *lesson)
{
    static const char *const letters[CHOICES] = {"a", "b", "c"};
    struct outcome outcome = {.busy = ""};
    size_t predicted;

    document_fact(findings, DOCUMENT_NORMAL, "Predict", "%s", lesson->predict);
    for (size_t i = 0; i < CHOICES; i++)
        document_fact(findings, DOCUMENT_NORMAL, letters[i], "%s", lesson->choice[i]);
    document_fold(findings, "I have predicted a, b or c: show the result");
    if (ask_prediction(lab, lesson, &predicted) != 0 || lesson->run(lab, findings, &outcome) != 0)
        return -1;
    if (outcome.choice == CHOICES)
        document_note(findings, DOCUMENT_NORMAL,
                      "Answer:", "none: the trials were too short; use a longer --duration.");
    else
        document_note(findings, DOCUMENT_NORMAL, "Answer:", "%s, %s%s%s.%s",
                      letters[outcome.choice], lesson->choice[outcome.choice],
                      predicted < CHOICES ? "; you predicted " : "",
                      predicted < CHOICES ? letters[predicted] : "", outcome.busy);
    document_note(findings, DOCUMENT_NORMAL, "Try next:", "%s", lesson->next);
    return 0;
}

/* ---- Trials and tables ---- */

/* A trial of a lesson: MS with the default trials, QUICK_MS with --quick; never below LEAST_MS. */
static uint64_t lesson_ms(const struct lab *lab, uint64_t ms, uint64_t quick_ms)
{
    enum { LEAST_MS = 200 };
    uint64_t all_ms = lab->quick ? quick_ms * lab->trial_ms / LAB_TRIAL_QUICK_MS
                                 : ms * lab->trial_ms / LAB_TRIAL_MS;

    return all_ms > LEAST_MS ? all_ms : LEAST_MS;
}

/* One round with --quick: the effects are large. */
static int measure_lesson(struct lab *lab, struct point *points, size_t count)
{
    for (size_t i = 0; i < count; i++)
        point_let_starve(&points[i]);
    return points_measure_often(lab, points, count, lab->quick ? 1 : lab->rounds);
}

/* Makes POINT an open loop of RATE requests per second. */
static void make_open(struct point *point, double rate, uint32_t connections, bool poisson)
{
    point->plan.rate = rate;
    point->plan.poisson = poisson;
    plan_set_connections(&point->plan, connections);
}

/* A connection that has sent TEXT to the server of POINT; -1 on failure. */
static int connect_client(const struct point *point, const char *text)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(private_server_port(point->server)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
        send(fd, text, strlen(text), MSG_NOSIGNAL) >= 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A column: a measure of the run, or one of the lab, as a rate. */
struct column {
    const char *head;
    enum measure measure; /* MEASURE_COUNT: the other one */
    enum point_measure own;
};

static void put_points(struct document *findings, const char *title, const char *head,
                       const struct point *points, size_t count, const struct column *columns,
                       size_t column_count)
{
    const char *heads[8] = {head};

    for (size_t i = 0; i < column_count; i++)
        heads[1 + i] = columns[i].head;
    findings_table(findings, title, heads);
    for (size_t i = 0; i < count; i++) {
        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%s", points[i].label);
        for (size_t k = 0; k < column_count; k++) {
            double own = columns[k].measure == MEASURE_COUNT
                             ? point_own_median(&points[i], columns[k].own)
                             : NAN;
            char text[UNITS_TEXT];

            if (columns[k].measure == MEASURE_RATE)
                point_cell_rate(findings, &points[i]);
            else if (columns[k].measure != MEASURE_COUNT)
                point_cell(findings, &points[i], columns[k].measure);
            else
                document_cell(findings, "%s",
                              isnan(own) ? "-" : format_number(text, sizeof(text), own));
        }
    }
}

/* Choice c up to LOW, b up to HIGH, a above: the larger, the earlier. NAN confirms none. */
static size_t choose_by(double value, double low, double high)
{
    return isnan(value) ? CHOICES : value > high ? 0 : value > low ? 1 : 2;
}

/* Ends a lesson whose measurements confirm CHOICE. */
static struct outcome end_lesson(struct document *findings, const struct point *points,
                                 size_t count, size_t choice)
{
    points_add_cautions(findings, points, count);
    return (struct outcome){choice, points_busy(points, count)};
}

/* Adds a line of Y over X to the last plot. */
static void put_line(struct document *findings, const char *name, const double *x, const double *y,
                     size_t count)
{
    document_line(findings, name, false);
    for (size_t i = 0; i < count; i++)
        document_point(findings, x[i], y[i]);
}

static const double percents[] = {50, 90, 99, 99.9};
static const enum measure percentiles[] = {MEASURE_P50, MEASURE_P90, MEASURE_P99, MEASURE_P99_9};

enum { PERCENTS = ARRAY_LENGTH(percents) };

/* Adds a plot of the percentiles of COUNT points. */
static void plot_percentiles(struct document *findings, const struct point *points, size_t count)
{
    document_plot(findings, "Response time by percentile", (struct plot_axis){true, axis_tail},
                  (struct plot_axis){true, axis_time});
    for (size_t i = 0; i < count; i++) {
        document_line(findings, points[i].label, false);
        for (size_t k = 0; k < PERCENTS; k++)
            document_point(findings, 100 / (100 - percents[k]),
                           point_median(&points[i], percentiles[k]) * (double)NS_PER_US);
    }
}

/* ---- omission: a stall, in a closed and in an open loop ---- */

enum { OMISSION_RATE = 1000, OMISSION_CONNECTIONS = 10, OMISSION_OPEN = 64, STALL_PART = 4 };

enum { CLOSED_FAST, CLOSED_PACED, OPEN_LOOP, OMISSION_CASES };

struct stall {
    uint64_t from_ns, length_ns;
    uint64_t begun_ns, measured_ns; /* 0: not yet */
};

static int arm_stall(struct lab *lab, struct point *point)
{
    struct stall *stall = point->before_context;

    (void)lab;
    kill(bare_server_pid(point->bare), SIGCONT);
    stall->begun_ns = stall->measured_ns = 0;
    return 0;
}

/* Stops the server's process once, and lets it go on. */
static void stall_once(struct point *point, uint64_t elapsed_ns)
{
    struct stall *stall = point->before_context;
    uint64_t now_ns = clock_monotonic_ns();

    if (stall->begun_ns == 0 && elapsed_ns >= stall->from_ns) {
        kill(bare_server_pid(point->bare), SIGSTOP);
        stall->begun_ns = now_ns;
    } else if (stall->begun_ns > 0 && stall->measured_ns == 0 &&
               now_ns >= stall->begun_ns + stall->length_ns) {
        kill(bare_server_pid(point->bare), SIGCONT);
        stall->measured_ns = now_ns - stall->begun_ns;
    }
}

/*
 * The percentile of an open loop in us: requests that are due evenly during the stall wait from 0 to
 * its length.
 */
static double stalled_percentile(double stall_ns, double run_ns, double percent)
{
    double above_ns = (1 - percent / 100) * run_ns;

    return stall_ns > above_ns ? (stall_ns - above_ns) / (double)NS_PER_US : NAN;
}

static void report_omission(struct document *findings, const struct point *points,
                            const struct stall *stall)
{
    static const struct column columns[] = {
        {"requests/s", MEASURE_RATE, 0}, {"p50", MEASURE_P50, 0},     {"p90", MEASURE_P90, 0},
        {"p99", MEASURE_P99, 0},         {"p99.9", MEASURE_P99_9, 0}, {"longest", MEASURE_MAX, 0}};
    double run_ns = (double)points[OPEN_LOOP].plan.duration_ms * (double)NS_PER_MS;
    char text[UNITS_TEXT];

    put_points(findings, "One stall in each run", "client", points, OMISSION_CASES, columns,
               ARRAY_LENGTH(columns));
    document_row(findings, DOCUMENT_NORMAL);
    document_cell(findings, "calculated, open loop");
    document_cell(findings, "%s", format_number(text, sizeof(text), OMISSION_RATE));
    for (size_t i = 0; i < PERCENTS; i++)
        document_cell(
            findings, "%s",
            lab_time(text, sizeof(text),
                     stalled_percentile((double)stall->measured_ns, run_ns, percents[i])));
    document_cell(findings, "%s",
                  lab_time(text, sizeof(text), (double)stall->measured_ns / (double)NS_PER_US));
    plot_percentiles(findings, points, OMISSION_CASES);
    document_line(findings, "calculated, open loop", false);
    for (size_t k = 0; k < PERCENTS; k++)
        document_point(findings, 100 / (100 - percents[k]),
                       stalled_percentile((double)stall->measured_ns, run_ns, percents[k]) *
                           (double)NS_PER_US);
}

/* A machine that was busy may have ended the trial before the stall. */
static bool has_stalled(const struct point *point)
{
    const struct stall *stall = point->before_context;

    return stall->measured_ns > 0;
}

static int teach_omission(struct lab *lab, struct document *findings, struct outcome *outcome)
{
    static const char *const labels[] = {"closed loop", "closed loop, 1,000/s by pauses",
                                         "open loop, 1,000/s"};
    const struct bare_server *bare = lab_bare_server(lab, (struct bare_way){.work_ns = 0});
    struct point *points = points_create(lab, OMISSION_CASES);
    uint64_t run_ms = lesson_ms(lab, 4000, 1600);
    struct stall stall = {.from_ns = run_ms * NS_PER_MS / STALL_PART,
                          .length_ns = run_ms * NS_PER_MS / STALL_PART};
    char length[UNITS_TEXT], closed[UNITS_TEXT], open[UNITS_TEXT], formula[UNITS_TEXT];
    double p99, share;

    if (bare == NULL || points == NULL)
        return -1;
    for (size_t i = 0; i < OMISSION_CASES; i++) {
        point_init(lab, &points[i], NULL, LAB_SMALL, OMISSION_CONNECTIONS, "%s", labels[i]);
        point_use_bare(&points[i], bare);
        points[i].plan.duration_ms = run_ms;
        points[i].plan.warmup_ms = 0;
        points[i].before = arm_stall;
        points[i].during = stall_once;
        points[i].complete = has_stalled;
        points[i].before_context = &stall;
    }
    points[CLOSED_PACED].plan.think_min_ms = points[CLOSED_PACED].plan.think_max_ms =
        OMISSION_CONNECTIONS * 1000 / OMISSION_RATE;
    make_open(&points[OPEN_LOOP], OMISSION_RATE, OMISSION_OPEN, false);
    points[CLOSED_FAST].decisive = MEASURE_P99;
    if (measure_lesson(lab, points, OMISSION_CASES) != 0)
        return -1;
    report_omission(findings, points, &stall);
    p99 = point_median(&points[CLOSED_FAST], MEASURE_P99);
    share = p99 * (double)NS_PER_US / (double)stall.measured_ns;
    findings_add(
        findings, FINDINGS_LESSON,
        "The server stood still for %s of %.1f s. The closed loop reports a p99 of %s: only "
        "%d of its requests were on their way, and all others were not sent. That is "
        "coordinated omission: the client pauses with the server that it measures.",
        units_format_ns(length, sizeof(length), (double)stall.measured_ns),
        (double)points[CLOSED_FAST].plan.duration_ms / 1e3, lab_time(closed, sizeof(closed), p99),
        OMISSION_CONNECTIONS);
    findings_add(findings, FINDINGS_LESSON,
                 "The open loop sends, or counts, each request from when it is due: p99 %s; "
                 "calculated %s. Pauses between the requests of a closed loop do not help.",
                 lab_time(open, sizeof(open), point_median(&points[OPEN_LOOP], MEASURE_P99)),
                 lab_time(formula, sizeof(formula),
                          stalled_percentile(
                              (double)stall.measured_ns,
                              (double)points[OPEN_LOOP].plan.duration_ms * (double)NS_PER_MS, 99)));
    *outcome = end_lesson(findings, points, OMISSION_CASES, choose_by(share, 0.1, 0.6));
    return 0;
}

/* ---- load: latency against load ---- */

static const double loads[] = {20, 40, 60, 80, 90, 95};

enum {
    LOADS = ARRAY_LENGTH(loads),
    AT_80 = 3,
    LOAD_WORK_MS = 1,
    LOAD_CONNECTIONS = 64,
    CLOSED_CONNECTIONS = 4,
};

enum { CONSTANT, POISSON, ARRIVALS };

/* The mean response time of an M/D/1 queue (Pollaczek, Khinchine), in units of the service time. */
static double md1_response(double load)
{
    return 1 + load / (2 * (1 - load));
}

static void report_load(struct document *findings, const struct point *points, double service_us)
{
    static const char *const heads[] = {
        "load", "constant: mean", "Poisson: mean", "M/D/1", "constant: p99", "Poisson: p99", NULL};
    double y[LOADS];

    findings_table(findings, "Response time by load", heads);
    for (size_t i = 0; i < LOADS; i++) {
        char text[UNITS_TEXT];

        document_row(findings, DOCUMENT_NORMAL);
        document_cell(findings, "%.0f%%", loads[i]);
        point_cell(findings, &points[CONSTANT * LOADS + i], MEASURE_MEAN);
        point_cell(findings, &points[POISSON * LOADS + i], MEASURE_MEAN);
        document_cell(findings, "%s",
                      lab_time(text, sizeof(text), service_us * md1_response(loads[i] / 100)));
        point_cell(findings, &points[CONSTANT * LOADS + i], MEASURE_P99);
        point_cell(findings, &points[POISSON * LOADS + i], MEASURE_P99);
    }
    document_plot(findings, "Mean response time by load", (struct plot_axis){false, axis_percent},
                  (struct plot_axis){false, axis_time});
    for (size_t way = 0; way < ARRIVALS; way++) {
        for (size_t i = 0; i < LOADS; i++)
            y[i] = point_median(&points[way * LOADS + i], MEASURE_MEAN) * (double)NS_PER_US;
        put_line(findings, way == CONSTANT ? "constant arrivals" : "Poisson arrivals", loads, y,
                 LOADS);
    }
    for (size_t i = 0; i < LOADS; i++)
        y[i] = service_us * md1_response(loads[i] / 100) * (double)NS_PER_US;
    put_line(findings, "M/D/1", loads, y, LOADS);
}

/* The service time in us, from the rate of a closed loop, which keeps the server busy; or 0. */
static double measure_service(struct lab *lab, const struct bare_server *bare)
{
    struct point *closed = points_create(lab, 1);

    if (closed == NULL)
        return 0;
    point_init(lab, closed, NULL, LAB_SLOW, CLOSED_CONNECTIONS, "capacity");
    point_use_bare(closed, bare);
    closed->plan.duration_ms = lesson_ms(lab, 2000, 500);
    if (measure_lesson(lab, closed, 1) != 0)
        return 0;
    return 1e6 / point_median(closed, MEASURE_RATE);
}

static int teach_load(struct lab *lab, struct document *findings, struct outcome *outcome)
{
    const struct bare_server *bare =
        lab_bare_server(lab, (struct bare_way){LOAD_WORK_MS * NS_PER_MS, true, BARE_ONE_WRITE});
    struct point *points = points_create(lab, (size_t)ARRIVALS * LOADS), *at;
    double service_us, response;
    char between[LAB_BETWEEN], formula[UNITS_TEXT], constant[UNITS_TEXT], service[UNITS_TEXT];

    if (bare == NULL || points == NULL)
        return -1;
    service_us = measure_service(lab, bare);
    if (service_us <= 0)
        return -1;
    for (size_t way = 0; way < ARRIVALS; way++)
        for (size_t i = 0; i < LOADS; i++) {
            struct point *point = &points[way * LOADS + i];

            point_init(lab, point, NULL, LAB_SLOW, LOAD_CONNECTIONS, "%s, %.0f%%",
                       way == CONSTANT ? "constant" : "Poisson", loads[i]);
            point_use_bare(point, bare);
            point->plan.duration_ms = lesson_ms(lab, 5000, 600);
            make_open(point, loads[i] / 100 * 1e6 / service_us, LOAD_CONNECTIONS, way == POISSON);
        }
    if (measure_lesson(lab, points, (size_t)ARRIVALS * LOADS) != 0)
        return -1;
    report_load(findings, points, service_us);
    at = &points[POISSON * LOADS + AT_80];
    response = point_median(at, MEASURE_MEAN) / service_us;
    findings_add(
        findings, FINDINGS_LESSON,
        "A request takes %s (the inverse of the maximum rate). At 80%% load and Poisson "
        "arrivals the mean response time is %s; the formula for M/D/1, service x (1 + load "
        "/ (2 (1 - load))), gives %s. At constant intervals it is %s.",
        lab_time(service, sizeof(service), service_us), point_between(between, at, MEASURE_MEAN),
        lab_time(formula, sizeof(formula), service_us * md1_response(0.8)),
        lab_time(constant, sizeof(constant),
                 point_median(&points[CONSTANT * LOADS + AT_80], MEASURE_MEAN)));
    findings_add(
        findings, FINDINGS_LESSON,
        "Waiting comes from chance: two requests arrive together while the server was idle "
        "before. By the formula it more than doubles from 80%% to 90%% load and again to "
        "95%%: a server needs room, however fast it is. Real users are closer to Poisson "
        "than to a clock. The formula is the mean over a long time; near 100%% a trial of "
        "seconds is mostly below it, and seldom far above.");
    *outcome =
        end_lesson(findings, points, (size_t)ARRIVALS * LOADS, choose_by(-response, -5.5, -1.7));
    return 0;
}

/* ---- blocking: a slow handler beside fast requests ---- */

enum { BLOCKING_RATE = 100, BLOCKING_CONNECTIONS = 32, FAST_OF = 20, BLOCKING_WORK_MS = 20 };

enum { IN_LOOP, OFFLOADED, THREADED, BLOCKING_CASES };

static void init_blocking(struct lab *lab, struct point *point, struct private_server *server,
                          const struct bare_server *bare, char *slow_url, const char *label)
{
    point_init(lab, point, server, LAB_SMALL, BLOCKING_CONNECTIONS, "%s", label);
    if (bare != NULL)
        point_use_bare(point, bare);
    snprintf(slow_url, POINT_URL, "http://127.0.0.1:%u%s",
             bare != NULL ? bare_server_port(bare) : private_server_port(server),
             bare != NULL ? LAB_SLOW : "/arithmetic/square?n=7&work=20ms");
    while (point->plan.url_count < FAST_OF - 1)
        point->plan.urls[point->plan.url_count++] = point->url;
    point->plan.urls[point->plan.url_count++] = slow_url;
    point->plan.order = PLAN_ORDER_RANDOM;
    point->plan.order_given = true;
    point->plan.duration_ms = lesson_ms(lab, 6000, 2000);
    make_open(point, BLOCKING_RATE, BLOCKING_CONNECTIONS, true);
}

static int teach_blocking(struct lab *lab, struct document *findings, struct outcome *outcome)
{
    static const char *const events[] = {"workers.processes=1", "workers.threads=1",
                                         "workers.offload_threads=2", "arithmetic.enabled=on",
                                         NULL};
    static const char *const thread[] = {"workers.processes=1", "workers.model=thread",
                                         "arithmetic.enabled=on", NULL};
    static const struct column columns[] = {{"p50", MEASURE_P50, 0},
                                            {"p90", MEASURE_P90, 0},
                                            {"p99", MEASURE_P99, 0},
                                            {"longest", MEASURE_MAX, 0}};
    const struct bare_server *bare =
        lab_bare_server(lab, (struct bare_way){.work_ns = BLOCKING_WORK_MS * NS_PER_MS});
    struct private_server *offloads = lab_server(lab, events), *threads = NULL;
    struct point *points = points_create(lab, BLOCKING_CASES);
    char(*urls)[POINT_URL] = lab_allocate(lab, BLOCKING_CASES, POINT_URL);
    char loop[LAB_BETWEEN], offloaded[UNITS_TEXT], threaded[UNITS_TEXT];
    double p90;

    if (offloads != NULL)
        threads = lab_server(lab, thread);
    if (bare == NULL || threads == NULL || points == NULL || urls == NULL)
        return -1;
    init_blocking(lab, &points[IN_LOOP], NULL, bare, urls[IN_LOOP], "event loop that computes");
    init_blocking(lab, &points[OFFLOADED], offloads, NULL, urls[OFFLOADED],
                  "event loop, 2 offload threads");
    init_blocking(lab, &points[THREADED], threads, NULL, urls[THREADED],
                  "thread for each connection");
    points[IN_LOOP].decisive = MEASURE_P90;
    if (measure_lesson(lab, points, BLOCKING_CASES) != 0)
        return -1;
    put_points(findings, "19 of 20 requests for 1 KiB, one computes for 20 ms; 100/s", "server",
               points, BLOCKING_CASES, columns, ARRAY_LENGTH(columns));
    plot_percentiles(findings, points, BLOCKING_CASES);
    p90 = point_median(&points[IN_LOOP], MEASURE_P90);
    findings_add(
        findings, FINDINGS_LESSON,
        "5%% of the requests compute, which is 10%% of one core. In the event loop the 90th "
        "percentile is %s: fast requests that arrive meanwhile wait behind the slow one. "
        "With offload threads it is %s, with a thread for each connection %s.",
        point_between(loop, &points[IN_LOOP], MEASURE_P90),
        lab_time(offloaded, sizeof(offloaded), point_median(&points[OFFLOADED], MEASURE_P90)),
        lab_time(threaded, sizeof(threaded), point_median(&points[THREADED], MEASURE_P90)));
    findings_add(findings, FINDINGS_LESSON,
                 "An event loop is fast while no handler blocks it. What may take long (disk, "
                 "compression, computing) belongs to other threads, through a bounded queue.");
    *outcome = end_lesson(findings, points, BLOCKING_CASES, choose_by(-p90, -20000, -1000));
    return 0;
}

/* ---- overload: goodput with timeouts and retries, with shedding and without ---- */

static const double offered[] = {50, 100, 150, 200, 300};

enum {
    OFFERED = ARRAY_LENGTH(offered),
    AT_200 = 3,
    OVERLOAD_CONNECTIONS = 256,
    OVERLOAD_CLIENTS = 200,
    OVERLOAD_TIMEOUT_MS = 100,
    CAPACITY_TIMEOUT_MS = 10000, /* also on a busy machine there are responses */
    CAPACITY_LEAST_MS = 1000,
    OVERLOAD_THINK_MS = 100,
};

enum { QUEUEING, SHEDDING, POLICIES };

static const struct {
    const char *name, *command;
} policies[POLICIES] = {{"all wait", "queue fifo block 1024"},
                        {"shedding", "queue fifo drop-tail 16"}};

/* Waits until requests of earlier trials, whose clients have gone, are done: the queue is in order. */
static int drain_server(struct lab *lab, struct point *point)
{
    static const char request[] =
        "GET " LAB_SMALL " HTTP/1.1\r\nHost: lab\r\nConnection: close\r\n\r\n";
    enum { AGAIN_MS = 50 };
    char answer[16] = "";

    for (;;) {
        int fd = connect_client(point, request);
        ssize_t got = fd >= 0 ? recv(fd, answer, sizeof(answer) - 1, MSG_WAITALL) : -1;

        if (fd >= 0)
            close(fd);
        if (got == (ssize_t)sizeof(answer) - 1 && strncmp(answer + 9, "200", 3) == 0)
            return 0;
        if (lab_is_interrupted(lab))
            return -1;
        if (fd < 0)
            return lab_fail(lab, "cannot connect to the server");
        poll(NULL, 0, AGAIN_MS);
    }
}

/* One thread, 2 ms of work for a request, a connection for each, and impatient clients. */
static void init_overload(struct lab *lab, struct point *point, struct private_server *server,
                          size_t policy, uint32_t connections, const char *label)
{
    point_init(lab, point, server, "/arithmetic/square?n=7&work=2ms", connections, "%s, %s",
               policies[policy].name, label);
    snprintf(point->command, sizeof(point->command), "%s", policies[policy].command);
    point->before = drain_server;
    point->plan.keepalive = false;
    point->plan.timeout_ms = OVERLOAD_TIMEOUT_MS;
    point->plan.duration_ms = lesson_ms(lab, 4000, 600);
    point->plan.warmup_ms = OVERLOAD_TIMEOUT_MS * 2;
    point->may_answer_none = true;
}

static double good_percent(const struct point *point, double capacity)
{
    return 100 * point_own_median(point, POINT_GOOD) / capacity;
}

static void report_overload_lesson(struct document *findings, const struct point *points,
                                   double capacity)
{
    static const struct column columns[] = {{"in time/s", MEASURE_COUNT, POINT_GOOD},
                                            {"responses/s", MEASURE_RATE, 0},
                                            {"503 in %", MEASURE_COUNT, POINT_DROPPED},
                                            {"errors", MEASURE_ERRORS, 0},
                                            {"p50", MEASURE_P50, 0},
                                            {"p99", MEASURE_P99, 0}};

    put_points(findings, "Clients that give up after 100 ms", "queue, load", points,
               (size_t)POLICIES * (OFFERED + 1), columns, ARRAY_LENGTH(columns));
    document_plot(findings, "Answered in time, by load; both in percent of the capacity",
                  (struct plot_axis){false, axis_percent}, (struct plot_axis){false, axis_percent});
    for (size_t policy = 0; policy < POLICIES; policy++) {
        double y[OFFERED];

        for (size_t i = 0; i < OFFERED; i++)
            y[i] = good_percent(&points[policy * OFFERED + i], capacity);
        put_line(findings, policies[policy].name, offered, y, OFFERED);
    }
}

static int teach_overload(struct lab *lab, struct document *findings, struct outcome *outcome)
{
    static const char *const options[] = {"workers.processes=1", "workers.model=pool",
                                          "workers.threads=1", "arithmetic.enabled=on", NULL};
    struct private_server *server = lab_server(lab, options);
    struct point *points = points_create(lab, (size_t)POLICIES * (OFFERED + 1) + 1);
    struct point *closed = points + (size_t)POLICIES * (OFFERED + 1);
    struct point *retrying = points + (size_t)POLICIES * OFFERED;
    char waiting[UNITS_TEXT], shed[UNITS_TEXT];
    double capacity, good;

    if (server == NULL || points == NULL)
        return -1;
    init_overload(lab, closed, server, QUEUEING, CLOSED_CONNECTIONS, "capacity");
    closed->plan.timeout_ms = CAPACITY_TIMEOUT_MS;
    closed->may_answer_none = false;
    if (closed->plan.duration_ms < CAPACITY_LEAST_MS)
        closed->plan.duration_ms = CAPACITY_LEAST_MS;
    if (measure_lesson(lab, closed, 1) != 0)
        return -1;
    capacity = point_median(closed, MEASURE_RATE);
    for (size_t policy = 0; policy < POLICIES; policy++) {
        for (size_t i = 0; i < OFFERED; i++) {
            char label[LAB_LABEL / 2];

            snprintf(label, sizeof(label), "%.0f%%", offered[i]);
            init_overload(lab, &points[policy * OFFERED + i], server, policy, OVERLOAD_CONNECTIONS,
                          label);
            make_open(&points[policy * OFFERED + i], offered[i] / 100 * capacity,
                      OVERLOAD_CONNECTIONS, true);
        }
        init_overload(lab, &retrying[policy], server, policy, OVERLOAD_CLIENTS, "200 that retry");
        retrying[policy].plan.think_min_ms = retrying[policy].plan.think_max_ms = OVERLOAD_THINK_MS;
    }
    if (measure_lesson(lab, points, (size_t)POLICIES * (OFFERED + 1)) != 0)
        return -1;
    report_overload_lesson(findings, points, capacity);
    good = good_percent(&points[QUEUEING * OFFERED + AT_200], capacity);
    findings_add(findings, FINDINGS_LESSON,
                 "The server can do %.0f requests/s. At 200%% of that, clients get %s of the "
                 "capacity in time if all wait, and %s if the server answers 503 as soon as 16 "
                 "wait: what is served then has waited 32 ms at most.",
                 capacity, lab_percent(waiting, good),
                 lab_percent(shed, good_percent(&points[SHEDDING * OFFERED + AT_200], capacity)));
    findings_add(findings, FINDINGS_LESSON,
                 "200 clients that try again 100 ms after each failure get %s if all wait and "
                 "%s with shedding. Without it the server is busy with requests whose clients "
                 "have given up, and each retry adds one more: it does not recover by itself.",
                 lab_percent(waiting, good_percent(&retrying[QUEUEING], capacity)),
                 lab_percent(shed, good_percent(&retrying[SHEDDING], capacity)));
    *outcome =
        end_lesson(findings, points, (size_t)POLICIES * (OFFERED + 1), choose_by(good, 20, 75));
    return 0;
}

/* ---- slow: clients that send half a request ---- */

static const uint32_t slow_counts[] = {0, 4, 8, 64};

enum { SLOW_COUNTS = ARRAY_LENGTH(slow_counts), SLOW_MAX = 64, HONEST = 8, POOL_THREADS = 8 };

/* Clients that have sent half a request, and wait. */
struct slow_clients {
    int fds[SLOW_MAX];
    uint32_t open;
};

static void close_slow_clients(struct slow_clients *clients)
{
    while (clients->open > 0)
        close(clients->fds[--clients->open]);
}

/* Before a trial: the slow clients come first. */
static int open_slow_clients(struct lab *lab, struct point *point)
{
    struct slow_clients *clients = point->before_context;
    uint32_t count = slow_counts[point->index % SLOW_COUNTS];

    close_slow_clients(clients);
    while (clients->open < count) {
        int fd = connect_client(point, "GET / HTTP/1.1\r\nHost: lab\r\nX-Sent: half");

        if (fd < 0)
            return lab_fail(lab, "cannot connect a slow client");
        clients->fds[clients->open++] = fd;
    }
    return 0;
}

static int teach_slow(struct lab *lab, struct document *findings, struct outcome *outcome)
{
    static const struct {
        const char *name;
        const char *const options[5];
        uint32_t slow_max; /* as many slow clients leave no thread for the others */
    } models[] = {
        {"events", {"workers.processes=1", "workers.threads=1", NULL}, UINT32_MAX},
        {"pool of 8",
         {"workers.processes=1", "workers.model=pool", "workers.threads=8", NULL},
         POOL_THREADS},
        {"thread",
         {"workers.processes=1", "workers.model=thread", "workers.max_threads=64", NULL},
         SLOW_MAX},
    };
    enum { MODELS = ARRAY_LENGTH(models), POOL = 1 };
    static const struct column columns[] = {{"requests/s", MEASURE_RATE, 0},
                                            {"p50", MEASURE_P50, 0},
                                            {"p99", MEASURE_P99, 0},
                                            {"without a thread", MEASURE_COUNT, POINT_WAITING}};
    struct point *points = points_create(lab, (size_t)MODELS * SLOW_COUNTS);
    struct slow_clients clients = {.open = 0};
    double share, x[SLOW_COUNTS], y[SLOW_COUNTS];
    char of_pool[UNITS_TEXT], of_events[UNITS_TEXT];
    int result;

    if (points == NULL)
        return -1;
    for (size_t m = 0; m < MODELS; m++) {
        struct private_server *server = lab_server(lab, models[m].options);

        if (server == NULL)
            return -1;
        for (size_t i = 0; i < SLOW_COUNTS; i++) {
            struct point *point = &points[m * SLOW_COUNTS + i];

            point_init(lab, point, server, LAB_SMALL, HONEST, "%s, %u slow", models[m].name,
                       slow_counts[i]);
            point->before = open_slow_clients;
            point->before_context = &clients;
            point->may_answer_none = slow_counts[i] >= models[m].slow_max;
        }
    }
    result = measure_lesson(lab, points, (size_t)MODELS * SLOW_COUNTS);
    close_slow_clients(&clients);
    if (result != 0)
        return -1;
    put_points(findings, "8 honest clients with keep-alive beside slow ones", "server", points,
               (size_t)MODELS * SLOW_COUNTS, columns, ARRAY_LENGTH(columns));
    document_plot(findings, "Requests per second of the honest clients, by slow clients",
                  (struct plot_axis){false, axis_count}, (struct plot_axis){false, axis_rate});
    for (size_t m = 0; m < MODELS; m++) {
        for (size_t i = 0; i < SLOW_COUNTS; i++) {
            x[i] = slow_counts[i];
            y[i] = point_median(&points[m * SLOW_COUNTS + i], MEASURE_RATE);
        }
        put_line(findings, models[m].name, x, y, SLOW_COUNTS);
    }
    share = point_median(&points[POOL * SLOW_COUNTS + 2], MEASURE_RATE) /
            point_median(&points[POOL * SLOW_COUNTS], MEASURE_RATE);
    findings_add(findings, FINDINGS_LESSON,
                 "Beside 8 slow clients, honest ones get %s of their rate from the pool of 8, and "
                 "%s from the event loop. A thread that reads from a slow client waits with it, "
                 "until header_timeout; an event loop has only a connection more.",
                 lab_percent(of_pool, 100 * share),
                 lab_percent(of_events, 100 * point_median(&points[2], MEASURE_RATE) /
                                            point_median(&points[0], MEASURE_RATE)));
    findings_add(findings, FINDINGS_LESSON,
                 "This is the slowloris attack: 8 sockets and 40 bytes each. A thread for each "
                 "connection withstands it until its threads, and their memory, are used up.");
    *outcome =
        end_lesson(findings, points, (size_t)MODELS * SLOW_COUNTS, choose_by(share, 0.1, 0.75));
    return 0;
}

/* ---- nagle: one response in two writes ---- */

static int teach_nagle(struct lab *lab, struct document *findings, struct outcome *outcome)
{
    static const struct {
        const char *label;
        enum bare_writes writes;
    } ways[] = {{"one write", BARE_ONE_WRITE},
                {"two writes", BARE_TWO_WRITES},
                {"two writes, TCP_NODELAY", BARE_TWO_NODELAY},
                {"two writes, MSG_MORE", BARE_TWO_CONTINUED}};
    enum { WAYS = ARRAY_LENGTH(ways) };
    static const struct column columns[] = {{"requests/s", MEASURE_RATE, 0},
                                            {"mean", MEASURE_MEAN, 0},
                                            {"p50", MEASURE_P50, 0},
                                            {"longest", MEASURE_MAX, 0},
                                            {"client CPU", MEASURE_CLIENT_CPU, 0}};
    struct point *points = points_create(lab, WAYS);
    char two[UNITS_TEXT], one[UNITS_TEXT], without[UNITS_TEXT];
    double share;

    if (points == NULL)
        return -1;
    for (size_t i = 0; i < WAYS; i++) {
        const struct bare_server *bare =
            lab_bare_server(lab, (struct bare_way){.writes = ways[i].writes});

        if (bare == NULL)
            return -1;
        point_init(lab, &points[i], NULL, LAB_SMALL, 1, "%s", ways[i].label);
        point_use_bare(&points[i], bare);
        points[i].plan.duration_ms = lesson_ms(lab, 3000, 600);
    }
    if (measure_lesson(lab, points, WAYS) != 0)
        return -1;
    put_points(findings, "A head of 250 bytes and a body of 1 KiB, one connection", "server",
               points, WAYS, columns, ARRAY_LENGTH(columns));
    plot_percentiles(findings, points, WAYS);
    share = point_median(&points[1], MEASURE_RATE) / point_median(&points[0], MEASURE_RATE);
    findings_add(
        findings, FINDINGS_LESSON,
        "In one write a response takes %s, in two %s. Nagle's algorithm holds the second "
        "packet back until the first is acknowledged; the client acknowledges with its "
        "next request, which needs the whole response, or after about 40 ms (delayed ACK).",
        lab_time(one, sizeof(one), point_median(&points[0], MEASURE_P50)),
        lab_time(two, sizeof(two), point_median(&points[1], MEASURE_P50)));
    findings_add(
        findings, FINDINGS_LESSON,
        "TCP_NODELAY sends both packets at once (%s); writev() or MSG_MORE make one packet "
        "of both, which is better still: fewer packets and wake-ups.",
        lab_time(without, sizeof(without), point_median(&points[2], MEASURE_P50)));
    *outcome = end_lesson(findings, points, WAYS, choose_by(share, 0.01, 0.75));
    return 0;
}

/* ---- The lessons ---- */

#define LESSON(name, predict, a, b, c, next)                                                       \
    int experiment_##name(struct lab *lab, struct document *findings)                              \
    {                                                                                              \
        static const struct lesson lesson = {predict, {a, b, c}, next, teach_##name};              \
                                                                                                   \
        return conduct_lesson(lab, findings, &lesson);                                             \
    }
#include "loadgen/lab/lessons.def"
#undef LESSON
