#include "loadgen/report/json_reader.h"

#include "common/clock.h"
#include "common/macros.h"

#include "loadgen/report/compare.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The highest time that is read; 32 years in seconds. */
#define TIME_MAX_S 1e9

enum { PLACE_TEXT = 128 };

struct reader {
    const char *file;
    char *why;
    size_t size;
    bool failed;
};

/* An object of the report; PLACE is what its members' names begin with: "", "requests.", ... */
struct part {
    struct reader *reader;
    const json_t *object;
    char place[PLACE_TEXT];
};

/* Keeps the first error. */
PRINTF_LIKE(3, 4)
static void fail(const struct part *part, const char *name, const char *format, ...)
{
    struct reader *reader = part->reader;
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

/* ---- Members ---- */

static const json_t *member(const struct part *part, const char *name)
{
    const json_t *value = json_object_get(part->object, name);

    if (value == NULL)
        fail(part, name, "is missing: an older wsload wrote the report, or it is not one");
    return value;
}

static struct part part_of(const struct part *part, const char *name)
{
    const json_t *value = member(part, name);
    struct part inner = {part->reader, value, ""};

    snprintf(inner.place, sizeof(inner.place), "%.60s%.60s.", part->place, name);
    if (value != NULL && !json_is_object(value))
        fail(part, name, "is not an object");
    return inner;
}

/* Reads a member between 0 and MAX. */
static uint64_t read_up_to(const struct part *part, const char *name, uint64_t max)
{
    const json_t *value = member(part, name);

    if (json_is_integer(value) && json_integer_value(value) >= 0 &&
        (uint64_t)json_integer_value(value) <= max)
        return (uint64_t)json_integer_value(value);
    fail(part, name, "is not an integer from 0 to %" PRIu64, max);
    return 0;
}

static uint64_t read_count(const struct part *part, const char *name)
{
    return read_up_to(part, name, INT64_MAX / 1000);
}

static uint32_t read_small(const struct part *part, const char *name)
{
    return (uint32_t)read_up_to(part, name, PLAN_CONNECTIONS_MAX);
}

static double read_number(const struct part *part, const char *name)
{
    const json_t *value = member(part, name);

    if (json_is_number(value) && json_number_value(value) >= 0)
        return json_number_value(value);
    fail(part, name, "is not a number of 0 or more");
    return 0;
}

/* A time of UNIT_NS, in ns. */
static uint64_t read_time(const struct part *part, const char *name, double unit_ns)
{
    double value = read_number(part, name) * unit_ns;

    if (value <= TIME_MAX_S * 1e9)
        return (uint64_t)llround(value);
    fail(part, name, "is too long a time");
    return 0;
}

static bool is_null(const struct part *part, const char *name)
{
    return json_is_null(member(part, name));
}

static bool read_switch(const struct part *part, const char *name)
{
    const json_t *value = member(part, name);

    if (!json_is_boolean(value))
        fail(part, name, "is not true or false");
    return json_is_true(value);
}

static const char *read_text(const struct part *part, const char *name)
{
    const json_t *value = member(part, name);

    if (json_is_string(value))
        return json_string_value(value);
    fail(part, name, "is not a string");
    return "";
}

/* The place of a text in NAMES. */
static size_t read_choice(const struct part *part, const char *name, const char *const *names,
                          size_t count)
{
    const char *text = read_text(part, name);

    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], text) == 0)
            return i;
    fail(part, name, "has the unknown value '%.40s'", text);
    return 0;
}

/* ---- Histograms ---- */

/* Reads a number up to MAX at *at. */
static bool read_digits(const char **at, uint64_t max, uint64_t *number)
{
    char *end;

    if (!isdigit((unsigned char)**at))
        return false;
    errno = 0;
    *number = strtoull(*at, &end, 10);
    *at = end;
    return errno == 0 && *number <= max;
}

/* "150:3,1": 3 values in bucket 150, 1 in 151. Returns the bucket after them; 0 if it is invalid. */
static uint64_t read_run(const char **at, struct histogram *times)
{
    uint64_t bucket, count;
    char before = ':';

    if (!read_digits(at, HISTOGRAM_BUCKETS - 1, &bucket))
        return 0;
    do {
        if (bucket == HISTOGRAM_BUCKETS || *(*at)++ != before ||
            !read_digits(at, INT64_MAX / HISTOGRAM_BUCKETS, &count))
            return 0;
        histogram_restore_bucket(times, (uint32_t)bucket++, count);
        before = ',';
    } while (**at == ',');
    return bucket;
}

/* Runs of buckets in rising order, separated by spaces. */
static bool read_counts(const char *text, struct histogram *times)
{
    uint64_t next = 0;

    while (*text != '\0') {
        if (next > 0 && *text++ != ' ')
            return false;
        if (strtoull(text, NULL, 10) < next)
            return false;
        next = read_run(&text, times);
        if (next == 0)
            return false;
    }
    return true;
}

static void check_buckets(const struct part *part, const char *name, uint64_t wanted)
{
    uint64_t found = read_count(part, name);

    if (found != wanted)
        fail(part, name,
             "is %" PRIu64 ", but this wsload has %" PRIu64
             ": histograms of different ranges cannot be merged",
             found, wanted);
}

static void read_times(const struct part *report, const char *name, struct histogram *times)
{
    struct part distribution = part_of(report, name);
    struct part histogram = part_of(&distribution, "histogram");

    check_buckets(&histogram, "sub_buckets", HISTOGRAM_SUB_BUCKETS);
    check_buckets(&histogram, "buckets", HISTOGRAM_BUCKETS);
    if (!read_counts(read_text(&histogram, "counts"), times))
        fail(&histogram, "counts", "is not a list of buckets");
    histogram_restore_sum(times, read_up_to(&histogram, "sum_ns", INT64_MAX),
                          read_up_to(&histogram, "max_ns", INT64_MAX));
    if (histogram_count(times) != read_count(&distribution, "count"))
        fail(&distribution, "count", "differs from the sum of the histogram");
}

/* ---- Counts ---- */

static void read_requests(const struct part *report, struct result *result)
{
    const struct part part = part_of(report, "requests");
    struct tally *tally = &result->tally;
    uint64_t unsent = read_count(&part, "unsent"), late = read_count(&part, "unsent_late");

    tally_count(tally, TALLY_begun, read_count(&part, "begun"));
    tally_count(tally, TALLY_answered, read_count(&part, "answered"));
    tally_count(tally, TALLY_unanswered, read_count(&part, "unanswered"));
    tally_count(tally, TALLY_bad_statuses, read_count(&part, "bad_statuses"));
    tally_count(tally, TALLY_bad_contents, read_count(&part, "bad_contents"));
    if (json_object_get(part.object, "bad_extractions") != NULL) /* not in older reports */
        tally_count(tally, TALLY_bad_extractions, read_count(&part, "bad_extractions"));
    tally_count(tally, TALLY_late, read_count(&part, "late"));
    tally_count(tally, TALLY_waited, read_count(&part, "waited"));
    tally_count(tally, TALLY_downgraded, read_count(&part, "downgraded"));
    if (late > unsent)
        fail(&part, "unsent_late", "is more than unsent");
    else
        tally_count(tally, TALLY_unsent_busy, unsent - late);
    tally_count(tally, TALLY_unsent_late, late);
    tally_count(&result->warmup, TALLY_begun, read_count(&part, "warmup"));
}

static void read_connections(const struct part *report, struct result *result)
{
    const struct part part = part_of(report, "connections");

    tally_count(&result->tally, TALLY_clients_used, read_count(&part, "used"));
    tally_count(&result->tally, TALLY_clients_up, read_count(&part, "up"));
    tally_count(&result->tally, TALLY_connections_opened, read_count(&part, "opened"));
    tally_count(&result->tally, TALLY_connections_unsolicited, read_count(&part, "unsolicited"));
    result->connections = read_small(&part, "at_the_end");
}

static void read_bytes(const struct part *report, struct tally *tally)
{
    const struct part part = part_of(report, "bytes");

    tally_count(tally, TALLY_head_bytes, read_count(&part, "head"));
    tally_count(tally, TALLY_body_bytes, read_count(&part, "body"));
}

static void read_statuses(const struct part *report, struct tally *tally)
{
    const struct part part = part_of(report, "statuses");
    const json_t *value;
    const char *name;

    json_object_foreach((json_t *)(uintptr_t)part.object, name, value)
    {
        if (strlen(name) != 3 || strspn(name, "0123456789") != 3)
            fail(&part, name, "is not a status");
        else
            atomic_store_explicit(&tally->status[strtoul(name, NULL, 10)], read_count(&part, name),
                                  memory_order_relaxed);
    }
}

static void read_errors(const struct part *report, struct result *result)
{
    const struct part counts = part_of(report, "errors"), texts = part_of(report, "error_texts");

    for (size_t i = 0; i < ERROR_KIND_COUNT; i++) {
        const char *name = error_kind_names[i];

        atomic_store_explicit(&result->tally.error[i], read_count(&counts, name),
                              memory_order_relaxed);
        if (json_object_get(texts.object, name) != NULL)
            snprintf(result->error_texts.first[i], ERROR_TEXT, "%s", read_text(&texts, name));
    }
}

/* ---- Lists ---- */

/* Part I of the array NAME. */
static struct part item_of(const struct part *report, const char *name, const json_t *array,
                           size_t i)
{
    struct part item = {report->reader, json_array_get(array, i), ""};

    snprintf(item.place, sizeof(item.place), "%s[%zu].", name, i);
    return item;
}

static const json_t *read_array(const struct part *report, const char *name)
{
    const json_t *array = member(report, name);

    if (!json_is_array(array))
        fail(report, name, "is not an array");
    return array;
}

static void read_negotiated(const struct part *report, struct negotiations *negotiations)
{
    const json_t *array = read_array(report, "negotiated");

    for (size_t i = 0; i < json_array_size(array); i++) {
        const struct part part = item_of(report, "negotiated", array, i);
        struct negotiation what = {0};

        snprintf(what.http, sizeof(what.http), "%s", read_text(&part, "http"));
        if (!is_null(&part, "tls")) {
            snprintf(what.tls, sizeof(what.tls), "%s", read_text(&part, "tls"));
            snprintf(what.cipher, sizeof(what.cipher), "%s", read_text(&part, "cipher"));
        }
        negotiations_record(negotiations, &what, read_count(&part, "connections"));
    }
}

/* 0 for null. */
static uint64_t read_latency(const struct part *second, const char *name)
{
    return is_null(second, name) ? 0 : read_time(second, name, NS_PER_US);
}

static struct series_entry read_second(const struct part *part)
{
    return (struct series_entry){
        .begin_ns = read_time(part, "begin_s", 1e9),
        .end_ns = read_time(part, "end_s", 1e9),
        .begun = read_count(part, "begun"),
        .answered = read_count(part, "answered"),
        .bad = read_count(part, "bad"),
        .bytes = read_count(part, "bytes"),
        .mean_ns = read_latency(part, "mean_us"),
        .p50_ns = read_latency(part, "p50_us"),
        .p90_ns = read_latency(part, "p90_us"),
        .p99_ns = read_latency(part, "p99_us"),
        .max_ns = read_latency(part, "max_us"),
        .service_p99_ns = read_latency(part, "service_p99_us"),
        .rate = read_number(part, "rate"),
        .connections = read_small(part, "connections"),
        .threads = read_small(part, "threads"),
        .warmup = read_switch(part, "warmup"),
    };
}

static void read_seconds(const struct part *report, struct series *series)
{
    const json_t *array = read_array(report, "seconds");

    series->count = series->capacity = json_array_size(array);
    series->entry = calloc(series->count + 1, sizeof(*series->entry));
    for (size_t i = 0; i < series->count && series->entry != NULL; i++) {
        const struct part part = item_of(report, "seconds", array, i);

        series->entry[i] = read_second(&part);
    }
}

/* ---- The plan ---- */

static void read_rate(const struct part *report, const struct part *part, struct plan *plan)
{
    static const char *const loops[] = {"closed", "open"};
    double due;

    if (read_choice(part, "loop", loops, ARRAY_LENGTH(loops)) == 0)
        return;
    due = read_number(report, "due_per_second");
    plan->rate = is_null(part, "rate") ? 0 : read_number(part, "rate");
    if (plan->rate > 0 && fabs(due - plan->rate) < plan->rate * 1e-6)
        return;
    /* The rate varied: only its average is known. */
    plan->rate = 0;
    plan->stages[0].value = due;
    plan->stage_count = 1;
}

static void read_plan(const struct part *report, struct stored_result *stored)
{
    static const char *const engines[] = {[PLAN_ENGINE_CURL] = "curl", [PLAN_ENGINE_RAW] = "raw"};
    static const char *const versions[] = {
        [PLAN_HTTP_1_1] = "1.1", [PLAN_HTTP_1_0] = "1.0", [PLAN_HTTP_2] = "2"};
    const struct part part = part_of(report, "plan");
    struct plan *plan = &stored->plan;

    stored->result.url = strdup(read_text(&part, "url"));
    plan->method = stored->method = strdup(read_text(&part, "method"));
    stored->result.requests = read_count(&part, "urls");
    plan->engine = (enum plan_engine)read_choice(&part, "engine", engines, ARRAY_LENGTH(engines));
    stored->result.engine = engines[plan->engine];
    plan->connections = plan->connections_requested = read_small(&part, "connections");
    plan->threads = read_small(&part, "threads");
    plan->requests = is_null(&part, "requests") ? 0 : read_count(&part, "requests");
    plan->duration_ms =
        is_null(&part, "duration_s") ? 0 : read_time(&part, "duration_s", 1e9) / NS_PER_MS;
    plan->warmup_ms = read_time(&part, "warmup_s", 1e9) / NS_PER_MS;
    plan->keepalive = read_switch(&part, "keepalive");
    plan->http = (enum plan_http)read_choice(&part, "http", versions, ARRAY_LENGTH(versions));
    plan->streams = read_small(&part, "streams");
    plan->max_errors = read_number(&part, "max_errors_percent");
    read_rate(report, &part, plan);
    if (read_count(&part, "rounds") > 1)
        fail(&part, "rounds", "is more than 1: repeated runs (--repeat) cannot be merged");
}

static void read_client(const struct part *report, struct result *result)
{
    const struct part part = part_of(report, "client");

    result->cpu_ns = read_time(&part, "cpu_s", 1e9);
    result->thread_ns = read_time(&part, "thread_s", 1e9);
    result->waited_ns =
        (uint64_t)(read_number(&part, "wait_share_of_thread") * (double)result->thread_ns);
    result->threads = read_small(&part, "threads");
    result->machine_busy = NAN;
}

static void read_merged(const struct part *report, struct result *result)
{
    struct part part;

    if (is_null(report, "merged"))
        return;
    part = part_of(report, "merged");
    result->merged = read_small(&part, "reports");
    result->overlap_from_ns = read_time(&part, "overlap_from_s", 1e9);
    result->overlap_ns = read_time(&part, "overlap_s", 1e9);
}

static void read_report(const struct part *report, struct stored_result *stored)
{
    struct result *result = &stored->result;
    struct tally *tally = &result->tally;

    read_plan(report, stored);
    read_merged(report, result);
    result->began_unix_ns = read_up_to(report, "began_unix_us", INT64_MAX / 2000) * NS_PER_US;
    result->elapsed_ns = read_time(report, "elapsed_s", 1e9);
    result->due_ns = read_time(report, "due_s", 1e9);
    read_requests(report, result);
    read_connections(report, result);
    read_bytes(report, tally);
    read_statuses(report, tally);
    read_errors(report, result);
    read_times(report, "latency_us", &tally->latency);
    read_times(report, "service_us", &tally->service);
    read_times(report, "first_byte_us", &tally->first_byte);
    read_times(report, "connect_us", &tally->connect);
    read_times(report, "full_handshake_us", &tally->full_handshake);
    read_times(report, "resumed_handshake_us", &tally->resumed_handshake);
    read_negotiated(report, &result->negotiations);
    read_client(report, result);
    read_seconds(report, result->series);
    result->interrupted = read_switch(report, "interrupted");
}

static bool is_complete(const struct stored_result *stored)
{
    return stored->result.url != NULL && stored->method != NULL &&
           stored->result.series->entry != NULL;
}

void stored_result_free(struct stored_result *stored)
{
    if (stored == NULL)
        return;
    result_free(&stored->result);
    free(stored->method);
    free(stored);
}

struct stored_result *stored_result_read(const char *file, char *why, size_t size)
{
    struct reader reader = {.file = file, .why = why, .size = size};
    struct part report = {&reader, compare_read_one(file, why, size), ""};
    struct stored_result *stored;

    if (report.object == NULL)
        return NULL;
    stored = calloc(1, sizeof(*stored));
    if (stored != NULL)
        stored->result.series = series_create();
    if (stored == NULL || stored->result.series == NULL) {
        fail(&report, "", "out of memory");
    } else {
        stored->result.plan = &stored->plan;
        read_report(&report, stored);
        if (!is_complete(stored))
            fail(&report, "", "out of memory");
    }
    json_decref((json_t *)(uintptr_t)report.object);
    if (!reader.failed)
        return stored;
    stored_result_free(stored);
    return NULL;
}
