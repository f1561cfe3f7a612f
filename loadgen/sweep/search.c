#include "loadgen/sweep/search.h"

#include "loadgen/stats/measures.h"

#include <math.h>

/* ---- The highest rate that meets a condition ---- */

#define RATE_MIN        0.1
#define BRACKET_FIT     1.15 /* with a smaller ratio of its ends, a curve is fitted */
#define BRACKET_END     1.02 /* without a curve, the search ends with this ratio */
#define FIT_SPREAD      0.10 /* of the rates of fitted trials from the middle of the interval */
#define FIT_INFORMATIVE 10.0 /* values within this factor of the limit show where it is */
#define FIT_DISTANCE    0.04 /* of new trials from the answer */

enum { FIT_MIN = 8, INFORMATIVE_MIN = 4, FIT_STEPS = 50, VOTES = 3 };

static size_t trials_at(const struct search_trial *trials, size_t count, double x)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += trials[i].x == x;
    return found;
}

/* How many trials contradict that the condition holds up to X and not above it. */
static size_t contradictions(const struct search_trial *trials, size_t count, double x)
{
    size_t found = 0;

    for (size_t i = 0; i < count; i++)
        found += trials[i].met != (trials[i].x <= x);
    return found;
}

/*
 * The tried rates around the border that the fewest trials contradict, since a run may be disturbed;
 * 0 and INFINITY: none.
 */
static void find_bracket(const struct search_trial *trials, size_t count, double *low, double *high)
{
    size_t fewest = contradictions(trials, count, 0);

    *low = 0;
    *high = INFINITY;
    for (size_t i = 0; i < count; i++) {
        size_t found = contradictions(trials, count, trials[i].x);

        if (found < fewest || (found == fewest && trials[i].x < *low)) {
            fewest = found;
            *low = trials[i].x;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (trials[i].x > *low && trials[i].x < *high)
            *high = trials[i].x;
}

/* The trials near the answer, and the curve exp(level + slope (x - centre)) through them. */
struct fit {
    double x[SEARCH_TRIALS_MAX], y[SEARCH_TRIALS_MAX];
    size_t count, informative;
    double centre, level, slope;
    double low, at, high; /* where the curve meets the limit, with its confidence interval */
};

static void choose_trials(struct fit *fit, const struct rate_search *search,
                          const struct search_trial *trials, size_t count, double middle)
{
    *fit = (struct fit){.centre = middle};
    for (size_t i = 0; i < count; i++) {
        double y = trials[i].value / search->limit;

        if (isnan(y) || fabs(trials[i].x - middle) > FIT_SPREAD * middle)
            continue;
        fit->informative += y >= 1 / FIT_INFORMATIVE && y <= FIT_INFORMATIVE;
        fit->x[fit->count] = trials[i].x;
        fit->y[fit->count++] = y;
    }
}

/*
 * A step of iteratively reweighted least squares (McCullagh and Nelder 1989, chapter 2): variance
 * in proportion to the mean, logarithmic link. Moves the centre so that level and slope are
 * uncorrelated. Sets their variances and returns the change of the slope.
 */
static double improve_fit(struct fit *fit, double *level_variance, double *slope_variance)
{
    double sum = 0, mean_x = 0, mean_z = 0, xx = 0, xz = 0, before = fit->slope, dispersion = 0;
    double mu[SEARCH_TRIALS_MAX], z[SEARCH_TRIALS_MAX];

    for (size_t i = 0; i < fit->count; i++) {
        double eta = fit->level + fit->slope * (fit->x[i] - fit->centre);

        eta = fmin(fmax(eta, -20), 20);
        mu[i] = exp(eta);
        z[i] = eta + (fit->y[i] - mu[i]) / mu[i];
        dispersion += (fit->y[i] - mu[i]) * (fit->y[i] - mu[i]) / mu[i] / (double)(fit->count - 2);
        sum += mu[i];
        mean_x += mu[i] * fit->x[i];
        mean_z += mu[i] * z[i];
    }
    mean_x /= sum;
    mean_z /= sum;
    for (size_t i = 0; i < fit->count; i++) {
        xx += mu[i] * (fit->x[i] - mean_x) * (fit->x[i] - mean_x);
        xz += mu[i] * (fit->x[i] - mean_x) * (z[i] - mean_z);
    }
    fit->centre = mean_x;
    fit->level = mean_z;
    fit->slope = xz / xx;
    *level_variance = dispersion / sum;
    *slope_variance = dispersion / xx;
    return fit->slope - before;
}

/*
 * Fits the curve and finds where it meets the limit, with the confidence interval of Fieller (1954).
 * Returns false if there are too few trials, or if they do not show that the value rises.
 */
static bool fit_curve(struct fit *fit)
{
    double level_variance = 0, slope_variance = 0, change = INFINITY, t, g, distance, half;

    if (fit->count < FIT_MIN || fit->informative < INFORMATIVE_MIN)
        return false;
    for (int i = 0; i < FIT_STEPS && !(fabs(change) <= 1e-9 * fabs(fit->slope)); i++)
        change = improve_fit(fit, &level_variance, &slope_variance);
    if (!(fit->slope > 0) || !isfinite(fit->level))
        return false;
    t = statistics_student_limit((double)(fit->count - 2));
    g = t * t * slope_variance / (fit->slope * fit->slope);
    if (!(g < 1))
        return false;
    distance = -fit->level / fit->slope;
    half = t / fit->slope * sqrt((1 - g) * level_variance + distance * distance * slope_variance);
    fit->at = fit->centre + distance;
    fit->low = fit->centre + (distance - half) / (1 - g);
    fit->high = fit->centre + (distance + half) / (1 - g);
    return fabs(distance) <= FIT_SPREAD * fit->centre;
}

/* A rate beside X, above or below it by turns. The distances vary: no rate is tried twice. */
static double near(double x, size_t count)
{
    double distance = FIT_DISTANCE * (0.75 + 0.5 * fmod((double)count * 0.618, 1));

    return x * (count % 2 == 0 ? 1 + distance : 1 - distance);
}

/* Without a curve: repeats the ends of the interval, then halves it. */
static double next_of_bracket(const struct search_trial *trials, size_t count, double low,
                              double high)
{
    if (trials_at(trials, count, low) < VOTES)
        return low;
    if (trials_at(trials, count, high) < VOTES)
        return high;
    return high / low > BRACKET_END ? sqrt(low * high) : 0;
}

double rate_search_next(const struct rate_search *search, const struct search_trial *trials,
                        size_t count)
{
    double low, high, middle;
    struct fit fit;

    if (count == 0)
        return search->first;
    if (count >= search->trials_max || count == SEARCH_TRIALS_MAX)
        return 0;
    find_bracket(trials, count, &low, &high);
    if (isinf(high))
        return 2 * low;
    if (low == 0 && trials_at(trials, count, high) < VOTES)
        return high;
    if (low == 0)
        return high / 4 >= RATE_MIN ? high / 4 : 0;
    middle = sqrt(low * high);
    if (high / low > BRACKET_FIT)
        return middle;
    if (search->limit > 0) {
        choose_trials(&fit, search, trials, count, middle);
        if (fit_curve(&fit))
            return fit.high - fit.low > 2 * SEARCH_PRECISION * fit.at ? near(fit.at, count) : 0;
        if (fit.informative > 0)
            return near(middle, count);
    }
    return next_of_bracket(trials, count, low, high);
}

struct search_answer rate_search_answer(const struct rate_search *search,
                                        const struct search_trial *trials, size_t count)
{
    struct search_answer answer = {.found = true};
    struct fit fit = {0};

    find_bracket(trials, count, &answer.low, &answer.high);
    answer.x = answer.low;
    if (answer.low == 0) {
        answer.found = false;
        answer.x = answer.high;
    } else if (!isinf(answer.high) && search->limit > 0) {
        choose_trials(&fit, search, trials, count, sqrt(answer.low * answer.high));
        answer.is_interval = fit_curve(&fit);
    }
    if (answer.is_interval) {
        answer.x = fit.at;
        answer.low = fit.low;
        answer.high = fit.high;
    }
    return answer;
}

/* ---- The lowest number with almost the highest rate ---- */

double search_median_at(const struct search_trial *trials, size_t count, double x)
{
    double values[SEARCH_TRIALS_MAX];
    size_t rounds = 0;

    for (size_t i = 0; i < count; i++)
        if (trials[i].x == x)
            values[rounds++] = trials[i].value;
    return statistics_median(values, rounds);
}

/* Sets the lowest sufficient number, the highest lower one (0: none), and the highest number. */
static void find_trial_plateau(const struct search_trial *trials, size_t count, double *enough,
                               double *less, double *last)
{
    double best = 0;

    *enough = *less = *last = 0;
    for (size_t i = 0; i < count; i++) {
        best = fmax(best, search_median_at(trials, count, trials[i].x));
        *last = fmax(*last, trials[i].x);
    }
    for (size_t i = 0; i < count; i++)
        if (search_median_at(trials, count, trials[i].x) >= SEARCH_SHARE * best &&
            (*enough == 0 || trials[i].x < *enough))
            *enough = trials[i].x;
    for (size_t i = 0; i < count; i++)
        if (trials[i].x < *enough && trials[i].x > *less)
            *less = trials[i].x;
}

double number_search_next(double max, const struct search_trial *trials, size_t count)
{
    double enough, less, last;

    if (count == 0)
        return 1;
    if (count == SEARCH_TRIALS_MAX)
        return 0;
    if (trials_at(trials, count, trials[count - 1].x) < SEARCH_ROUNDS)
        return trials[count - 1].x;
    find_trial_plateau(trials, count, &enough, &less, &last);
    if (last < 4 * enough && last < max)
        return fmin(2 * last, max);
    return enough - less > 1 && enough > less * 1.1 ? floor((less + enough) / 2) : 0;
}

struct search_answer number_search_answer(const struct search_trial *trials, size_t count)
{
    struct search_answer answer = {.found = count > 0};
    double last;

    find_trial_plateau(trials, count, &answer.high, &answer.low, &last);
    answer.x = answer.high;
    return answer;
}
