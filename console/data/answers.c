#include "console/data/answers.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/macros.h"
#include "common/tables.h"
#include "common/units.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Formats a JSON value as text: strings without quotes, booleans as yes and no. */
static const char *as_text(const json_t *value, char *buffer, size_t size)
{
    if (json_is_string(value))
        return json_string_value(value);
    if (json_is_integer(value))
        snprintf(buffer, size, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    else if (json_is_number(value))
        snprintf(buffer, size, "%g", json_number_value(value));
    else
        snprintf(buffer, size, "%s",
                 json_is_true(value)    ? "yes"
                 : json_is_false(value) ? "no"
                                        : "-");
    return buffer;
}

static const char *text_of(const json_t *object, const char *key, char *buffer, size_t size)
{
    return as_text(json_object_get(object, key), buffer, size);
}

static uint64_t number_of(const json_t *object, const char *key)
{
    json_int_t number = json_integer_value(json_object_get(object, key));

    return number > 0 ? (uint64_t)number : 0;
}

static const char *age_of(const json_t *object, char *buffer, size_t size)
{
    double seconds = json_number_value(json_object_get(object, "uptime_s"));

    return units_format_age(buffer, size, seconds > 0 ? (uint64_t)(seconds * (double)NS_PER_S) : 0);
}

/* "3 in force", or "3 requested, 2 in force". Returns false if ANSWER has no such pair. */
static bool print_number_in_force(const json_t *answer, FILE *out)
{
    const json_t *wanted = json_object_get(answer, "wanted");
    const json_t *actual = json_object_get(answer, "actual");
    char text[UNITS_TEXT];

    if (wanted == NULL || actual == NULL)
        return false;
    fputs(": ", out);
    if (!json_equal(wanted, actual))
        fprintf(out, "%s requested, ", as_text(wanted, text, sizeof(text)));
    fprintf(out, "%s in force", as_text(actual, text, sizeof(text)));
    return true;
}

/* Prints every member with its name; for commands without a specific format. */
static void print_members(const char *command, const json_t *answer, FILE *out)
{
    const char *key, *separator = ": ";
    bool pair;
    const json_t *value;
    char text[UNITS_TEXT];

    fputs(command, out);
    pair = print_number_in_force(answer, out);
    if (pair)
        separator = ", ";
    json_object_foreach((json_t *)answer, key, value)
    {
        if (pair && (strcmp(key, "wanted") == 0 || strcmp(key, "actual") == 0))
            continue;
        if (strcmp(key, "ok") == 0 || json_is_object(value) || json_is_array(value))
            continue;
        fputs(separator, out);
        escape_print(out, key);
        fprintf(out, " %s", as_text(value, text, sizeof(text)));
        separator = ", ";
    }
    fprintf(out, "%s\n", separator[0] == ':' ? ": done" : "");
}

static void print_model(const char *command, const json_t *answer, FILE *out)
{
    char model[UNITS_TEXT];

    fprintf(out, "%s: %s, threads per worker", command,
            text_of(answer, "model", model, sizeof(model)));
    print_number_in_force(answer, out);
    fputc('\n', out);
}

static void print_ping(const char *command, const json_t *answer, FILE *out)
{
    char name[UNITS_TEXT], version[UNITS_TEXT], pid[UNITS_TEXT];

    (void)command;
    fprintf(out, "webserverd '%s' answers: pid %s, version %s\n",
            text_of(answer, "name", name, sizeof(name)), text_of(answer, "pid", pid, sizeof(pid)),
            text_of(answer, "version", version, sizeof(version)));
}

static void print_stop(const char *command, const json_t *answer, FILE *out)
{
    (void)command;
    (void)answer;
    fprintf(out, "stopping: requests in progress are finished first\n");
}

static const char *host_in_maintenance(const json_t *host)
{
    const char *name = json_string_value(host);

    return name == NULL ? "-" : strcmp(name, "*") == 0 ? "all hosts" : name;
}

static void print_reopened(const char *command, const json_t *answer, FILE *out)
{
    const json_t *host;
    char access[UNITS_TEXT], error[UNITS_TEXT], text[UNITS_TEXT];
    size_t i;

    fprintf(out, "%s: access %s, error %s", command,
            text_of(answer, "access", access, sizeof(access)),
            text_of(answer, "error", error, sizeof(error)));
    json_array_foreach(json_object_get(answer, "hosts"), i, host)
        fprintf(out, ", %s", as_text(host, text, sizeof(text)));
    fputc('\n', out);
}

static void print_maintenance_reply(const char *command, const json_t *answer, FILE *out)
{
    const json_t *host;
    char text[UNITS_TEXT];
    size_t i;

    if (!json_is_true(json_object_get(answer, "maintenance"))) {
        fprintf(out, "%s: off\n", command);
        return;
    }
    fprintf(out, "%s: 503 with Retry-After %s s for", command,
            text_of(answer, "retry_after_s", text, sizeof(text)));
    json_array_foreach(json_object_get(answer, "hosts"), i, host)
        fprintf(out, "%s %s", i > 0 ? "," : "", host_in_maintenance(host));
    if (number_of(answer, "page_bytes") > 0)
        fprintf(out, ", with a page of %s bytes",
                text_of(answer, "page_bytes", text, sizeof(text)));
    fputc('\n', out);
}

static void print_upgrade(const char *command, const json_t *answer, FILE *out)
{
    char pid[UNITS_TEXT];

    (void)command;
    fprintf(out, "the new master (pid %s) serves\n", text_of(answer, "pid", pid, sizeof(pid)));
}

static void print_command_list(const char *command, const json_t *answer, FILE *out)
{
    const json_t *entry;
    size_t i;

    (void)command;
    json_array_foreach(json_object_get(answer, "commands"), i, entry)
    {
        char usage[128], name[UNITS_TEXT], arguments[UNITS_TEXT], help[UNITS_TEXT];

        snprintf(usage, sizeof(usage), "%s %s", text_of(entry, "name", name, sizeof(name)),
                 text_of(entry, "arguments", arguments, sizeof(arguments)));
        fprintf(out, "%-42s %s\n", usage, text_of(entry, "help", help, sizeof(help)));
    }
}

/* Status: identity, wanted and actual sizes, workers, counters by subject. */

/* Else another program: see include/wsboard.h. */
static bool is_webserverd(const json_t *status)
{
    return json_object_get(status, "dispatch") != NULL;
}

/* Those of one kind that run, which the list of workers lacks. */
static void print_processes(const json_t *answer, FILE *out)
{
    static const struct {
        const char *member, *name;
    } processes[] = {
        {"logger", "logger"}, {"keys", "keys"}, {"metrics_process", "metrics"}, {"acme", "acme"}};
    const char *separator = "pids         ";

    for (size_t i = 0; i < ARRAY_LENGTH(processes); i++) {
        uint64_t pid = number_of(json_object_get(answer, processes[i].member), "pid");

        if (pid > 0) {
            fprintf(out, "%s%s %" PRIu64, separator, processes[i].name, pid);
            separator = ", ";
        }
    }
    fputs(separator[0] == ',' ? "\n\n" : "\n", out);
}

static void print_maintenance(const json_t *hosts, FILE *out)
{
    const char *separator = "maintenance  ";
    const json_t *host;
    size_t i;

    json_array_foreach(hosts, i, host)
    {
        fprintf(out, "%s%s", separator, host_in_maintenance(host));
        separator = ", ";
    }
    if (json_array_size(hosts) > 0)
        fputs(" are answered 503\n", out);
}

static void print_head(const json_t *answer, FILE *out)
{
    char name[UNITS_TEXT], version[UNITS_TEXT], pid[UNITS_TEXT], up[UNITS_TEXT];
    const json_t *address;
    size_t i;

    fprintf(out, "%-12s %s, pid %s, version %s, up %s\n",
            is_webserverd(answer) ? "webserverd" : "server",
            text_of(answer, "name", name, sizeof(name)), text_of(answer, "pid", pid, sizeof(pid)),
            text_of(answer, "version", version, sizeof(version)), age_of(answer, up, sizeof(up)));
    fprintf(out, "listening    ");
    json_array_foreach(json_object_get(answer, "listening"), i, address)
        fprintf(out, "%s%s", i > 0 ? ", " : "", as_text(address, name, sizeof(name)));
    fprintf(out, "\n");
    if (!is_webserverd(answer)) {
        fprintf(out, "%-12s %s\n%-12s %s\n", "workers",
                text_of(json_object_get(answer, "workers"), "actual", name, sizeof(name)),
                "threads", text_of(json_object_get(answer, "threads"), "actual", pid, sizeof(pid)));
        return;
    }
    fprintf(out, "model        %s\n", text_of(answer, "model", name, sizeof(name)));
    fprintf(out, "dispatch     %s\n", text_of(answer, "dispatch", name, sizeof(name)));
    print_maintenance(json_object_get(answer, "maintenance"), out);
    print_processes(answer, out);
}

static void print_wanted(const char *label, const json_t *pair, FILE *out)
{
    char wanted[UNITS_TEXT], actual[UNITS_TEXT];

    fprintf(out, "%-12s %7s %7s\n", label, text_of(pair, "wanted", wanted, sizeof(wanted)),
            text_of(pair, "actual", actual, sizeof(actual)));
}

static void print_wanted_sizes(const json_t *answer, FILE *out)
{
    fprintf(out, "%-12s %7s %7s\n", "", "wanted", "actual");
    print_wanted("workers", json_object_get(answer, "workers"), out);
    print_wanted("threads each", json_object_get(answer, "threads"), out);
}

static void print_workers(const json_t *list, FILE *out)
{
    const json_t *worker;
    size_t i;

    fprintf(out, "\n%-8s %8s  %-9s %12s %9s %8s %8s %7s\n", "worker", "pid", "state", "threads",
            "acceptors", "offload", "up", "starts");
    json_array_foreach(list, i, worker)
    {
        const json_t *threads = json_object_get(worker, "threads");
        char slot[UNITS_TEXT], pid[UNITS_TEXT], state[UNITS_TEXT], acceptors[UNITS_TEXT],
            offload[UNITS_TEXT], up[UNITS_TEXT], starts[UNITS_TEXT], wanted[UNITS_TEXT],
            actual[UNITS_TEXT], pair[2 * UNITS_TEXT + 8];

        snprintf(pair, sizeof(pair), "%s of %s", text_of(threads, "actual", actual, sizeof(actual)),
                 text_of(threads, "wanted", wanted, sizeof(wanted)));
        fprintf(out, "%-8s %8s  %-9s %12s %9s %8s %8s %7s\n",
                text_of(worker, "slot", slot, sizeof(slot)),
                text_of(worker, "pid", pid, sizeof(pid)),
                text_of(worker, "state", state, sizeof(state)), pair,
                text_of(worker, "acceptors", acceptors, sizeof(acceptors)),
                text_of(worker, "offload_threads", offload, sizeof(offload)),
                age_of(worker, up, sizeof(up)), text_of(worker, "starts", starts, sizeof(starts)));
    }
}

/*
 * One line of metrics and figures. An item is a metric, or a figure as FIGURE_ITEM(name). Figures
 * and times are since the start of the server.
 */
#define FIGURE_ITEM(name) (METRIC_COUNT + FIGURE_##name)

struct answer_subject {
    const char *name;
    int items[9];
    size_t count;
};

static const struct answer_subject subjects[] = {
    {"requests",
     {METRIC_requests, METRIC_requests_keepalive, METRIC_requests_limited,
      METRIC_responses_cut_short},
     4},
    {"responses",
     {FIGURE_ITEM(responses_2xx), FIGURE_ITEM(responses_3xx), FIGURE_ITEM(responses_4xx),
      FIGURE_ITEM(responses_5xx)},
     4},
    {"bytes", {METRIC_bytes_sent, METRIC_bytes_received, METRIC_bytes_saved}, 3},
    {"connections",
     {METRIC_connections_open, METRIC_connections_busy, METRIC_connections_accepted,
      METRIC_connections_closed, METRIC_connections_timed_out, METRIC_connections_reset,
      METRIC_connections_rejected},
     7},
    {"TLS",
     {METRIC_tls_open, METRIC_tls_handshakes, FIGURE_ITEM(tls_resumed_ratio),
      METRIC_tls_failed_timeout, METRIC_tls_failed_version, METRIC_tls_failed_cipher,
      METRIC_tls_failed_client, METRIC_tls_failed_http, METRIC_tls_failed_other},
     9},
    {"HTTP/2",
     {METRIC_requests_http2, METRIC_connections_http2, METRIC_http2_open, METRIC_http2_streams,
      METRIC_http2_resets, METRIC_http2_refused, METRIC_http2_stalled, METRIC_http2_errors},
     8},
    {"waiting",
     {METRIC_accept_queue, METRIC_dispatch_pending, METRIC_connections_queued,
      METRIC_generations_old},
     4},
    {"cache",
     {FIGURE_ITEM(cache_hit_ratio), METRIC_cache_hits, METRIC_cache_misses, METRIC_cache_entries,
      METRIC_cache_bytes, METRIC_thread_cache_bytes, METRIC_cache_evicted},
     7},
    {"queue",
     {METRIC_queue_length, METRIC_queue_capacity, METRIC_queue_taken, METRIC_queue_dropped,
      METRIC_queue_oldest},
     5},
    {"locks", {METRIC_lock_waits, FIGURE_ITEM(lock_wait_mean)}, 2},
    {"offload",
     {METRIC_offload_queue_depth, METRIC_offload_jobs, METRIC_offload_rejected,
      FIGURE_ITEM(offload_wait_mean)},
     4},
    {"cores",
     {FIGURE_ITEM(requests_per_core), FIGURE_ITEM(switches_per_request), METRIC_cpu_time,
      METRIC_switches_voluntary, METRIC_switches_involuntary},
     5},
    {"log",
     {METRIC_log_lines, METRIC_log_bytes, METRIC_log_waits, METRIC_log_dropped,
      METRIC_log_write_errors, METRIC_log_lost},
     6},
};

/*
 * The label without its subject: "cache hits" is "hits" in the line "cache", and "requests" is "".
 */
static const char *label_within(const char *label, const char *subject)
{
    size_t length = strlen(subject);

    if (strncmp(label, subject, length) != 0 || (label[length] != ' ' && label[length] != '\0'))
        return label;
    return label[length] == ' ' ? label + length + 1 : "";
}

static const char *time_text(const json_t *ns, char *buffer, size_t size)
{
    return json_is_number(ns) ? units_format_ns(buffer, size, json_number_value(ns)) : "-";
}

static const char *metric_text(const struct metric_info *info, const json_t *answer, char *buffer,
                               size_t size)
{
    const json_t *value = json_object_get(json_object_get(answer, "metrics"), info->name);

    return info->unit == UNIT_NANOSECONDS ? time_text(value, buffer, size)
                                          : as_text(value, buffer, size);
}

static const char *figure_text(enum figure figure, const json_t *answer, char *buffer, size_t size)
{
    const struct figure_info *info = &figure_table[figure];
    const json_t *value = json_object_get(json_object_get(answer, "figures"), info->name);

    if (!json_is_number(value))
        return "-";
    if (info->unit == UNIT_NANOSECONDS)
        return time_text(value, buffer, size);
    if (info->unit == UNIT_COUNT)
        return json_is_integer(value) ? as_text(value, buffer, size)
                                      : units_format_count(buffer, size, json_number_value(value));
    return units_format_percent(buffer, size, json_number_value(value));
}

/* False if the server publishes none of its metrics. */
static bool is_published(const struct answer_subject *subject, const json_t *answer)
{
    const json_t *metrics = json_object_get(answer, "metrics");
    bool only_figures = true;

    for (size_t i = 0; i < subject->count; i++)
        if (subject->items[i] < METRIC_COUNT) {
            only_figures = false;
            if (json_object_get(metrics, metric_table[subject->items[i]].name) != NULL)
                return true;
        }
    return only_figures;
}

static void print_subject(const struct answer_subject *subject, const json_t *answer, FILE *out)
{
    const char *separator = "";

    fprintf(out, "%-12s ", subject->name);
    for (size_t i = 0; i < subject->count; i++) {
        int item = subject->items[i];
        enum figure figure = (enum figure)(item - METRIC_COUNT); /* if the item is one */
        const char *label = label_within(item < METRIC_COUNT ? metric_table[item].label
                                                             : figure_table[figure].label,
                                         subject->name);
        char text[UNITS_TEXT];

        fprintf(out, "%s%s%s%s", separator, label, label[0] != '\0' ? " " : "",
                item < METRIC_COUNT ? metric_text(&metric_table[item], answer, text, sizeof(text))
                                    : figure_text(figure, answer, text, sizeof(text)));
        separator = ", ";
    }
    fprintf(out, "\n");
}

/* "200 950, 404 40": the statuses that were sent. */
static void print_statuses(const json_t *metrics, FILE *out)
{
    const char *separator = "";

    fprintf(out, "%-12s ", "statuses");
    for (size_t i = 0; i < STATUS_METRICS; i++) {
        const struct metric_info *info = &metric_table[status_metrics[i].metric];
        uint64_t count = number_of(metrics, info->name);

        if (count == 0)
            continue;
        fprintf(out, "%s%s %" PRIu64, separator, info->label, count);
        separator = ", ";
    }
    fprintf(out, "%s\n", separator[0] == '\0' ? "none sent yet" : "");
}

static void print_percentiles(const json_t *times, FILE *out)
{
    static const char *const percentiles[] = {"p50", "p90", "p99", "max"};
    char text[UNITS_TEXT];

    for (size_t i = 0; i < ARRAY_LENGTH(percentiles); i++)
        fprintf(out, ", %s %s", percentiles[i],
                time_text(json_object_get(times, percentiles[i]), text, sizeof(text)));
    fprintf(out, "\n");
}

/* The rate of the last second, and the times of responses and in queues since the start. */
static void print_performance(const json_t *answer, FILE *out)
{
    const json_t *waits = json_object_get(answer, "queue_wait_ns");
    const json_t *rate = json_object_get(answer, "requests_per_s");
    const json_t *cores = json_object_get(answer, "cores"); /* of another program */
    char text[UNITS_TEXT];

    fprintf(out, "%-12s %s\n", "requests/s",
            json_is_number(rate) ? units_format_count(text, sizeof(text), json_number_value(rate))
                                 : "-");
    if (cores != NULL)
        fprintf(out, "%-12s %s of a core\n", "CPU",
                units_format_percent(text, sizeof(text), json_number_value(cores)));
    fprintf(out, "%-12s mean %s", "latency",
            figure_text(FIGURE_response_time_mean, answer, text, sizeof(text)));
    print_percentiles(json_object_get(answer, "latency_ns"), out);
    if (!json_is_number(json_object_get(waits, "max")))
        return;
    fprintf(out, "%-12s mean %s", "queue wait",
            figure_text(FIGURE_queue_wait_mean, answer, text, sizeof(text)));
    print_percentiles(waits, out);
}

enum { HOSTS_PRINTED = 10, HOST_WIDTH = 32 };

static void print_host(const json_t *host, FILE *out)
{
    const json_t *latency = json_object_get(host, "latency_ns");
    char bytes[UNITS_TEXT], p50[UNITS_TEXT], p99[UNITS_TEXT];

    fprintf(
        out,
        "  %-*s %10" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9" PRIu64 " %9s %9s %9s\n",
        HOST_WIDTH, json_string_value(json_object_get(host, "name")), number_of(host, "requests"),
        number_of(host, "responses_2xx"), number_of(host, "responses_3xx"),
        number_of(host, "responses_4xx"), number_of(host, "responses_5xx"),
        units_format_bytes(bytes, sizeof(bytes), (double)number_of(host, "body_bytes")),
        time_text(json_object_get(latency, "p50"), p50, sizeof(p50)),
        time_text(json_object_get(latency, "p99"), p99, sizeof(p99)));
}

/* They are sorted: most requests first. A server without [host] has none. */
static void print_hosts(const json_t *hosts, FILE *out)
{
    size_t count = json_array_size(hosts);

    if (count == 0)
        return;
    fprintf(out, "%-12s %zu%s\n", "hosts", count,
            count > HOSTS_PRINTED ? "; those with the most requests:" : "");
    fprintf(out, "  %-*s %10s %9s %9s %9s %9s %9s %9s %9s\n", HOST_WIDTH, "NAME", "REQUESTS", "2xx",
            "3xx", "4xx", "5xx", "BYTES", "P50", "P99");
    for (size_t i = 0; i < count && i < HOSTS_PRINTED; i++)
        print_host(json_array_get(hosts, i), out);
}

static void print_status(const char *command, const json_t *answer, FILE *out)
{
    (void)command;
    print_head(answer, out);
    if (is_webserverd(answer)) {
        print_wanted_sizes(answer, out);
        print_workers(json_object_get(json_object_get(answer, "workers"), "list"), out);
    }
    fprintf(out, "\n");
    print_performance(answer, out);
    print_statuses(json_object_get(answer, "metrics"), out);
    for (size_t i = 0; i < ARRAY_LENGTH(subjects); i++)
        if (is_webserverd(answer) || is_published(&subjects[i], answer))
            print_subject(&subjects[i], answer, out);
    print_hosts(json_object_get(answer, "hosts"), out);
}

/* One line per key, in the syntax of the file, with origin, default and how it can change. */
static void print_config(const char *command, const json_t *answer, FILE *out)
{
    const json_t *entry;
    size_t i;

    (void)command;
    json_array_foreach(json_object_get(answer, "keys"), i, entry)
    {
        char key[UNITS_TEXT], value[UNITS_TEXT], origin[UNITS_TEXT], change[UNITS_TEXT],
            other[UNITS_TEXT];
        const char *name = text_of(entry, "key", key, sizeof(key));
        const char *text = text_of(entry, "value", value, sizeof(value));

        fprintf(out, "%-30s = %-24s # %s; default %s; %s", name, text,
                text_of(entry, "origin", origin, sizeof(origin)),
                text_of(entry, "default", other, sizeof(other)),
                text_of(entry, "change", change, sizeof(change)));
        if (json_object_get(entry, "command") != NULL)
            fprintf(out, ": wsctl %s", text_of(entry, "command", other, sizeof(other)));
        fputc('\n', out);
    }
}

static void print_reload(const char *command, const json_t *answer, FILE *out)
{
    char text[UNITS_TEXT];
    const json_t *key;
    size_t i;

    (void)command;
    fprintf(out, "reloaded: generation %s; ", text_of(answer, "generation", text, sizeof(text)));
    json_array_foreach(json_object_get(answer, "changed"), i, key)
        fprintf(out, "%s%s", i == 0 ? "changed: " : ", ", as_text(key, text, sizeof(text)));
    fprintf(out, "%s\n", i == 0 ? "no changes" : "");
}

static void print_last_thread(const json_t *thread, const char *kind, FILE *out)
{
    char number[UNITS_TEXT], state[UNITS_TEXT], work[UNITS_TEXT], open[UNITS_TEXT];
    char since[UNITS_TEXT];
    const json_t *line;
    size_t i;

    fprintf(
        out, "  %s %s: %s for %s", kind, text_of(thread, kind, number, sizeof(number)),
        text_of(thread, "state", state, sizeof(state)),
        units_format_ns(since, sizeof(since),
                        json_number_value(json_object_get(thread, "since_s")) * (double)NS_PER_S));
    if (json_object_get(thread, "connections") != NULL)
        fprintf(out, ", %s %s", text_of(thread, "connections", open, sizeof(open)),
                units_plural(number_of(thread, "connections"), "connection", "connections"));
    fprintf(out, ", last on: %s\n", text_of(thread, "work", work, sizeof(work)));
    json_array_foreach(json_object_get(thread, "last"), i, line)
        fprintf(out, "    %s\n", as_text(line, work, sizeof(work)));
}

static void print_post_mortem(const char *command, const json_t *answer, FILE *out)
{
    const json_t *deaths = json_object_get(answer, "deaths"), *death, *thread;
    char slot[UNITS_TEXT], pid[UNITS_TEXT], when[UNITS_TEXT], lived[UNITS_TEXT], how[UNITS_TEXT];
    size_t i, t;

    (void)command;
    if (json_array_size(deaths) == 0)
        fprintf(out, "no worker has died\n");
    json_array_foreach(deaths, i, death)
    {
        fprintf(out, "%s  worker %s (pid %s) %s, after %s s\n",
                text_of(death, "time", when, sizeof(when)),
                text_of(death, "worker", slot, sizeof(slot)),
                text_of(death, "pid", pid, sizeof(pid)), text_of(death, "how", how, sizeof(how)),
                text_of(death, "lived_s", lived, sizeof(lived)));
        json_array_foreach(json_object_get(death, "threads"), t, thread)
            print_last_thread(thread, "thread", out);
        json_array_foreach(json_object_get(death, "offload"), t, thread)
            print_last_thread(thread, "offload", out);
    }
}

/*
 * Sizes in the syntax of the configuration; the used size, which is rarely a round number, with
 * decimals.
 */
static void print_cache_size(const char *command, const json_t *answer, FILE *out)
{
    char wanted[UNITS_TEXT], actual[UNITS_TEXT], used[UNITS_TEXT];

    fprintf(out, "%s: %s per worker requested, %s in force; the fullest cache uses %s\n", command,
            units_format_size(wanted, sizeof(wanted), number_of(answer, "wanted")),
            units_format_size(actual, sizeof(actual), number_of(answer, "actual")),
            units_format_bytes(used, sizeof(used), (double)number_of(answer, "used")));
}

/* The wanted number is per worker, the actual number is the total of all workers. */
static void print_offload_threads(const char *command, const json_t *answer, FILE *out)
{
    char wanted[UNITS_TEXT], actual[UNITS_TEXT];

    fprintf(out, "%s: %s per worker requested, %s running in total\n", command,
            text_of(answer, "wanted", wanted, sizeof(wanted)),
            text_of(answer, "actual", actual, sizeof(actual)));
}

static void print_spread(const json_t *connections, FILE *out)
{
    const json_t *worker, *open;
    char text[UNITS_TEXT];
    size_t i, n;

    fprintf(out, "connections of each thread:");
    json_array_foreach(connections, i, worker)
    {
        if (json_array_size(connections) > 1)
            fprintf(out, "%s worker %s:", i > 0 ? "," : "",
                    text_of(worker, "worker", text, sizeof(text)));
        json_array_foreach(json_object_get(worker, "threads"), n, open)
            fprintf(out, " %s", as_text(open, text, sizeof(text)));
    }
    fputc('\n', out);
}

/* For commands that change how connections are spread. */
static void print_members_and_spread(const char *command, const json_t *answer, FILE *out)
{
    const json_t *connections = json_object_get(answer, "connections");

    print_members(command, answer, out);
    if (connections != NULL)
        print_spread(connections, out);
}

/* Limits of clients, certificates */

/* A line for each limit. */
static void print_limits(const char *command, const json_t *answer, FILE *out)
{
    const json_t *list = json_object_get(answer, "limits");

    (void)command;
    if (json_array_size(list) == 0)
        fprintf(out, "no client has a limit of its own");
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *limit = json_array_get(list, i);
        uint64_t left_s = (uint64_t)json_integer_value(json_object_get(limit, "remaining_s"));
        char left[UNITS_TEXT], rate[UNITS_TEXT] = "blocked";

        if (!json_is_true(json_object_get(limit, "blocked")))
            snprintf(rate, sizeof(rate), "%lld/s",
                     (long long)json_integer_value(json_object_get(limit, "requests_per_second")));
        fprintf(out, "%s%-24s %-10s for another %s, %lld rejected", i > 0 ? "\n" : "",
                json_string_value(json_object_get(limit, "client")), rate,
                units_format_age(left, sizeof(left), left_s * NS_PER_S),
                (long long)json_integer_value(json_object_get(limit, "rejected")));
    }
}

/* The text member NAME of JSON. */
static const char *string_or_unknown(const json_t *json, const char *name)
{
    const char *text = json_string_value(json_object_get(json, name));

    return text != NULL ? text : "?";
}

/* Prints a line with the time NAME of CERTIFICATE. */
static void print_utc(const json_t *certificate, const char *what, const char *name, FILE *out)
{
    char text[UNITS_TEXT];

    fprintf(out, "  %s %s\n", what,
            units_format_utc(text, sizeof(text),
                             json_integer_value(json_object_get(certificate, name))));
}

static void print_certificate(const json_t *certificate, FILE *out)
{
    const json_t *names = json_object_get(certificate, "names"), *name;
    json_int_t failures = json_integer_value(json_object_get(certificate, "failures"));
    size_t i;

    json_array_foreach(names, i, name)
        fprintf(out, "%s%s", i > 0 ? " " : "",
                json_string_length(name) > 0 ? json_string_value(name) : "?");
    fputs(i == 0 ? "(no DNS name)\n" : "\n", out);
    print_utc(certificate, "valid until", "not_after", out);
    fprintf(out, "  issuer %s\n", string_or_unknown(certificate, "issuer"));
    if (json_object_get(certificate, "next_attempt") == NULL)
        return;
    print_utc(certificate, "next attempt", "next_attempt", out);
    if (failures > 0)
        fprintf(out, "  %lld %s failed, the last one: %s\n", (long long)failures,
                failures == 1 ? "attempt" : "attempts", string_or_unknown(certificate, "error"));
}

static void print_certificates(const char *command, const json_t *answer, FILE *out)
{
    const json_t *list = json_object_get(answer, "certificates"), *certificate;
    size_t i;

    (void)command;
    if (json_array_size(list) == 0)
        fputs("no address needs a certificate\n", out);
    json_array_foreach(list, i, certificate) print_certificate(certificate, out);
}

static void print_acme(const char *command, const json_t *answer, FILE *out)
{
    (void)command;
    if (json_object_get(answer, "key_replaced") != NULL) {
        fputs(json_is_true(json_object_get(answer, "key_replaced"))
                  ? "the key of the account is replaced\n"
                  : "the key of the account is still being replaced; the error log shows the "
                    "result\n",
              out);
    } else if (json_is_true(json_object_get(answer, "obtained"))) {
        fprintf(out, "%s: a new certificate is in use\n", string_or_unknown(answer, "host"));
        print_utc(answer, "next attempt", "next_attempt", out);
    } else {
        fprintf(out,
                "%s: a certificate is still being requested; the error log and 'certificates' "
                "show the result\n",
                string_or_unknown(answer, "host"));
    }
}

/* Commands with their own format; the others print their members. */
static const struct {
    const char *command;
    void (*print)(const char *command, const json_t *answer, FILE *out);
} printers[] = {{"ping", print_ping},
                {"status", print_status},
                {"stop", print_stop},
                {"upgrade", print_upgrade},
                {"maintenance", print_maintenance_reply},
                {"reopen-logs", print_reopened},
                {"limit-client", print_limits},
                {"help", print_command_list},
                {"config", print_config},
                {"reload", print_reload},
                {"cache-size", print_cache_size},
                {"threads", print_members_and_spread},
                {"workers", print_members_and_spread},
                {"balance", print_members_and_spread},
                {"model", print_model},
                {"offload-threads", print_offload_threads},
                {"post-mortem", print_post_mortem},
                {"certificates", print_certificates},
                {"acme", print_acme}};

/* Replaces each string in VALUE by its escaped form. */
static void escape_strings(json_t *value)
{
    const char *key;
    json_t *member;
    size_t i;

    if (json_is_string(value)) {
        size_t length = json_string_length(value), size = ESCAPE_TEXT_BYTES(length);
        char *text = malloc(size);

        json_string_set(
            value, text != NULL ? escape_text(text, size, json_string_value(value), length) : "");
        free(text);
    }
    json_object_foreach(value, key, member) escape_strings(member);
    json_array_foreach(value, i, member) escape_strings(member);
}

/* The answer of a server of another program is a message; "" says no more than that it is done. */
static void print_done(const char *command, json_t *answer, FILE *out)
{
    const char *message;
    const json_t *note;
    size_t i = 0, k;

    escape_strings(answer);
    message = json_string_value(json_object_get(answer, "message"));
    if (message != NULL) {
        fprintf(out, "%s\n", message[0] != '\0' ? message : "done");
        return;
    }
    while (i < ARRAY_LENGTH(printers) && strcmp(printers[i].command, command) != 0)
        i++;
    (i < ARRAY_LENGTH(printers) ? printers[i].print : print_members)(command, answer, out);
    json_array_foreach(json_object_get(answer, "notes"), k, note)
        fprintf(out, "note: %s\n", json_is_string(note) ? json_string_value(note) : "?");
}

enum answer answer_print(const char *command, const char *line, FILE *out)
{
    json_error_t error;
    json_t *answer = json_loads(line, 0, &error);
    char shown[ESCAPE_TEXT_BYTES(60)];
    const json_t *ok = json_object_get(answer, "ok");
    const char *error_text = json_string_value(json_object_get(answer, "error"));
    enum answer result = !json_is_boolean(ok) ? ANSWER_BROKEN
                         : json_is_true(ok)   ? ANSWER_DONE
                                              : ANSWER_REJECTED;

    if (result == ANSWER_DONE)
        print_done(command, answer, out);
    else if (result == ANSWER_REJECTED)
        escape_print_lines(out, error_text != NULL
                                    ? error_text
                                    : "the daemon rejected the command without a reason");
    else
        fprintf(out, "invalid answer to '%s': %s", command,
                escape_text(shown, sizeof(shown), line, strnlen(line, 60)));
    json_decref(answer);
    return result;
}

enum answer answer_sentence(const char *command, const char *line, char *buffer, size_t size)
{
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    enum answer result;

    if (out == NULL) {
        snprintf(buffer, size, "out of memory");
        return ANSWER_BROKEN;
    }
    result = answer_print(command, line, out);
    fclose(out);
    snprintf(buffer, size, "%.*s", (int)strcspn(text, "\n"), text);
    free(text);
    return result;
}
