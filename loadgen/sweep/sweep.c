#include "loadgen/sweep/sweep.h"

#include "common/clock.h"
#include "common/escape.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/run/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static size_t at_least_one(size_t count)
{
    return count > 0 ? count : 1;
}

static uint32_t number_or(const struct plan_numbers *numbers, size_t at, uint32_t otherwise)
{
    return numbers->count > 0 ? numbers->value[at] : otherwise;
}

static void name_curve(struct sweep_curve *curve)
{
    size_t used = (size_t)snprintf(curve->name, sizeof(curve->name), "%s",
                                   curve->keepalive ? "keep-alive" : "connection per request");

    if (curve->server.threads_per_worker > 0)
        snprintf(curve->name + used, sizeof(curve->name) - used,
                 ", %" PRIu32 " worker%s x %" PRIu32 " thread%s", curve->server.workers,
                 curve->server.workers == 1 ? "" : "s", curve->server.threads_per_worker,
                 curve->server.threads_per_worker == 1 ? "" : "s");
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

/* Order of the curves: keep-alive is the outermost loop, the server's threads the innermost. */
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
            number_or(&over->server_workers, i / threads % workers, server.workers);
        curve->server.threads_per_worker =
            number_or(&over->server_threads, i % threads, server.threads_per_worker);
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
    sweep->began_ns = clock_wall_ns();
    sweep->machine_cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    sweep->curve_count = (plan->sweep.keepalive == PLAN_KEEPALIVE_BOTH ? 2 : 1) *
                         at_least_one(plan->sweep.server_workers.count) *
                         at_least_one(plan->sweep.server_threads.count);
    sweep->point_count = sweep->curve_count * plan->sweep.connections.count;
    if (sweep->point_count > SWEEP_POINTS_MAX) {
        snprintf(why, size, "too many points: %zu (at most %d)", sweep->point_count,
                 SWEEP_POINTS_MAX);
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

size_t sweep_runs_done(const struct sweep *sweep)
{
    size_t done = 0;

    for (size_t i = 0; i < sweep->point_count; i++)
        done += trials_done(sweep->trials, i);
    return done;
}

/* ---- The runs ---- */

struct execution {
    struct sweep *sweep;
    struct server_control *control; /* NULL: another server */
    bool sets_sizes;
    bool answered, erred, gated; /* true for at least one trial */
};

static int before_trial(void *context, size_t point, char *why, size_t size)
{
    const struct execution *execution = context;
    const struct sweep *sweep = execution->sweep;

    if (!execution->sets_sizes)
        return 0;
    return server_control_set(execution->control, sweep->curves[sweep->points[point].curve].server,
                              why, size);
}

static void after_trial(void *context, size_t point, const struct result *result)
{
    struct execution *execution = context;
    enum result_status status = result_status(result);

    (void)point;
    execution->answered = execution->answered || tally_get(&result->tally, TALLY_answered) > 0;
    execution->erred = execution->erred || status == RESULT_ERRORS || status == RESULT_NOTHING;
    execution->gated = execution->gated || status == RESULT_GATE;
}

/* The exit status over all trials, with the precedence of result_status(). */
static enum result_status sweep_status(const struct execution *execution, enum trials_end end)
{
    if (end == TRIALS_INTERRUPTED)
        return RESULT_INTERRUPTED;
    if (!execution->answered)
        return RESULT_NOTHING;
    if (end != TRIALS_ABORTED && execution->erred)
        return RESULT_ERRORS;
    return end == TRIALS_ABORTED || execution->gated ? RESULT_GATE : RESULT_GOOD;
}

static int run_points(struct execution *execution, enum result_status *status, char *why,
                      size_t size)
{
    struct sweep *sweep = execution->sweep;
    struct trials_point *points = calloc(sweep->point_count, sizeof(*points));
    const struct trials_setup setup = {.points = points,
                                       .point_count = sweep->point_count,
                                       .rounds = sweep->plan->rounds,
                                       .before = before_trial,
                                       .after = after_trial,
                                       .context = execution};
    enum trial_outcome outcome;

    if (points == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    for (size_t i = 0; i < sweep->point_count; i++)
        points[i] = (struct trials_point){&sweep->points[i].plan, sweep->points[i].name};
    sweep->end = trials_run(sweep->trials, &setup, &outcome, why, size);
    sweep->status = sweep->end == TRIALS_FAILED ? trial_status(outcome, NULL)
                                                : sweep_status(execution, sweep->end);
    *status = sweep->status;
    free(points);
    return sweep->end == TRIALS_FAILED ? -1 : 0;
}

/* Signals end the trials, not the process, so that the sizes are restored. */
static int execute_sweep(struct execution *execution, enum result_status *status, char *why,
                         size_t size)
{
    char failure[512], by_hand[SERVER_CONTROL_COMMANDS];
    int result;

    if (interrupts_begin() != 0) {
        snprintf(why, size, "too few file descriptors");
        return -1;
    }
    if (execution->sets_sizes && !execution->sweep->plan->progress_lines)
        fprintf(stderr,
                "wsload: changing the server's threads and workers until the end of the sweep; to "
                "restore them after kill -9, run: %s\n",
                server_control_format_commands(execution->control, by_hand, sizeof(by_hand)));
    result = run_points(execution, status, why, size);
    if (server_control_end(execution->control, failure, sizeof(failure)) != 0)
        escape_report("wsload", failure);
    execution->control = NULL;
    interrupts_end();
    return result;
}

/* After a failure, keeps a sweep that has measured something. */
struct sweep *sweep_run(const struct plan *plan, enum result_status *status, char *why, size_t size)
{
    struct execution execution = {
        .sets_sizes = plan->sweep.server_threads.count + plan->sweep.server_workers.count > 0};
    struct server_sizes server = {0, 0};
    char ignored[512];

    *status = RESULT_USAGE_ERROR;
    execution.control = server_control_begin(plan, why, size);
    if (execution.control == NULL && execution.sets_sizes)
        return NULL;
    if (execution.control != NULL)
        server = server_control_original(execution.control);
    execution.sweep = sweep_create(plan, server, why, size);
    if (execution.sweep != NULL && execution.control != NULL)
        snprintf(execution.sweep->server, sizeof(execution.sweep->server), "%s",
                 server_control_name(execution.control));
    if (execution.sweep != NULL && execute_sweep(&execution, status, why, size) != 0) {
        if (sweep_runs_done(execution.sweep) > 0) {
            escape_report("wsload", why);
            snprintf(execution.sweep->failure, sizeof(execution.sweep->failure), "%s", why);
        } else {
            sweep_free(execution.sweep);
            execution.sweep = NULL;
        }
    }
    server_control_end(execution.control, ignored, sizeof(ignored));
    if (execution.sweep != NULL)
        sweep_conclude(execution.sweep);
    return execution.sweep;
}
