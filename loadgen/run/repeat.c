#include "loadgen/run/repeat.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const enum measure repeat_rows[REPEAT_ROWS] = {
    MEASURE_RATE,  MEASURE_MEAN, MEASURE_P50,    MEASURE_P90,        MEASURE_P99,
    MEASURE_P99_9, MEASURE_MAX,  MEASURE_ERRORS, MEASURE_CLIENT_CPU,
};

/* ---- One result out of several ---- */

static bool begin_sum(struct result *into, const struct result *from)
{
    into->plan = from->plan;
    into->url = strdup(from->url);
    into->series = series_create();
    into->requests = from->requests;
    into->skipped = from->skipped;
    into->engine = from->engine;
    into->server = (struct server_check_result){.outcome = from->server.outcome, .cores = NAN};
    into->machine_busy = NAN;
    return into->url != NULL && into->series != NULL;
}

/* Of what is the case in each round anew, the worst round is kept instead of a sum. */
static void keep_worst_connections(struct tally *into, const struct tally *from, bool first)
{
    uint64_t used = tally_get(into, TALLY_clients_used) - tally_get(from, TALLY_clients_used);
    uint64_t up = tally_get(into, TALLY_clients_up) - tally_get(from, TALLY_clients_up);
    uint64_t its_used = tally_get(from, TALLY_clients_used);
    uint64_t its_up = tally_get(from, TALLY_clients_up);
    bool keep = first || its_used - its_up > used - up ||
                (its_used - its_up == used - up && its_used > used);

    atomic_store_explicit(&into->counter[TALLY_clients_used], keep ? its_used : used,
                          memory_order_relaxed);
    atomic_store_explicit(&into->counter[TALLY_clients_up], keep ? its_up : up,
                          memory_order_relaxed);
}

/* One round in which the server counted otherwise is said; one without a server: nothing is known. */
static void add_server(struct server_check_result *into, const struct server_check_result *from)
{
    into->counted += from->counted;
    into->sent += from->sent;
    snprintf(into->name, sizeof(into->name), "%s", from->name);
    if (from->outcome == SERVER_CHECK_NONE || into->outcome == SERVER_CHECK_NONE)
        into->outcome = SERVER_CHECK_NONE;
    else if (from->outcome == SERVER_CHECK_DIFFERS)
        into->outcome = SERVER_CHECK_DIFFERS;
}

/* What the last round left behind. */
static void take_state(struct result *into, const struct result *from)
{
    into->connections = from->connections;
    into->threads = from->threads;
    into->changes += from->changes;
    into->fell_short = into->fell_short || from->fell_short;
    into->interrupted = into->interrupted || from->interrupted;
    if (into->aborted_by == NULL)
        into->aborted_by = from->aborted_by;
    error_texts_add(&into->error_texts, &from->error_texts);
}

bool repeat_add(struct result *into, const struct result *from)
{
    bool first = into->url == NULL;

    if (first && !begin_sum(into, from))
        return false;
    tally_add(&into->tally, &from->tally);
    tally_add(&into->warmup, &from->warmup);
    keep_worst_connections(&into->tally, &from->tally, first);
    into->elapsed_ns += from->elapsed_ns;
    into->due_ns += from->due_ns;
    into->cpu_ns += from->cpu_ns;
    into->waited_ns += from->waited_ns;
    into->thread_ns += from->thread_ns;
    add_server(&into->server, &from->server);
    take_state(into, from);
    return from->series == NULL || series_append(into->series, from->series);
}

/* ---- The rounds ---- */

struct course {
    struct repeat *repeat;
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
    struct repeat *repeat = course->repeat;

    (void)point;
    if (!result->interrupted && result->aborted_by == NULL)
        repeat->total[repeat->done++] = total_of(result, course->sum->elapsed_ns);
    if (!repeat_add(course->sum, result))
        course->out_of_memory = true;
}

static struct repeat *create(uint32_t rounds)
{
    struct repeat *repeat = calloc(1, sizeof(*repeat));

    if (repeat == NULL)
        return NULL;
    repeat->asked = rounds;
    repeat->trials = trials_create(1, rounds);
    repeat->total = calloc(rounds, sizeof(*repeat->total));
    if (repeat->trials != NULL && repeat->total != NULL)
        return repeat;
    repeat_free(repeat);
    return NULL;
}

void repeat_free(struct repeat *repeat)
{
    if (repeat == NULL)
        return;
    trials_free(repeat->trials);
    free(repeat->total);
    free(repeat);
}

/* Medians of what has no sum. */
static void take_medians(struct result *result)
{
    const struct repeat *repeat = result->repeat;

    result->server.cores = repeat_interval(repeat, MEASURE_SERVER_CORES).median;
    result->machine_busy = repeat_interval(repeat, MEASURE_MACHINE_BUSY).median / 100;
}

enum trial_outcome repeat_run(const struct plan *plan, struct result *result, char *why,
                              size_t size)
{
    const struct trials_point point = {plan, NULL};
    struct course course = {create(plan->rounds), result, false};
    const struct trials_setup setup = {&point, 1, plan->rounds, NULL, after_round, &course};
    enum trial_outcome outcome = TRIAL_WRONG;

    memset(result, 0, sizeof(*result));
    result->repeat = course.repeat;
    snprintf(why, size, "out of memory");
    if (course.repeat != NULL &&
        trials_run(course.repeat->trials, &setup, &outcome, why, size) == TRIALS_INTERRUPTED)
        result->interrupted = true; /* perhaps between two rounds */
    if (outcome == TRIAL_DONE && (course.out_of_memory || result->url == NULL))
        outcome = TRIAL_WRONG;
    if (outcome == TRIAL_DONE)
        take_medians(result);
    else
        result_free(result);
    return outcome;
}
