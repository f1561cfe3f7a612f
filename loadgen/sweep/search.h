/*
 * Which load a search tries next, and what it has found. Both functions depend on the trials only.
 * Pure.
 */
#ifndef LOADGEN_SWEEP_SEARCH_H
#define LOADGEN_SWEEP_SEARCH_H

#include <stdbool.h>
#include <stddef.h>

enum { SEARCH_TRIALS_MAX = 120 };

struct search_trial {
    double x; /* the load: requests per second, connections or threads */
    /*
     * A rate: the part of the responses that is slower than the limit, if the condition limits a
     * percentile; the mean or maximum if it limits that. A number: responses per second. NAN:
     * unknown.
     */
    double value;
    bool met; /* a rate: whether the condition held */
};

struct search_answer {
    bool found;
    double x;         /* the answer; not found: the lowest load that was tried */
    double low, high; /* a rate: bounds of x; high is INFINITY: the condition held up to x */
    bool is_interval; /* the bounds are a 95 % confidence interval */
};

/*
 * The highest rate that meets a condition.
 *
 * The rate is doubled or quartered until the condition holds at one rate and not at another; then
 * the interval between them is halved. Near the answer, runs differ by chance. If the condition
 * limits a time, the part of slower responses grows exponentially with the rate, as in heavily
 * loaded queues: a curve is fitted to the trials near the answer, and more trials follow at both
 * sides until its intersection with the limit is known to SEARCH_PRECISION. The part of slower
 * responses has no bias in short runs, as their percentiles have. Otherwise the rates at both ends
 * of the interval are repeated.
 */
struct rate_search {
    double first; /* the first rate */
    double limit; /* of search_trial.value; 0: the condition is not about a time */
    size_t trials_max;
};

#define SEARCH_PRECISION 0.02

/* The rate of the next trial; 0: the search has ended. */
double rate_search_next(const struct rate_search *search, const struct search_trial *trials,
                        size_t count);

struct search_answer rate_search_answer(const struct rate_search *search,
                                        const struct search_trial *trials, size_t count);

/*
 * The lowest number from 1 to MAX with at least SEARCH_SHARE of the highest rate. The number is
 * doubled until the rate has not risen twice; then the interval below the first sufficient number
 * is halved. Each number is tried SEARCH_ROUNDS times, and its median counts.
 */
#define SEARCH_SHARE 0.95
enum { SEARCH_ROUNDS = 3 };

/* The number of the next trial; 0: the search has ended. */
double number_search_next(double max, const struct search_trial *trials, size_t count);

struct search_answer number_search_answer(const struct search_trial *trials, size_t count);

/* The median rate of the trials of number X. */
double search_median_at(const struct search_trial *trials, size_t count, double x);

#endif
