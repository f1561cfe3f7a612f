#include "loadgen/lab/points.h"

#include "common/clock.h"
#include "common/segment_reader.h"
#include "common/tables.h"

#include "loadgen/lab/machine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * A trial with too few responses is repeated with a longer duration, up to a maximum; with that some
 * times more, because the machine may stall.
 */
enum { LENGTHENED_MOST_MS = 10000, REPEATED_MOST = 3 };

/* Even, so that the order of the points alternates. */
enum { ADDED_ROUNDS = 2 };

/* Counters of the server. */
struct counters {
    uint64_t cpu_ns, switches;
    uint64_t sums[METRIC_COUNT];
    bool absent[METRIC_COUNT]; /* not published by this server */
};

/*
 * A sample during a trial. CPU time per request is computed between two samples, which excludes the
 * opening of the connections.
 */
struct sample {
    uint64_t cpu_ns, answered;
};

/* Whether a trial has enough responses. */
typedef bool enough_responses(const struct point *point, const struct measures *measures);

struct series_run {
    struct lab *lab;
    struct point *points;
    struct point *point; /* the current one */
    enough_responses *enough;
    bool last_was_too_short;
    uint32_t repeated; /* trials in a row that could not be longer */
    size_t all_trials, done_trials;
    struct segment_reader reader; /* the segment of its server, if attached */
    bool attached;
    struct counters before;
    struct contention_begin contention;
    struct sample first, last; /* none is in the warm-up; 0: none */
    uint64_t open;             /* connections when the threads were sampled; 0: they were not */
    uint64_t least, most;      /* connections of a serving thread then */
    bool sampled;
    uint64_t waiting; /* connections in queues, in the last sample */
    uint64_t memory;  /* the most so far */
};

static pid_t server_of(const struct point *point)
{
    return point->bare != NULL ? bare_server_pid(point->bare) : private_server_pid(point->server);
}

static struct counters read_counters(const struct series_run *run)
{
    struct counters counters = {.cpu_ns = usage_cpu_ns(server_of(run->point)),
                                .switches = usage_switches(server_of(run->point))};

    for (int i = 0; i < METRIC_COUNT && run->attached; i++)
        counters.sums[i] = segment_reader_sum(&run->reader, (enum metric)i);
    if (run->attached)
        segment_reader_find_unpublished(&run->reader, counters.sums, counters.absent);
    return counters;
}

/* The source of a figure: the counters before and after a trial. */
struct trial_counters {
    const struct counters *before, *after;
};

static double counter_growth(const void *trial, enum metric metric)
{
    const struct trial_counters *own = trial;

    return (double)(own->after->sums[metric] - own->before->sums[metric]);
}

/*
 * Keeps the sample with the most connections, of equal ones the latest: in the others, the server
 * has not accepted all, or has closed some. One that moves between threads may count twice: hence
 * the limit.
 */
static void sample_threads(struct series_run *run)
{
    const struct segment *segment = &run->reader.map;
    uint64_t connections = run->point->plan.connections, all = 0, least = UINT64_MAX, most = 0;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++) {
        const struct segment_thread_slot *slot = segment_thread_slot(segment, i);
        uint64_t open;

        if (!segment_thread_reserved(segment, i) ||
            atomic_load_explicit(&slot->worker, memory_order_relaxed) == SEGMENT_NO_WORKER)
            continue;
        open = segment_reader_metric(&run->reader, segment_thread(segment, i),
                                     METRIC_connections_open);
        all += open;
        least = open < least ? open : least;
        most = open > most ? open : most;
    }
    all = all < connections ? all : connections;
    if (all < run->open)
        return;
    run->open = all;
    run->least = least;
    run->most = most;
}

/* The queue of the kernel is read once a second; without it, clients that keep connections tell. */
static void sample_waiting(struct series_run *run)
{
    const struct plan *plan = &run->point->plan;
    uint64_t open = segment_reader_sum(&run->reader, METRIC_connections_open);
    uint64_t unserved = plan->keepalive && plan->connections > open ? plan->connections - open : 0;
    uint64_t queued = segment_reader_sum(&run->reader, METRIC_queue_length) +
                      segment_reader_sum(&run->reader, METRIC_dispatch_pending) +
                      segment_reader_sum(&run->reader, METRIC_accept_queue);

    run->sampled = true;
    run->waiting = queued > unserved ? queued : unserved;
}

static void sample_trial(void *context, const struct tally *all, uint64_t elapsed_ns)
{
    struct series_run *run = context;

    if (run->point->during != NULL)
        run->point->during(run->point, elapsed_ns);
    if (elapsed_ns < run->point->plan.warmup_ms * NS_PER_MS)
        return;
    if (run->attached) {
        sample_threads(run);
        sample_waiting(run);
    }
    if (run->point->weighed) {
        uint64_t memory = lab_memory(run->point->server);

        run->memory = memory > run->memory ? memory : run->memory;
    }
    run->last =
        (struct sample){usage_cpu_ns(server_of(run->point)), tally_get(all, TALLY_answered)};
    if (run->first.answered == 0)
        run->first = run->last;
}

static double all_answered(const struct result *result)
{
    return (double)(tally_get(&result->tally, TALLY_answered) +
                    tally_get(&result->warmup, TALLY_answered));
}

/* CPU time per response, us. For a trial too short for two samples: that of the whole trial. */
static double server_cpu(const struct series_run *run, const struct result *result, uint64_t cpu_ns)
{
    double answered = (double)(run->last.answered - run->first.answered);
    uint64_t spent_ns = run->last.cpu_ns - run->first.cpu_ns;

    if (answered == 0) {
        answered = all_answered(result);
        spent_ns = cpu_ns - run->before.cpu_ns;
    }
    return figure_quotient((double)spent_ns / (double)NS_PER_US, answered);
}

/* Of the whole trial. NAN if threads have exited, which took their switches along. */
static double switches_of(const struct trial_counters *trial, const struct result *result)
{
    return trial->after->switches >= trial->before->switches &&
                   counter_growth(trial, METRIC_threads_started) == 0
               ? figure_quotient((double)(trial->after->switches - trial->before->switches),
                                 all_answered(result))
               : NAN;
}

/* Responses 2xx per second, without the warm-up. NAN: the trial was too short for a rate. */
static double good_rate(const struct result *result)
{
    double good = 0;

    for (uint32_t status = 200; status < 300; status++)
        good += (double)tally_status(&result->tally, status);
    return figure_quotient(good * (double)NS_PER_S, (double)result_rate_ns(result));
}

/* What the server counted, of the whole trial. */
static void record_counters(struct point *point, uint32_t round, const struct trial_counters *trial,
                            const struct result *result)
{
    point->value[POINT_HITS][round] =
        100 * figure_value(FIGURE_cache_hit_ratio, counter_growth, trial);
    point->value[POINT_SWITCHES][round] = switches_of(trial, result);
    point->value[POINT_QUEUE_WAIT][round] =
        figure_value(FIGURE_queue_wait_mean, counter_growth, trial) / (double)NS_PER_US;
    point->value[POINT_DROPPED][round] =
        figure_quotient(100 * counter_growth(trial, METRIC_queue_dropped), all_answered(result));
    point->value[POINT_LOCK_WAITS][round] =
        trial->after->absent[METRIC_lock_waits]
            ? NAN
            : figure_quotient(counter_growth(trial, METRIC_lock_waits), all_answered(result));
}

static void detach(struct series_run *run)
{
    if (run->attached)
        segment_detach(&run->reader);
    run->attached = false;
}

/* Sets up the server for a trial, and attaches to its segment. */
static int make_ready(struct series_run *run)
{
    struct lab *lab = run->lab;
    struct point *point = run->point;

    if (point->command[0] != '\0' && lab_command(lab, point->server, point->command) != 0)
        return -1;
    if (point->before != NULL && point->before(lab, point) != 0)
        return -1;
    if (point->bare != NULL)
        return 0;
    run->attached = segment_attach(&run->reader, private_server_name(point->server), lab->why,
                                   sizeof(lab->why)) == SEGMENT_ATTACHED;
    return run->attached ? 0 : -1;
}

/*
 * Triples the duration of the trials of the current point, if that is within LENGTHENED_MOST_MS.
 * Returns false if the last one is not to be repeated.
 */
static bool lengthen(struct series_run *run)
{
    uint64_t *duration_ms = &run->point->plan.duration_ms;

    if (*duration_ms == 0 || *duration_ms > LENGTHENED_MOST_MS)
        return false;
    if (*duration_ms * 3 > LENGTHENED_MOST_MS)
        return run->repeated++ < REPEATED_MOST;
    *duration_ms *= 3;
    return true;
}

static int prepare_trial(void *context, size_t index, char *why, size_t size)
{
    struct series_run *run = context;

    run->point = &run->points[index];
    if (run->last_was_too_short && !lengthen(run)) {
        snprintf(why, size, "%s: too few responses; use a longer --duration", run->point->label);
        return -1;
    }
    detach(run); /* if the last trial was too short */
    lab_progress(run->lab, "%zu of %zu, %s", run->done_trials + 1, run->all_trials,
                 run->point->label);
    if (make_ready(run) != 0) {
        snprintf(why, size, "%.400s", run->lab->why);
        return -1;
    }
    run->first = run->last = (struct sample){0, 0};
    run->open = run->memory = 0;
    run->sampled = false;
    run->before = read_counters(run);
    run->contention = contention_begin(run->before.cpu_ns);
    return 0;
}

static void record_trial(void *context, size_t index, const struct result *result)
{
    struct series_run *run = context;
    struct point *point = &run->points[index];
    struct counters after = read_counters(run);
    struct trial_counters trial = {&run->before, &after};
    uint32_t round = point->rounds;

    run->done_trials++;
    detach(run);
    if (point->bare == NULL)
        lab_truncate_log(point->server);
    if (result->interrupted || round == POINT_ROUNDS)
        return;
    contention_add(&point->contention, &run->contention, after.cpu_ns);
    point->value[POINT_CPU][round] = server_cpu(run, result, after.cpu_ns);
    record_counters(point, round, &trial, result);
    point->value[POINT_GOOD][round] = good_rate(result);
    point->value[POINT_LEAST][round] = run->open > 0 ? (double)run->least : NAN;
    point->value[POINT_MOST][round] = run->open > 0 ? (double)run->most : NAN;
    point->value[POINT_WAITING][round] = run->sampled ? (double)run->waiting : NAN;
    point->value[POINT_MEMORY][round] = run->memory > 0 ? (double)run->memory : NAN;
    point->rounds++;
}

/* For a rate, a mean, and what decides. */
static bool has_responses(const struct point *point, const struct measures *measures)
{
    return point->may_answer_none ||
           (measures->value[MEASURE_RATE] > 0 && !isnan(measures->value[point->decisive]));
}

/* For a 99th percentile; only checked for trials with a duration. */
static bool has_percentiles(const struct point *point, const struct measures *measures)
{
    return has_responses(point, measures) &&
           (point->plan.duration_ms == 0 || !isnan(measures->value[MEASURE_P99]));
}

static bool is_long_enough(void *context, size_t index, const struct measures *measures)
{
    struct series_run *run = context;
    const struct point *point = &run->points[index];

    run->last_was_too_short =
        !run->enough(point, measures) || (point->complete != NULL && !point->complete(point));
    if (!run->last_was_too_short)
        run->repeated = 0;
    return !run->last_was_too_short;
}

/*
 * Creates the trials of COUNT points, released with the experiment. With --until-decided they have
 * room for more rounds. Returns 0, or -1 with WHY.
 */
static int make_trials(struct lab *lab, struct point *points, size_t count, uint32_t rounds)
{
    uint32_t most = lab->until_ms > 0 ? POINT_ROUNDS : rounds;
    struct trials *trials = lab->series < LAB_SERIES ? trials_create(count, most) : NULL;

    if (trials == NULL)
        return lab_fail(lab, "out of memory");
    lab->trials[lab->series++] = trials;
    for (size_t i = 0; i < count; i++) {
        points[i].trials = trials;
        points[i].index = i;
        points[i].rounds = 0;
        points[i].contention = (struct contention){0};
    }
    return 0;
}

/*
 * Adds ROUNDS rounds to the trials of the points, each with ENOUGH responses. Returns 0, or -1:
 * interrupted, or failed with WHY.
 */
static int add_trial_rounds(struct lab *lab, struct point *points, size_t count, uint32_t rounds,
                            enough_responses *enough)
{
    struct trials_point *of_trials = calloc(count, sizeof(*of_trials));
    struct series_run run = {
        .lab = lab, .points = points, .all_trials = count * rounds, .enough = enough};
    const struct run_observer observer = {sample_trial, &run};
    const struct trials_setup setup = {.points = of_trials,
                                       .point_count = count,
                                       .rounds = rounds,
                                       .before = prepare_trial,
                                       .after = record_trial,
                                       .context = &run,
                                       .trial_observer = &observer,
                                       .enough = is_long_enough};
    enum trial_outcome outcome;
    enum trials_end end;

    if (of_trials == NULL)
        return lab_fail(lab, "out of memory");
    for (size_t i = 0; i < count; i++)
        of_trials[i] = (struct trials_point){&points[i].plan, points[i].label};
    end = trials_run(points[0].trials, &setup, &outcome, lab->why, sizeof(lab->why));
    detach(&run);
    free(of_trials);
    lab->interrupted = lab->interrupted || end == TRIALS_INTERRUPTED;
    return end == TRIALS_COMPLETE ? 0 : -1;
}

static int measure_points(struct lab *lab, struct point *points, size_t count, uint32_t rounds,
                          enough_responses *enough)
{
    return make_trials(lab, points, count, rounds) == 0
               ? add_trial_rounds(lab, points, count, rounds, enough)
               : -1;
}

int points_measure(struct lab *lab, struct point *points, size_t count)
{
    return measure_points(lab, points, count, lab->rounds, has_percentiles);
}

int points_measure_often(struct lab *lab, struct point *points, size_t count, uint32_t rounds)
{
    return measure_points(lab, points, count, rounds, has_responses);
}

int points_measure_until(struct lab *lab, struct point *points, size_t count,
                         bool (*decided)(const void *context), const void *context)
{
    bool begins = lab->until_ns == 0;

    if (lab->until_ms > 0 && begins)
        lab->until_ns = clock_monotonic_ns() + lab->until_ms * NS_PER_MS;
    while (lab->until_ms > 0 && !decided(context) &&
           (begins || clock_monotonic_ns() < lab->until_ns) &&
           points[0].rounds + ADDED_ROUNDS <= POINT_ROUNDS) {
        if (add_trial_rounds(lab, points, count, ADDED_ROUNDS, has_responses) != 0)
            return -1;
        begins = false;
    }
    return 0;
}

struct comparisons {
    const struct comparison *of;
    size_t count;
};

static bool comparisons_are_decided(const void *comparisons)
{
    const struct comparisons *all = comparisons;

    for (size_t i = 0; i < all->count; i++)
        if (comparison_verdict(&all->of[i]) == FINDINGS_UNDECIDED)
            return false;
    return true;
}

int points_measure_compared(struct lab *lab, struct point *points, size_t count,
                            const struct comparison *compared, size_t compared_count)
{
    return points_measure_often(lab, points, count, lab->rounds) == 0 &&
                   points_measure_until(lab, points, count, comparisons_are_decided,
                                        &(struct comparisons){compared, compared_count}) == 0
               ? 0
               : -1;
}
