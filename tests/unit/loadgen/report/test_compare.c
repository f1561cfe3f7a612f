/*
 * The significance test against values computed by hand, its false alarms, and comparisons of
 * reports.
 */
#include "loadgen/report/report.h"
#include "loadgen/stats/measures.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TEST(median_of_odd_even_and_no_values)
{
    double odd[] = {9, 1, 5}, even[] = {4, 1, 3, 2};

    assert_true(statistics_median(odd, 3) == 5);
    assert_true(statistics_median(even, 4) == 2.5);
    assert_true(isnan(statistics_median(odd, 0)));
}

/*
 * Consecutive values do not correlate. Means 3 and 8, variances 2.5: t = 5 with 8 degrees of
 * freedom, p = 0.00105; and t = 1: p = 0.34659.
 */
TEST(p_value_equals_computation_by_hand)
{
    static const double low[] = {1, 5, 2, 4, 3}, high[] = {6, 10, 7, 9, 8},
                        near[] = {2, 6, 3, 5, 4};
    static const double same[] = {3, 3, 3, 3, 3}, more[] = {4, 4, 4, 4, 4};

    assert_true(fabs(statistics_p_value(low, 5, high, 5) - 0.001053) < 0.000001);
    assert_true(fabs(statistics_p_value(high, 5, low, 5) - 0.001053) < 0.000001);
    assert_true(fabs(statistics_p_value(low, 5, near, 5) - 0.346594) < 0.000001);
    assert_true(statistics_p_value(low, 5, low, 5) == 1);
    assert_true(statistics_p_value(same, 5, same, 5) == 1);
    assert_true(statistics_p_value(same, 5, more, 5) == 0);
    assert_true(isnan(statistics_p_value(low, 4, high, 5)));
}

static double noise(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) / (double)(1ull << 53) - 0.5;
}

static void fill(uint64_t *random, double correlation, double offset, double *values, size_t count)
{
    double value = 0;

    for (size_t i = 0; i < count; i++) {
        value = correlation * value + noise(random);
        values[i] = value + offset;
    }
}

/*
 * Of 1000 pairs without a difference, few are reported as significant, even if consecutive seconds
 * correlate.
 */
TEST(false_alarms_are_rare)
{
    uint64_t random = 7;
    double a[30], b[30];

    for (int correlated = 0; correlated < 2; correlated++) {
        unsigned alarms = 0, found = 0;

        for (int i = 0; i < 1000; i++) {
            fill(&random, correlated * 0.6, 0, a, 30);
            fill(&random, correlated * 0.6, 0, b, 30);
            alarms += statistics_p_value(a, 30, b, 30) < 0.01;
            fill(&random, correlated * 0.6, 1.5, b, 30);
            found += statistics_p_value(a, 30, b, 30) < 0.01;
        }
        print_message("correlated %d: %u false alarms, %u of 1000 found\n", correlated, alarms,
                      found);
        assert_true(alarms <= 30);
        assert_true(found >= (correlated ? 800 : 990));
    }
}

/*
 * Makes a report of seconds_long seconds with about ANSWERED responses and a p99 of about P99 us
 * each.
 */
static int seconds_long = 30;

static json_t *make_report(int answered, int p99)
{
    json_t *seconds = json_array();

    for (int i = 0; i < 1 + seconds_long; i++)
        json_array_append_new(
            seconds, json_pack("{s:i, s:i, s:i, s:i, s:i, s:i, s:b}", "begin_s", i, "end_s", i + 1,
                               "answered", i == 0 ? 1 : answered + i * 5 % 7, "p50_us", 100 + i % 2,
                               "p90_us", 200 + i % 3, "p99_us", p99 + i * 5 % 7, "warmup", i == 0));
    return json_pack("{s:{s:i}, s:o}", "plan", "connections", answered, "seconds", seconds);
}

static char *compare(json_t *a, json_t *b, bool *worse)
{
    char *text = NULL;
    size_t size;
    FILE *out = open_memstream(&text, &size);

    assert_non_null(out);
    *worse = compare_write(out, a, b);
    fclose(out);
    json_decref(a);
    json_decref(b);
    return text;
}

TEST(verdict_needs_a_significant_difference)
{
    bool worse;
    char *text = compare(make_report(1000, 500), make_report(1200, 500), &worse);

    assert_false(worse);
    assert_non_null(strstr(text, "       1,003       1,203    +19.9%    <0.001  B is better\n"));
    assert_non_null(strstr(text, "  p99               503 us      503 us     +0.0%     1.000  "
                                 "no difference found\n"));
    assert_non_null(strstr(text, "differ in the setting connections."));
    free(text);
    text = compare(make_report(1000, 500), make_report(1000, 700), &worse);
    assert_true(worse);
    assert_non_null(strstr(text, "  B is worse\n"));
    assert_null(strstr(text, "differ in the setting"));
    free(text);
}

static json_t *with_rounds(json_t *report, const double *rates, size_t count)
{
    json_t *rounds = json_array();

    for (size_t i = 0; i < count; i++)
        json_array_append_new(rounds, json_pack("{s:f, s:f, s:f, s:o}", "requests_per_second",
                                                rates[i], "p50_us", 100.0, "p90_us",
                                                200.0 + rates[i], "p99_us", json_null()));
    json_object_set_new(report, "rounds", rounds);
    return report;
}

TEST(rounds_are_compared_if_both_have_enough)
{
    static const double some[] = {1000, 1010, 990, 1005, 995},
                        more[] = {1200, 1210, 1190, 1205, 1195},
                        wide[] = {900, 1100, 1300, 1000, 950};
    bool worse;
    char *text = compare(with_rounds(make_report(1000, 500), some, 5),
                         with_rounds(make_report(1000, 500), more, 5), &worse);

    assert_non_null(strstr(text, "  By round"));
    assert_non_null(strstr(text, "       1,000       1,200    +20.0%    <0.001  B is better\n"));
    assert_non_null(strstr(text, "  p90              1.20 ms     1.40 ms    +16.7%    <0.001  B is "
                                 "worse\n"));
    assert_non_null(strstr(text, "         -  too few to tell\n"));
    assert_null(strstr(text, "  ! Only"));
    assert_true(worse);
    free(text);
    text = compare(with_rounds(make_report(1000, 500), some, 4),
                   with_rounds(make_report(1100, 500), wide, 5), &worse);
    assert_non_null(strstr(text, "no difference found"));
    assert_non_null(strstr(text, "  ! Only 4 rounds are compared"));
    assert_false(worse);
    free(text);
    text = compare(with_rounds(make_report(1000, 500), some, 2),
                   with_rounds(make_report(1200, 500), more, 5), &worse);
    assert_non_null(strstr(text, "  By second"));
    free(text);
}

static void write_report(const char *file, int answered, double rate)
{
    json_t *report = make_report(answered, 500);

    json_object_set_new(report, "requests_per_second", json_real(rate));
    json_object_set_new(report, "latency_us",
                        json_pack("{s:f, s:f, s:f}", "p50", 100.0, "p90", 200.0, "p99", 300.0));
    assert_int_equal(json_dump_file(report, file, 0), 0);
    json_decref(report);
}

TEST(several_files_become_rounds)
{
    char directory[] = "/tmp/wsload-compare-XXXXXX", files[256], why[256], name[64];
    json_t *report, *rounds;

    assert_non_null(mkdtemp(directory));
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "%s/%d.json", directory, i);
        write_report(name, 1000, 1000 + i);
    }
    snprintf(files, sizeof(files), "%s/0.json,%s/1.json,%s/2.json", directory, directory,
             directory);
    report = compare_read(files, why, sizeof(why));
    rounds = json_object_get(report, "rounds");
    assert_int_equal(json_array_size(rounds), 3);
    assert_true(json_number_value(
                    json_object_get(json_array_get(rounds, 2), "requests_per_second")) == 1002);
    assert_true(json_number_value(json_object_get(json_array_get(rounds, 0), "p99_us")) == 300);
    json_decref(report);
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof(name), "%s/%d.json", directory, i);
        unlink(name);
    }
    assert_null(compare_read(files, why, sizeof(why)));
    assert_non_null(strstr(why, "/0.json"));
    rmdir(directory);
}

TEST(short_runs_are_too_few_to_tell)
{
    bool worse;
    char *text;

    seconds_long = 4;
    text = compare(make_report(1000, 500), make_report(1200, 900), &worse);
    seconds_long = 30;
    assert_false(worse);
    assert_non_null(strstr(text, "         -  too few to tell\n"));
    assert_non_null(strstr(text, "  ! Only 4 seconds are compared"));
    free(text);
}

TEST(invalid_report_is_rejected)
{
    char file[] = "/tmp/wsload-compare-XXXXXX", why[256];
    int fd = mkstemp(file);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, "{\"seconds\":1}", 13), 13);
    close(fd);
    assert_null(compare_read(file, why, sizeof(why)));
    unlink(file);
    assert_non_null(strstr(why, "is not a report of a run"));
    assert_null(compare_read(file, why, sizeof(why)));
    assert_non_null(strstr(why, "cannot read the report /tmp/wsload-compare-"));
    assert_non_null(strstr(why, ": No such file"));
}
