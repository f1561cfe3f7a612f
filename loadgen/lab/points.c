#include "loadgen/lab/points.h"

#include "common/clock.h"
#include "common/figures.h"
#include "common/segment_reader.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/lab/usage.h"
#include "loadgen/stats/statistics.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/*
 * The client counts as the limit if its threads use at least this much CPU time, as in the notes of
 * a run.
 */
#define BUSY_CLIENT_PERCENT 85.0

/* Spreads of the rounds above this get a note, in percent. */
#define WIDE_SPREAD 15

/* The maximum duration of trials that are repeated because they had too few responses. */
enum { LENGTHENED_MOST_MS = 10000 };

/* The warm-up: 1/WARM_PART of the trial up to WARM_MOST_MS, plus time to open the connections. */
enum { WARM_PART = 5, WARM_MOST_MS = 500, WARM_CONNECTIONS_A_MS = 10 };

struct point *points_create(struct lab *lab, size_t count)
{
    return lab_allocate(lab, count, sizeof(struct point));
}

void point_init(struct lab *lab, struct point *point, struct private_server *server,
                const char *path, uint32_t connections, const char *label, ...)
{
    uint64_t warm_ms = lab->trial_ms / WARM_PART;
    va_list arguments;

    point->server = server;
    va_start(arguments, label);
    vsnprintf(point->label, sizeof(point->label), label, arguments);
    va_end(arguments);
    snprintf(point->url, sizeof(point->url), "http://127.0.0.1:%u%s", private_server_port(server),
             path);
    plan_begin(&point->plan, lab->cores);
    point->plan.engine = PLAN_ENGINE_RAW;
    point->plan.urls[point->plan.url_count++] = point->url;
    point->plan.method = "GET";
    point->plan.duration_ms = lab->trial_ms;
    point->plan.warmup_ms =
        (warm_ms < WARM_MOST_MS ? warm_ms : WARM_MOST_MS) + connections / WARM_CONNECTIONS_A_MS;
    point->plan.format = PLAN_FORMAT_TEXT;
    point->plan.quiet = true;
    plan_set_connections(&point->plan, connections);
}

void point_use_bare(struct point *point, const struct bare_server *bare)
{
    const char *path = strchr(point->url + strlen("http://"), '/');
    char url[POINT_URL];

    snprintf(url, sizeof(url), "http://127.0.0.1:%u%.*s", bare_server_port(bare), POINT_URL / 2,
             path);
    memcpy(point->url, url, sizeof(url));
    point->plan.urls[0] = point->url;
    point->bare = bare;
}

/* ---- The series ---- */

/* Counters of the server. */
struct counters {
    uint64_t cpu_ns;
    uint64_t sums[METRIC_COUNT];
};

/*
 * A sample during a trial. CPU time per request is computed between two samples, which excludes the
 * opening of the connections.
 */
struct sample {
    uint64_t cpu_ns, answered;
};

struct series_run {
    struct lab *lab;
    struct point *points;
    struct point *point;          /* of the current trial */
    size_t all, done;             /* trials */
    struct segment_reader reader; /* of its server */
    bool attached;
    struct counters before;
    struct sample first, last; /* after the warm-up; 0: none */
    bool sampled_threads;      /* least and most are valid */
    uint64_t least, most;      /* connections of a serving thread */
};

static uint64_t cpu_ns_of(const struct point *point)
{
    return usage_cpu_ns(point->bare != NULL ? bare_server_pid(point->bare)
                                            : private_server_pid(point->server));
}

static struct counters read_counters(const struct series_run *run)
{
    struct counters counters = {.cpu_ns = cpu_ns_of(run->point)};

    for (int i = 0; i < METRIC_COUNT && run->attached; i++)
        counters.sums[i] = segment_reader_sum(&run->reader, (enum metric)i);
    return counters;
}

/* The source of a figure: the counters before and after a trial. */
struct trial_counters {
    const struct counters *before, *after;
};

static double growth_of(const void *trial, enum metric metric)
{
    const struct trial_counters *own = trial;

    return (double)(own->after->sums[metric] - own->before->sums[metric]);
}

static void sample_threads(struct series_run *run)
{
    const struct segment *segment = &run->reader.map;

    run->sampled_threads = true;
    run->least = UINT64_MAX;
    run->most = 0;
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++) {
        const struct segment_thread_slot *slot = segment_thread_slot(segment, i);
        uint64_t open;

        if (!segment_thread_reserved(segment, i) ||
            atomic_load_explicit(&slot->worker, memory_order_relaxed) == SEGMENT_NO_WORKER)
            continue;
        open = segment_reader_metric(&run->reader, segment_thread(segment, i)->metrics,
                                     METRIC_connections_open);
        run->least = open < run->least ? open : run->least;
        run->most = open > run->most ? open : run->most;
    }
}

static void take_sample(void *context, const struct tally *all, uint64_t elapsed_ns)
{
    struct series_run *run = context;

    if (elapsed_ns < run->point->plan.warmup_ms * NS_PER_MS)
        return;
    if (run->attached)
        sample_threads(run);
    run->last = (struct sample){cpu_ns_of(run->point), tally_get(all, TALLY_answered)};
    if (run->first.answered == 0)
        run->first = run->last;
}

/* CPU time per response, us. For a trial too short for two samples: that of the whole trial. */
static double server_cpu(const struct series_run *run, const struct result *result, uint64_t cpu_ns)
{
    uint64_t answered = run->last.answered - run->first.answered;
    uint64_t spent_ns = run->last.cpu_ns - run->first.cpu_ns;

    if (answered == 0) {
        answered =
            tally_get(&result->tally, TALLY_answered) + tally_get(&result->warmup, TALLY_answered);
        spent_ns = cpu_ns - run->before.cpu_ns;
    }
    return answered > 0 ? (double)spent_ns / (double)NS_PER_US / (double)answered : NAN;
}

static int attach(struct series_run *run)
{
    struct lab *lab = run->lab;
    const char *name = private_server_name(run->point->server);

    if (segment_attach(&run->reader, name, lab->why, sizeof(lab->why)) != SEGMENT_ATTACHED)
        return -1;
    run->attached = true;
    return 0;
}

static void detach(struct series_run *run)
{
    if (run->attached)
        segment_detach(&run->reader);
    run->attached = false;
}

static int make_ready(struct series_run *run)
{
    struct lab *lab = run->lab;
    struct point *point = run->point;

    if (point->bare != NULL)
        return 0;
    if (point->command[0] != '\0' && lab_command(lab, point->server, point->command) != 0)
        return -1;
    if (point->before != NULL && point->before(lab, point) != 0)
        return -1;
    return attach(run);
}

static int prepare(void *context, size_t index, char *why, size_t size)
{
    struct series_run *run = context;

    run->point = &run->points[index];
    lab_progress(run->lab, "%zu of %zu, %s", ++run->done, run->all, run->point->label);
    if (make_ready(run) != 0) {
        snprintf(why, size, "%.400s", run->lab->why);
        return -1;
    }
    run->first = run->last = (struct sample){0, 0};
    run->sampled_threads = false;
    run->before = read_counters(run);
    return 0;
}

/*
 * Otherwise the logs of many trials could fill the disk. The server opens the log with O_APPEND, so
 * truncation is safe.
 */
static void truncate_log(const struct private_server *server)
{
    char path[PRIVATE_SERVER_PATH + 16];

    snprintf(path, sizeof(path), "%s/access.log", private_server_directory(server));
    if (truncate(path, 0) != 0)
        return; /* the server has no access log */
}

static void record_trial(void *context, size_t index, const struct result *result)
{
    struct series_run *run = context;
    struct point *point = &run->points[index];
    struct counters after = read_counters(run);
    struct trial_counters trial = {&run->before, &after};
    uint32_t round = point->rounds;

    detach(run);
    if (point->bare == NULL)
        truncate_log(point->server);
    if (result->interrupted || round == POINT_ROUNDS)
        return;
    point->value[POINT_CPU][round] = server_cpu(run, result, after.cpu_ns);
    point->value[POINT_HITS][round] = 100 * figure_value(FIGURE_cache_hit_ratio, growth_of, &trial);
    point->value[POINT_LEAST][round] = run->sampled_threads ? (double)run->least : NAN;
    point->value[POINT_MOST][round] = run->sampled_threads ? (double)run->most : NAN;
    point->rounds++;
}

/*
 * Whether a trial has enough responses for a 99th percentile; only checked for trials with a
 * duration.
 */
static bool has_enough_responses(const struct point *point, uint32_t round)
{
    const double *value = trials_get(point->trials, point->index, round)->value;

    return value[MEASURE_RATE] > 0 && (point->plan.duration_ms == 0 || !isnan(value[MEASURE_P99]));
}

/* The first point with a trial that has too few responses, or NULL. */
static const struct point *find_too_short(const struct point *points, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (uint32_t round = 0; round < points[i].rounds; round++)
            if (!has_enough_responses(&points[i], round))
                return &points[i];
    return NULL;
}

/* Creates the trials of COUNT points, released with the experiment; NULL with WHY on failure. */
static struct trials *make_trials(struct lab *lab, struct point *points, size_t count,
                                  uint32_t rounds)
{
    struct trials *trials = lab->series < LAB_SERIES ? trials_create(count, rounds) : NULL;

    if (trials == NULL) {
        lab_fail(lab, "out of memory");
        return NULL;
    }
    lab->trials[lab->series++] = trials;
    for (size_t i = 0; i < count; i++) {
        points[i].trials = trials;
        points[i].index = i;
        points[i].rounds = 0;
    }
    return trials;
}

int points_measure_often(struct lab *lab, struct point *points, size_t count, uint32_t rounds)
{
    struct trials_point *of_trials = lab_allocate(lab, count, sizeof(*of_trials));
    struct trials *trials = make_trials(lab, points, count, rounds);
    struct series_run run = {.lab = lab, .points = points, .all = count * rounds};
    const struct run_observer observer = {take_sample, &run};
    const struct trials_setup setup = {.points = of_trials,
                                       .point_count = count,
                                       .rounds = rounds,
                                       .before = prepare,
                                       .after = record_trial,
                                       .context = &run,
                                       .observer = &observer};
    enum trial_outcome outcome;
    enum trials_end end;

    if (of_trials == NULL || trials == NULL)
        return -1;
    for (size_t i = 0; i < count; i++)
        of_trials[i] = (struct trials_point){&points[i].plan, points[i].label};
    end = trials_run(trials, &setup, &outcome, lab->why, sizeof(lab->why));
    detach(&run);
    lab->interrupted = lab->interrupted || end == TRIALS_INTERRUPTED;
    return end == TRIALS_COMPLETE ? 0 : -1;
}

/*
 * Discards the last series and triples the duration of the trials. Returns false if that exceeds
 * LENGTHENED_MOST_MS.
 */
static bool lengthen(struct lab *lab, struct point *points, size_t count)
{
    uint64_t longest = 0;

    for (size_t i = 0; i < count; i++)
        if (points[i].plan.duration_ms > longest)
            longest = points[i].plan.duration_ms;
    if (longest == 0 || longest * 3 > LENGTHENED_MOST_MS)
        return false;
    trials_free(lab->trials[--lab->series]);
    for (size_t i = 0; i < count; i++)
        points[i].plan.duration_ms *= 3;
    return true;
}

int points_measure(struct lab *lab, struct point *points, size_t count)
{
    const struct point *too_short;

    for (;;) {
        if (points_measure_often(lab, points, count, lab->rounds) != 0)
            return -1;
        too_short = find_too_short(points, count);
        if (too_short == NULL)
            return 0;
        if (!lengthen(lab, points, count))
            return lab_fail(lab, "%s: too few responses; use a longer --duration",
                            too_short->label);
    }
}

/* ---- Results ---- */

struct interval point_interval(const struct point *point, enum measure measure)
{
    return trials_interval(point->trials, point->index, measure);
}

double point_median(const struct point *point, enum measure measure)
{
    return point_interval(point, measure).median;
}

double point_own_median(const struct point *point, enum point_measure measure)
{
    double values[POINT_ROUNDS];
    size_t count = 0;

    for (uint32_t i = 0; i < point->rounds; i++)
        if (!isnan(point->value[measure][i]))
            values[count++] = point->value[measure][i];
    return statistics_median(values, count);
}

struct interval point_cpu_ratio(const struct point *over, const struct point *under)
{
    double ratios[POINT_ROUNDS];

    for (uint32_t i = 0; i < over->rounds; i++)
        ratios[i] = over->value[POINT_CPU][i] / under->value[POINT_CPU][i];
    return statistics_interval(ratios, over->rounds);
}

static double rate_of(const struct point *point, uint32_t round)
{
    return trials_get(point->trials, point->index, round)->value[MEASURE_RATE];
}

struct interval point_rate_ratio(const struct point *over, const struct point *under)
{
    double ratios[POINT_ROUNDS];

    for (uint32_t i = 0; i < over->rounds; i++)
        ratios[i] = rate_of(over, i) / rate_of(under, i);
    return statistics_interval(ratios, over->rounds);
}

void point_record(struct lab *lab, const struct point *point, const char *name, ...)
{
    struct published_own *own = &lab->own;
    va_list arguments;

    if (own->count == PUBLISHED_OWN_MAX)
        return;
    va_start(arguments, name);
    vsnprintf(own->of[own->count].point, PUBLISHED_POINT, name, arguments);
    va_end(arguments);
    for (size_t i = 0; i < MEASURE_COUNT; i++)
        own->of[own->count].medians.value[i] = point_median(point, (enum measure)i);
    own->count++;
}

double point_spread(const struct point *point)
{
    double least = INFINITY, most = 0;

    for (uint32_t i = 0; i < trials_done(point->trials, point->index); i++) {
        least = fmin(least, rate_of(point, i));
        most = fmax(most, rate_of(point, i));
    }
    return most > 0 ? (most - least) / 2 / point_median(point, MEASURE_RATE) * 100 : 0;
}

bool point_is_client_bound(const struct point *point)
{
    return point_median(point, MEASURE_CLIENT_SHARE) >= BUSY_CLIENT_PERCENT;
}

void points_add_cautions(struct document *findings, const struct point *points, size_t count)
{
    double errors = 0, spread = 0;
    bool bound = false;

    for (size_t i = 0; i < count; i++) {
        errors = fmax(errors, point_median(&points[i], MEASURE_ERRORS));
        spread = fmax(spread, point_spread(&points[i]));
        bound = bound || point_is_client_bound(&points[i]);
    }
    if (errors > 0)
        findings_add(findings, FINDINGS_CAUTION,
                     "There were errors: up to %.3g%% of the requests of a point.", errors);
    if (spread > WIDE_SPREAD)
        findings_add(findings, FINDINGS_CAUTION,
                     "Noise: the rates of a point differ by up to +-%.0f%% from their median.",
                     spread);
    if (bound)
        findings_add(
            findings, FINDINGS_CAUTION,
            "Rates marked with *: the client was the limit (its threads used %.0f%% of a core "
            "or more), so the server may be faster.",
            BUSY_CLIENT_PERCENT);
}

char *lab_number(char *buffer, size_t size, double number)
{
    if (number < 100 && number > 0)
        snprintf(buffer, size, "%.3g", number);
    else
        format_integer(buffer, size, (uint64_t)(number + 0.5));
    return buffer;
}

char *lab_time(char *buffer, size_t size, double us)
{
    return units_format_ns(buffer, size, us * (double)NS_PER_US);
}

char *lab_confidence(char *buffer, size_t size, const struct interval *ratio)
{
    if (isnan(ratio->low) || isnan(ratio->high))
        snprintf(buffer, size, "too few rounds for a confidence interval");
    else
        snprintf(buffer, size, "%+.1f%% to %+.1f%% with 95%% confidence", (ratio->low - 1) * 100,
                 (ratio->high - 1) * 100);
    return buffer;
}

void point_cell_rate(struct document *findings, const struct point *point)
{
    char text[UNITS_TEXT];

    document_cell(findings, "%s%s",
                  lab_number(text, sizeof(text), point_median(point, MEASURE_RATE)),
                  point_is_client_bound(point) ? " *" : "");
}

void point_cell(struct document *findings, const struct point *point, enum measure measure)
{
    char text[MEASURE_TEXT];

    document_cell(findings, "%s", measure_format(text, measure, point_median(point, measure)));
}

void point_cell_cpu(struct document *findings, const struct point *point)
{
    char text[UNITS_TEXT];

    document_cell(findings, "%s", lab_time(text, sizeof(text), point_own_median(point, POINT_CPU)));
}

/* ---- Plots by round ---- */

void points_plot_rounds(struct document *findings, const char *title, bool logarithmic)
{
    document_plot(findings, title, (struct plot_axis){false, axis_count},
                  (struct plot_axis){logarithmic, axis_time});
}

void point_line(struct document *findings, const struct point *point, const char *name,
                enum measure measure)
{
    document_line(findings, name, false);
    for (uint32_t round = 0; round < point->rounds; round++)
        document_point(findings, round + 1,
                       trials_get(point->trials, point->index, round)->value[measure] *
                           (double)NS_PER_US);
}

void point_line_cpu(struct document *findings, const struct point *point, const char *name)
{
    document_line(findings, name, false);
    for (uint32_t round = 0; round < point->rounds; round++)
        document_point(findings, round + 1, point->value[POINT_CPU][round] * (double)NS_PER_US);
}
