/* Medians, confidence intervals and p-values against values computed by hand; series of trials. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/macros.h"
#include "loadgen/base/resources.h"
#include "loadgen/run/trials.h"
#include "tests/unit/loadgen/load_results.h"

#include <curl/curl.h>
#include <math.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

/*
 * Order statistics: for 6 to 8 values the interval is the range (6: 96.9 %), for 9 it omits one value
 * at either end (96.1 %), of 12 two (96.1 %), of 17 four (95.1 %), of 20 five (95.9 %).
 */
static void interval_of_six_or_more_is_of_order_statistics(void **state)
{
    static const struct {
        size_t count;
        double low, median, high;
    } cases[] = {{6, 1, 3.5, 6},   {8, 1, 4.5, 8}, {9, 2, 5, 8},     {11, 2, 6, 10},
                 {12, 3, 6.5, 10}, {17, 5, 9, 13}, {20, 6, 10.5, 15}};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        double values[32];
        struct interval interval;

        for (size_t k = 0; k < cases[i].count; k++)
            values[k] = (double)((k * 7) % cases[i].count + 1);
        interval = statistics_interval(values, cases[i].count);
        assert_int_equal(interval.count, cases[i].count);
        assert_true(interval.median == cases[i].median);
        assert_true(interval.low == cases[i].low);
        assert_true(interval.high == cases[i].high);
    }
}

/*
 * Mean 3 and deviation sqrt(2.5) of 1 to 5, t of 4 degrees 2.776445: 3 -+ 1.963243. Of 10, 11 and 12
 * with t of 2 degrees 4.302653: 11 -+ 2.484138.
 */
static void interval_of_three_to_five_is_of_student(void **state)
{
    double five[] = {5, 1, 4, 2, 3}, three[] = {12, 10, 11}, gaps[] = {NAN, 4, NAN, 2};
    struct interval interval = statistics_interval(five, 5);

    (void)state;
    assert_true(fabs(interval.low - 1.036757) < 1e-6 && fabs(interval.high - 4.963243) < 1e-6);
    assert_true(fabs(interval_percent(&interval) - 65.441434) < 1e-5);
    interval = statistics_interval(three, 3);
    assert_true(interval.median == 11);
    assert_true(fabs(interval.low - 8.515862) < 1e-6 && fabs(interval.high - 13.484138) < 1e-6);
    interval = statistics_interval(gaps, 4);
    assert_int_equal(interval.count, 2);
    assert_true(interval.median == 3 && isnan(interval.low) && isnan(interval.high));
    assert_true(isnan(interval_percent(&interval)));
    interval = statistics_interval(gaps, 0);
    assert_true(isnan(interval.median));
}

/* Of 2000 series of noise, about one in twenty has an interval without the true median. */
static void interval_covers_the_median_of_noise(void **state)
{
    static const size_t counts[] = {3, 5, 6, 9, 20};
    uint64_t random = 3;

    (void)state;
    for (size_t c = 0; c < ARRAY_LENGTH(counts); c++) {
        unsigned outside = 0;

        for (int i = 0; i < 2000; i++) {
            double values[32];
            struct interval interval;

            for (size_t k = 0; k < counts[c]; k++) {
                values[k] = 0;
                for (int n = 0; n < 12; n++) { /* the sum of 12 uniform values is almost normal */
                    random = random * 6364136223846793005u + 1442695040888963407u;
                    values[k] += (double)(random >> 11) / (double)(1ull << 53) - 0.5;
                }
            }
            interval = statistics_interval(values, counts[c]);
            outside += interval.low > 0 || interval.high < 0;
        }
        print_message("%zu values: %u of 2000 outside\n", counts[c], outside);
        assert_in_range(outside, 20, 140);
    }
}

/* Means 3 and 8, variances 2.5, no autocorrelation: t = 5, 8 degrees of freedom, p = 0.001053. */
static void p_value_of_runs_matches_welch(void **state)
{
    static const double low[] = {1, 2, 3, 4, 5}, high[] = {6, 7, 8, 9, 10};

    (void)state;
    assert_true(fabs(statistics_p_value_of_runs(low, 5, high, 5) - 0.001053) < 1e-6);
    /* 1 2 3 and 6 7 8: t = 5 / sqrt(2/3) = 6.123724, 4 degrees of freedom, p = 0.003602. */
    assert_true(fabs(statistics_p_value_of_runs(low, 3, high, 3) - 0.003602) < 1e-6);
    assert_true(isnan(statistics_p_value_of_runs(low, 2, high, 5)));
}

static void measures_are_unknown_without_responses(void **state)
{
    struct measures measures;
    char text[MEASURE_TEXT];

    (void)state;
    fill_good();
    result.server.cores = 1.5;
    result.machine_busy = NAN;
    result_measure(&result, &measures);
    assert_true(measures.value[MEASURE_RATE] == 10000);
    assert_true(measures.value[MEASURE_MAX] == 2e6);
    assert_true(fabs(measures.value[MEASURE_P50] - 64) <= 1);
    assert_true(fabs(measures.value[MEASURE_P99_9] - 64) <= 1);
    assert_true(measures.value[MEASURE_ERRORS] == 0);
    assert_true(measures.value[MEASURE_CLIENT_SHARE] == 25);
    assert_true(measures.value[MEASURE_CLIENT_CPU] == 50);
    assert_true(measures.value[MEASURE_SERVER_CORES] == 1.5);
    assert_true(isnan(measures.value[MEASURE_MACHINE_BUSY]));
    assert_string_equal(measure_format(text, MEASURE_RATE, 12345.4), "12,345");
    assert_string_equal(measure_format(text, MEASURE_P50, 64), "64.0 us");
    assert_string_equal(measure_format(text, MEASURE_ERRORS, 0), "0%");
    assert_string_equal(measure_format(text, MEASURE_ERRORS, 0.0123), "0.012%");
    assert_string_equal(measure_format(text, MEASURE_CLIENT_SHARE, 97.04), "97%");
    assert_string_equal(measure_format(text, MEASURE_SERVER_CORES, 1.5), "1.50");
    assert_string_equal(measure_format(text, MEASURE_P99, NAN), "-");
    fill_bad();
    result_measure(&result, &measures);
    assert_true(isnan(measures.value[MEASURE_P99]));
    assert_true(measures.value[MEASURE_P50] == 1000 || measures.value[MEASURE_P50] > 980);
}

static void cpu_time_is_plausible(void **state)
{
    struct machine_cpu none = {0, 0}, now = resources_machine_cpu();

    (void)state;
    assert_true(resources_process_cpu_ns(getpid()) > 0);
    assert_int_equal(resources_process_cpu_ns(0), 0);
    assert_true(now.busy > 0 && now.all >= now.busy);
    assert_true(resources_machine_busy(none) > 0 && resources_machine_busy(none) <= 1);
    assert_true(isnan(resources_machine_busy((struct machine_cpu){0, UINT64_MAX / 2})));
}

/* ---- A series against a port that does not listen ---- */

struct seen {
    char order[64];
    size_t fail_before; /* the trial that cannot begin, from 1; 0: none */
    size_t signal_after;
    size_t short_from, short_to; /* these trials have too few responses, from 1; 0: none */
    size_t results;              /* passed to see_after() */
};

static int see_before(void *context, size_t point, char *why, size_t size)
{
    struct seen *seen = context;
    size_t length = strlen(seen->order);

    if (length + 1 == seen->fail_before)
        return snprintf(why, size, "no server"), -1;
    seen->order[length] = (char)('A' + point);
    return 0;
}

static void see_after(void *context, size_t point, const struct result *trial_result)
{
    struct seen *seen = context;

    assert_int_equal(tally_get(&trial_result->tally, TALLY_begun), point + 1);
    seen->results++;
    if (strlen(seen->order) == seen->signal_after)
        raise(SIGINT);
}

static bool see_enough(void *context, size_t point, const struct measures *measures)
{
    const struct seen *seen = context;
    size_t trial = strlen(seen->order);

    assert_int_equal(seen->order[trial - 1], 'A' + point);
    assert_true(measures->value[MEASURE_ERRORS] == 100);
    return trial < seen->short_from || trial > seen->short_to;
}

static struct trials *run_series(struct seen *seen, enum trials_end expected)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct plan plans[3];
    struct trials_point points[3];
    const struct trials_setup setup = {points, 3, 3, see_before, see_after, seen, NULL, see_enough};
    struct trials *trials = trials_create(3, 3);
    enum trial_outcome outcome;
    char url[64], why[256] = "";

    assert_non_null(trials);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    snprintf(url, sizeof(url), "http://127.0.0.1:%u/", ntohs(address.sin_port));
    for (uint32_t i = 0; i < 3; i++) {
        plan_begin(&plans[i], 1);
        plans[i].urls[plans[i].url_count++] = url;
        plans[i].method = "GET";
        plans[i].quiet = true;
        plans[i].requests = i + 1;
        plan_set_connections(&plans[i], 1);
        points[i] = (struct trials_point){&plans[i], NULL};
    }
    assert_int_equal(trials_run(trials, &setup, &outcome, why, sizeof(why)), expected);
    if (expected == TRIALS_FAILED)
        assert_string_equal(why, "no server");
    close(fd);
    return trials;
}

static void series_alternates_the_order_of_points(void **state)
{
    struct seen seen = {.order = ""};
    struct trials *trials = run_series(&seen, TRIALS_COMPLETE);
    struct interval interval = trials_interval(trials, 1, MEASURE_ERRORS);

    (void)state;
    assert_string_equal(seen.order, "ABCCBAABC");
    assert_int_equal(trials_done(trials, 0), 3);
    assert_true(interval.median == 100 && interval.low == 100 && interval.high == 100);
    assert_true(trials_get(trials, 2, 2)->value[MEASURE_RATE] == 0);
    trials_free(trials);
}

static void series_ended_early_keeps_its_trials(void **state)
{
    struct seen interrupted = {.signal_after = 5}, failed = {.fail_before = 2};
    struct trials *trials = run_series(&interrupted, TRIALS_INTERRUPTED);

    (void)state;
    assert_string_equal(interrupted.order, "ABCCB");
    assert_int_equal(trials_done(trials, 0), 1);
    assert_int_equal(trials_done(trials, 1), 2);
    trials_free(trials);
    trials = run_series(&failed, TRIALS_FAILED);
    assert_int_equal(trials_done(trials, 0), 1);
    assert_int_equal(trials_done(trials, 1), 0);
    trials_free(trials);
}

static void trial_with_too_few_responses_is_repeated(void **state)
{
    struct seen twice = {.short_from = 2, .short_to = 3};
    struct seen always = {.short_from = 5, .short_to = 99, .fail_before = 8};
    struct trials *trials = run_series(&twice, TRIALS_COMPLETE);

    (void)state;
    assert_string_equal(twice.order, "ABBBCCBAABC");
    assert_int_equal(twice.results, 9);
    assert_int_equal(trials_done(trials, 1), 3);
    trials_free(trials);
    trials = run_series(&always, TRIALS_FAILED);
    assert_string_equal(always.order, "ABCCBBB");
    assert_int_equal(always.results, 4);
    assert_int_equal(trials_done(trials, 1), 1);
    trials_free(trials);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(interval_of_six_or_more_is_of_order_statistics),
        cmocka_unit_test(interval_of_three_to_five_is_of_student),
        cmocka_unit_test(interval_covers_the_median_of_noise),
        cmocka_unit_test(p_value_of_runs_matches_welch),
        cmocka_unit_test(measures_are_unknown_without_responses),
        cmocka_unit_test(cpu_time_is_plausible),
        cmocka_unit_test(series_alternates_the_order_of_points),
        cmocka_unit_test(series_ended_early_keeps_its_trials),
        cmocka_unit_test(trial_with_too_few_responses_is_repeated),
    };

    curl_global_init(CURL_GLOBAL_DEFAULT);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
