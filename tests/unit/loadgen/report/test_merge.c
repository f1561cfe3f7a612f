/* wsload merge: the report of two runs together equals that of one recording of all requests. */
#include "common/macros.h"
#include "loadgen/report/json.h"
#include "loadgen/report/report.h"
#include "loadgen/stats/result.h"
#include "tests/test.h"
#include "tests/unit/loadgen/load_results.h"

#include <jansson.h>
#include <unistd.h>

enum { RUNS = 3, REQUESTS = 5000, ROWS = 3 };

#define BEGAN_NS (UINT64_C(1800000000) * NS_PER_S)

static char names[RUNS][32];
static struct plan merging;
static struct tally whole; /* of all runs, recorded in one tally */
static struct scenario_tally *whole_scenarios;
static char why[512];

static uint64_t next_random(void)
{
    static uint64_t state = 12345;

    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return state >> 33;
}

/* Records a request in the run's tally and in that of all. */
static void record_in_both(const struct transaction *transaction)
{
    tally_count(&result.tally, TALLY_begun, 1);
    tally_count(&whole, TALLY_begun, 1);
    tally_record(&result.tally, transaction);
    tally_record(&whole, transaction);
    tally_record_connection(&result.tally, transaction);
    tally_record_connection(&whole, transaction);
}

static void record_any(void)
{
    /* From ns to more than the range of a histogram. */
    uint64_t time_ns = (next_random() << 12) >> next_random() % 42;
    const struct transaction transaction = {
        .error = next_random() % 50 == 0 ? ERROR_KIND_OTHER : ERROR_KIND_NONE,
        .status = next_random() % 10 == 0 ? 404 : 200,
        .bad_status = next_random() % 10 == 0,
        .connected = next_random() % 3 == 0,
        .connect_ns = time_ns / 3,
        .handshake_ns = next_random() % 1000000,
        .resumed = next_random() % 2 == 0,
        .first_byte_ns = time_ns / 2,
        .service_ns = time_ns,
        .latency_ns = time_ns + next_random() % 5000,
        .head_bytes = 24,
        .body_bytes = next_random() % 1000,
    };

    record_in_both(&transaction);
}

static struct scenario_tally *make_scenarios(void)
{
    static const char *const names_of_rows[ROWS] = {"buy", "POST /login", "GET /a,\"b\\"};
    struct scenario_tally *tally = scenario_tally_allocate(ROWS);

    assert_non_null(tally);
    for (size_t i = 0; i < ROWS; i++)
        tally->row[i].name = strdup(names_of_rows[i]);
    tally->row[0].weight = 3;
    return tally;
}

/* A step, or the end of a scenario, in both rows. */
static void record_step(size_t i)
{
    struct scenario_row *rows[] = {&result.scenarios->row[i], &whole_scenarios->row[i]};
    uint64_t time_ns = next_random() % NS_PER_S, outcome = next_random() % 20;
    const struct transaction transaction = {.error =
                                                outcome == 1 ? ERROR_KIND_OTHER : ERROR_KIND_NONE,
                                            .bad_status = outcome == 2,
                                            .bad_extraction = outcome == 3,
                                            .latency_ns = time_ns};

    for (size_t k = 0; k < ARRAY_LENGTH(rows); k++) {
        rows[k]->begun++;
        if (outcome == 0)
            rows[k]->open++;
        else if (i > 0)
            scenario_tally_record_step(rows[k], &transaction, "no 'token'");
        else if (outcome < 3)
            rows[k]->failed++;
        else {
            rows[k]->good++;
            histogram_record(&rows[k]->times, time_ns);
        }
    }
}

static void write_report(const char *name)
{
    FILE *out = fopen(name, "we");

    assert_non_null(out);
    assert_int_equal(result_write_json(out, &result), 0);
    assert_int_equal(fclose(out), 0);
}

/* The report of a run of 2 seconds that starts 0.5 s after the one before. */
static void write_run(size_t number)
{
    struct series_entry entries[] = {
        {.end_ns = NS_PER_S,
         .answered = 10,
         .begun = 11,
         .bytes = 100,
         .p99_ns = 1000 * (number + 1),
         .mean_ns = 1000,
         .rate = 5,
         .connections = 100,
         .threads = 2},
        {.begin_ns = NS_PER_S,
         .end_ns = 2 * NS_PER_S,
         .answered = 20,
         .begun = 20,
         .rate = 5,
         .connections = 100,
         .threads = 2},
    };
    struct series series = {.entry = entries, .count = ARRAY_LENGTH(entries)};

    begin();
    plan.rate = 5;
    result.scenarios = make_scenarios();
    for (size_t i = 0; i < REQUESTS; i++)
        record_step(i % ROWS);
    result.series = &series;
    result.began_unix_ns = BEGAN_NS + number * NS_PER_S / 2;
    result.due_ns = result.elapsed_ns;
    for (int i = 0; i < REQUESTS; i++)
        record_any();
    error_texts_record(&result.error_texts, ERROR_KIND_OTHER, "No route to host");
    tally_count(&result.warmup, TALLY_begun, 7);
    tally_count(&result.tally, TALLY_unsent_busy, 4);
    tally_count(&result.tally, TALLY_unsent_late, 3);
    tally_count(&result.tally, TALLY_waited, 2);
    tally_count(&result.tally, TALLY_retried, 4);
    negotiations_record(&result.negotiations,
                        &(struct negotiation){"HTTP/2", "TLSv1.3", "AES", "x25519"}, 5);
    write_report(names[number]);
    scenario_tally_free(result.scenarios);
    result.scenarios = NULL;
    result.series = NULL;
}

static int set_up(void **state)
{
    (void)state;
    memset(&whole, 0, sizeof(whole));
    whole_scenarios = make_scenarios();
    merging =
        (struct plan){.command = PLAN_MERGE, .url_count = RUNS, .streams = 1, .max_errors = 100};
    for (size_t i = 0; i < RUNS; i++) {
        snprintf(names[i], sizeof(names[i]), "/tmp/merge.%zu.XXXXXX", i);
        close(mkstemp(names[i]));
        merging.urls[i] = names[i];
        write_run(i);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    scenario_tally_free(whole_scenarios);
    for (size_t i = 0; i < RUNS; i++)
        unlink(names[i]);
    return 0;
}

const struct test_fixture test_fixture = {set_up, tear_down};

static struct stored_result *merge_all(void)
{
    struct stored_result *merged = merge_reports(&merging, why, sizeof(why));

    if (merged == NULL)
        fail_msg("%s", why);
    return merged;
}

static void check_histogram(const struct histogram *a, const struct histogram *b)
{
    assert_int_equal(histogram_count(a), histogram_count(b));
    assert_int_equal(histogram_max(a), histogram_max(b));
    assert_int_equal(a->sum, b->sum);
    for (size_t i = 0; i < HISTOGRAM_BUCKETS; i++)
        assert_int_equal(a->bucket[i], b->bucket[i]);
    for (int i = 0; i <= 200; i++)
        assert_int_equal(histogram_percentile(a, i / 2.0), histogram_percentile(b, i / 2.0));
}

TEST(merged_runs_equal_one_recording)
{
    struct stored_result *merged = merge_all();
    const struct tally *tally = &merged->result.tally;

    assert_true(histogram_count(&whole.full_handshake) > 100);
    assert_true(whole.latency.bucket[HISTOGRAM_BUCKETS - 1] > 0);
    check_histogram(&tally->latency, &whole.latency);
    check_histogram(&tally->service, &whole.service);
    check_histogram(&tally->first_byte, &whole.first_byte);
    check_histogram(&tally->connect, &whole.connect);
    check_histogram(&tally->full_handshake, &whole.full_handshake);
    check_histogram(&tally->resumed_handshake, &whole.resumed_handshake);
    assert_int_equal(tally_get(tally, TALLY_begun), RUNS * REQUESTS);
    assert_int_equal(tally_get(tally, TALLY_answered), tally_get(&whole, TALLY_answered));
    assert_int_equal(tally_get(tally, TALLY_bad_statuses), tally_get(&whole, TALLY_bad_statuses));
    assert_int_equal(tally_get(tally, TALLY_body_bytes), tally_get(&whole, TALLY_body_bytes));
    assert_int_equal(tally_errors(tally), tally_errors(&whole));
    for (uint32_t status = 0; status < TALLY_STATUSES; status++)
        assert_int_equal(tally_status(tally, status), tally_status(&whole, status));
    stored_result_free(merged);
}

static void check_scenarios(const struct scenario_tally *tally)
{
    assert_non_null(tally);
    assert_int_equal(tally->count, ROWS);
    for (size_t i = 0; i < ROWS; i++) {
        const struct scenario_row *row = &tally->row[i], *wanted = &whole_scenarios->row[i];

        assert_string_equal(row->name, wanted->name);
        assert_int_equal(row->weight, wanted->weight);
        assert_int_equal(row->begun, wanted->begun);
        assert_int_equal(row->good, wanted->good);
        assert_int_equal(row->failed, wanted->failed);
        assert_int_equal(row->open, wanted->open);
        assert_int_equal(row->errors, wanted->errors);
        assert_int_equal(row->bad_statuses, wanted->bad_statuses);
        assert_int_equal(row->bad_extractions, wanted->bad_extractions);
        assert_string_equal(row->why, wanted->why);
        check_histogram(&row->times, &wanted->times);
    }
}

TEST(merged_scenarios_equal_one_recording)
{
    struct stored_result *merged = merge_all();

    check_scenarios(merged->result.scenarios);
    stored_result_free(merged);
}

TEST(totals_and_settings_are_summed)
{
    struct stored_result *merged = merge_all();
    const struct result *all = &merged->result;

    assert_int_equal(all->merged, RUNS);
    assert_int_equal(all->elapsed_ns, 3 * NS_PER_S);
    assert_int_equal(all->overlap_from_ns, NS_PER_S);
    assert_int_equal(all->overlap_ns, NS_PER_S);
    assert_int_equal(all->began_unix_ns, BEGAN_NS);
    assert_int_equal(all->connections, 300);
    assert_int_equal(all->threads, 6);
    assert_int_equal(all->cpu_ns, 3 * NS_PER_S);
    assert_int_equal(all->thread_ns, 12 * NS_PER_S);
    assert_int_equal(merged->plan.connections_requested, 300);
    assert_int_equal(merged->plan.requests, 60000);
    assert_true(result_is_open(all));
    assert_int_equal((int)result_rate_due(all), 15);
    assert_int_equal(tally_get(&all->tally, TALLY_unsent_busy), 12);
    assert_int_equal(tally_get(&all->tally, TALLY_unsent_late), 9);
    assert_int_equal(tally_get(&all->tally, TALLY_waited), 6);
    assert_int_equal(tally_get(&all->tally, TALLY_retried), 12);
    assert_int_equal(tally_get(&all->warmup, TALLY_begun), 21);
    assert_int_equal(all->negotiations.count, 1);
    assert_int_equal(all->negotiations.of[0].connections, 15);
    assert_string_equal(all->error_texts.first[ERROR_KIND_OTHER], "No route to host");
    stored_result_free(merged);
}

/* The middles of the seconds are at 0.5 and 1.5 s, 1 and 2 s, 1.5 and 2.5 s. */
TEST(seconds_are_aligned_by_wall_clock)
{
    struct stored_result *merged = merge_all();
    const struct series *series = merged->result.series;
    const struct series_entry *entry = series->entry;

    assert_int_equal(series->count, 3);
    assert_int_equal(entry[0].answered, 10);
    assert_int_equal(entry[1].answered, 20 + 10 + 10);
    assert_int_equal(entry[1].begun, 20 + 11 + 11);
    assert_int_equal(entry[1].bytes, 200);
    assert_int_equal(entry[1].p99_ns, 3000);
    assert_int_equal(entry[1].mean_ns, 500);
    assert_int_equal(entry[1].connections, 300);
    assert_int_equal(entry[1].threads, 6);
    assert_int_equal((int)entry[1].rate, 15);
    assert_int_equal(entry[2].answered, 20 + 20);
    assert_int_equal(entry[2].begin_ns, 2 * NS_PER_S);
    assert_int_equal(entry[2].end_ns, 3 * NS_PER_S);
    stored_result_free(merged);
}

TEST(merging_in_steps_equals_merging_at_once)
{
    struct stored_result *once = merge_all(), *steps;

    merging.url_count = 2;
    steps = merge_all();
    result = steps->result;
    write_report(names[0]);
    stored_result_free(steps);
    merging.urls[1] = names[2];
    steps = merge_all();
    assert_int_equal(steps->result.merged, RUNS);
    assert_int_equal(steps->result.elapsed_ns, once->result.elapsed_ns);
    assert_int_equal(steps->result.overlap_from_ns, once->result.overlap_from_ns);
    assert_int_equal(steps->result.overlap_ns, once->result.overlap_ns);
    assert_int_equal(steps->result.series->count, once->result.series->count);
    assert_int_equal(steps->result.series->entry[1].answered,
                     once->result.series->entry[1].answered);
    check_histogram(&steps->result.tally.latency, &once->result.tally.latency);
    check_scenarios(steps->result.scenarios);
    stored_result_free(steps);
    stored_result_free(once);
}

/* What a report of text has of a run with all of it. */
TEST(text_names_what_the_runs_had)
{
    static const char *const words[] = {
        "  Warm-up      21 requests, not counted\n",
        " answered, target 15 scenarios/s",
        "  Negotiated   HTTP/2, TLSv1.3, AES, x25519: 15 connections\n",
        " without a value to take; the first: no 'token'.",
    };
    struct stored_result *merged = merge_all();
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_int_equal(report_write(out, &merged->result, false), 0);
    fclose(out);
    for (size_t i = 0; i < ARRAY_LENGTH(words); i++)
        if (strstr(text, words[i]) == NULL)
            fail_msg("no '%s' in\n%s", words[i], text);
    free(text);
    stored_result_free(merged);
}

TEST(runs_that_hardly_overlap_have_a_note)
{
    struct stored_result *merged = merge_all();
    struct result_note notes[RESULT_NOTES_MAX];
    size_t count = result_notes(&merged->result, notes), found = 0;

    for (size_t i = 0; i < count; i++)
        found += strcmp(notes[i].name, "runs_apart") == 0;
    assert_int_equal(found, 1);
    merged->result.overlap_ns = merged->result.elapsed_ns;
    assert_int_equal(result_notes(&merged->result, notes), count - 1);
    stored_result_free(merged);
}

/* ---- Reports that cannot be merged ---- */

/* Sets the member at PATH ("seconds.0.warmup") of the second report; NULL removes it. Takes VALUE over. */
static void change(const char *path, json_t *value)
{
    json_t *report = json_load_file(names[1], 0, NULL), *object = report;
    char words[64], *member = words, *dot;

    assert_non_null(report);
    snprintf(words, sizeof(words), "%s", path);
    for (; (dot = strchr(member, '.')) != NULL; member = dot + 1) {
        *dot = '\0';
        object =
            json_is_array(object) ? json_array_get(object, 0) : json_object_get(object, member);
    }
    if (value != NULL)
        json_object_set_new(object, member, value);
    else
        json_object_del(object, member);
    assert_int_equal(json_dump_file(report, names[1], 0), 0);
    json_decref(report);
}

/* WANTED is part of the message. Restores the report. */
static void check_refused(const char *wanted)
{
    assert_null(merge_reports(&merging, why, sizeof(why)));
    if (strstr(why, wanted) == NULL || strstr(why, names[1]) == NULL)
        fail_msg("'%s' instead of '%s'", why, wanted);
    write_run(1);
}

TEST(wrong_members_are_named)
{
    static const struct {
        const char *path;
        const char *value; /* JSON; NULL: the member is missing */
        const char *wanted;
    } cases[] = {
        {"schema", "2", "has schema 2; this wsload reads up to 1"},
        {"plan", NULL, "is not a report of a run"},
        {"plan.rounds", "3", "plan.rounds is more than 1"},
        {"plan.engine", "\"raw\"", "differ in the engine"},
        {"plan.loop", "\"closed\"", "differ in the loop"},
        {"plan.loop", "\"round\"", "plan.loop has the unknown value 'round'"},
        {"plan.http", "\"2\"", "differ in the HTTP version"},
        {"plan.streams", "5", "differ in the number of streams"},
        {"plan.keepalive", "false", "differ in keep-alive"},
        {"latency_us.histogram", NULL, "latency_us.histogram is missing"},
        {"latency_us.histogram", "5", "latency_us.histogram is not an object"},
        {"service_us.histogram.sub_buckets", "128",
         "service_us.histogram.sub_buckets is 128, but this wsload has 64"},
        {"service_us.histogram.buckets", "100", "histograms of different ranges"},
        {"service_us.histogram.counts", "\"5:1 5:1\"", "counts is not a list of buckets"},
        {"service_us.histogram.counts", "\"2111:1,1\"", "counts is not a list of buckets"},
        {"service_us.histogram.counts", "\"2112:1\"", "counts is not a list of buckets"},
        {"service_us.histogram.counts", "\"5,1\"", "counts is not a list of buckets"},
        {"service_us.histogram.counts", "\"5:\"", "counts is not a list of buckets"},
        {"service_us.histogram.counts", "\"5:-1\"", "counts is not a list of buckets"},
        {"service_us.histogram.counts", "\"5:1;\"", "counts is not a list of buckets"},
        {"service_us.histogram.counts", "\"\"", "service_us.count differs"},
        {"requests.begun", "-1", "requests.begun is not an integer"},
        {"requests.unsent_late", "8", "requests.unsent_late is more than unsent"},
        {"statuses.20", "1", "statuses.20 is not a status"},
        {"errors.refused", NULL, "errors.refused is missing"},
        {"elapsed_s", "1e300", "elapsed_s is too long a time"},
        {"seconds.0.begin_s", "\"x\"", "seconds[0].begin_s is not a number"},
        {"seconds.0.warmup", "1", "seconds[0].warmup is not true or false"},
        {"negotiated.0.http", "1", "negotiated[0].http is not a string"},
        {"negotiated", "{}", "negotiated is not an array"},
        {"scenarios", "null", "differ in the scenarios"},
        {"scenarios", NULL, "differ in the scenarios"},
        {"scenarios", "5", "scenarios is not an array"},
        {"scenarios", "[1]", "scenarios[0].steps is missing"},
        {"scenarios.0.name", "\"sell\"", "differ in the scenarios"},
        {"scenarios.0.weight", "0", "scenarios[0].weight is not an integer from 1 to 1000"},
        {"scenarios.0.weight", "1001", "scenarios[0].weight is not an integer from 0"},
        {"scenarios.0.unfinished", "9999", "scenarios[0].begun is less than its parts"},
        {"scenarios.0.steps.0.passed", "-1", "scenarios[0].steps[0].passed is not"},
        {"scenarios.0.steps.0.latency_us", NULL, "scenarios[0].steps[0].latency_us is missing"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        const char *value = cases[i].value;

        change(cases[i].path, value != NULL ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL);
        check_refused(cases[i].wanted);
    }
}

TEST(files_that_are_no_reports_are_refused)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"", "is not JSON"},
        {"{", "is not JSON"},
        {"[]", "is not a report of a run"},
        {"{\"sweep\": {}, \"curves\": []}", "is not a report of a run"},
        {"{\"plan\": {}, \"seconds\": []}", "is missing: an older wsload wrote the report"},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        FILE *out = fopen(names[1], "we");

        assert_non_null(out);
        fputs(cases[i].text, out);
        fclose(out);
        check_refused(cases[i].wanted);
    }
}
