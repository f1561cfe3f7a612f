/* Reports of fixed results: the exact text and CSV, HdrHistogram and HTML. */
#include "tests/test.h"
#include "tests/unit/loadgen/load_results.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char good_text[] =
    "GET http://127.0.0.1:8080/\n"
    "100 connections with keep-alive, 2 threads, engine curl, 2.00 s\n"
    "\n"
    "  Requests     20,000: 20,000 answered, 0 failed\n"
    "  Rate         10,000 requests/s\n"
    "  Received     19.5 MiB (19.1 MiB content), 9.77 MiB/s\n"
    "  Connections  100 of 100 established, 234 opened in total\n"
    "  Client       25% of a core per thread, 50.0 us of CPU time per request\n"
    "\n"
    "  Latency          mean     p50     p90     p99   p99.9  p99.99 p99.999     max\n"
    "  response       164 us 64.5 us 64.5 us 64.5 us 64.5 us 64.5 us       -  2.00 s\n"
    "  first byte    82.0 us 32.3 us 32.3 us 32.3 us 32.3 us 32.3 us       -  1.00 s\n"
    "\n"
    "    30-100 us  ########################################## 100.0% p50 p90 p99 p99.9\n"
    "   100-300 us  \n"
    "  300 us-1 ms  \n"
    "       1-3 ms  \n"
    "      3-10 ms  \n"
    "     10-30 ms  \n"
    "    30-100 ms  \n"
    "   100-300 ms  \n"
    "   300 ms-1 s  \n"
    "        1-3 s  .                                           <0.1%\n"
    "\n"
    "  Statuses     200        19,999\n"
    "               304             1\n";

static const char bad_text[] =
    "HEAD http://127.0.0.1:8080/\n"
    "101 connections without keep-alive, 1 thread, engine curl, 2.00 s\n"
    "\n"
    "  Requests     101: 60 answered, 39 failed, 2 unanswered at the end\n"
    "  Rate         30 requests/s\n"
    "  Received     99.0 KiB (96.7 KiB content), 49.5 KiB/s\n"
    "  Connections  100 of 101 established, 234 opened in total\n"
    "  Client       95% of a core per thread, 18.8 ms of CPU time per request\n"
    "\n"
    "  Latency          mean     p50     p90     p99   p99.9  p99.99 p99.999     max\n"
    "  response      1.00 ms 1.00 ms 1.00 ms       -       -       -       - 1.00 ms\n"
    "  first byte     500 us  500 us  500 us       -       -       -       -  500 us\n"
    "\n"
    "  820 us-1 ms  ########################################## 100.0% p50 p90\n"
    "\n"
    "  Statuses     200            50\n"
    "               404            10\n"
    "\n"
    "  Errors                      30  connection refused\n"
    "                               9  other\n"
    "                                  No route to host\n"
    "\n"
    "  ! Interrupted before the end of the run.\n"
    "  ! 51 of 101 requests are errors (50.5%); allowed: 0% (--max-errors).\n"
    "  ! 101 of 500 connections were used: there were no more requests.\n"
    "  ! Only 100 of 101 connections were established.\n"
    "  ! The client was the bottleneck: each of its threads used 95% of a core. The\n"
    "    server may be faster, and the latencies include waiting in the client.\n"
    "    --engine raw uses less CPU.\n"
    "  ! The latencies do not include 41 requests without a response.\n";

TEST(text_report_is_exact)
{
    char *text;

    fill_good();
    text = make_report(PLAN_FORMAT_TEXT, false);
    assert_string_equal(text, good_text);
    free(text);
    fill_bad();
    text = make_report(PLAN_FORMAT_TEXT, false);
    assert_string_equal(text, bad_text);
    free(text);
}

TEST(colour_adds_only_escape_sequences)
{
    char *text, *to;

    fill_bad();
    text = to = make_report(PLAN_FORMAT_TEXT, true);
    assert_non_null(strstr(text, "\x1b[31m"));
    for (const char *from = text; *from != '\0'; from++)
        if (*from == '\x1b')
            from += strcspn(from, "m");
        else
            *to++ = *from;
    *to = '\0';
    assert_string_equal(text, bad_text);
    for (char *rest, *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        assert_true(strlen(line) <= 80);
    free(text);
}

TEST(percentile_is_known_if_a_value_lies_beyond)
{
    assert_false(measure_percentile_is_known(50, 1));
    assert_true(measure_percentile_is_known(50, 2));
    assert_false(measure_percentile_is_known(99, 99));
    assert_true(measure_percentile_is_known(99, 100));
    assert_false(measure_percentile_is_known(99.99, 9999));
    assert_true(measure_percentile_is_known(99.99, 10000));
}

static struct series_entry entries[] = {
    {.end_ns = NS_PER_S, .warmup = true, .connections = 5, .threads = 1},
    {.begin_ns = NS_PER_S,
     .end_ns = 2 * NS_PER_S + NS_PER_S / 2,
     .begun = 302,
     .answered = 300,
     .bad = 2,
     .bytes = 9000,
     .mean_ns = 1500,
     .p50_ns = 1000,
     .p90_ns = 2000,
     .p99_ns = 3000,
     .max_ns = 4001,
     .service_p99_ns = 2500,
     .rate = 200,
     .connections = 5,
     .threads = 1},
};
static struct series series = {.entry = entries, .count = 2};

TEST(csv_has_seconds_and_total)
{
    char *text;

    fill_good();
    plan.warmup_ms = 1000;
    result.series = &series;
    plan.percentiles[0] = 99;
    plan.percentiles[1] = 99.9;
    plan.percentile_count = 2;
    text = make_report(PLAN_FORMAT_CSV, false);
    assert_string_equal(
        text, "row,begin_s,end_s,begun,answered,bad,bytes,requests_per_second,mean_us,p50_us,"
              "p90_us,p99_us,max_us,service_p99_us,rate,connections,threads,p99.9_us\n"
              "warmup,0.000000,1.000000,0,0,0,0,0.000,,,,,,,0.000,5,1,\n"
              "second,1.000000,2.500000,302,300,2,9000,200.000,1.500,1.000,2.000,3.000,4.001,"
              "2.500,200.000,5,1,\n"
              "total,1.000000,3.000000,20000,20000,0,20480000,10000.000,163.996,64.511,64.511,"
              "64.511,2000000.000,64.511,0.000,100,2,64.511\n");
    free(text);
}

static void check_hdr_frame(const char *text)
{
    static const char names[] = "       Value     Percentile TotalCount 1/(1-Percentile)\n\n";
    const char *end = strstr(text, "\n#[Mean    =        0.164, StdDeviation   = ");
    double deviation = 0;

    assert_memory_equal(text, names, strlen(names));
    assert_non_null(end);
    assert_int_equal(sscanf(strstr(end, "Deviation"), "Deviation   = %lf", &deviation), 1);
    assert_true(fabs(deviation - 14.142) < 14.142 / HISTOGRAM_SUB_BUCKETS);
    assert_non_null(strstr(end, "\n#[Max     =     2000.000, Total count    =        20000]\n"));
}

/* Each line has a value and the number of requests up to it; the last line has the total. */
TEST(hdr_levels_lead_to_all_values)
{
    double value, level = 0, before = -1, odds;
    uint64_t count = 0;
    unsigned lines = 0;
    char *text;

    fill_good();
    text = make_report(PLAN_FORMAT_HDR, false);
    check_hdr_frame(text);
    for (const char *at = strstr(text, "\n\n") + 2; *at != '#'; at = strchr(at, '\n') + 1) {
        int fields = sscanf(at, "%lf %lf %" SCNu64 " %lf", &value, &level, &count, &odds);

        assert_true(level > before);
        if (count < 20000) {
            assert_int_equal(fields, 4);
            assert_true(value == 0.065);
            assert_true(level <= (double)count / 20000);
            assert_true(fabs(odds * (1 - level) - 1) < 0.01);
        }
        before = level;
        lines++;
    }
    assert_true(lines > 60 && level == 1 && value == 2000 && count == 20000);
    free(text);
}

static unsigned count_of(const char *text, const char *part)
{
    unsigned count = 0;

    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part))
        count++;
    return count;
}

/* Each point lies inside its plot. */
TEST(html_has_plots_and_escapes_url)
{
    char *text;

    fill_good();
    result.series = &series;
    plan.warmup_ms = 1000;
    result.url = "http://127.0.0.1:8080/<script>&amp;";
    text = make_report(PLAN_FORMAT_HTML, false);
    assert_int_equal(count_of(text, "<figure>"), 3);
    assert_int_equal(count_of(text, "class=\"line line3\""),
                     2); /* the line of max, and the legend */
    assert_int_equal(count_of(text, "class=\"shade\""), 2);
    assert_null(strstr(text, "<script"));
    assert_non_null(strstr(text, "/&lt;script&gt;&amp;amp;</h1>"));
    assert_null(strstr(text, "http-equiv"));
    assert_null(strstr(text, "src="));
    for (const char *at = strstr(text, "cx="); at != NULL; at = strstr(at + 1, "cx=")) {
        double x, y;

        assert_int_equal(sscanf(at, "cx=\"%lf\" cy=\"%lf\"", &x, &y), 2);
        assert_true(x >= 0 && x <= 480 && y >= 0 && y <= 260);
    }
    free(text);
}

static bool has_word(const char *text, const char *word)
{
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word))
        if ((at == text || !isalpha((unsigned char)at[-1])) &&
            !isalpha((unsigned char)at[strlen(word)]))
            return true;
    return false;
}

TEST(report_without_responses_has_no_nan)
{
    for (int format = 0; format < PLAN_FORMAT_COUNT; format++) {
        char *text;

        begin();
        result.elapsed_ns = 0;
        result.thread_ns = 0;
        text = make_report((enum plan_format)format, false);
        assert_true(strlen(text) > 0);
        assert_false(has_word(text, "nan"));
        assert_false(has_word(text, "inf"));
        free(text);
    }
}
