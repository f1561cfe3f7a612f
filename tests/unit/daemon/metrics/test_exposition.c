/* The text of /metrics, from a segment of this process. */
#include "daemon/metrics/exposition.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_reader.h"
#include "tests/test.h"
#include "tests/unit/own_segment.h"

#include <stdlib.h>
#include <string.h>

enum { WORKERS = 2, THREADS = 2, HOSTS = 2 };

static struct segment segment;
static char *text; /* of the last exposition; begins with a line end */

static int begin(void **state)
{
    (void)state;
    text = NULL;
    return own_segment_create(
        &segment,
        (struct segment_plan){.max_workers = WORKERS, .max_threads = THREADS, .max_hosts = HOSTS});
}

static int end(void **state)
{
    (void)state;
    free(text);
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static void expose(enum exposition_format format)
{
    size_t length;
    FILE *out;

    free(text);
    out = open_memstream(&text, &length);
    assert_non_null(out);
    fputc('\n', out);
    exposition_write(out, &segment, format);
    assert_int_equal(fclose(out), 0);
}

/* LINE must be there as a whole, once. */
static void expect_line(const char *line)
{
    const char *found;
    char whole[512];

    snprintf(whole, sizeof(whole), "\n%s\n", line);
    found = strstr(text, whole);
    if (found == NULL || strstr(found + 1, whole) != NULL)
        fail_msg("not one line '%s' in: %s", line, text);
}

static void expect_absent(const char *part)
{
    if (strstr(text, part) != NULL)
        fail_msg("'%s' in: %s", part, text);
}

TEST(server_is_described)
{
    struct segment_master *master = segment_master(&segment);
    char line[256];

    segment.header.started_ns = 5 * NS_PER_S + 7;
    atomic_store(&master->heartbeat_ns, clock_monotonic_ns() + 3600 * NS_PER_S); /* read earlier */
    atomic_store(&master->generation, 3);
    atomic_store(&master->workers_wanted, 4);
    atomic_store(&master->threads_wanted, 6);
    atomic_store(&master->threads_actual, 5);
    expose(EXPOSITION_PROMETHEUS);
    expect_line("# TYPE webserverd_build_info gauge");
    snprintf(line, sizeof(line), "webserverd_build_info{version=\"%s\",name=\"%s\"} 1",
             segment.header.version, segment.header.name);
    expect_line(line);
    expect_line("webserverd_start_time_seconds 5.000000007");
    expect_line("webserverd_heartbeat_age_seconds 0.000000000");
    expect_line("# HELP webserverd_stopping 1 while the server stops, else 0");
    expect_line("webserverd_stopping 0");
    expect_line("webserverd_config_generation 3");
    expect_line("webserverd_workers_wanted 4");
    expect_line("webserverd_workers 0");
    expect_line("webserverd_workers_serving 0");
    expect_line("webserverd_threads_wanted 6");
    expect_line("webserverd_threads 5");
    expect_absent("# EOF");
    expect_absent("# UNIT");
    atomic_store(&master->heartbeat_ns, 0);
    expose(EXPOSITION_PROMETHEUS);
    expect_absent("\nwebserverd_heartbeat_age_seconds 0.000000000\n");
}

TEST(formats_name_a_counter_differently)
{
    metric_add(segment_master(&segment)->metrics, METRIC_workers_started, 9);
    expose(EXPOSITION_PROMETHEUS);
    expect_line("# TYPE webserverd_workers_started_total counter");
    expect_line("webserverd_workers_started_total 9");
    expect_line("# TYPE webserverd_connections_open gauge");
    expect_line("# TYPE webserverd_sent_bytes_total counter");
    expect_line("# TYPE webserverd_cpu_time_seconds_total counter");
    expose(EXPOSITION_OPENMETRICS);
    expect_line("# TYPE webserverd_build info");
    expect_line("# TYPE webserverd_workers_started counter");
    expect_line("webserverd_workers_started_total 9");
    expect_line("# TYPE webserverd_sent_bytes counter\n# UNIT webserverd_sent_bytes bytes");
    expect_line("# TYPE webserverd_cache_bytes gauge\n# UNIT webserverd_cache_bytes bytes");
    expect_line(
        "# TYPE webserverd_cpu_time_seconds counter\n# UNIT webserverd_cpu_time_seconds seconds");
    expect_absent("# UNIT webserverd_requests");
    assert_string_equal(text + strlen(text) - 7, "\n# EOF\n");
}

/* A slot of an earlier master only, one of both, and what it counted in slots that are gone. */
TEST(counters_continue_those_of_earlier_masters)
{
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(segment_reserve_earlier(&segment, i), 0);
    metric_set(segment_earlier(&segment, 0), METRIC_requests, 1);
    metric_set(segment_earlier(&segment, 1), METRIC_requests, 20);
    metric_set(segment_earlier(&segment, 2), METRIC_requests, 300);
    metric_set(segment_earlier(&segment, 0), METRIC_workers_started, 4);
    metric_set(segment_earlier(&segment, 1), METRIC_offload_jobs, 5);
    histogram_record(&segment_earlier_latency(&segment, 2)[OUTCOME_HIT], 1000);
    metric_add(segment_master(&segment)->metrics, METRIC_workers_started, 9);
    assert_int_equal(segment_reserve_thread(&segment, 1), 0);
    metric_add(segment_thread(&segment, 1)->metrics, METRIC_requests, 7);
    histogram_record(&segment_latency_of(&segment, 1)[OUTCOME_HIT], 1000);
    atomic_store(&segment_master(&segment)->counted_since_ns, 3 * NS_PER_S);
    expose(EXPOSITION_PROMETHEUS);
    expect_line("webserverd_workers_started_total 13");
    expect_line("webserverd_requests_total{worker=\"0\",thread=\"0\"} 20");
    expect_line("webserverd_requests_total{worker=\"0\",thread=\"1\"} 307");
    expect_line("webserverd_requests_total{worker=\"other\",thread=\"other\"} 1");
    expect_line("webserverd_offload_jobs_total{worker=\"0\"} 5");
    expect_line(
        "webserverd_request_duration_seconds_count{worker=\"0\",thread=\"1\",outcome=\"hit\"} 2");
    expect_absent("webserverd_offload_jobs_total{worker=\"other\"}");
    expect_absent("webserverd_connections_open{worker=\"0\",thread=\"0\"}");
    expect_line("webserverd_start_time_seconds 3.000000000");
}

/* Worker 1 with its second thread; the others have no memory. */
TEST(only_slots_with_memory_have_samples)
{
    assert_int_equal(segment_reserve_worker(&segment, 1), 0);
    assert_int_equal(segment_reserve_thread(&segment, 3), 0);
    metric_add(segment_thread(&segment, 3)->metrics, METRIC_requests, 8);
    metric_add(segment_thread(&segment, 3)->metrics, METRIC_response_time, NS_PER_S / 2);
    metric_set(segment_worker(&segment, 1)->metrics, METRIC_cache_bytes, 77);
    metric_add(segment_logger(&segment)->metrics, METRIC_log_lines, 6);
    expose(EXPOSITION_PROMETHEUS);
    expect_line("webserverd_requests_total{worker=\"1\",thread=\"1\"} 8");
    expect_line("webserverd_response_time_seconds_total{worker=\"1\",thread=\"1\"} 0.500000000");
    expect_line("webserverd_cache_bytes{worker=\"1\"} 77");
    expect_line("webserverd_log_lines_total 6");
    expect_absent("worker=\"0\"");
    expect_absent("worker=\"2\"");
    expect_absent("thread=\"0\"");
    expect_absent("_bucket");
}

TEST(queue_waits_are_a_histogram_by_worker)
{
    assert_int_equal(segment_reserve_worker(&segment, 0), 0);
    assert_int_equal(segment_reserve_worker(&segment, 1), 0);
    expose(EXPOSITION_PROMETHEUS);
    expect_absent("queue_duration_seconds_");
    histogram_record(segment_queue_waits_of(&segment, 1), NS_PER_S / 2);
    expose(EXPOSITION_PROMETHEUS);
    expect_line("# TYPE webserverd_queue_duration_seconds histogram");
    expect_line("webserverd_queue_duration_seconds_bucket{worker=\"1\",le=\"0.25\"} 0");
    expect_line("webserverd_queue_duration_seconds_bucket{worker=\"1\",le=\"1.0\"} 1");
    expect_line("webserverd_queue_duration_seconds_sum{worker=\"1\"} 0.500000000");
    expect_line("webserverd_queue_duration_seconds_count{worker=\"1\"} 1");
    expect_absent("{worker=\"0\",le");
}

TEST(status_without_a_response_is_left_out)
{
    assert_int_equal(segment_reserve_thread(&segment, 0), 0);
    metric_add(segment_thread(&segment, 0)->metrics, METRIC_responses_404, 1);
    expose(EXPOSITION_PROMETHEUS);
    expect_line("# TYPE webserverd_responses_total counter");
    expect_line("webserverd_responses_total{worker=\"0\",thread=\"0\",code=\"404\"} 1");
    expect_absent("code=\"200\"");
    expect_absent("webserverd_responses_404");
}

TEST(values_in_a_divided_bucket_count_above_the_bound)
{
    struct histogram *latency;

    assert_int_equal(segment_reserve_thread(&segment, 2), 0);
    latency = segment_latency_of(&segment, 2);
    histogram_record(&latency[0], 0);
    histogram_record(&latency[0], 9000);
    histogram_record(&latency[0], 10000); /* the bound is in its bucket */
    histogram_record(&latency[0], 99 * NS_PER_S);
    histogram_record(&latency[0], 1000 * NS_PER_S); /* in the last bucket */
    expose(EXPOSITION_PROMETHEUS);
#define SERIES(suffix)                                                                             \
    "webserverd_request_duration_seconds_" suffix "{worker=\"1\",thread=\"0\",outcome=\"hit\""
    expect_line("# TYPE webserverd_request_duration_seconds histogram");
    expect_line(SERIES("bucket") ",le=\"0.00001\"} 2");
    expect_line(SERIES("bucket") ",le=\"0.000025\"} 3");
    expect_line(SERIES("bucket") ",le=\"50.0\"} 3");
    expect_line(SERIES("bucket") ",le=\"100.0\"} 4");
    expect_line(SERIES("bucket") ",le=\"+Inf\"} 5");
    expect_line(SERIES("sum") "} 1099.000019000");
    expect_line(SERIES("count") "} 5");
    expect_absent("outcome=\"error\"");
}

TEST(host_without_a_request_has_no_histogram)
{
    struct segment_host_counts *counts;

    assert_int_equal(segment_reserve_thread(&segment, 0), 0);
    assert_int_equal(segment_reserve_hosts(&segment, HOSTS), 0);
    expose(EXPOSITION_PROMETHEUS);
    expect_absent("webserverd_host_");
    segment_store_host(&segment, 0, 1, "one.example");
    segment_store_host(&segment, 1, 2, "two.example");
    counts = &segment_host_counts_of(&segment, 0)[1];
    counts->id = 2;
    counts->values[HOST_METRIC_responses_2xx] = 3;
    counts->values[HOST_METRIC_responses_5xx] = 1;
    counts->values[HOST_METRIC_body_bytes] = 500;
    counts->values[HOST_METRIC_response_time] = 3 * NS_PER_S;
    counts->latency[histogram_index(32767) >> HISTOGRAM_COARSE_SHIFT]++; /* below the first end */
    counts->latency[histogram_index(32768) >> HISTOGRAM_COARSE_SHIFT]++;
    counts->latency[HISTOGRAM_COARSE_BUCKETS - 1] += 2;
    expose(EXPOSITION_PROMETHEUS);
    expect_line("# TYPE webserverd_host_responses_total counter");
    expect_line("# TYPE webserverd_host_body_bytes_total counter");
    expect_line("# TYPE webserverd_host_request_duration_seconds histogram");
    expect_line("webserverd_host_responses_total{host=\"one.example\",class=\"2xx\"} 0");
    expect_line("webserverd_host_responses_total{host=\"two.example\",class=\"2xx\"} 3");
    expect_line("webserverd_host_responses_total{host=\"two.example\",class=\"5xx\"} 1");
    expect_absent("class=\"bytes\"");
    expect_line("webserverd_host_body_bytes_total{host=\"two.example\"} 500");
#define HOST_SERIES(suffix)                                                                        \
    "webserverd_host_request_duration_seconds_" suffix "{host=\"two.example\""
    expect_line(HOST_SERIES("bucket") ",le=\"0.000032768\"} 1");
    expect_line(HOST_SERIES("bucket") ",le=\"0.000131072\"} 2");
    expect_line(HOST_SERIES("bucket") ",le=\"34.359738368\"} 2");
    expect_line(HOST_SERIES("bucket") ",le=\"+Inf\"} 4");
    expect_line(HOST_SERIES("sum") "} 3.000000000");
    expect_line(HOST_SERIES("count") "} 4");
    expect_absent("_bucket{host=\"one.example\"");
}

/* A name of a certificate may contain anything. */
TEST(label_of_a_certificate_is_escaped)
{
    struct certificate_copy one = {.not_after_s = 4000}, two = {.not_after_s = 5000};

    expose(EXPOSITION_PROMETHEUS);
    expect_absent("certificate_not_after");
    snprintf(one.names, sizeof(one.names), "%s", "one.example  !~\"\\");
    snprintf(two.names, sizeof(two.names), "%s", "a\177b\nc\303 ");
    segment_store_certificate(&segment, 0, &one);
    segment_store_certificate(&segment, 1, &two);
    segment_store_certificate_count(&segment, 2);
    expose(EXPOSITION_PROMETHEUS);
#define CERTIFICATE "webserverd_certificate_not_after_seconds{certificate="
    expect_line("# TYPE webserverd_certificate_not_after_seconds gauge");
    expect_line(CERTIFICATE "\"0\",host=\"one.example\"} 4000");
    expect_line(CERTIFICATE "\"0\",host=\"!~\\\"\\\\\"} 4000");
    expect_line(CERTIFICATE "\"1\",host=\"a?b?c?\"} 5000");
    expect_absent("host=\"\"");
    expect_absent("certificate=\"2\"");
}
