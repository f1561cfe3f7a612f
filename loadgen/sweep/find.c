#include "loadgen/sweep/find.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/units.h"

#include "loadgen/base/format.h"
#include "loadgen/base/interrupts.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* More due requests without a response than this part break any condition. */
#define MISSING_PERCENT 1.0

/* From this part of waiting requests on, the number of connections is the limit. */
#define WAITED_PERCENT 5.0

enum {
    RATE_TRIALS_MAX = 60,
    CAPACITY_MS = 1000,       /* the closed loop that the first rate is half of */
    THREADS_OF_EACH_CORE = 4, /* at most so many threads of the server are tried */
};

struct finding_run {
    struct find *find;
    struct server_control *control; /* NULL: another server */
    struct plan plan;               /* of the next trial */
    bool answered;                  /* a trial had a response */
    double capacity;                /* of the closed loop, responses per second */
};

/* ---- Trials ---- */

/* Whether a run of an open loop met the condition, and missed almost no response. */
static bool meets(const struct plan *plan, const struct result *result)
{
    const struct tally *tally = &result->tally;
    uint64_t missing = tally_unsent(tally) + tally_get(tally, TALLY_unanswered);
    uint64_t due = tally_unsent(tally) + tally_get(tally, TALLY_begun);

    return tally_meets_condition(tally, &plan->find.condition, result_rate_ns(result)) &&
           result_bad_percent(result) <= plan->max_errors &&
           (double)missing * 100 <= (double)due * MISSING_PERCENT;
}

/* As search_trial.value. */
static double value_of(const struct condition *condition, const struct result *result)
{
    double value;

    if (condition->metric == CONDITION_PERCENTILE)
        return tally_part_above(&result->tally, condition);
    return tally_condition_value(&result->tally, condition, result_rate_ns(result), &value) ? value
                                                                                            : NAN;
}

static void keep_trial(struct finding_run *run, const struct result *result)
{
    struct find *find = run->find;
    const struct plan *plan = find->plan;
    struct search_trial *trial = &find->trials[find->count];
    uint64_t begun = tally_get(&result->tally, TALLY_begun);

    result_measure(result, &find->measures[find->count]);
    find->waited_percent[find->count] =
        begun > 0 ? 100 * (double)tally_get(&result->tally, TALLY_waited) / (double)begun : 0;
    trial->value = find->measures[find->count].value[MEASURE_RATE];
    if (find_seeks_rate(find)) {
        trial->x = run->plan.rate;
        trial->met = meets(plan, result);
        trial->value = value_of(&plan->find.condition, result);
    } else if (plan->find.what == PLAN_FIND_CONNECTIONS) {
        trial->x = run->plan.connections_requested;
    } else {
        trial->x = find->sizes.threads_per_worker;
    }
    find->count++;
}

static void after_find_trial(void *context, size_t point, const struct result *result)
{
    struct finding_run *run = context;
    bool of_capacity = find_seeks_rate(run->find) && run->plan.rate == 0;

    (void)point;
    run->answered = run->answered || tally_get(&result->tally, TALLY_answered) > 0;
    if (of_capacity)
        run->capacity = result_rate(result);
    else if (!result->interrupted)
        keep_trial(run, result);
}

static int before_find_trial(void *context, size_t point, char *why, size_t size)
{
    const struct finding_run *run = context;

    (void)point;
    return run->find->plan->find.what == PLAN_FIND_THREADS
               ? server_control_set(run->control, run->find->sizes, why, size)
               : 0;
}

/* Runs run->plan once. Returns whether the search may go on. */
static bool try_once(struct finding_run *run, const char *name, char *why, size_t size)
{
    struct find *find = run->find;
    const struct trials_point point = {&run->plan, name};
    const struct trials_setup setup = {.points = &point,
                                       .point_count = 1,
                                       .rounds = 1,
                                       .before = before_find_trial,
                                       .after = after_find_trial,
                                       .context = run};
    struct trials *trials = trials_create(1, 1);
    enum trial_outcome outcome = TRIAL_INVALID;

    snprintf(why, size, "out of memory");
    find->end = trials == NULL ? TRIALS_FAILED : trials_run(trials, &setup, &outcome, why, size);
    if (find->end == TRIALS_FAILED)
        find->status = trial_status(outcome, NULL);
    trials_free(trials);
    run->plan.seed++;
    return find->end == TRIALS_COMPLETE;
}

/* ---- The search ---- */

/* A closed loop with all connections: half of its rate is the first rate. */
static bool measure_capacity(struct finding_run *run, char *why, size_t size)
{
    const struct plan *plan = run->find->plan;

    run->plan.poisson = false;
    if (run->plan.duration_ms > CAPACITY_MS)
        run->plan.duration_ms = CAPACITY_MS;
    if (!try_once(run, "closed loop", why, size))
        return false;
    run->plan.poisson = plan->poisson;
    run->plan.duration_ms = plan->duration_ms;
    return true;
}

static bool search_rate(struct finding_run *run, char *why, size_t size)
{
    struct find *find = run->find;
    const struct condition *condition = &find->plan->find.condition;
    struct rate_search search = {.trials_max = RATE_TRIALS_MAX};

    if (!measure_capacity(run, why, size))
        return false;
    if (condition->metric == CONDITION_PERCENTILE)
        search.limit = 1 - condition->percent / 100;
    else if (condition->metric == CONDITION_MEAN || condition->metric == CONDITION_MAX)
        search.limit = condition->limit;
    search.first = run->capacity > 2 ? run->capacity / 2 : 1;
    for (double rate; (rate = rate_search_next(&search, find->trials, find->count)) > 0;) {
        char name[64], number[UNITS_TEXT];

        snprintf(name, sizeof(name), "trial %zu: %s requests/s", find->count + 1,
                 format_number(number, sizeof(number), rate));
        run->plan.rate = rate;
        if (!try_once(run, name, why, size))
            break;
    }
    find->answer = rate_search_answer(&search, find->trials, find->count);
    return find->end == TRIALS_COMPLETE;
}

static bool search_number(struct finding_run *run, char *why, size_t size)
{
    struct find *find = run->find;
    bool of_threads = find->plan->find.what == PLAN_FIND_THREADS;
    double max = of_threads ? (double)find->machine_cores * THREADS_OF_EACH_CORE
                            : find->plan->connections_requested;

    for (double number; (number = number_search_next(max, find->trials, find->count)) > 0;) {
        char name[64];

        snprintf(name, sizeof(name), "trial %zu: %.0f %s%s", find->count + 1, number,
                 of_threads ? "thread" : "connection", number > 1 ? "s" : "");
        if (of_threads)
            find->sizes.threads_per_worker = (uint32_t)number;
        else
            plan_set_connections(&run->plan, (uint32_t)number);
        if (!try_once(run, name, why, size))
            break;
    }
    find->answer = number_search_answer(find->trials, find->count);
    return find->end == TRIALS_COMPLETE;
}

/* ---- Conclusions ---- */

PRINTF_LIKE(3, 4)
static void add_find_note(struct find *find, const char *name, const char *format, ...)
{
    struct sweep_finding *note = &find->note[find->note_count++];
    va_list arguments;

    note->name = name;
    va_start(arguments, format);
    vsnprintf(note->text, sizeof(note->text), format, arguments);
    va_end(arguments);
}

/* The median of MEASURE over the trials that did not meet the condition, near the answer. */
static double median_above(const struct find *find, enum measure measure, bool of_waiting)
{
    double values[SEARCH_TRIALS_MAX];
    size_t count = 0;

    for (size_t i = 0; i < find->count; i++)
        if (!find->trials[i].met && find->trials[i].x < 1.5 * find->answer.x)
            values[count++] =
                of_waiting ? find->waited_percent[i] : find->measures[i].value[measure];
    return statistics_interval(values, count).median;
}

static enum sweep_limit find_limit_of_rate(const struct find *find)
{
    const struct sweep_load load = {
        .client_percent = median_above(find, MEASURE_CLIENT_SHARE, false),
        .server_cores = median_above(find, MEASURE_SERVER_CORES, false),
        .machine_percent = median_above(find, MEASURE_MACHINE_BUSY, false),
        .server_threads = (double)find->sizes.workers * find->sizes.threads_per_worker,
        .machine_cores = find->machine_cores,
    };
    enum sweep_limit limit;

    if (isinf(find->answer.high))
        return SWEEP_LIMIT_NOT_REACHED;
    limit = sweep_limit_of(&load);
    if (limit == SWEEP_LIMIT_UNKNOWN && median_above(find, MEASURE_RATE, true) > WAITED_PERCENT)
        return SWEEP_LIMIT_CONNECTIONS;
    return limit;
}

static const char *const limit_texts[] = {
    [SWEEP_LIMIT_CLIENT] = ", limited by the client's CPU",
    [SWEEP_LIMIT_SERVER_THREADS] = ", limited by the server's threads",
    [SWEEP_LIMIT_SERVER_CPU] = ", limited by the server's CPU",
    [SWEEP_LIMIT_MACHINE] = ", limited by this machine's CPU, which server and client share",
    [SWEEP_LIMIT_CONNECTIONS] = ", limited by the number of connections (-c)",
    [SWEEP_LIMIT_UNKNOWN] = ", not limited by the CPU of this machine",
    [SWEEP_LIMIT_NOT_REACHED] = "",
};

/* The lowest rates are those that the search ends with; some are too low for a single request. */
static void conclude_no_rate(struct find *find)
{
    double least = INFINITY, most = 0;
    bool good = false;
    size_t answered = 0;
    char low[UNITS_TEXT], high[UNITS_TEXT];

    for (size_t i = 0; i < find->count; i++) {
        const double *value = find->measures[i].value;

        if (!(value[MEASURE_RATE] > 0))
            continue;
        answered++;
        good = good || value[MEASURE_ERRORS] < 100;
        least = fmin(least, find->trials[i].x);
        most = fmax(most, find->trials[i].x);
    }
    if (answered == 0)
        snprintf(find->text, sizeof(find->text),
                 "No rate meets %s: none of %zu trials had a response.",
                 find->plan->find.condition.text, find->count);
    else
        snprintf(find->text, sizeof(find->text),
                 "No rate meets %s: none of %zu trials did, from %s down to %s requests/s.%s",
                 find->plan->find.condition.text, answered, format_number(high, sizeof(high), most),
                 format_number(low, sizeof(low), least),
                 good ? "" : " All of their requests failed or had an error status.");
}

static void conclude_rate(struct find *find)
{
    const struct search_answer *answer = &find->answer;
    const char *condition = find->plan->find.condition.text;
    char rate[UNITS_TEXT], low[UNITS_TEXT], high[UNITS_TEXT], bounds[3 * UNITS_TEXT] = "";

    format_number(rate, sizeof(rate), answer->x);
    format_number(low, sizeof(low), answer->low);
    format_number(high, sizeof(high), answer->high);
    if (!answer->found) {
        conclude_no_rate(find);
        return;
    }
    find->limit = find_limit_of_rate(find);
    if (answer->is_interval)
        snprintf(bounds, sizeof(bounds), " (95 %%: %s to %s)", low, high);
    else if (!isinf(answer->high))
        snprintf(bounds, sizeof(bounds), " (not %s)", high);
    snprintf(find->text, sizeof(find->text), "%s%s requests/s%s meet %s%s.",
             isinf(answer->high) ? "At least " : "", rate, bounds, condition,
             limit_texts[find->limit]);
}

static void conclude_number(struct find *find)
{
    bool of_threads = find->plan->find.what == PLAN_FIND_THREADS;
    double best = 0, reached = 0;
    char text[UNITS_TEXT];

    for (size_t i = 0; i < find->count; i++)
        best = fmax(best, search_median_at(find->trials, find->count, find->trials[i].x));
    reached = search_median_at(find->trials, find->count, find->answer.x);
    snprintf(find->text, sizeof(find->text),
             "%.0f %s%s reach%s %.0f %% of the highest rate, %s requests/s.", find->answer.x,
             of_threads ? "thread" : "connection", find->answer.x > 1 ? "s" : "",
             find->answer.x > 1 ? "" : "es", best > 0 ? 100 * reached / best : 0,
             format_number(text, sizeof(text), best));
}

static void conclude_find(struct find *find)
{
    if (find->count > 0 && find_seeks_rate(find))
        conclude_rate(find);
    else if (find->count > 0)
        conclude_number(find);
    if (find->end == TRIALS_INTERRUPTED)
        add_find_note(find, "interrupted", "Interrupted after %zu trials.", find->count);
    if (find->end == TRIALS_FAILED)
        add_find_note(find, "failed", "Failed after %zu trials: %s.", find->count, find->failure);
    if (find->end == TRIALS_COMPLETE && find_seeks_rate(find) && find->answer.found &&
        !isinf(find->answer.high) &&
        find->answer.high - find->answer.low > 2 * 3 * SEARCH_PRECISION * find->answer.x)
        add_find_note(find, "imprecise",
                      "The trials vary: longer ones (-d) make the answer more precise.");
}

static enum result_status find_status(const struct finding_run *run)
{
    const struct find *find = run->find;

    if (find->end == TRIALS_INTERRUPTED)
        return RESULT_INTERRUPTED;
    if (find->end == TRIALS_FAILED)
        return find->status;
    if (!run->answered)
        return RESULT_NOTHING;
    return find->answer.found ? RESULT_GOOD : RESULT_GATE;
}

/* Signals end the trials, not the process, so that the number of threads is restored. */
static void search(struct finding_run *run, char *why, size_t size)
{
    char failure[512], by_hand[SERVER_CONTROL_COMMANDS];
    struct find *find = run->find;
    bool complete;

    if (find->plan->find.what == PLAN_FIND_THREADS && !find->plan->progress_lines)
        fprintf(stderr,
                "wsload: changing the server's threads until the end of the search; to restore "
                "them after kill -9, run: %s\n",
                server_control_format_commands(run->control, by_hand, sizeof(by_hand)));
    complete = find_seeks_rate(find) ? search_rate(run, why, size) : search_number(run, why, size);
    if (!complete && find->end == TRIALS_FAILED) {
        snprintf(find->failure, sizeof(find->failure), "%s", why);
        if (find->count > 0)
            escape_report("wsload", why);
    }
    if (server_control_end(run->control, failure, sizeof(failure)) != 0)
        escape_report("wsload", failure);
}

struct find *find_run(const struct plan *plan, enum result_status *status, char *why, size_t size)
{
    struct finding_run run = {.find = calloc(1, sizeof(*run.find)), .plan = *plan};
    struct find *find = run.find;

    *status = RESULT_USAGE_ERROR;
    snprintf(why, size, "out of memory or descriptors");
    if (find == NULL || interrupts_begin() != 0) {
        free(find);
        return NULL;
    }
    find->plan = plan;
    find->began_ns = clock_wall_ns();
    find->machine_cores = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN);
    run.control = server_control_begin(plan, why, size);
    if (run.control != NULL) {
        snprintf(find->server, sizeof(find->server), "%s", server_control_name(run.control));
        find->sizes = server_control_original(run.control);
    }
    if (run.control != NULL || plan->find.what != PLAN_FIND_THREADS) {
        search(&run, why, size);
        *status = find->status = find_status(&run);
    }
    interrupts_end();
    if (find->count == 0 && *status != RESULT_INTERRUPTED) {
        if (*status == RESULT_NOTHING)
            snprintf(why, size, "%s: no response", plan->urls[0]);
        free(find);
        return NULL;
    }
    conclude_find(find);
    return find;
}
