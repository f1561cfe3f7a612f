/* Searches on simulated servers whose answer is known by a formula. */
#include "common/macros.h"
#include "loadgen/plan/arrivals.h"
#include "loadgen/sweep/search.h"
#include "tests/test.h"

#include <math.h>
#include <stdlib.h>

/* ---- A queue with Poisson arrivals, one server and a constant service time (M/D/1) ---- */

/*
 * The probability of waiting at most TIME service times at the utilization RHO (Erlang 1909). The
 * terms alternate, so that longer times need more digits than a long double has.
 */
static double waits_at_most(double rho, double time)
{
    long double sum = 0;

    for (int k = 0; k <= (int)time; k++) {
        long double x = (long double)rho * (k - (long double)time);

        sum += (k % 2 == 0 ? 1 : -1) *
               expl((x == 0 && k == 0 ? 0 : k * logl(fabsl(x))) - x - lgammal(k + 1));
    }
    return (double)((1 - rho) * sum);
}

/* The utilization at which the part SHARE of the requests waits at most TIME. */
static double utilization_at(double share, double time)
{
    double low = 0.01, high = 0.999;

    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;

        if (waits_at_most(middle, time) > share)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/*
 * The part of the responses that takes longer than LIMIT_S, in a run of SECONDS after a warm-up of
 * a tenth of it.
 */
static double simulate_run(double rate, double service_s, double limit_s, double seconds,
                           uint64_t *random)
{
    double now = -seconds / 10, free_at = now;
    size_t count = 0, slow = 0;

    while (now < seconds) {
        now -= log(1 - random_unit(random)) / rate;
        free_at = fmax(free_at, now) + service_s;
        if (now >= 0) {
            count++;
            slow += free_at - now > limit_s;
        }
    }
    return (double)slow / (double)count;
}

/* Within 3 % of the formula, from a first rate that is too low or too high. */
TEST(rate_is_that_of_the_formula)
{
    const double service_s = 0.001, limit_s = 0.020;
    double rate = utilization_at(0.99, limit_s / service_s - 1) / service_s;
    const double firsts[] = {50, 480, 3000};
    uint64_t random = random_begin(7, 1);

    for (size_t i = 0; i < ARRAY_LENGTH(firsts); i++) {
        struct rate_search search = {firsts[i], 0.01, 60};
        struct search_trial trials[SEARCH_TRIALS_MAX];
        struct search_answer answer;
        size_t count = 0;
        double x;

        while ((x = rate_search_next(&search, trials, count)) > 0) {
            double part = simulate_run(x, service_s, limit_s, 5, &random);

            trials[count++] = (struct search_trial){x, part, part < 0.01};
        }
        answer = rate_search_answer(&search, trials, count);
        print_message("first %g: %g (%g to %g) in %zu trials; formula %g\n", firsts[i], answer.x,
                      answer.low, answer.high, count, rate);
        assert_true(answer.found && answer.is_interval);
        assert_true(fabs(answer.x / rate - 1) < 0.03);
        assert_true(answer.low <= answer.x && answer.x <= answer.high);
        assert_in_range(count, 8, 60);
    }
}

/* A server that fails above 1234.5/s at once: the bounds enclose that rate. */
TEST(cliff_is_enclosed)
{
    const double limits[] = {0, 0.01};

    for (size_t i = 0; i < ARRAY_LENGTH(limits); i++) {
        struct rate_search search = {100, limits[i], 60};
        struct search_trial trials[SEARCH_TRIALS_MAX];
        struct search_answer answer;
        size_t count = 0;
        double x;

        while ((x = rate_search_next(&search, trials, count)) > 0)
            trials[count++] = (struct search_trial){x, x < 1234.5 ? 0 : 1, x < 1234.5};
        answer = rate_search_answer(&search, trials, count);
        assert_true(answer.found && !answer.is_interval);
        assert_true(answer.low <= 1234.5 && answer.high >= 1234.5);
        assert_true(answer.high / answer.low <= 1.02);
        assert_true(answer.x == answer.low);
        assert_in_range(count, 5, 40);
    }
}

/* The first trial of each rate up to 150/s is disturbed. */
TEST(disturbed_trials_are_outvoted)
{
    struct rate_search search = {100, 0.01, 60};
    struct search_trial trials[SEARCH_TRIALS_MAX];
    struct search_answer answer;
    size_t count = 0;
    double x;

    while ((x = rate_search_next(&search, trials, count)) > 0) {
        bool met = x < 1234.5 && x > 150;

        for (size_t i = 0; i < count; i++)
            met = met || (x <= 150 && trials[i].x == x);
        trials[count++] = (struct search_trial){x, met ? 0 : 1, met};
    }
    answer = rate_search_answer(&search, trials, count);
    assert_true(answer.found);
    assert_true(answer.low <= 1234.5 && answer.high >= 1234.5);
    assert_true(answer.high / answer.low <= 1.02);
}

/* Conditions that hold at no rate, and at any. */
TEST(search_ends_without_an_answer)
{
    struct rate_search search = {100, 0.01, 30};
    struct search_trial trials[SEARCH_TRIALS_MAX];
    struct search_answer answer;
    size_t count = 0;
    double x;

    while ((x = rate_search_next(&search, trials, count)) > 0)
        trials[count++] = (struct search_trial){x, 1, false};
    answer = rate_search_answer(&search, trials, count);
    assert_false(answer.found);
    assert_true(answer.x < 1);
    for (count = 0; (x = rate_search_next(&search, trials, count)) > 0; count++)
        trials[count] = (struct search_trial){x, 0, true};
    answer = rate_search_answer(&search, trials, count);
    assert_int_equal(count, search.trials_max);
    assert_true(answer.found && isinf(answer.high));
}

/* A rate that grows with the number up to CORES, and is noisy. */
TEST(number_is_the_lowest_of_the_plateau)
{
    const double knees[] = {1, 6, 100};
    const double maxima[] = {1024, 8, 64};
    uint64_t random = random_begin(7, 2);

    for (size_t i = 0; i < ARRAY_LENGTH(knees); i++) {
        struct search_trial trials[SEARCH_TRIALS_MAX];
        struct search_answer answer;
        double knee = fmin(knees[i], maxima[i]), x;
        size_t count = 0;

        while ((x = number_search_next(maxima[i], trials, count)) > 0) {
            assert_true(x >= 1 && x <= maxima[i] && x == floor(x));
            trials[count++] = (struct search_trial){
                x, fmin(x, knee) * 1000 * (0.995 + 0.01 * random_unit(&random)), false};
        }
        answer = number_search_answer(trials, count);
        assert_true(answer.found);
        assert_true(answer.x >= 0.94 * knee && answer.x <= 1.05 * knee);
        assert_in_range(count, SEARCH_ROUNDS, 50);
    }
}
