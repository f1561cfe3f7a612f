#include "loadgen/report/json.h"

#include "common/clock.h"
#include "common/escape.h"

#include "loadgen/base/resources.h"
#include "loadgen/report/latencies.h"
#include "loadgen/stats/result.h"

#include <curl/curl.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

/* ---- Text ---- */

int json_write(FILE *out, json_t *object, size_t flags)
{
    char *text = json_dumps(object, flags | JSON_REAL_PRECISION(9));
    char *safe = text != NULL ? escape_json_text(text) : NULL;
    int result = safe != NULL && fprintf(out, "%s\n", safe) > 0 ? 0 : -1;

    free(safe);
    free(text);
    json_decref(object);
    return result;
}

json_t *text_json(const char *text)
{
    size_t size = ESCAPE_TEXT_BYTES(strlen(text));
    char *escaped = malloc(size);
    json_t *string =
        escaped != NULL ? json_string(escape_text(escaped, size, text, strlen(text))) : NULL;

    free(escaped);
    return string;
}

/* ---- Measures ---- */

json_t *integer_json(uint64_t number)
{
    return json_integer((json_int_t)number);
}

json_t *number_json(double value)
{
    return isnan(value) || isinf(value) ? json_null() : json_real(value);
}

json_t *measures_json(const struct measures *measures)
{
    json_t *object = json_object();

    for (size_t i = 0; i < MEASURE_COUNT; i++)
        json_object_set_new(object, measure_table[i].name, number_json(measures->value[i]));
    return object;
}

json_t *interval_json(const struct interval *interval)
{
    return json_pack("{s:o, s:o, s:o}", "median", number_json(interval->median), "low",
                     number_json(interval->low), "high", number_json(interval->high));
}

json_t *environment_json(const struct plan *plan)
{
    const curl_version_info_data *libcurl = curl_version_info(CURLVERSION_NOW);
    struct utsname machine;

    uname(&machine);
    return json_pack("{s:o, s:o, s:o, s:o, s:I, s:s, s:o}", "command",
                     plan->command_line != NULL ? text_json(plan->command_line) : json_null(),
                     "host", text_json(machine.nodename), "system", text_json(machine.sysname),
                     "kernel", text_json(machine.release), "cores", (json_int_t)resources_cores(),
                     "libcurl", libcurl->version, "tls",
                     libcurl->ssl_version != NULL ? text_json(libcurl->ssl_version) : json_null());
}

/* ---- The report ---- */

static json_t *of_counter(const struct result *result, enum tally_counter counter)
{
    return integer_json(tally_get(&result->tally, counter));
}

static json_t *plan_object(const struct result *result)
{
    static const char *const versions[] = {
        [PLAN_HTTP_1_1] = "1.1", [PLAN_HTTP_1_0] = "1.0", [PLAN_HTTP_2] = "2"};
    const struct plan *plan = result->plan;
    json_t *object = json_object();

    json_object_set_new(object, "url", text_json(result->url));
    json_object_set_new(object, "method", text_json(plan->method));
    json_object_set_new(object, "urls", integer_json(result->requests));
    json_object_set_new(object, "engine", json_string(result->engine));
    json_object_set_new(object, "connections", integer_json(plan->connections_requested));
    json_object_set_new(object, "threads", integer_json(plan->threads));
    json_object_set_new(object, "requests",
                        plan->requests > 0 ? integer_json(plan->requests) : json_null());
    json_object_set_new(object, "duration_s",
                        plan->duration_ms > 0 ? json_real((double)plan->duration_ms / 1e3)
                                              : json_null());
    json_object_set_new(object, "warmup_s", json_real((double)plan->warmup_ms / 1e3));
    json_object_set_new(object, "loop", json_string(plan_is_open(plan) ? "open" : "closed"));
    json_object_set_new(object, "rate", plan->rate > 0 ? json_real(plan->rate) : json_null());
    json_object_set_new(object, "arrivals",
                        plan_is_open(plan) ? json_string(plan->poisson ? "poisson" : "constant")
                                           : json_null());
    json_object_set_new(object, "seed",
                        result->merged > 0 ? json_null() : integer_json(plan->seed));
    json_object_set_new(object, "keepalive", json_boolean(plan->keepalive));
    json_object_set_new(object, "http", json_string(versions[plan->http]));
    json_object_set_new(object, "streams", integer_json(plan->streams));
    json_object_set_new(object, "page_loads", json_boolean(plan->page_loads));
    json_object_set_new(object, "rounds", integer_json(plan->rounds));
    json_object_set_new(object, "max_errors_percent", json_real(plan->max_errors));
    return object;
}

static json_t *requests_object(const struct result *result)
{
    json_t *object = json_object();

    json_object_set_new(object, "begun", of_counter(result, TALLY_begun));
    json_object_set_new(object, "answered", of_counter(result, TALLY_answered));
    json_object_set_new(object, "failed", integer_json(tally_errors(&result->tally)));
    json_object_set_new(object, "unanswered", of_counter(result, TALLY_unanswered));
    json_object_set_new(object, "bad_statuses", of_counter(result, TALLY_bad_statuses));
    json_object_set_new(object, "bad_contents", of_counter(result, TALLY_bad_contents));
    json_object_set_new(object, "bad_extractions", of_counter(result, TALLY_bad_extractions));
    json_object_set_new(object, "unsent", integer_json(tally_unsent(&result->tally)));
    json_object_set_new(object, "unsent_late", of_counter(result, TALLY_unsent_late));
    json_object_set_new(object, "late", of_counter(result, TALLY_late));
    json_object_set_new(object, "waited", of_counter(result, TALLY_waited));
    json_object_set_new(object, "retried", of_counter(result, TALLY_retried));
    json_object_set_new(object, "downgraded", of_counter(result, TALLY_downgraded));
    json_object_set_new(object, "warmup", integer_json(tally_get(&result->warmup, TALLY_begun)));
    json_object_set_new(object, "error_percent", json_real(result_bad_percent(result)));
    return object;
}

static json_t *connections_object(const struct result *result)
{
    json_t *object = json_object();
    uint64_t used = tally_get(&result->tally, TALLY_clients_used);

    json_object_set_new(object, "asked", integer_json(result->plan->connections_requested));
    json_object_set_new(object, "used", of_counter(result, TALLY_clients_used));
    json_object_set_new(object, "at_the_end",
                        integer_json(result->connections < used ? result->connections : used));
    json_object_set_new(object, "up", of_counter(result, TALLY_clients_up));
    json_object_set_new(object, "opened", of_counter(result, TALLY_connections_opened));
    json_object_set_new(object, "unsolicited", of_counter(result, TALLY_connections_unsolicited));
    return object;
}

static json_t *statuses_object(const struct tally *tally)
{
    json_t *object = json_object();

    for (uint32_t status = 0; status < TALLY_STATUSES; status++) {
        char name[8];

        if (tally_status(tally, status) == 0)
            continue;
        snprintf(name, sizeof(name), "%03u", status);
        json_object_set_new(object, name, integer_json(tally_status(tally, status)));
    }
    return object;
}

/* Every kind is a member, even if its count is 0. */
static json_t *errors_object(const struct result *result)
{
    json_t *object = json_object();

    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        json_object_set_new(object, error_kind_names[kind],
                            integer_json(tally_error(&result->tally, (enum error_kind)kind)));
    return object;
}

static json_t *microseconds_json(double ns)
{
    return json_real(ns / (double)NS_PER_US);
}

/* Null if no value lies beyond the percentile. */
static json_t *percentile_json(const struct histogram *times, double percent)
{
    if (!measure_percentile_is_known(percent, histogram_count(times)))
        return json_null();
    return microseconds_json((double)histogram_percentile(times, percent));
}

/* The buckets that are not empty: "150:3,1 200:7" is 3 values in bucket 150, 1 in 151, 7 in 200. */
static json_t *counts_json(const struct histogram *times)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);
    uint64_t before = 0;
    json_t *string;

    if (out == NULL)
        return NULL;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        uint64_t count = atomic_load_explicit(&times->bucket[i], memory_order_relaxed);

        if (count > 0 && before > 0)
            fprintf(out, ",%" PRIu64, count);
        else if (count > 0)
            fprintf(out, "%s%" PRIu32 ":%" PRIu64, ftell(out) > 0 ? " " : "", i, count);
        before = count;
    }
    string = fclose(out) == 0 ? json_string(text) : NULL;
    free(text);
    return string;
}

static json_t *histogram_object(const struct histogram *times)
{
    json_t *object = json_object();
    uint64_t sum = atomic_load_explicit(&times->sum, memory_order_relaxed);

    json_object_set_new(object, "sub_buckets", json_integer(HISTOGRAM_SUB_BUCKETS));
    json_object_set_new(object, "buckets", json_integer(HISTOGRAM_BUCKETS));
    json_object_set_new(object, "sum_ns", integer_json(sum));
    json_object_set_new(object, "max_ns", integer_json(histogram_max(times)));
    json_object_set_new(object, "counts", counts_json(times));
    return object;
}

static json_t *times_object(const struct plan *plan, const struct histogram *times)
{
    json_t *object = json_object();
    size_t count;
    const double *percents = report_percentiles(plan, &count);
    char name[REPORT_PERCENTILE_NAME];

    json_object_set_new(object, "count", integer_json(histogram_count(times)));
    json_object_set_new(object, "mean", microseconds_json(histogram_mean(times)));
    for (size_t i = 0; i < count; i++)
        json_object_set_new(object, report_percentile_name(name, percents[i]),
                            percentile_json(times, percents[i]));
    json_object_set_new(object, "max", microseconds_json((double)histogram_max(times)));
    json_object_set_new(object, "histogram", histogram_object(times));
    return object;
}

static json_t *step_object(const struct plan *plan, const struct scenario_row *row)
{
    json_t *object = json_object();

    json_object_set_new(object, "name", text_json(row->name));
    json_object_set_new(object, "begun", integer_json(row->begun));
    json_object_set_new(object, "passed", integer_json(row->good));
    json_object_set_new(object, "failed", integer_json(row->errors));
    json_object_set_new(object, "unanswered", integer_json(row->open));
    json_object_set_new(object, "bad_statuses", integer_json(row->bad_statuses));
    json_object_set_new(object, "bad_extractions", integer_json(row->bad_extractions));
    json_object_set_new(object, "extraction_error",
                        row->why[0] != '\0' ? text_json(row->why) : json_null());
    json_object_set_new(object, "latency_us", times_object(plan, &row->times));
    return object;
}

static json_t *scenario_object(const struct plan *plan, const struct scenario_row *row)
{
    json_t *object = json_object();

    json_object_set_new(object, "name", text_json(row->name));
    json_object_set_new(object, "weight", integer_json(row->weight));
    json_object_set_new(object, "begun", integer_json(row->begun));
    json_object_set_new(object, "completed", integer_json(row->good));
    json_object_set_new(object, "failed", integer_json(row->failed));
    json_object_set_new(object, "unfinished", integer_json(row->open));
    json_object_set_new(object, "duration_us", times_object(plan, &row->times));
    json_object_set_new(object, "steps", json_array());
    return object;
}

/* Null without scenarios. */
static json_t *scenarios_array(const struct result *result)
{
    const struct scenario_tally *tally = result->scenarios;
    json_t *array, *scenario = NULL;

    if (tally == NULL)
        return json_null();
    array = json_array();
    for (size_t i = 0; i < tally->count; i++) {
        const struct scenario_row *row = &tally->row[i];

        if (row->weight == 0) {
            json_array_append_new(json_object_get(scenario, "steps"),
                                  step_object(result->plan, row));
            continue;
        }
        scenario = scenario_object(result->plan, row);
        json_array_append_new(array, scenario);
    }
    return array;
}

static json_t *client_object(const struct result *result)
{
    json_t *object = json_object();

    json_object_set_new(object, "cpu_s", json_real((double)result->cpu_ns / 1e9));
    json_object_set_new(object, "thread_s", json_real((double)result->thread_ns / 1e9));
    json_object_set_new(object, "threads", integer_json(result->threads));
    json_object_set_new(object, "cpu_share_of_thread", json_real(result_cpu_share(result)));
    json_object_set_new(object, "wait_share_of_thread", json_real(result_wait_share(result)));
    json_object_set_new(object, "machine_busy_percent", number_json(100 * result->machine_busy));
    return object;
}

/* Null if no webserverd of this machine listens at the target. */
static json_t *server_object(const struct server_check_result *server)
{
    if (server->outcome == SERVER_CHECK_NONE)
        return json_null();
    return json_pack("{s:o, s:I, s:I, s:b, s:o}", "name", text_json(server->name), "counted",
                     (json_int_t)server->counted, "answered_here", (json_int_t)server->sent, "same",
                     server->outcome == SERVER_CHECK_SAME, "cpu_cores", number_json(server->cores));
}

/* Null in a second without responses. */
static json_t *second_time_json(const struct series_entry *entry, uint64_t ns)
{
    return entry->answered > 0 ? microseconds_json((double)ns) : json_null();
}

static json_t *second_object(const struct series_entry *entry)
{
    json_t *object = json_object();

    json_object_set_new(object, "begin_s", json_real((double)entry->begin_ns / 1e9));
    json_object_set_new(object, "end_s", json_real((double)entry->end_ns / 1e9));
    json_object_set_new(object, "begun", integer_json(entry->begun));
    json_object_set_new(object, "answered", integer_json(entry->answered));
    json_object_set_new(object, "bad", integer_json(entry->bad));
    json_object_set_new(object, "bytes", integer_json(entry->bytes));
    json_object_set_new(object, "mean_us", second_time_json(entry, entry->mean_ns));
    json_object_set_new(object, "p50_us", second_time_json(entry, entry->p50_ns));
    json_object_set_new(object, "p90_us", second_time_json(entry, entry->p90_ns));
    json_object_set_new(object, "p99_us", second_time_json(entry, entry->p99_ns));
    json_object_set_new(object, "max_us", second_time_json(entry, entry->max_ns));
    json_object_set_new(object, "service_p99_us", second_time_json(entry, entry->service_p99_ns));
    json_object_set_new(object, "rate", json_real(entry->rate));
    json_object_set_new(object, "connections", integer_json(entry->connections));
    json_object_set_new(object, "threads", integer_json(entry->threads));
    json_object_set_new(object, "warmup", json_boolean(entry->warmup));
    json_object_set_new(object, "round", integer_json(entry->round > 0 ? entry->round : 1));
    return object;
}

static json_t *seconds_array(const struct series *series)
{
    json_t *array = json_array();

    for (size_t i = 0; series != NULL && i < series->count; i++)
        json_array_append_new(array, second_object(&series->entry[i]));
    return array;
}

/* Null for a single run. */
static json_t *rounds_array(const struct rounds *rounds)
{
    json_t *array;

    if (rounds == NULL)
        return json_null();
    array = json_array();
    for (uint32_t i = 0; i < rounds->done; i++)
        json_array_append_new(array, measures_json(trials_get(rounds->trials, 0, i)));
    return array;
}

static json_t *medians_object(const struct rounds *rounds)
{
    json_t *object;

    if (rounds == NULL)
        return json_null();
    object = json_object();
    for (size_t i = 0; i < MEASURE_COUNT; i++) {
        const struct interval interval = rounds_interval(rounds, (enum measure)i);

        json_object_set_new(object, measure_table[i].name, interval_json(&interval));
    }
    return object;
}

static json_t *notes_array(const struct result *result)
{
    struct result_note notes[RESULT_NOTES_MAX];
    size_t count = result_notes(result, notes);
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, json_pack("{s:s, s:o}", "name", notes[i].name, "text",
                                               text_json(notes[i].text)));
    return array;
}

/* Without TLS, tls, cipher and tls_group are null. */
static json_t *negotiated_array(const struct negotiations *negotiations)
{
    json_t *array = json_array();

    for (size_t i = 0; i < negotiations->count; i++) {
        const struct negotiation *what = &negotiations->of[i].what;

        json_array_append_new(
            array,
            json_pack("{s:s, s:o, s:o, s:o, s:I}", "http", what->http, "tls",
                      what->tls[0] != '\0' ? json_string(what->tls) : json_null(), "cipher",
                      what->cipher[0] != '\0' ? text_json(what->cipher) : json_null(), "tls_group",
                      what->group[0] != '\0' ? text_json(what->group) : json_null(), "connections",
                      (json_int_t)negotiations->of[i].connections));
    }
    return array;
}

static json_t *error_texts_object(const struct error_texts *texts)
{
    json_t *object = json_object();

    for (size_t kind = 0; kind < ERROR_KIND_COUNT; kind++)
        if (texts->first[kind][0] != '\0')
            json_object_set_new(object, error_kind_names[kind], text_json(texts->first[kind]));
    return object;
}

/* What each kind of hostile clients did. */
static json_t *hostile_array(const struct result *result)
{
    json_t *array = json_array();

    for (size_t kind = 0; kind < PLAN_HOSTILE_KINDS; kind++) {
        const struct hostile_count *count = &result->hostile[kind];

        if (count->asked > 0)
            json_array_append_new(
                array,
                json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:f}", "kind",
                          hostile_kind_names[kind], "clients", (json_int_t)count->asked, "opened",
                          (json_int_t)count->opened, "failed", (json_int_t)count->failed,
                          "closed_by_server", (json_int_t)count->closed, "at_the_end",
                          (json_int_t)count->open, "mean_held_s",
                          number_json(count->opened > 0
                                          ? (double)count->held_ns / 1e9 / (double)count->opened
                                          : NAN),
                          "longest_held_s", (double)count->longest_ns / 1e9));
    }
    return array;
}

/* The run without hostile clients, if there was one. */
static json_t *without_hostile_array(const struct result *result)
{
    json_t *array = json_array();

    if (result->alone != NULL)
        json_array_append_new(array, measures_json(result->alone));
    return array;
}

/* Null for the report of one run. */
static json_t *merged_object(const struct result *result)
{
    if (result->merged == 0)
        return json_null();
    return json_pack("{s:I, s:f, s:f}", "reports", (json_int_t)result->merged, "overlap_from_s",
                     (double)result->overlap_from_ns / 1e9, "overlap_s",
                     (double)result->overlap_ns / 1e9);
}

int result_write_json(FILE *out, const struct result *result)
{
    const struct tally *tally = &result->tally;
    json_t *object = json_object();

    json_object_set_new(object, "schema", json_integer(REPORT_SCHEMA));
    json_object_set_new(object, "wsload", json_string(WEBSERVERD_VERSION));
    json_object_set_new(object, "plan", plan_object(result));
    json_object_set_new(object, "environment", environment_json(result->plan));
    json_object_set_new(object, "merged", merged_object(result));
    json_object_set_new(object, "began_unix_us", integer_json(result->began_unix_ns / NS_PER_US));
    json_object_set_new(object, "elapsed_s", json_real((double)result->elapsed_ns / 1e9));
    json_object_set_new(object, "due_s", json_real((double)result->due_ns / 1e9));
    json_object_set_new(object, "requests_per_second", json_real(result_rate(result)));
    json_object_set_new(object, "due_per_second",
                        result_is_open(result) ? json_real(result_rate_due(result)) : json_null());
    json_object_set_new(object, "requests", requests_object(result));
    json_object_set_new(object, "connections", connections_object(result));
    json_object_set_new(object, "bytes",
                        json_pack("{s:o, s:o}", "head", of_counter(result, TALLY_head_bytes),
                                  "body", of_counter(result, TALLY_body_bytes)));
    json_object_set_new(object, "statuses", statuses_object(tally));
    json_object_set_new(object, "errors", errors_object(result));
    json_object_set_new(object, "error_texts", error_texts_object(&result->error_texts));
    json_object_set_new(object, "latency_us", times_object(result->plan, &tally->latency));
    json_object_set_new(object, "service_us", times_object(result->plan, &tally->service));
    json_object_set_new(object, "first_byte_us", times_object(result->plan, &tally->first_byte));
    json_object_set_new(object, "connect_us", times_object(result->plan, &tally->connect));
    json_object_set_new(object, "full_handshake_us",
                        times_object(result->plan, &tally->full_handshake));
    json_object_set_new(object, "resumed_handshake_us",
                        times_object(result->plan, &tally->resumed_handshake));
    json_object_set_new(object, "scenarios", scenarios_array(result));
    json_object_set_new(object, "hostile", hostile_array(result));
    json_object_set_new(object, "without_hostile", without_hostile_array(result));
    json_object_set_new(object, "negotiated", negotiated_array(&result->negotiations));
    json_object_set_new(object, "client", client_object(result));
    json_object_set_new(object, "server", server_object(&result->server));
    json_object_set_new(object, "medians", medians_object(result->rounds));
    json_object_set_new(object, "rounds", rounds_array(result->rounds));
    json_object_set_new(object, "seconds", seconds_array(result->series));
    json_object_set_new(object, "notes", notes_array(result));
    json_object_set_new(object, "interrupted", json_boolean(result->interrupted));
    json_object_set_new(object, "exit_status", json_integer(result_status(result)));
    return json_write(out, object, JSON_INDENT(2));
}
