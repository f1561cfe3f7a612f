#include "loadgen/sweep/sweep.h"

#include "loadgen/base/interrupts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- What is gone over ---- */

static size_t at_least_one(size_t count)
{
    return count > 0 ? count : 1;
}

static size_t count_curves(const struct plan_sweep *over)
{
    return (over->keepalive == PLAN_KEEPALIVE_BOTH ? 2 : 1) *
           at_least_one(over->server_workers.count) * at_least_one(over->server_threads.count);
}

static uint32_t number_at(const struct plan_numbers *numbers, size_t at, uint32_t otherwise)
{
    return numbers->count > 0 ? numbers->value[at] : otherwise;
}

static void name_curve(struct sweep_curve *curve)
{
    size_t used = (size_t)snprintf(curve->name, sizeof(curve->name), "%s",
                                   curve->keepalive ? "kept alive" : "a connection each");

    if (curve->server.threads > 0)
        snprintf(curve->name + used, sizeof(curve->name) - used,
                 ", %" PRIu32 " worker%s x %" PRIu32 " thread%s", curve->server.workers,
                 curve->server.workers == 1 ? "" : "s", curve->server.threads,
                 curve->server.threads == 1 ? "" : "s");
}

static void fill_points(struct sweep *sweep, size_t number)
{
    const struct plan_numbers *connections = &sweep->plan->sweep.connections;
    struct sweep_curve *curve = &sweep->curves[number];

    curve->count = connections->count;
    curve->points = &sweep->points[number * connections->count];
    for (size_t i = 0; i < curve->count; i++) {
        struct sweep_point *point = &curve->points[i];

        point->plan = *sweep->plan;
        point->plan.keepalive = curve->keepalive;
        point->curve = number;
        plan_set_connections(&point->plan, connections->value[i]);
        snprintf(point->name, sizeof(point->name), "%" PRIu32 " connection%s, %s",
                 connections->value[i], connections->value[i] == 1 ? "" : "s", curve->name);
    }
}

/* Keep-alive changes slowest, the server's threads fastest. */
static void fill_curves(struct sweep *sweep, struct server_sizes server)
{
    const struct plan_sweep *over = &sweep->plan->sweep;
    size_t threads = at_least_one(over->server_threads.count);
    size_t workers = at_least_one(over->server_workers.count);

    for (size_t i = 0; i < sweep->curve_count; i++) {
        struct sweep_curve *curve = &sweep->curves[i];
        bool first_half = i < threads * workers;

        curve->keepalive = over->keepalive == PLAN_KEEPALIVE_ON ||
                           (over->keepalive == PLAN_KEEPALIVE_BOTH && first_half);
        curve->server.workers =
            number_at(&over->server_workers, i / threads % workers, server.workers);
        curve->server.threads = number_at(&over->server_threads, i % threads, server.threads);
        name_curve(curve);
        fill_points(sweep, i);
    }
}

struct sweep *sweep_create(const struct plan *plan, struct server_sizes server, char *why,
                           size_t size)
{
    struct sweep *sweep = calloc(1, sizeof(*sweep));

    snprintf(why, size, "out of memory");
    if (sweep == NULL)
        return NULL;
    sweep->plan = plan;
    sweep->cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    sweep->curve_count = count_curves(&plan->sweep);
    sweep->point_count = sweep->curve_count * plan->sweep.connections.count;
    if (sweep->point_count > SWEEP_POINTS_MAX) {
        snprintf(why, size, "that are %zu points to measure; more than %d would never end",
                 sweep->point_count, SWEEP_POINTS_MAX);
    } else {
        sweep->curves = calloc(sweep->curve_count, sizeof(*sweep->curves));
        sweep->points = calloc(sweep->point_count, sizeof(*sweep->points));
        sweep->trials = trials_create(sweep->point_count, plan->rounds);
    }
    if (sweep->curves == NULL || sweep->points == NULL || sweep->trials == NULL) {
        sweep_free(sweep);
        return NULL;
    }
    fill_curves(sweep, server);
    return sweep;
}

void sweep_free(struct sweep *sweep)
{
    if (sweep == NULL)
        return;
    free(sweep->curves);
    free(sweep->points);
    trials_free(sweep->trials);
    free(sweep);
}

/* ---- Carrying it out ---- */

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
