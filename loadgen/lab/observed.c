#include "loadgen/lab/observed.h"

#include "common/clock.h"
#include "common/segment_reader.h"

#include "loadgen/lab/points.h"
#include "loadgen/run/run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { LEAST_STEP_MS = 100 };

double observed_choose_rate(struct lab *lab, struct private_server *server)
{
    struct point *point;
    uint32_t rounds = lab->rounds;
    int result;

    if (lab->constant_rate > 0)
        return lab->constant_rate;
    point = points_create(lab, 1);
    if (point == NULL)
        return 0;
    point_init(lab, point, server, LAB_SMALL, OBSERVED_CONNECTIONS, "maximum rate");
    lab->rounds = 1;
    result = points_measure(lab, point, 1);
    lab->rounds = rounds;
    return result == 0 ? point_median(point, MEASURE_RATE) / 2 : 0;
}

double observed_rate(const struct series_entry *step)
{
    uint64_t ns = step->end_ns - step->begin_ns;

    return ns > 0 ? (double)step->answered * 1e9 / (double)ns : 0;
}

static uint64_t count_connections(const struct observed *observed)
{
    struct segment_reader reader;
    char why[PRIVATE_SERVER_WHY];
    uint64_t count;

    if (segment_attach(&reader, private_server_name(observed->server), why, sizeof(why)) !=
        SEGMENT_ATTACHED)
        return 0;
    count = segment_reader_sum(&reader, METRIC_connections_open);
    segment_detach(&reader);
    return count;
}

static void end_observed_step(struct observed *observed, const struct tally *all,
                              uint64_t elapsed_ns)
{
    const struct series_entry setting = {.rate = observed->rate};
    size_t number = observed->series->count;

    series_add(observed->series, all, elapsed_ns, &setting);
    if (!observed->records_usage || number == OBSERVED_STEPS || observed->series->count == number)
        return;
    observed->samples[number].usage = usage_of(private_server_pid(observed->server));
    observed->samples[number].client_connections = count_connections(observed);
    lab_truncate_log(observed->server);
}

static void sample_step(void *context, const struct tally *all, uint64_t elapsed_ns)
{
    struct observed *observed = context;

    if (elapsed_ns + LEAST_STEP_MS / 2 * NS_PER_MS >=
        observed->series->before_ns + observed->step_ms * NS_PER_MS)
        end_observed_step(observed, all, elapsed_ns);
    if (observed->event != NULL && !observed->event_done &&
        elapsed_ns >= observed->event_ms * NS_PER_MS) {
        observed->event(observed->context);
        observed->event_done = true;
    }
}

static int run_observed(struct observed *observed, struct point *point, struct result *result)
{
    const struct run_observer observer = {sample_step, observed};
    struct lab *lab = observed->lab;
    uint64_t begun;

    point_init(lab, point, observed->server, LAB_SMALL, OBSERVED_CONNECTIONS, "observed run");
    point->plan.rate = observed->rate;
    point->plan.duration_ms = observed->duration_ms;
    point->plan.warmup_ms = 0;
    if (trial_run(&point->plan, &observer, result, lab->why, sizeof(lab->why)) != TRIAL_DONE)
        return -1;
    lab->interrupted = lab->interrupted || result->interrupted;
    begun = tally_get(&result->tally, TALLY_begun);
    observed->answered = tally_get(&result->tally, TALLY_answered);
    observed->bad = tally_bad(&result->tally);
    observed->late_percent =
        begun > 0 ? 100.0 * (double)tally_get(&result->tally, TALLY_late) / (double)begun : 0;
    result_free(result);
    if (!lab->interrupted && observed->answered == 0)
        return lab_fail(lab, "no responses");
    return lab->interrupted ? -1 : 0;
}

int observed_run(struct observed *observed)
{
    struct lab *lab = observed->lab;
    struct point *point = calloc(1, sizeof(*point));
    struct result *result = malloc(sizeof(*result));
    int status = -1;

    if (observed->step_ms < observed->duration_ms / OBSERVED_STEPS)
        observed->step_ms = observed->duration_ms / OBSERVED_STEPS;
    observed->event_done = false;
    observed->series = series_create();
    observed->samples = calloc(OBSERVED_STEPS, sizeof(*observed->samples));
    if (point == NULL || result == NULL || observed->series == NULL || observed->samples == NULL)
        lab_fail(lab, "out of memory");
    else if (!lab_is_interrupted(lab))
        status = run_observed(observed, point, result);
    free(point);
    free(result);
    if (status != 0)
        observed_free(observed);
    return status;
}

void observed_free(struct observed *observed)
{
    series_free(observed->series);
    free(observed->samples);
    observed->series = NULL;
    observed->samples = NULL;
}

/* ---- Windows ---- */

static double window_rate(const struct series_entry *steps, size_t count)
{
    uint64_t answered = 0, ns = 0;

    for (size_t i = 0; i < count; i++) {
        answered += steps[i].answered;
        ns += steps[i].end_ns - steps[i].begin_ns;
    }
    return ns > 0 ? (double)answered * 1e9 / (double)ns : NAN;
}

static double window_p99(const struct series_entry *steps, size_t count)
{
    double sum = 0, answered = 0;

    for (size_t i = 0; i < count; i++) {
        sum += (double)steps[i].p99_ns * (double)steps[i].answered;
        answered += (double)steps[i].answered;
    }
    return answered > 0 ? sum / answered : NAN;
}

static struct interval over_windows(const struct series *series,
                                    double (*value)(const struct series_entry *steps, size_t count))
{
    size_t count = series->count < WINDOWS_MAX ? series->count : WINDOWS_MAX;
    double values[WINDOWS_MAX];

    for (size_t i = 0; i < count; i++) {
        size_t from = series->count * i / count, to = series->count * (i + 1) / count;

        values[i] = value(&series->entry[from], to - from);
    }
    return statistics_interval(values, count);
}

struct interval windows_rate(const struct series *series)
{
    return over_windows(series, window_rate);
}

struct interval windows_p99(const struct series *series)
{
    return over_windows(series, window_p99);
}
