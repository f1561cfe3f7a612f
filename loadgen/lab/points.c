#include "loadgen/lab/points.h"

#include "common/clock.h"
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

/* As in the notes of a run: from there on a client thread measures itself. */
#define BUSY_CLIENT_PERCENT 85.0

/* Rounds that differ by more, in percent, are worth a word. */
#define WIDE_SPREAD 15

/* A series whose trials say too little is done again with longer ones, of so much at the most. */
enum { LENGTHENED_MOST_MS = 10000 };

/* Connecting takes a part of a millisecond each, which is not to be in what counts. */
enum { WARM_PART = 5, WARM_MOST_MS = 500, WARM_CONNECTIONS_A_MS = 10 };

struct point *points_create(struct lab *lab, size_t count)
{
    return lab_room(lab, count, sizeof(struct point));
}

void point_begin(struct lab *lab, struct point *point, struct private_server *server,
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

void point_ask_bare(struct point *point, const struct bare_server *bare)
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

/* What the server had done and used at a moment. */
struct account {
    uint64_t cpu_ns, hits, misses;
};

/* What a request costs is told by the time between two looks: connecting and closing cost, too. */
struct look {
    uint64_t cpu_ns, answered;
};

struct course {
    struct lab *lab;
    struct point *points;
    struct point *point;          /* of the trial that runs */
    size_t all, done;             /* trials */
    struct segment_reader reader; /* of its server */
    bool attached;
    struct account before;
    struct look first, last; /* behind the warm-up; both 0: there was none */
    uint64_t least, most;    /* connections of a serving thread */
};

static uint64_t cpu_ns_of(const struct point *point)
{
    return usage_cpu_ns(point->bare != NULL ? bare_server_pid(point->bare)
                                            : private_server_pid(point->server));
}

static struct account account_of(const struct course *course)
{
    struct account account = {.cpu_ns = cpu_ns_of(course->point)};

    if (course->attached) {
        account.hits = segment_reader_sum(&course->reader, METRIC_cache_hits);
        account.misses = segment_reader_sum(&course->reader, METRIC_cache_misses);
    }
    return account;
}

static void look_at_threads(struct course *course)
{
    const struct segment *segment = &course->reader.map;

    course->least = UINT64_MAX;
    course->most = 0;
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++) {
        const struct segment_slot *slot = segment_thread_slot(segment, i);
        uint64_t open;

        if (!segment_slot_reserved(slot) ||
            atomic_load_explicit(&slot->worker, memory_order_relaxed) == SEGMENT_NO_WORKER)
            continue;
        open = segment_reader_metric(&course->reader, segment_thread(segment, i)->metrics,
                                     METRIC_connections_open);
        course->least = open < course->least ? open : course->least;
        course->most = open > course->most ? open : course->most;
    }
}

static void look(void *context, const struct tally *all, uint64_t elapsed_ns)
{
    struct course *course = context;

    if (elapsed_ns < course->point->plan.warmup_ms * NS_PER_MS)
        return;
    if (course->attached)
        look_at_threads(course);
    course->last = (struct look){cpu_ns_of(course->point), tally_get(all, TALLY_answered)};
    if (course->first.answered == 0)
        course->first = course->last;
}

/* Of an answer, in us. Trials too short for two looks are taken as a whole. */
static double server_cpu(const struct course *course, const struct result *result, uint64_t cpu_ns)
{
    uint64_t answered = course->last.answered - course->first.answered;
    uint64_t spent_ns = course->last.cpu_ns - course->first.cpu_ns;

    if (answered == 0) {
        answered =
            tally_get(&result->tally, TALLY_answered) + tally_get(&result->warmup, TALLY_answered);
        spent_ns = cpu_ns - course->before.cpu_ns;
    }
    return answered > 0 ? (double)spent_ns / (double)NS_PER_US / (double)answered : NAN;
}

static int attach(struct course *course)
{
    struct lab *lab = course->lab;
    const char *name = private_server_name(course->point->server);

    if (segment_attach(&course->reader, name, lab->why, sizeof(lab->why)) != SEGMENT_ATTACHED)
        return -1;
    course->attached = true;
    return 0;
}

static void detach(struct course *course)
{
    if (course->attached)
        segment_detach(&course->reader);
    course->attached = false;
}

static int make_ready(struct course *course)
{
    struct lab *lab = course->lab;
    struct point *point = course->point;

    if (point->bare != NULL)
        return 0;
    if (point->command[0] != '\0' && lab_command(lab, point->server, point->command) != 0)
        return -1;
    if (point->before != NULL && point->before(lab, point) != 0)
        return -1;
    return attach(course);
}

static int prepare(void *context, size_t index, char *why, size_t size)
{
    struct course *course = context;

    course->point = &course->points[index];
    lab_progress(course->lab, "%zu of %zu, %s", ++course->done, course->all, course->point->label);
    if (make_ready(course) != 0) {
        snprintf(why, size, "%.400s", course->lab->why);
        return -1;
    }
    course->first = course->last = (struct look){0, 0};
    course->least = course->most = 0;
    course->before = account_of(course);
    return 0;
}

/* Logs of many trials would fill the disk; the server appends to what is there. */
static void forget_log(const struct private_server *server)
{
    char path[PRIVATE_SERVER_PATH + 16];

    snprintf(path, sizeof(path), "%s/access.log", private_server_directory(server));
    if (truncate(path, 0) != 0)
        return; /* there is none */
}

static void keep(void *context, size_t index, const struct result *result)
{
    struct course *course = context;
    struct point *point = &course->points[index];
    struct account after = account_of(course);
    uint64_t hits = after.hits - course->before.hits;
    uint64_t looked = hits + after.misses - course->before.misses;
    uint32_t round = point->rounds;

    detach(course);
    if (point->bare == NULL)
        forget_log(point->server);
    if (result->interrupted || round == POINT_ROUNDS)
        return;
    point->value[POINT_CPU][round] = server_cpu(course, result, after.cpu_ns);
    point->value[POINT_HITS][round] = looked > 0 ? (double)hits * 100 / (double)looked : NAN;
    point->value[POINT_LEAST][round] = (double)course->least;
    point->value[POINT_MOST][round] = (double)course->most;
    point->rounds++;
}

/* A trial of some time with fewer answers than a 99th percentile takes says too little. */
static bool says_enough(const struct point *point, uint32_t round)
{
    const double *value = trials_get(point->trials, point->index, round)->value;

    return value[MEASURE_RATE] > 0 && (point->plan.duration_ms == 0 || !isnan(value[MEASURE_P99]));
}

/* The first point with a trial that does not; or NULL. */
static const struct point *find_silent(const struct point *points, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (uint32_t round = 0; round < points[i].rounds; round++)
            if (!says_enough(&points[i], round))
                return &points[i];
    return NULL;
}

/* A series of COUNT points, until the experiment's end; or NULL with WHY. */
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
    struct trials_point *of_trials = lab_room(lab, count, sizeof(*of_trials));
    struct trials *trials = make_trials(lab, points, count, rounds);
    struct course course = {.lab = lab, .points = points, .all = count * rounds};
    const struct run_observer observer = {look, &course};
    const struct trials_setup setup = {.points = of_trials,
                                       .point_count = count,
                                       .rounds = rounds,
                                       .before = prepare,
                                       .after = keep,
                                       .context = &course,
                                       .observer = &observer};
    enum trial_outcome outcome;
    enum trials_end end;

    if (of_trials == NULL || trials == NULL)
        return -1;
    for (size_t i = 0; i < count; i++)
        of_trials[i] = (struct trials_point){&points[i].plan, points[i].label};
    end = trials_run(trials, &setup, &outcome, lab->why, sizeof(lab->why));
    detach(&course);
    lab->interrupted = lab->interrupted || end == TRIALS_INTERRUPTED;
    return end == TRIALS_COMPLETE ? 0 : -1;
}

/* What was measured of a series that says too little goes; the next has more time. False: it had much. */
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
    const struct point *silent;

    for (;;) {
        if (points_measure_often(lab, points, count, lab->rounds) != 0)
            return -1;
        silent = find_silent(points, count);
        if (silent == NULL)
            return 0;
        if (!lengthen(lab, points, count))
            return lab_fail(lab, "%s: too few answers to say anything; try a longer --duration",
                            silent->label);
    }
}

/* ---- What they say ---- */

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

    memcpy(values, point->value[measure], point->rounds * sizeof(*values));
    return statistics_median(values, point->rounds);
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

void points_caution(struct document *findings, const struct point *points, size_t count)
{
    double errors = 0, spread = 0;
    bool bound = false;

    for (size_t i = 0; i < count; i++) {
        errors = fmax(errors, point_median(&points[i], MEASURE_ERRORS));
        spread = fmax(spread, point_spread(&points[i]));
        bound = bound || point_is_client_bound(&points[i]);
    }
    if (errors > 0)
        findings_say(findings, FINDINGS_CAUTION,
                     "Not all was answered well: up to %.3g%% of a point's requests were errors.",
                     errors);
    if (spread > WIDE_SPREAD)
        findings_say(findings, FINDINGS_CAUTION,
                     "The machine was not quiet: the rates of one point lay up to %.0f%% on either "
                     "side of their median.",
                     spread);
    if (bound)
        findings_say(findings, FINDINGS_CAUTION,
                     "Where a rate is marked with *, the client was the limit: its threads used "
                     "%.0f%% of a core or more each. The server may be faster.",
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

char *lab_sure(char *buffer, size_t size, const struct interval *ratio)
{
    if (isnan(ratio->low) || isnan(ratio->high))
        snprintf(buffer, size, "too few rounds to say how sure that is");
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
