#include "loadgen/stats/result.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* With more late requests, in percent, the client was too slow for the rate. */
#define LATE_PERCENT 1.0

/* If service and response time differ by less than this factor, no note explains the difference. */
#define SIMILAR_FACTOR 1.25

/* The minimum duration of a run for notes about the client's CPU time. */
#define SHORTEST_CPU_SAMPLE_NS (200 * NS_PER_MS)

/* With fewer responses per connection, the time to connect affects the latencies. */
enum { RESPONSES_PER_CONNECTION = 100 };

struct note_list {
    struct result_note *notes;
    size_t count;
};

PRINTF_LIKE(3, 4)
static void note(struct note_list *list, const char *name, const char *format, ...)
{
    struct result_note *note = &list->notes[list->count];
    va_list arguments;

    if (list->count == RESULT_NOTES_MAX)
        return;
    list->count++;
    note->name = name;
    va_start(arguments, format);
    vsnprintf(note->text, sizeof(note->text), format, arguments);
    va_end(arguments);
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

static const char *were(uint64_t count)
{
    return count == 1 ? "was" : "were";
}

static uint64_t count_of(const struct result *result, enum tally_counter counter)
{
    return tally_get(&result->tally, counter);
}

/* The most frequent kind of error. */
static enum error_kind main_error(const struct tally *tally)
{
    enum error_kind found = ERROR_KIND_OTHER;

    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        if (tally_error(tally, (enum error_kind)kind) > tally_error(tally, found))
            found = (enum error_kind)kind;
    return found;
}

void result_explain_unreachable(const struct result *result, char *text, size_t size)
{
    const struct tally *tally = &result->tally;
    enum error_kind kind = main_error(tally_errors(tally) > 0 ? tally : &result->warmup);
    const char *reason = result->error_texts.first[kind];
    const char *advice = kind == ERROR_KIND_TLS ? "-k does not verify certificates"
                                                : "--wait-for-server 30s waits until it starts";

    snprintf(text, size, "%.120s: no connection was established: %s%s%.150s; %s", result->url,
             error_kind_labels[kind], reason[0] != '\0' ? ": " : "", reason, advice);
}

static void note_unreachable(const struct result *result, struct note_list *list)
{
    char text[RESULT_NOTE_TEXT - 1];

    result_explain_unreachable(result, text, sizeof(text));
    note(list, "unreachable", "%s.", text);
}

static void note_outcome(const struct result *result, struct note_list *list)
{
    if (result->interrupted)
        note(list, "interrupted", "Interrupted before the end of the run.");
    if (result->aborted_by != NULL)
        note(list, "aborted", "Aborted: %s became true (--abort-on).", result->aborted_by->text);
    if (result->log_error != 0)
        note(list, "log_incomplete", "The log of requests is incomplete: %s (--log).",
             strerror(result->log_error));
    if (result->unreachable)
        note_unreachable(result, list);
    else if (count_of(result, TALLY_answered) == 0)
        note(list, "nothing_answered", "No response was received.");
    else if (result_bad_percent(result) > result->plan->max_errors)
        note(list, "too_many_errors",
             "%" PRIu64 " of %" PRIu64 " requests are errors (%.3g%%); allowed: %g%% "
             "(--max-errors).",
             tally_bad(&result->tally), count_of(result, TALLY_begun), result_bad_percent(result),
             result->plan->max_errors);
}

static void note_gates(const struct result *result, struct note_list *list)
{
    for (size_t i = 0; i < result->plan->fail_if_count; i++)
        if (tally_meets_condition(&result->tally, &result->plan->fail_if[i],
                                  result_rate_ns(result)))
            note(list, "gate_failed", "Failed: %s (--fail-if).", result->plan->fail_if[i].text);
}

static void note_contents(const struct result *result, struct note_list *list)
{
    if (count_of(result, TALLY_bad_contents) > 0)
        note(list, "unexpected_contents", "%" PRIu64 " response%s had an unexpected body (%s).",
             count_of(result, TALLY_bad_contents), plural(count_of(result, TALLY_bad_contents)),
             result->plan->checks.digest_known ? "--expect-sha256" : "--expect-size");
    if (count_of(result, TALLY_downgraded) > 0)
        note(list, "not_http2",
             "%" PRIu64 " of %" PRIu64
             " responses were HTTP/1: the server did not negotiate HTTP/2.",
             count_of(result, TALLY_downgraded), count_of(result, TALLY_answered));
    if (result->skipped > 0 && result->plan->har_file != NULL)
        note(list, "skipped_requests",
             "%" PRIu64
             " request%s of the recording %s skipped: other hosts than that of the first "
             "request, or a body that is not recorded as text.",
             result->skipped, plural(result->skipped), were(result->skipped));
    else if (result->skipped > 0)
        note(list, "skipped_lines",
             "%" PRIu64 " line%s of the log %s skipped: only complete lines with GET, HEAD or "
             "OPTIONS of a path can be sent.",
             result->skipped, plural(result->skipped), were(result->skipped));
}

static void note_connections(const struct result *result, struct note_list *list)
{
    const struct plan *plan = result->plan;
    uint64_t used = count_of(result, TALLY_clients_used), up = count_of(result, TALLY_clients_up);

    if (plan->connections < plan->connections_requested)
        note(list, "fewer_requests_than_connections",
             "%" PRIu32 " of %" PRIu32 " connections were used: there were no more requests.",
             plan->connections, plan->connections_requested);
    if (used > 0 && up == 0 && !result->unreachable)
        note(list, "connections_missing", "No connection was established.");
    else if (up > 0 && up < used)
        note(list, "connections_missing",
             "Only %" PRIu64 " of %" PRIu64 " connections were established.", up, used);
    if (plan->http == PLAN_HTTP_2 && result->negotiations.least_streams > 0 &&
        result->negotiations.least_streams < plan->streams)
        note(list, "fewer_streams",
             "The server permits %" PRIu32 " streams per connection, fewer than --streams %" PRIu32
             ": the other requests waited, and the latencies include that.",
             result->negotiations.least_streams, plan->streams);
    if (result->out_of_memory)
        note(list, "out_of_memory", "Out of memory: not all requested connections were created.");
    if (count_of(result, TALLY_connections_unsolicited) > 0)
        note(list, "unsolicited",
             "The server sent bytes without a request on %" PRIu64
             " idle connection%s, such as a second response to the same request.",
             count_of(result, TALLY_connections_unsolicited),
             plural(count_of(result, TALLY_connections_unsolicited)));
    if (tally_error(&result->tally, ERROR_KIND_LOCAL) > 0)
        note(list, "local_limits",
             "This machine ran out of ports or descriptors: use keep-alive, more target addresses "
             "or higher limits (ulimit -n, net.ipv4.ip_local_port_range).");
}

/* Whether the plan itself opens additional connections. */
static bool reopens_by_plan(const struct result *result)
{
    const struct plan *plan = result->plan;

    return !plan->keepalive || plan->requests_per_connection > 0 || plan->stages_of_connections ||
           plan->page_loads || result->changes > 0 || result->origins > 1 ||
           result->rounds != NULL ||
           result->merged > 0; /* the plans of the runs are not known in full */
}

static void note_reopened(const struct result *result, struct note_list *list)
{
    const struct tally *tally = &result->tally;
    uint64_t answered = tally_get(tally, TALLY_answered);
    uint64_t opened = tally_get(tally, TALLY_connections_opened);
    uint64_t accounted = tally_get(tally, TALLY_clients_up) + tally_errors(tally) +
                         tally_get(&result->warmup, TALLY_begun) / RESPONSES_PER_CONNECTION;

    if (answered == 0 || reopens_by_plan(result) ||
        opened <= accounted + answered / RESPONSES_PER_CONNECTION)
        return;
    note(list, "reopened",
         "The server closed connections early: %" PRIu64 " were opened for %" PRIu64
         " responses. The latencies include connecting.",
         opened, answered);
}

static void note_client(const struct result *result, struct note_list *list)
{
    double share = result_cpu_share(result);
    uint64_t late = count_of(result, TALLY_late), begun = count_of(result, TALLY_begun);

    if (share >= RESULT_BUSY_CLIENT_SHARE && result->elapsed_ns >= SHORTEST_CPU_SAMPLE_NS)
        note(list, "client_busy",
             "The client was the bottleneck: each of its threads used %.0f%% of a core. The server "
             "may be faster, and the latencies include waiting in the client.%s",
             share * 100,
             result->plan->engine == PLAN_ENGINE_CURL && result->plan->http != PLAN_HTTP_2
                 ? " --engine raw uses less CPU."
                 : "");
    if (result_wait_share(result) >= RESULT_STARVED_CLIENT_SHARE &&
        result->elapsed_ns >= SHORTEST_CPU_SAMPLE_NS)
        note(list, "client_starved",
             "The client threads waited for a core for %.0f%% of the time: this machine was busy, "
             "possibly with the server. The latencies include that.",
             result_wait_share(result) * 100);
    if (begun > 0 && (double)late * 100 > (double)begun * LATE_PERCENT)
        note(list, "client_late",
             "The client was late: %.1f%% of the requests began more than 1 ms after they were due "
             "although a connection was free. The latencies include that.",
             100.0 * (double)late / (double)begun);
}

static void note_unsent(const struct result *result, struct note_list *list)
{
    uint64_t busy = count_of(result, TALLY_unsent_busy);
    uint64_t late = count_of(result, TALLY_unsent_late);

    if (busy > 0)
        note(list, "unsent",
             "%" PRIu64 " request%s %s due but not sent before the end: all connections were busy. "
             "The latencies do not include %s.",
             busy, plural(busy), were(busy), busy == 1 ? "it" : "them");
    if (late > 0)
        note(list, "unsent_late",
             "%" PRIu64 " request%s %s due but not sent before the end although a connection was "
             "free: the client was late.",
             late, plural(late), were(late));
}

/* Explains the difference between response time and service time, where it is first seen. */
static void note_two_times(const struct result *result, struct note_list *list)
{
    static const struct {
        double percent;
        const char *name;
    } levels[] = {{50, "p50"}, {90, "p90"}, {99, "p99"}, {99.9, "p99.9"}, {100, "maximum"}};
    const struct tally *tally = &result->tally;
    char one[UNITS_TEXT], other[UNITS_TEXT];

    if (count_of(result, TALLY_answered) == 0 || count_of(result, TALLY_waited) == 0)
        return;
    for (size_t i = 0; i < ARRAY_LENGTH(levels); i++) {
        double response = (double)histogram_percentile(&tally->latency, levels[i].percent);
        double service = (double)histogram_percentile(&tally->service, levels[i].percent);

        if (response < service * SIMILAR_FACTOR)
            continue;
        note(list, "waiting",
             "Response time (%s %s) counts from when a request was due, service time (%s %s) from "
             "when it was sent: the difference is waiting for a free connection. Users experience "
             "the response time.",
             levels[i].name, units_format_ns(one, sizeof(one), response), levels[i].name,
             units_format_ns(other, sizeof(other), service));
        return;
    }
}

static void note_missing_latencies(const struct result *result, struct note_list *list)
{
    uint64_t without = tally_errors(&result->tally) + count_of(result, TALLY_unanswered);

    if (without > 0 && count_of(result, TALLY_answered) > 0)
        note(list, "latency_of_answers_only",
             "The latencies do not include %" PRIu64 " request%s without a response.", without,
             plural(without));
}

/* Warns of conditions on a percentile that has no values above it, which check the maximum. */
static void note_short_run(const struct result *result, struct note_list *list)
{
    uint64_t answered = count_of(result, TALLY_answered);

    for (size_t i = 0; i < result->plan->fail_if_count; i++) {
        const struct condition *gate = &result->plan->fail_if[i];

        if (gate->metric == CONDITION_PERCENTILE && answered > 0 &&
            (double)answered * (100 - gate->percent) / 100 < 1)
            note(list, "too_short",
                 "Too few responses for %s: the percentile is the maximum of %" PRIu64 " values.",
                 gate->text, answered);
    }
}

static void note_server(const struct result *result, struct note_list *list)
{
    const struct server_check_result *server = &result->server;
    bool others = plan_hostile_clients(result->plan) > 0 && server->counted > server->sent;

    if (server->outcome == SERVER_CHECK_DIFFERS && !others)
        note(list, "server_counted_otherwise",
             "Server %s counted %" PRIu64 " requests, but %" PRIu64
             " responses were received: it had other clients, or responses were lost.",
             server->name, server->counted, server->sent);
}

/* A note warns if half the confidence interval is wider than this, in percent of the median. */
enum { NOISE_PERCENT = 10 };

static void note_rounds(const struct result *result, struct note_list *list)
{
    const struct rounds *rounds = result->rounds;
    struct interval rate;

    if (rounds == NULL)
        return;
    rate = rounds_interval(rounds, MEASURE_RATE);
    if (rounds->done < rounds->requested)
        note(list, "rounds_missing", "Only %" PRIu32 " of %" PRIu32 " rounds were completed.",
             rounds->done, rounds->requested);
    if (rounds->done < STATISTICS_INTERVAL_MIN)
        note(list, "few_rounds", "Fewer than %d rounds: the medians have no confidence interval.",
             STATISTICS_INTERVAL_MIN);
    else if (interval_percent(&rate) > NOISE_PERCENT)
        note(list, "noisy_rounds",
             "The rounds vary: the rate is known only to +-%.0f%%. Run more or longer rounds on an "
             "otherwise idle machine.",
             interval_percent(&rate));
}

/* A note warns if all runs of a merged report measured for less than this part of its time. */
#define OVERLAP_SHARE 0.9

static void note_merged(const struct result *result, struct note_list *list)
{
    char overlap[UNITS_TEXT], whole[UNITS_TEXT];

    if (result->merged == 0 ||
        (double)result->overlap_ns >= OVERLAP_SHARE * (double)result->elapsed_ns)
        return;
    note(
        list, "runs_apart",
        "The merged runs were all active for only %s of %s: the rates are averages over times with "
        "a lower load. Start them together, and check the clocks of the machines.",
        units_format_ns(overlap, sizeof(overlap), (double)result->overlap_ns),
        units_format_ns(whole, sizeof(whole), (double)result->elapsed_ns));
}

size_t result_notes(const struct result *result, struct result_note *notes)
{
    struct note_list list = {notes, 0};

    note_outcome(result, &list);
    note_gates(result, &list);
    note_contents(result, &list);
    note_connections(result, &list);
    note_reopened(result, &list);
    note_client(result, &list);
    note_unsent(result, &list);
    note_two_times(result, &list);
    note_missing_latencies(result, &list);
    note_short_run(result, &list);
    note_rounds(result, &list);
    note_server(result, &list);
    note_merged(result, &list);
    return list.count;
}
