#include "loadgen/report/report.h"

#include "common/clock.h"

#include "loadgen/stats/result.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Members of a report ---- */

/*
 * Each function below checks a member: an error is kept with the member's full name, "FILE:
 * requests.begun is missing", and only the first. The value is then 0 or "".
 */

/* The highest time that is read; 32 years in seconds. */
#define TIME_MAX_S 1e9

enum { REPORT_PLACE = 128 };

struct report_reader {
    const char *file;
    char *why;
    size_t size;
    bool failed;
};

/*
 * An object of the report. Its members' names begin with PLACE: "", "requests.", "seconds[3].", ...
 */
struct report_part {
    struct report_reader *reader;
    const json_t *object;
    char place[REPORT_PLACE];
};

PRINTF_LIKE(3, 4)
static void part_fail(const struct report_part *part, const char *name, const char *format, ...)
{
    struct report_reader *reader = part->reader;
    va_list arguments;
    int used;

    if (reader->failed)
        return;
    reader->failed = true;
    used = snprintf(reader->why, reader->size, "%s: %s%s%s", reader->file, part->place, name,
                    name[0] != '\0' ? " " : "");
    va_start(arguments, format);
    if (used >= 0 && (size_t)used < reader->size)
        vsnprintf(reader->why + used, reader->size - (size_t)used, format, arguments);
    va_end(arguments);
}

static const json_t *part_member(const struct report_part *part, const char *name)
{
    const json_t *value = json_object_get(part->object, name);

    if (value == NULL)
        part_fail(part, name, "is missing: an older wsload wrote the report, or it is not one");
    return value;
}

/* The object NAME. */
static struct report_part part_of(const struct report_part *part, const char *name)
{
    const json_t *value = part_member(part, name);
    struct report_part inner = {part->reader, value, ""};

    snprintf(inner.place, sizeof(inner.place), "%.60s%.60s.", part->place, name);
    if (value != NULL && !json_is_object(value))
        part_fail(part, name, "is not an object");
    return inner;
}

/* The array NAME. */
static const json_t *part_array(const struct report_part *part, const char *name)
{
    const json_t *array = part_member(part, name);

    if (!json_is_array(array))
        part_fail(part, name, "is not an array");
    return array;
}

/* The object I in it. */
static struct report_part part_item(const struct report_part *part, const char *name,
                                    const json_t *array, size_t i)
{
    struct report_part item = {part->reader, json_array_get(array, i), ""};

    snprintf(item.place, sizeof(item.place), "%.60s%.40s[%zu].", part->place, name, i);
    return item;
}

static uint64_t part_up_to(const struct report_part *part, const char *name, uint64_t max)
{
    const json_t *value = part_member(part, name);

    if (json_is_integer(value) && json_integer_value(value) >= 0 &&
        (uint64_t)json_integer_value(value) <= max)
        return (uint64_t)json_integer_value(value);
    part_fail(part, name, "is not an integer from 0 to %" PRIu64, max);
    return 0;
}

static uint64_t part_count(const struct report_part *part, const char *name)
{
    return part_up_to(part, name, INT64_MAX / 1000);
}

static uint32_t part_small(const struct report_part *part, const char *name)
{
    return (uint32_t)part_up_to(part, name, PLAN_CONNECTIONS_MAX);
}

static double part_number(const struct report_part *part, const char *name)
{
    const json_t *value = part_member(part, name);

    if (json_is_number(value) && json_number_value(value) >= 0)
        return json_number_value(value);
    part_fail(part, name, "is not a number of 0 or more");
    return 0;
}

/* A time of UNIT_NS, in ns. */
static uint64_t part_time(const struct report_part *part, const char *name, double unit_ns)
{
    double value = part_number(part, name) * unit_ns;

    if (value <= TIME_MAX_S * 1e9)
        return (uint64_t)llround(value);
    part_fail(part, name, "is too long a time");
    return 0;
}

static bool part_is_null(const struct report_part *part, const char *name)
{
    return json_is_null(part_member(part, name));
}

static bool part_switch(const struct report_part *part, const char *name)
{
    const json_t *value = part_member(part, name);

    if (!json_is_boolean(value))
        part_fail(part, name, "is not true or false");
    return json_is_true(value);
}

/* Valid as long as the report. */
static const char *part_text(const struct report_part *part, const char *name)
{
    const json_t *value = part_member(part, name);

    if (json_is_string(value))
        return json_string_value(value);
    part_fail(part, name, "is not a string");
    return "";
}

/* The index of a text in NAMES. */
static size_t part_choice(const struct report_part *part, const char *name,
                          const char *const *names, size_t count)
{
    const char *text = part_text(part, name);

    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], text) == 0)
            return i;
    part_fail(part, name, "has the unknown value '%.40s'", text);
    return 0;
}

/* ---- Histograms ---- */

/* Reads a number up to MAX at *at. */
static bool take_digits(const char **at, uint64_t max, uint64_t *number)
{
    char *end;

    if (!isdigit((unsigned char)**at))
        return false;
    errno = 0;
    *number = strtoull(*at, &end, 10);
    *at = end;
    return errno == 0 && *number <= max;
}

/*
 * "150:3,1": 3 values in bucket 150, 1 in 151. Returns the bucket after them; 0 if it is invalid.
 */
static uint64_t take_run(const char **at, struct histogram *times)
{
    uint64_t bucket, count;
    char before = ':';

    if (!take_digits(at, HISTOGRAM_BUCKETS - 1, &bucket))
        return 0;
    do {
        if (bucket == HISTOGRAM_BUCKETS || *(*at)++ != before ||
            !take_digits(at, INT64_MAX / HISTOGRAM_BUCKETS, &count))
            return 0;
        histogram_restore_bucket(times, (uint32_t)bucket++, count);
        before = ',';
    } while (**at == ',');
    return bucket;
}

/* Runs of buckets in rising order, separated by spaces. */
static bool take_counts(const char *text, struct histogram *times)
{
    uint64_t next = 0;

    while (*text != '\0') {
        if (next > 0 && *text++ != ' ')
            return false;
        if (strtoull(text, NULL, 10) < next)
            return false;
        next = take_run(&text, times);
        if (next == 0)
            return false;
    }
    return true;
}

static void check_buckets(const struct report_part *part, const char *name, uint64_t wanted)
{
    uint64_t found = part_count(part, name);

    if (found != wanted)
        part_fail(part, name,
                  "is %" PRIu64 ", but this wsload has %" PRIu64
                  ": histograms of different ranges cannot be merged",
                  found, wanted);
}

/* Adds the distribution NAME to TIMES, which is empty. */
static void part_times(const struct report_part *part, const char *name, struct histogram *times)
{
    struct report_part distribution = part_of(part, name);
    struct report_part histogram = part_of(&distribution, "histogram");

    check_buckets(&histogram, "sub_buckets", HISTOGRAM_SUB_BUCKETS);
    check_buckets(&histogram, "buckets", HISTOGRAM_BUCKETS);
    if (!take_counts(part_text(&histogram, "counts"), times))
        part_fail(&histogram, "counts", "is not a list of buckets");
    histogram_restore_sum(times, part_up_to(&histogram, "sum_ns", INT64_MAX),
                          part_up_to(&histogram, "max_ns", INT64_MAX));
    if (histogram_count(times) != part_count(&distribution, "count"))
        part_fail(&distribution, "count", "differs from the sum of the histogram");
}

/* ---- Counts ---- */

static void read_requests(const struct report_part *report, struct result *result)
{
    const struct report_part part = part_of(report, "requests");
    struct tally *tally = &result->tally;
    uint64_t unsent = part_count(&part, "unsent"), late = part_count(&part, "unsent_late");

    tally_count(tally, TALLY_begun, part_count(&part, "begun"));
    tally_count(tally, TALLY_answered, part_count(&part, "answered"));
    tally_count(tally, TALLY_unanswered, part_count(&part, "unanswered"));
    tally_count(tally, TALLY_bad_statuses, part_count(&part, "bad_statuses"));
    tally_count(tally, TALLY_bad_contents, part_count(&part, "bad_contents"));
    if (json_object_get(part.object, "bad_extractions") != NULL) /* not in older reports */
        tally_count(tally, TALLY_bad_extractions, part_count(&part, "bad_extractions"));
    tally_count(tally, TALLY_late, part_count(&part, "late"));
    tally_count(tally, TALLY_waited, part_count(&part, "waited"));
    if (json_object_get(part.object, "retried") != NULL) /* not in older reports */
        tally_count(tally, TALLY_retried, part_count(&part, "retried"));
    tally_count(tally, TALLY_downgraded, part_count(&part, "downgraded"));
    if (late > unsent)
        part_fail(&part, "unsent_late", "is more than unsent");
    else
        tally_count(tally, TALLY_unsent_busy, unsent - late);
    tally_count(tally, TALLY_unsent_late, late);
    tally_count(&result->warmup, TALLY_begun, part_count(&part, "warmup"));
}

static void read_connections(const struct report_part *report, struct result *result)
{
    const struct report_part part = part_of(report, "connections"),
                             bytes = part_of(report, "bytes");

    tally_count(&result->tally, TALLY_clients_used, part_count(&part, "used"));
    tally_count(&result->tally, TALLY_clients_up, part_count(&part, "up"));
    tally_count(&result->tally, TALLY_connections_opened, part_count(&part, "opened"));
    tally_count(&result->tally, TALLY_connections_unsolicited, part_count(&part, "unsolicited"));
    result->connections = part_small(&part, "at_the_end");
    tally_count(&result->tally, TALLY_head_bytes, part_count(&bytes, "head"));
    tally_count(&result->tally, TALLY_body_bytes, part_count(&bytes, "body"));
}

static void read_statuses(const struct report_part *report, struct tally *tally)
{
    const struct report_part part = part_of(report, "statuses");
    const json_t *value;
    const char *name;

    json_object_foreach((json_t *)(uintptr_t)part.object, name, value)
    {
        if (strlen(name) != 3 || strspn(name, "0123456789") != 3)
            part_fail(&part, name, "is not a status");
        else
            atomic_store_explicit(&tally->status[strtoul(name, NULL, 10)], part_count(&part, name),
                                  memory_order_relaxed);
    }
}

static void read_errors(const struct report_part *report, struct result *result)
{
    const struct report_part counts = part_of(report, "errors"),
                             texts = part_of(report, "error_texts");

    for (size_t i = 0; i < ERROR_KIND_COUNT; i++) {
        const char *name = error_kind_names[i];

        atomic_store_explicit(&result->tally.error[i], part_count(&counts, name),
                              memory_order_relaxed);
        if (json_object_get(texts.object, name) != NULL)
            snprintf(result->error_texts.first[i], ERROR_TEXT, "%s", part_text(&texts, name));
    }
}

/* ---- Lists ---- */

static void read_negotiated(const struct report_part *report, struct negotiations *negotiations)
{
    const json_t *array = part_array(report, "negotiated");

    for (size_t i = 0; i < json_array_size(array); i++) {
        const struct report_part part = part_item(report, "negotiated", array, i);
        struct negotiation what = {0};

        snprintf(what.http, sizeof(what.http), "%s", part_text(&part, "http"));
        if (!part_is_null(&part, "tls")) {
            snprintf(what.tls, sizeof(what.tls), "%s", part_text(&part, "tls"));
            snprintf(what.cipher, sizeof(what.cipher), "%s", part_text(&part, "cipher"));
            if (!part_is_null(&part, "tls_group"))
                snprintf(what.group, sizeof(what.group), "%s", part_text(&part, "tls_group"));
        }
        negotiations_record(negotiations, &what, part_count(&part, "connections"));
    }
}

/* 0 for null. */
static uint64_t read_latency(const struct report_part *second, const char *name)
{
    return part_is_null(second, name) ? 0 : part_time(second, name, NS_PER_US);
}

static struct series_entry read_second(const struct report_part *part)
{
    return (struct series_entry){
        .begin_ns = part_time(part, "begin_s", 1e9),
        .end_ns = part_time(part, "end_s", 1e9),
        .begun = part_count(part, "begun"),
        .answered = part_count(part, "answered"),
        .bad = part_count(part, "bad"),
        .bytes = part_count(part, "bytes"),
        .mean_ns = read_latency(part, "mean_us"),
        .p50_ns = read_latency(part, "p50_us"),
        .p90_ns = read_latency(part, "p90_us"),
        .p99_ns = read_latency(part, "p99_us"),
        .max_ns = read_latency(part, "max_us"),
        .service_p99_ns = read_latency(part, "service_p99_us"),
        .rate = part_number(part, "rate"),
        .connections = part_small(part, "connections"),
        .threads = part_small(part, "threads"),
        .warmup = part_switch(part, "warmup"),
    };
}

static void read_seconds(const struct report_part *report, struct series *series)
{
    const json_t *array = part_array(report, "seconds");

    series->count = series->capacity = json_array_size(array);
    series->entry = calloc(series->count + 1, sizeof(*series->entry));
    for (size_t i = 0; i < series->count && series->entry != NULL; i++) {
        const struct report_part part = part_item(report, "seconds", array, i);

        series->entry[i] = read_second(&part);
    }
}

/* ---- Scenarios ---- */

/* The number of rows: scenarios and steps. 0: too many. */
static size_t count_rows(const struct report_part *report, const json_t *array)
{
    size_t count = json_array_size(array);

    if (count > SCENARIO_SCENARIOS_MAX) {
        part_fail(report, "scenarios", "has more than %d scenarios", SCENARIO_SCENARIOS_MAX);
        return 0;
    }
    for (size_t i = 0; i < json_array_size(array); i++) {
        const struct report_part scenario = part_item(report, "scenarios", array, i);

        count += json_array_size(part_array(&scenario, "steps"));
    }
    if (count <= SCENARIO_SCENARIOS_MAX + SCENARIO_STEPS_MAX)
        return count;
    part_fail(report, "scenarios", "has more than %d steps", SCENARIO_STEPS_MAX);
    return 0;
}

/* Each time that was begun has one end; FAILED is the rest. */
static void set_failed(const struct report_part *part, struct scenario_row *row)
{
    if (row->good + row->open > row->begun)
        part_fail(part, "begun", "is less than its parts");
    else
        row->failed = row->begun - row->good - row->open;
}

static void read_stored_step(const struct report_part *part, struct scenario_row *row)
{
    row->name = strdup(part_text(part, "name"));
    row->begun = part_count(part, "begun");
    row->good = part_count(part, "passed");
    row->open = part_count(part, "unanswered");
    row->errors = part_count(part, "failed");
    row->bad_statuses = part_count(part, "bad_statuses");
    row->bad_extractions = part_count(part, "bad_extractions");
    if (!part_is_null(part, "extraction_error"))
        snprintf(row->why, sizeof(row->why), "%s", part_text(part, "extraction_error"));
    set_failed(part, row);
    part_times(part, "latency_us", &row->times);
}

/* Reads the scenario and its steps, which follow it. Returns the row after them. */
static struct scenario_row *read_stored_scenario(const struct report_part *part,
                                                 struct scenario_row *row)
{
    const json_t *steps = part_array(part, "steps");

    row->name = strdup(part_text(part, "name"));
    row->weight = (uint32_t)part_up_to(part, "weight", SCENARIO_WEIGHT_MAX);
    if (row->weight == 0)
        part_fail(part, "weight", "is not an integer from 1 to %d", SCENARIO_WEIGHT_MAX);
    row->begun = part_count(part, "begun");
    row->good = part_count(part, "completed");
    row->open = part_count(part, "unfinished");
    set_failed(part, row);
    part_times(part, "duration_us", &row->times);
    row++;
    for (size_t i = 0; i < json_array_size(steps); i++, row++) {
        const struct report_part step = part_item(part, "steps", steps, i);

        read_stored_step(&step, row);
    }
    return row;
}

/* Older reports have no such member. */
static void read_stored_scenarios(const struct report_part *report, struct result *result)
{
    const json_t *array = json_object_get(report->object, "scenarios");
    struct scenario_row *row;
    size_t count;

    if (array == NULL || json_is_null(array))
        return;
    count = count_rows(report, part_array(report, "scenarios"));
    if (report->reader->failed)
        return;
    result->scenarios = scenario_tally_allocate(count);
    if (result->scenarios == NULL) {
        part_fail(report, "", "out of memory");
        return;
    }
    row = result->scenarios->row;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const struct report_part part = part_item(report, "scenarios", array, i);

        row = read_stored_scenario(&part, row);
    }
    for (size_t i = 0; i < count; i++)
        if (result->scenarios->row[i].name == NULL)
            part_fail(report, "", "out of memory");
}

/* ---- The plan ---- */

static void read_rate(const struct report_part *report, const struct report_part *part,
                      struct plan *plan)
{
    static const char *const loops[] = {"closed", "open"};
    double due;

    if (part_choice(part, "loop", loops, ARRAY_LENGTH(loops)) == 0)
        return;
    due = part_number(report, "due_per_second");
    plan->rate = part_is_null(part, "rate") ? 0 : part_number(part, "rate");
    if (plan->rate > 0 && fabs(due - plan->rate) < plan->rate * 1e-6)
        return;
    /* The rate varied: only its average is known. */
    plan->rate = 0;
    plan->stages[0].value = due;
    plan->stage_count = 1;
}

static void read_plan(const struct report_part *report, struct stored_result *stored)
{
    static const char *const engines[] = {[PLAN_ENGINE_CURL] = "curl", [PLAN_ENGINE_RAW] = "raw"};
    static const char *const versions[] = {
        [PLAN_HTTP_1_1] = "1.1", [PLAN_HTTP_1_0] = "1.0", [PLAN_HTTP_2] = "2"};
    const struct report_part part = part_of(report, "plan");
    struct plan *plan = &stored->plan;

    stored->result.url = strdup(part_text(&part, "url"));
    plan->method = stored->method = strdup(part_text(&part, "method"));
    stored->result.requests = part_count(&part, "urls");
    plan->engine = (enum plan_engine)part_choice(&part, "engine", engines, ARRAY_LENGTH(engines));
    stored->result.engine = engines[plan->engine];
    plan->connections = plan->connections_requested = part_small(&part, "connections");
    plan->threads = part_small(&part, "threads");
    plan->requests = part_is_null(&part, "requests") ? 0 : part_count(&part, "requests");
    plan->duration_ms =
        part_is_null(&part, "duration_s") ? 0 : part_time(&part, "duration_s", 1e9) / NS_PER_MS;
    plan->warmup_ms = part_time(&part, "warmup_s", 1e9) / NS_PER_MS;
    plan->keepalive = part_switch(&part, "keepalive");
    plan->http = (enum plan_http)part_choice(&part, "http", versions, ARRAY_LENGTH(versions));
    plan->streams = part_small(&part, "streams");
    plan->page_loads =
        json_object_get(part.object, "page_loads") != NULL && /* not in older reports */
        part_switch(&part, "page_loads");
    plan->max_errors = part_number(&part, "max_errors_percent");
    read_rate(report, &part, plan);
    plan->poisson = json_object_get(part.object, "arrivals") != NULL && /* likewise */
                    !part_is_null(&part, "arrivals") &&
                    strcmp(part_text(&part, "arrivals"), "poisson") == 0;
    if (part_count(&part, "rounds") > 1)
        part_fail(&part, "rounds", "is more than 1: repeated runs (--repeat) cannot be merged");
}

static void read_client(const struct report_part *report, struct result *result)
{
    const struct report_part part = part_of(report, "client");

    result->cpu_ns = part_time(&part, "cpu_s", 1e9);
    result->thread_ns = part_time(&part, "thread_s", 1e9);
    result->waited_ns =
        (uint64_t)(part_number(&part, "wait_share_of_thread") * (double)result->thread_ns);
    result->threads = part_small(&part, "threads");
    result->machine_busy = NAN;
}

static void read_merged(const struct report_part *report, struct result *result)
{
    struct report_part part;

    if (part_is_null(report, "merged"))
        return;
    part = part_of(report, "merged");
    result->merged = part_small(&part, "reports");
    result->overlap_from_ns = part_time(&part, "overlap_from_s", 1e9);
    result->overlap_ns = part_time(&part, "overlap_s", 1e9);
}

static void read_report(const struct report_part *report, struct stored_result *stored)
{
    struct result *result = &stored->result;
    struct tally *tally = &result->tally;

    read_plan(report, stored);
    read_merged(report, result);
    result->began_unix_ns = part_up_to(report, "began_unix_us", INT64_MAX / 2000) * NS_PER_US;
    result->elapsed_ns = part_time(report, "elapsed_s", 1e9);
    result->due_ns = part_time(report, "due_s", 1e9);
    read_requests(report, result);
    read_connections(report, result);
    read_statuses(report, tally);
    read_errors(report, result);
    part_times(report, "latency_us", &tally->latency);
    part_times(report, "service_us", &tally->service);
    part_times(report, "first_byte_us", &tally->first_byte);
    part_times(report, "connect_us", &tally->connect);
    part_times(report, "full_handshake_us", &tally->full_handshake);
    part_times(report, "resumed_handshake_us", &tally->resumed_handshake);
    read_negotiated(report, &result->negotiations);
    read_client(report, result);
    read_seconds(report, result->series);
    read_stored_scenarios(report, result);
    result->interrupted = part_switch(report, "interrupted");
}

void stored_result_free(struct stored_result *stored)
{
    if (stored == NULL)
        return;
    result_free(&stored->result);
    free(stored->method);
    free(stored);
}

/*
 * Reads FILE, which must be the report of a single run or a merged one. Returns NULL with WHY,
 * which names the file and the member that is wrong.
 */
static struct stored_result *stored_result_read(const char *file, char *why, size_t size)
{
    struct report_reader reader = {.file = file, .why = why, .size = size};
    struct report_part report = {&reader, compare_read_one(file, why, size), ""};
    struct stored_result *stored;

    if (report.object == NULL)
        return NULL;
    stored = calloc(1, sizeof(*stored));
    if (stored != NULL)
        stored->result.series = series_create();
    if (stored == NULL || stored->result.series == NULL) {
        part_fail(&report, "", "out of memory");
    } else {
        stored->result.plan = &stored->plan;
        read_report(&report, stored);
        if (stored->result.url == NULL || stored->method == NULL ||
            stored->result.series->entry == NULL)
            part_fail(&report, "", "out of memory");
    }
    json_decref((json_t *)(uintptr_t)report.object);
    if (!reader.failed)
        return stored;
    stored_result_free(stored);
    return NULL;
}

/* The first setting in which the runs differ, for people; NULL: none. */
static const char *differing_setting(const struct stored_result *one,
                                     const struct stored_result *other)
{
    const struct plan *a = &one->plan, *b = &other->plan;

    if (!scenario_tally_is_like(one->result.scenarios, other->result.scenarios))
        return "the scenarios";
    if (plan_is_open(a) != plan_is_open(b))
        return "the loop (open or closed)";
    if (a->engine != b->engine)
        return "the engine";
    if (a->http != b->http)
        return "the HTTP version";
    if (a->streams != b->streams)
        return "the number of streams";
    if (a->page_loads != b->page_loads)
        return "page loads";
    return a->keepalive != b->keepalive ? "keep-alive" : NULL;
}

/* Reads each file. Returns false with WHY. */
static bool read_reports(const struct plan *plan, struct stored_result **stored, char *why,
                         size_t size)
{
    for (size_t i = 0; i < plan->url_count; i++) {
        const char *differing;

        stored[i] = stored_result_read(plan->urls[i], why, size);
        if (stored[i] == NULL)
            return false;
        differing = differing_setting(stored[0], stored[i]);
        if (differing != NULL) {
            snprintf(why, size, "%.200s and %.200s differ in %s: merge runs of the same load",
                     plan->urls[0], plan->urls[i], differing);
            return false;
        }
    }
    return true;
}

static struct stored_result *merge_stored(const struct plan *plan,
                                          struct stored_result *const *stored)
{
    const struct result *from[PLAN_URLS_MAX];
    struct stored_result *into = calloc(1, sizeof(*into));

    if (into == NULL)
        return NULL;
    for (size_t i = 0; i < plan->url_count; i++)
        from[i] = &stored[i]->result;
    into->plan = *plan;
    into->result.plan = &into->plan;
    merge_plans(&into->plan, from, plan->url_count);
    into->plan.method = into->method = strdup(into->plan.method);
    if (into->method != NULL && merge_results(&into->result, from, plan->url_count))
        return into;
    stored_result_free(into);
    return NULL;
}

struct stored_result *merge_reports(const struct plan *plan, char *why, size_t size)
{
    struct stored_result *stored[PLAN_URLS_MAX] = {NULL}, *into = NULL;

    if (read_reports(plan, stored, why, size)) {
        into = merge_stored(plan, stored);
        if (into == NULL)
            snprintf(why, size, "out of memory");
    }
    for (size_t i = 0; i < plan->url_count; i++)
        stored_result_free(stored[i]);
    return into;
}
