#include "loadgen/run/repeat.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct course {
    struct rounds *rounds;
    struct result *sum;
    bool out_of_memory;
};

static struct series_entry total_of(const struct result *result, uint64_t begin_ns)
{
    struct series_entry total = result_total(result);

    total.begin_ns = begin_ns;
    total.end_ns = begin_ns + result->elapsed_ns;
    return total;
}

/* A round that was ended early is counted, but is none to compare with others. */
static void after_round(void *context, size_t point, const struct result *result)
{
    struct course *course = context;
    struct rounds *rounds = course->rounds;

    (void)point;
    if (!result->interrupted && result->aborted_by == NULL)
        rounds->total[rounds->done++] = total_of(result, course->sum->elapsed_ns);
    if (!result_add_round(course->sum, result))
        course->out_of_memory = true;
}

/* Medians of what has no sum. */
static void take_medians(struct result *result)
{
    const struct rounds *rounds = result->rounds;

    result->server.cores = rounds_interval(rounds, MEASURE_SERVER_CORES).median;
    result->machine_busy = rounds_interval(rounds, MEASURE_MACHINE_BUSY).median / 100;
}

enum trial_outcome repeat_run(const struct plan *plan, struct result *result, char *why,
                              size_t size)
{
    const struct trials_point point = {plan, NULL};
    struct course course = {rounds_create(plan->rounds), result, false};
    const struct trials_setup setup = {&point, 1, plan->rounds, NULL, after_round, &course, NULL};
    enum trial_outcome outcome = TRIAL_WRONG;

    memset(result, 0, sizeof(*result));
    result->rounds = course.rounds;
    snprintf(why, size, "out of memory");
    if (course.rounds != NULL &&
        trials_run(course.rounds->trials, &setup, &outcome, why, size) == TRIALS_INTERRUPTED)
        result->interrupted = true; /* perhaps between two rounds */
    if (outcome == TRIAL_DONE && (course.out_of_memory || result->url == NULL))
        outcome = TRIAL_WRONG;
    if (outcome == TRIAL_DONE)
        take_medians(result);
    else
        result_free(result);
    return outcome;
}
