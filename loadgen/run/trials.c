#include "loadgen/run/internal.h"

#include "common/clock.h"
#include "common/units.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/base/resources.h"
#include "loadgen/engine/curl_handle.h"
#include "loadgen/plan/request_plan.h"

#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- One trial ---- */

enum { RETRY_MS = 100 }; /* of --wait-for-server */

/* Tries once to connect as the requests of the plan do. Returns false with WHY. */
static bool try_to_connect(const struct request_plan *request_plan, char *why, size_t size)
{
    const struct request *request = &request_plan->requests[0];
    char error_text[CURL_ERROR_SIZE] = "";
    struct curl_ending ending = {
        .easy = curl_easy_init(), .code = CURLE_OUT_OF_MEMORY, .error_text = error_text};

    snprintf(why, size, "out of memory");
    if (ending.easy != NULL &&
        curl_handle_set_connection(request_plan->plan, request_plan, ending.easy)) {
        curl_easy_setopt(ending.easy, CURLOPT_ERRORBUFFER, error_text);
        curl_easy_setopt(ending.easy, CURLOPT_CONNECT_ONLY, 1L);
        curl_handle_set_request(ending.easy, request, NULL);
        ending.code = curl_easy_perform(ending.easy);
        snprintf(why, size, "%s", curl_handle_error_text(&ending));
    }
    curl_easy_cleanup(ending.easy);
    return ending.code == CURLE_OK;
}

/* Returns false if a signal arrives in a series, which then ends. */
static bool pause_before_retry(void)
{
    struct pollfd signals = {.fd = interrupts_fd(), .events = POLLIN};

    return poll(&signals, 1, RETRY_MS) == 0;
}

/*
 * Resolves the hosts and, with --wait-for-server, waits until a connection can be established.
 * Returns false with WHY.
 */
static bool reach_server(struct request_plan *request_plan, char *why, size_t size)
{
    uint64_t wait_ms = request_plan->plan->wait_ms;
    uint64_t end_ns = clock_monotonic_ns() + wait_ms * NS_PER_MS;
    char reason[CURL_ERROR_SIZE], waited[UNITS_TEXT];

    if (wait_ms == 0)
        return request_plan_resolve(request_plan, why, size) == 0;
    while (request_plan_resolve(request_plan, reason, sizeof(reason)) != 0 ||
           !try_to_connect(request_plan, reason, sizeof(reason)))
        if (clock_monotonic_ns() >= end_ns || !pause_before_retry()) {
            snprintf(why, size, "%.200s: no server within %s (--wait-for-server): %.200s",
                     request_plan->requests[0].target.text,
                     units_format_ns(waited, sizeof(waited), (double)(wait_ms * NS_PER_MS)),
                     reason);
            return false;
        }
    return true;
}

/* An unknown host counts as a run without responses, not as a usage error. */
enum trial_outcome trial_run(const struct plan *plan, const struct run_observer *observer,
                             struct result *result, char *why, size_t size)
{
    enum trial_outcome outcome = TRIAL_INVALID;
    struct request_plan request_plan;

    if (request_plan_prepare(&request_plan, plan, why, size) == 0 &&
        resources_reserve_descriptors(plan_sockets(plan, plan->connections) +
                                          plan_hostile_clients(plan),
                                      plan->threads, why, size) == 0) {
        if (!reach_server(&request_plan, why, size))
            outcome = TRIAL_NO_SERVER;
        else if (run_plan(plan, &request_plan, observer, result, why, size) == 0)
            outcome = TRIAL_DONE;
    }
    request_plan_free(&request_plan);
    return outcome;
}

enum trial_outcome hostile_run(const struct plan *plan, struct result *result, char *why,
                               size_t size)
{
    struct measures *alone = malloc(sizeof(*alone));
    struct plan without = *plan;
    enum trial_outcome outcome;

    memset(without.hostile, 0, sizeof(without.hostile));
    without.label = "without hostile clients";
    snprintf(why, size, "out of memory");
    outcome = alone == NULL ? TRIAL_INVALID : trial_run(&without, NULL, result, why, size);
    if (outcome != TRIAL_DONE || result->interrupted || result->aborted_by != NULL ||
        result->unreachable) {
        free(alone);
        return outcome;
    }
    result_measure(result, alone);
    result_free(result);
    outcome = trial_run(plan, NULL, result, why, size);
    if (outcome == TRIAL_DONE)
        result->alone = alone;
    else
        free(alone);
    return outcome;
}

enum result_status trial_status(enum trial_outcome outcome, const struct result *result)
{
    switch (outcome) {
    case TRIAL_DONE:
        return result_status(result);
    case TRIAL_NO_SERVER:
        return RESULT_NOTHING;
    case TRIAL_INVALID:
        break;
    }
    return RESULT_USAGE_ERROR;
}

/* ---- A series of trials ---- */

enum { LABEL = 96 };

struct trials_state {
    struct trials *trials;
    const struct trials_setup *setup;
    size_t trials_done;
    bool last_was_too_short;
    uint64_t begun_ns;
    struct result *result;
    enum trial_outcome outcome;
    char *why;
    size_t size;
};

/* "7/50, 100 connections, 1m 05s left" */
static void write_label(const struct trials_state *state, size_t point, char *label, size_t size)
{
    const struct trials_setup *setup = state->setup;
    size_t all = setup->point_count * setup->rounds;
    uint64_t spent_ns = clock_monotonic_ns() - state->begun_ns;
    const char *name = setup->points[point].name;
    char left[UNITS_TEXT] = "";

    if (state->trials_done > 0)
        units_format_age(left, sizeof(left),
                         spent_ns / state->trials_done * (all - state->trials_done));
    snprintf(label, size, "%zu/%zu%s%s%s%s%s", state->trials_done + 1, all,
             name != NULL ? ", " : "", name != NULL ? name : "", left[0] != '\0' ? ", " : "", left,
             left[0] != '\0' ? " left" : "");
}

static enum trials_end take_result(struct trials_state *state, size_t point)
{
    const struct trials_setup *setup = state->setup;
    const struct result *result = state->result;
    bool early = result->interrupted || result->aborted_by != NULL;
    struct measures measures;

    if (!early) {
        result_measure(result, &measures);
        state->last_was_too_short =
            setup->enough != NULL && !setup->enough(setup->context, point, &measures);
        if (state->last_was_too_short)
            return TRIALS_COMPLETE;
    }
    state->trials_done++;
    if (setup->after != NULL)
        setup->after(setup->context, point, result);
    if (early)
        return result->interrupted ? TRIALS_INTERRUPTED : TRIALS_ABORTED;
    trials_add(state->trials, point, &measures);
    return TRIALS_COMPLETE;
}

static enum trials_end run_trial(struct trials_state *state, size_t point)
{
    const struct trials_setup *setup = state->setup;
    struct plan plan;
    char label[LABEL];
    enum trials_end end;

    if (interrupts_take() > 0)
        return TRIALS_INTERRUPTED;
    if (setup->before != NULL &&
        setup->before(setup->context, point, state->why, state->size) != 0) {
        state->outcome = TRIAL_INVALID;
        return TRIALS_FAILED;
    }
    write_label(state, point, label, sizeof(label));
    plan = *setup->points[point].plan;
    plan.label = label;
    plan.seed += state->trials_done; /* rounds do not repeat each other */
    state->outcome =
        trial_run(&plan, setup->trial_observer, state->result, state->why, state->size);
    if (state->outcome != TRIAL_DONE)
        return TRIALS_FAILED;
    state->result->plan = setup->points[point].plan;
    if (state->result->unreachable && state->trials_done == 0) {
        result_explain_unreachable(state->result, state->why, state->size);
        result_free(state->result);
        state->outcome = TRIAL_NO_SERVER;
        return TRIALS_FAILED;
    }
    end = take_result(state, point);
    result_free(state->result);
    return end;
}

static enum trials_end run_series(struct trials_state *state)
{
    size_t count = state->setup->point_count;

    for (uint32_t round = 0; round < state->setup->rounds; round++)
        for (size_t i = 0; i < count; i++) {
            enum trials_end end;

            do
                end = run_trial(state, round % 2 == 0 ? i : count - 1 - i);
            while (end == TRIALS_COMPLETE && state->last_was_too_short);
            if (end != TRIALS_COMPLETE)
                return end;
        }
    return TRIALS_COMPLETE;
}

enum trials_end trials_run(struct trials *trials, const struct trials_setup *setup,
                           enum trial_outcome *outcome, char *why, size_t size)
{
    struct trials_state state = {.trials = trials,
                                 .setup = setup,
                                 .begun_ns = clock_monotonic_ns(),
                                 .result = malloc(sizeof(*state.result)),
                                 .outcome = TRIAL_INVALID,
                                 .why = why,
                                 .size = size};
    enum trials_end end = TRIALS_FAILED;

    if (state.result == NULL || interrupts_begin() != 0) {
        snprintf(why, size, "out of memory or descriptors");
    } else {
        end = run_series(&state);
        interrupts_end();
    }
    free(state.result);
    *outcome = state.outcome;
    return end;
}

/* ---- A repeated run ---- */

struct repeat_state {
    struct rounds *rounds;
    struct result *sum;
    bool out_of_memory;
};

/* Adds a round that ended early to the sum, but not to the rounds. */
static void after_round(void *context, size_t point, const struct result *result)
{
    struct repeat_state *state = context;
    struct series_entry total = result_total(result);

    (void)point;
    total.begin_ns = state->sum->elapsed_ns;
    total.end_ns = total.begin_ns + result->elapsed_ns;
    if (!result->interrupted && result->aborted_by == NULL)
        state->rounds->total[state->rounds->done++] = total;
    if (!result_add_round(state->sum, result))
        state->out_of_memory = true;
}

enum trial_outcome repeat_run(const struct plan *plan, struct result *result, char *why,
                              size_t size)
{
    const struct trials_point point = {plan, NULL};
    struct repeat_state state = {rounds_create(plan->rounds), result, false};
    const struct trials_setup setup = {.points = &point,
                                       .point_count = 1,
                                       .rounds = plan->rounds,
                                       .after = after_round,
                                       .context = &state};
    enum trial_outcome outcome = TRIAL_INVALID;

    memset(result, 0, sizeof(*result));
    result->rounds = state.rounds;
    snprintf(why, size, "out of memory");
    if (state.rounds != NULL &&
        trials_run(state.rounds->trials, &setup, &outcome, why, size) == TRIALS_INTERRUPTED)
        result->interrupted = true; /* possibly between two rounds */
    if (outcome == TRIAL_DONE && (state.out_of_memory || result->url == NULL))
        outcome = TRIAL_INVALID;
    if (outcome == TRIAL_DONE) { /* these have no meaningful sum */
        result->server.cores = rounds_interval(state.rounds, MEASURE_SERVER_CORES).median;
        result->machine_busy = rounds_interval(state.rounds, MEASURE_MACHINE_BUSY).median / 100;
    } else {
        result_free(result);
    }
    return outcome;
}
