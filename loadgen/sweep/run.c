#include "loadgen/sweep/run.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/run/trials.h"
#include "loadgen/sweep/findings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct course {
    struct sweep *sweep;
    struct server_control *control; /* NULL: the server is not ours */
    bool sets_sizes;
    bool answered, erred, gated; /* by any trial */
};

static int before_trial(void *context, size_t point, char *why, size_t size)
{
    const struct course *course = context;
    const struct sweep *sweep = course->sweep;

    if (!course->sets_sizes)
        return 0;
    return server_control_set(course->control, sweep->curves[sweep->points[point].curve].server,
                              why, size);
}

static void after_trial(void *context, size_t point, const struct result *result)
{
    struct course *course = context;
    enum result_status status = result_status(result);

    (void)point;
    course->answered = course->answered || tally_get(&result->tally, TALLY_answered) > 0;
    course->erred = course->erred || status == RESULT_ERRORS || status == RESULT_NOTHING;
    course->gated = course->gated || status == RESULT_GATE;
}

/* Of all trials: the first that holds, as for a single run. */
static enum result_status status_of(const struct course *course, enum trials_end end)
{
    if (end == TRIALS_INTERRUPTED)
        return RESULT_INTERRUPTED;
    if (!course->answered)
        return RESULT_NOTHING;
    if (end != TRIALS_ABORTED && course->erred)
        return RESULT_ERRORS;
    return end == TRIALS_ABORTED || course->gated ? RESULT_GATE : RESULT_GOOD;
}

static int run_trials(struct course *course, enum result_status *status, char *why, size_t size)
{
    struct sweep *sweep = course->sweep;
    struct trials_point *points = calloc(sweep->point_count, sizeof(*points));
    const struct trials_setup setup = {
        points, sweep->point_count, sweep->plan->rounds, before_trial, after_trial, course, NULL};
    enum trial_outcome outcome;

    if (points == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    for (size_t i = 0; i < sweep->point_count; i++)
        points[i] = (struct trials_point){&sweep->points[i].plan, sweep->points[i].name};
    sweep->end = trials_run(sweep->trials, &setup, &outcome, why, size);
    sweep->status = status_of(course, sweep->end);
    *status = sweep->end == TRIALS_FAILED ? trial_status(outcome, NULL) : sweep->status;
    free(points);
    return sweep->end == TRIALS_FAILED ? -1 : 0;
}

/* No process can put back anything after SIGKILL: then a person has to know how. */
static void say_what_is_set(const struct course *course)
{
    char by_hand[SERVER_CONTROL_BY_HAND];

    if (course->sets_sizes && !course->sweep->plan->progress_lines)
        fprintf(
            stderr,
            "wsload: the server's threads and workers are changed now, and put back at the end; "
            "after a kill -9 say: %s\n",
            server_control_by_hand(course->control, by_hand, sizeof(by_hand)));
}

/* From here on signals are kept, so that what is set is also put back. */
static int carry_out(struct course *course, enum result_status *status, char *why, size_t size)
{
    char put_back[512];
    int result = -1;

    if (interrupts_begin() != 0) {
        snprintf(why, size, "out of descriptors");
    } else {
        say_what_is_set(course);
        result = run_trials(course, status, why, size);
        if (server_control_end(course->control, put_back, sizeof(put_back)) != 0)
            fprintf(stderr, "wsload: %s\n", put_back);
        course->control = NULL;
        interrupts_end();
    }
    return result;
}

struct sweep *sweep_run(const struct plan *plan, enum result_status *status, char *why, size_t size)
{
    struct course course = {
        .sets_sizes = plan->sweep.server_threads.count + plan->sweep.server_workers.count > 0};
    struct server_sizes server = {0, 0};
    char ignored[512];

    *status = RESULT_WRONG_USE;
    course.control = server_control_begin(plan, why, size);
    if (course.control == NULL && course.sets_sizes)
        return NULL;
    if (course.control != NULL)
        server = server_control_before(course.control);
    course.sweep = sweep_create(plan, server, why, size);
    if (course.sweep != NULL && course.control != NULL)
        snprintf(course.sweep->server, sizeof(course.sweep->server), "%s",
                 server_control_name(course.control));
    if (course.sweep != NULL && carry_out(&course, status, why, size) != 0) {
        sweep_free(course.sweep);
        course.sweep = NULL;
    }
    server_control_end(course.control, ignored, sizeof(ignored));
    if (course.sweep != NULL)
        sweep_conclude(course.sweep);
    return course.sweep;
}
