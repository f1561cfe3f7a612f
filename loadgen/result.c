#include "loadgen/result.h"

#include "common/clock.h"
#include "common/macros.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

/* From this part of a core on, a client thread measures itself as much as the server. */
#define BUSY_CLIENT_SHARE 0.85

/* Shorter runs say nothing about the client's processor time. */
#define SHORTEST_CPU_SAMPLE_NS (200 * NS_PER_MS)

double result_rate(const struct result *result)
{
    if (result->elapsed_ns == 0)
        return 0;
    return (double)tally_get(&result->tally, TALLY_answered) * 1e9 / (double)result->elapsed_ns;
}

double result_cpu_share(const struct result *result)
{
    if (result->elapsed_ns == 0)
        return 0;
    return (double)result->cpu_ns / (double)result->elapsed_ns / result->plan->threads;
}

uint64_t result_bad(const struct result *result)
{
    return tally_errors(&result->tally) + tally_get(&result->tally, TALLY_unanswered) +
           tally_bad_statuses(&result->tally);
}

double result_bad_percent(const struct result *result)
{
    uint64_t begun = tally_get(&result->tally, TALLY_begun);

    return begun > 0 ? 100.0 * (double)result_bad(result) / (double)begun : 0;
}

enum result_status result_status(const struct result *result)
{
    if (result->interrupted)
        return RESULT_INTERRUPTED;
    if (tally_get(&result->tally, TALLY_answered) == 0)
        return RESULT_NOTHING;
    if (result_bad_percent(result) > result->plan->max_errors)
        return RESULT_ERRORS;
    return RESULT_GOOD;
}

struct note_list {
    struct result_note *notes;
    size_t count;
};

PRINTF_LIKE(3, 4)
static void note(struct note_list *list, const char *name, const char *format, ...)
{
    struct result_note *note = &list->notes[list->count++];
    va_list arguments;

    note->name = name;
    va_start(arguments, format);
    vsnprintf(note->text, sizeof(note->text), format, arguments);
    va_end(arguments);
}

static void note_outcome(const struct result *result, struct note_list *list)
{
    if (result->interrupted)
        note(list, "interrupted", "Interrupted: the run was stopped before its end.");
    if (tally_get(&result->tally, TALLY_answered) == 0)
        note(list, "nothing_answered", "Nothing was answered.");
    else if (result_bad_percent(result) > result->plan->max_errors)
        note(list, "too_many_errors",
             "%" PRIu64 " of %" PRIu64 " requests count as errors (%.3g%%); allowed: %g%% "
             "(--max-errors).",
             result_bad(result), tally_get(&result->tally, TALLY_begun), result_bad_percent(result),
             result->plan->max_errors);
}

static void note_connections(const struct result *result, struct note_list *list)
{
    const struct plan *plan = result->plan;
    uint64_t up = tally_get(&result->tally, TALLY_clients_up);

    if (plan->connections < plan->connections_asked)
        note(list, "fewer_requests_than_connections",
             "%" PRIu32 " connections were asked for and %" PRIu32 " used: there were no more "
             "requests.",
             plan->connections_asked, plan->connections);
    if (up == 0)
        note(list, "connections_missing", "No connection came up.");
    else if (up < plan->connections)
        note(list, "connections_missing", "Only %" PRIu64 " of %" PRIu32 " connections came up.",
             up, plan->connections);
}

static void note_client(const struct result *result, struct note_list *list)
{
    double share = result_cpu_share(result);

    if (share >= BUSY_CLIENT_SHARE && result->elapsed_ns >= SHORTEST_CPU_SAMPLE_NS)
        note(
            list, "client_busy",
            "The client was the bottleneck: its threads used %.0f%% of a core each. The server may "
            "be faster than this, and the latencies contain waiting in the client.",
            share * 100);
}

static void note_times(const struct result *result, struct note_list *list)
{
    uint64_t without = tally_errors(&result->tally) + tally_get(&result->tally, TALLY_unanswered);

    if (without > 0 && tally_get(&result->tally, TALLY_answered) > 0)
        note(list, "latency_of_answers_only",
             "The latencies are those of answers: %" PRIu64
             " requests without one are not in them.",
             without);
}

size_t result_notes(const struct result *result, struct result_note *notes)
{
    struct note_list list = {notes, 0};

    note_outcome(result, &list);
    note_connections(result, &list);
    note_client(result, &list);
    note_times(result, &list);
    return list.count;
}
