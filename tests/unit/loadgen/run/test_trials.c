/* Medians, confidence intervals and p-values against values computed by hand; series of trials. */
#include "common/macros.h"
#include "loadgen/base/interrupts.h"
#include "loadgen/run/run.h"
#include "tests/test.h"

#include <curl/curl.h>
#include <errno.h>
#include <event2/event.h>
#include <math.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int prepare_program(void **state)
{
    (void)state;
    curl_global_init(CURL_GLOBAL_DEFAULT);
    return 0;
}

const struct test_fixture test_group_fixture = {prepare_program, NULL};

/*
 * Order statistics: for 6 to 8 values the interval is the range (6: 96.9 %), for 9 it omits one
 * value at either end (96.1 %), of 12 two (96.1 %), of 17 four (95.1 %), of 20 five (95.9 %).
 */
TEST(interval_of_six_or_more_is_of_order_statistics)
{
    static const struct {
        size_t count;
        double low, median, high;
    } cases[] = {{6, 1, 3.5, 6},   {8, 1, 4.5, 8}, {9, 2, 5, 8},     {11, 2, 6, 10},
                 {12, 3, 6.5, 10}, {17, 5, 9, 13}, {20, 6, 10.5, 15}};

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
 * Mean 3 and deviation sqrt(2.5) of 1 to 5, t of 4 degrees 2.776445: 3 -+ 1.963243. Of 10, 11 and
 * 12 with t of 2 degrees 4.302653: 11 -+ 2.484138.
 */
TEST(interval_of_three_to_five_is_of_student)
{
    double five[] = {5, 1, 4, 2, 3}, three[] = {12, 10, 11}, gaps[] = {NAN, 4, NAN, 2};
    struct interval interval = statistics_interval(five, 5);

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
TEST(interval_covers_the_median_of_noise)
{
    static const size_t counts[] = {3, 5, 6, 9, 20};
    uint64_t random = 3;

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
TEST(p_value_of_runs_matches_welch)
{
    static const double low[] = {1, 2, 3, 4, 5}, high[] = {6, 7, 8, 9, 10};

    assert_true(fabs(statistics_p_value_of_runs(low, 5, high, 5) - 0.001053) < 1e-6);
    /* 1 2 3 and 6 7 8: t = 5 / sqrt(2/3) = 6.123724, 4 degrees of freedom, p = 0.003602. */
    assert_true(fabs(statistics_p_value_of_runs(low, 3, high, 3) - 0.003602) < 1e-6);
    assert_true(isnan(statistics_p_value_of_runs(low, 2, high, 5)));
}

/* A URL whose port is bound but does not listen: connections are refused. */
static int bind_refusing(char *url, size_t size)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, length), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    snprintf(url, size, "http://127.0.0.1:%u/", ntohs(address.sin_port));
    return fd;
}

static void make_plan(struct plan *made, const char *url)
{
    plan_begin(made, 2);
    made->urls[made->url_count++] = url;
    made->method = "GET";
    made->quiet = true;
    made->connect_timeout_ms = 60 * 1000; /* the defaults are short for a machine that is busy */
    made->timeout_ms = made->connect_timeout_ms;
    made->requests = 5;
    plan_set_connections(made, 8);
}

/* ---- A series against a port that does not listen ---- */

struct seen {
    char order[64];
    size_t fail_before;          /* the trial that cannot begin, from 1; 0: none */
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
    struct plan plans[3];
    struct trials_point points[3];
    const struct trials_setup setup = {points, 3, 3, see_before, see_after, seen, NULL, see_enough};
    struct trials *trials = trials_create(3, 3);
    enum trial_outcome outcome;
    char url[64], why[256] = "";
    int fd = bind_refusing(url, sizeof(url));

    assert_non_null(trials);
    for (uint32_t i = 0; i < 3; i++) {
        make_plan(&plans[i], url);
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

TEST(series_alternates_the_order_of_points)
{
    struct seen seen = {.order = ""};
    struct trials *trials = run_series(&seen, TRIALS_COMPLETE);
    struct interval interval = trials_interval(trials, 1, MEASURE_ERRORS);

    assert_string_equal(seen.order, "ABCCBAABC");
    assert_int_equal(trials_done(trials, 0), 3);
    assert_true(interval.median == 100 && interval.low == 100 && interval.high == 100);
    assert_true(trials_get(trials, 2, 2)->value[MEASURE_RATE] == 0);
    trials_free(trials);
}

TEST(trial_with_too_few_responses_is_repeated)
{
    struct seen twice = {.short_from = 2, .short_to = 3};
    struct seen always = {.short_from = 5, .short_to = 99, .fail_before = 8};
    struct trials *trials = run_series(&twice, TRIALS_COMPLETE);

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

TEST(ignored_sighup_stays_ignored)
{
    signal(SIGHUP, SIG_IGN);
    assert_int_equal(interrupts_begin(), 0);
    raise(SIGHUP);
    assert_int_equal(interrupts_take(), 0);
    interrupts_end();
    signal(SIGHUP, SIG_DFL);
}

TEST(signal_before_a_run_ends_it)
{
    struct result *trial_result = malloc(sizeof(*trial_result));
    struct plan trial_plan;
    char url[64], why[256];
    int fd = bind_refusing(url, sizeof(url));

    assert_non_null(trial_result);
    make_plan(&trial_plan, url);
    trial_plan.requests = 0;
    trial_plan.duration_ms = 3600 * 1000;
    assert_int_equal(interrupts_begin(), 0);
    raise(SIGINT);
    assert_int_equal(trial_run(&trial_plan, NULL, trial_result, why, sizeof(why)), TRIAL_DONE);
    assert_true(trial_result->interrupted);
    interrupts_end();
    result_free(trial_result);
    free(trial_result);
    close(fd);
}

/* ---- Events that cannot be added ---- */

static _Atomic int adds_left = -1; /* calls of event_add() before one fails; negative: none fails */

/* NOLINTBEGIN(clang-diagnostic-reserved-identifier): names of the linker */
int __real_event_add(struct event *event, const struct timeval *wait);
int __wrap_event_add(struct event *event, const struct timeval *wait);
/* NOLINTEND(clang-diagnostic-reserved-identifier) */

int __wrap_event_add(struct event *event, const struct timeval *wait)
{
    if (adds_left >= 0 && adds_left-- == 0) {
        errno = ENOSPC;
        return -1;
    }
    return __real_event_add(event, wait);
}

enum { CHILD_UNTOUCHED = 40, CHILD_REFUSED, CHILD_HURT };

/* Runs PLAN; call number ADDS of event_add() fails. */
static int run_without_event(const struct plan *trial_plan, int adds)
{
    struct result *trial_result = malloc(sizeof(*trial_result));
    char why[256] = "";
    enum trial_outcome outcome;

    if (trial_result == NULL || freopen("/dev/null", "w", stderr) == NULL)
        return CHILD_HURT;
    adds_left = adds;
    outcome = trial_run(trial_plan, NULL, trial_result, why, sizeof(why));
    if (outcome != TRIAL_DONE)
        return why[0] != '\0' ? CHILD_REFUSED : CHILD_HURT;
    return adds_left >= 0 ? CHILD_UNTOUCHED : CHILD_HURT;
}

static int status_without_event(const struct plan *trial_plan, int adds)
{
    pid_t pid = fork();
    int status;

    if (pid == 0)
        _exit(run_without_event(trial_plan, adds));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Fails each event_add() of a run in turn: no run hangs, and none continues without the event. */
static int check_each_event(const struct plan *trial_plan)
{
    int adds = 0, fatal = 0, status;

    while ((status = status_without_event(trial_plan, adds)) != CHILD_UNTOUCHED) {
        if (status != EXIT_FAILURE && status != CHILD_REFUSED)
            fail_msg("event_add() number %d: exit status %d", adds, status);
        fatal += status == EXIT_FAILURE;
        adds++;
    }
    return fatal;
}

TEST(missing_event_ends_program)
{
    struct plan trial_plan;
    char url[64];
    int fd = bind_refusing(url, sizeof(url));

    make_plan(&trial_plan, url);
    trial_plan.connections = 1;
    trial_plan.threads = 1;
    trial_plan.requests = 2;
    trial_plan.duration_ms = 3600 * 1000;
    trial_plan.think_min_ms = trial_plan.think_max_ms = 1;
    assert_true(check_each_event(&trial_plan) >= 3); /* tick, deadline, think time */
    close(fd);
}
