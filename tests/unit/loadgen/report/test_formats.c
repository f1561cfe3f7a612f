/* CSV, HdrHistogram and HTML reports of fixed results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/loadgen/load_results.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

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

static char *make(enum plan_format format)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    plan.format = format;
    assert_int_equal(report_write(out, &result, false), 0);
    fclose(out);
    return text;
}

static void csv_has_seconds_and_total(void **state)
{
    char *text;

    (void)state;
    fill_good();
    plan.warmup_ms = 1000;
    result.series = &series;
    plan.percentiles[0] = 99;
    plan.percentiles[1] = 99.9;
    plan.percentile_count = 2;
    text = make(PLAN_FORMAT_CSV);
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
static void hdr_levels_lead_to_all_values(void **state)
{
    double value, level = 0, before = -1, odds;
    uint64_t count = 0;
    unsigned lines = 0;
    char *text;

    (void)state;
    fill_good();
    text = make(PLAN_FORMAT_HDR);
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
static void html_has_plots_and_escapes_url(void **state)
{
    char *text;

    (void)state;
    fill_good();
    result.series = &series;
    plan.warmup_ms = 1000;
    result.url = "http://127.0.0.1:8080/<script>&amp;";
    text = make(PLAN_FORMAT_HTML);
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

static void report_without_responses_has_no_nan(void **state)
{
    (void)state;
    for (int format = 0; format < PLAN_FORMAT_COUNT; format++) {
        char *text;

        begin();
        result.elapsed_ns = 0;
        result.thread_ns = 0;
        text = make((enum plan_format)format);
        assert_true(strlen(text) > 0);
        assert_false(has_word(text, "nan"));
        assert_false(has_word(text, "inf"));
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(csv_has_seconds_and_total),
        cmocka_unit_test(hdr_levels_lead_to_all_values),
        cmocka_unit_test(html_has_plots_and_escapes_url),
        cmocka_unit_test(report_without_responses_has_no_nan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
