#include "loadgen/sweep/run.h"

#include "common/escape.h"
#include "loadgen/base/interrupts.h"
#include "loadgen/run/run.h"
#include "loadgen/sweep/findings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

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
static enum result_status status_of(const struct execution *execution, enum trials_end end)
{
    if (end == TRIALS_INTERRUPTED)
        return RESULT_INTERRUPTED;
    if (!execution->answered)
        return RESULT_NOTHING;
    if (end != TRIALS_ABORTED && execution->erred)
        return RESULT_ERRORS;
    return end == TRIALS_ABORTED || execution->gated ? RESULT_GATE : RESULT_GOOD;
}

static int run_trials(struct execution *execution, enum result_status *status, char *why,
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
                                                : status_of(execution, sweep->end);
    *status = sweep->status;
    free(points);
    return sweep->end == TRIALS_FAILED ? -1 : 0;
}

/* SIGKILL prevents the restoration of the sizes: print the commands for it. */
static void print_restore_commands(const struct execution *execution)
{
    char by_hand[SERVER_CONTROL_COMMANDS];

    if (execution->sets_sizes && !execution->sweep->plan->progress_lines)
        fprintf(stderr,
                "wsload: changing the server's threads and workers until the end of the sweep; to "
                "restore "
                "them after kill -9, run: %s\n",
                server_control_format_commands(execution->control, by_hand, sizeof(by_hand)));
}

/* Signals end the trials, not the process, so that the sizes are restored. */
static int execute(struct execution *execution, enum result_status *status, char *why, size_t size)
{
    char failure[512];
    int result = -1;

    if (interrupts_begin() != 0) {
        snprintf(why, size, "too few file descriptors");
    } else {
        print_restore_commands(execution);
        result = run_trials(execution, status, why, size);
        if (server_control_end(execution->control, failure, sizeof(failure)) != 0)
            escape_report("wsload", failure);
        execution->control = NULL;
        interrupts_end();
    }
    return result;
}

/* After a failure: frees a sweep that has measured nothing. */
static void keep_what_was_measured(struct execution *execution, const char *why)
{
    struct sweep *sweep = execution->sweep;

    if (sweep_runs_done(sweep) > 0) {
        escape_report("wsload", why);
        snprintf(sweep->failure, sizeof(sweep->failure), "%s", why);
        return;
    }
    sweep_free(sweep);
    execution->sweep = NULL;
}

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
    if (execution.sweep != NULL && execute(&execution, status, why, size) != 0)
        keep_what_was_measured(&execution, why);
    server_control_end(execution.control, ignored, sizeof(ignored));
    if (execution.sweep != NULL)
        sweep_conclude(execution.sweep);
    return execution.sweep;
}
