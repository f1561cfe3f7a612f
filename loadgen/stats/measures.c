#include "loadgen/stats/measures.h"

#include "common/clock.h"
#include "common/units.h"

#include "loadgen/base/format.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- Statistics ---- */

#define SIGNIFICANCE 0.05

enum { COUNT_FOR_ORDER = 6 };

static int by_number(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;

    return (a > b) - (a < b);
}

double statistics_median(double *values, size_t count)
{
    if (count == 0)
        return NAN;
    qsort(values, count, sizeof(*values), by_number);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

/* size: number of independent values. */
struct summary {
    double mean, variance, size;
};

/*
 * The autocorrelation of lag 1, from 0 to 0.9. Estimates from short series are too low by
 * (1 + 3 r) / count (Kendall 1954), which is added.
 */
static double correlation(const double *values, size_t count, double mean)
{
    double together = 0, squares = 0, r;

    for (size_t i = 0; i < count; i++) {
        squares += (values[i] - mean) * (values[i] - mean);
        if (i > 0)
            together += (values[i] - mean) * (values[i - 1] - mean);
    }
    r = squares > 0 ? together / squares : 0;
    r += (1 + 3 * r) / (double)count;
    return fmin(fmax(r, 0), 0.9);
}

static struct summary summarize_runs(const double *values, size_t count)
{
    struct summary summary = {.size = (double)count};

    for (size_t i = 0; i < count; i++)
        summary.mean += values[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        summary.variance +=
            (values[i] - summary.mean) * (values[i] - summary.mean) / (double)(count - 1);
    return summary;
}

static struct summary summarize(const double *values, size_t count)
{
    struct summary summary = summarize_runs(values, count);
    double r = correlation(values, count, summary.mean);

    summary.size = fmax((double)count * (1 - r) / (1 + r), 2);
    return summary;
}

/* The continued fraction of the incomplete beta function (Lentz's method). */
static double beta_fraction(double x, double a, double b)
{
    const double tiny = 1e-300;
    double c = 1, d = 1 / fmax(fabs(1 - (a + b) * x / (a + 1)), tiny), result = d;

    for (int m = 1; m <= 300; m++) {
        double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
        double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)), step;

        d = 1 / (1 + even * d);
        c = 1 + even / c;
        result *= d * c;
        d = 1 / (1 + odd * d);
        c = 1 + odd / c;
        step = d * c;
        result *= step;
        if (fabs(step - 1) < 1e-12)
            break;
    }
    return result;
}

/* The regularized incomplete beta function I_x(a, b). */
static double beta(double x, double a, double b)
{
    double front;

    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1) / (a + b + 2))
        return front * beta_fraction(x, a, b) / a;
    return 1 - front * beta_fraction(1 - x, b, a) / b;
}

/* The two-sided probability of at least |t|. */
static double student(double t, double freedom)
{
    return beta(freedom / (freedom + t * t), freedom / 2, 0.5);
}

static double welch(const struct summary *one, const struct summary *other)
{
    double of_one = one->variance / one->size, of_other = other->variance / other->size;
    double error = of_one + of_other, freedom;

    if (error <= 0)
        return fabs(one->mean - other->mean) > 0 ? 0 : 1;
    freedom = error * error /
              (of_one * of_one / (one->size - 1) + of_other * of_other / (other->size - 1));
    return student((one->mean - other->mean) / sqrt(error), freedom);
}

double statistics_p_value(const double *a, size_t a_count, const double *b, size_t b_count)
{
    struct summary one, other;

    if (a_count < STATISTICS_MIN || b_count < STATISTICS_MIN)
        return NAN;
    one = summarize(a, a_count);
    other = summarize(b, b_count);
    return welch(&one, &other);
}

double statistics_p_value_of_runs(const double *a, size_t a_count, const double *b, size_t b_count)
{
    struct summary one, other;

    if (a_count < STATISTICS_INTERVAL_MIN || b_count < STATISTICS_INTERVAL_MIN)
        return NAN;
    one = summarize_runs(a, a_count);
    other = summarize_runs(b, b_count);
    return welch(&one, &other);
}

double statistics_student_limit(double freedom)
{
    double low = 0, high = 1000;

    for (int i = 0; i < 60; i++) {
        double middle = (low + high) / 2;

        if (student(middle, freedom) > SIGNIFICANCE)
            low = middle;
        else
            high = middle;
    }
    return high;
}

/*
 * The number of values outside the interval at each end. The true median is below value number K
 * (from 0, ascending) with the probability of at most K heads in COUNT tosses of a fair coin.
 */
static size_t left_out(size_t count)
{
    double coins = exp2(-(double)count), below = 0;
    size_t k = 0;

    for (;; k++) {
        below += coins;
        if (2 * below > SIGNIFICANCE)
            return k - 1;
        coins *= (double)(count - k) / (double)(k + 1);
    }
}

static void fill_interval(struct interval *interval, const double *sorted, size_t count)
{
    struct summary summary;
    double half;

    if (count >= COUNT_FOR_ORDER) {
        interval->low = sorted[left_out(count)];
        interval->high = sorted[count - 1 - left_out(count)];
    } else if (count >= STATISTICS_INTERVAL_MIN) {
        summary = summarize_runs(sorted, count);
        half =
            statistics_student_limit((double)(count - 1)) * sqrt(summary.variance / summary.size);
        interval->low = summary.mean - half;
        interval->high = summary.mean + half;
    }
}

struct interval statistics_interval(double *values, size_t count)
{
    struct interval interval = {NAN, NAN, NAN, 0};

    for (size_t i = 0; i < count; i++)
        if (!isnan(values[i]))
            values[interval.count++] = values[i];
    interval.median = statistics_median(values, interval.count);
    fill_interval(&interval, values, interval.count);
    return interval;
}

double interval_percent(const struct interval *interval)
{
    if (!(interval->median > 0))
        return NAN;
    return 100 * (interval->high - interval->low) / 2 / interval->median;
}

const struct measure_info measure_table[MEASURE_COUNT] = {
#define MEASURE(id, name, label, unit) [MEASURE_##id] = {(name), (label), MEASURE_OF_##unit},
#include "loadgen/stats/measures.def"
#undef MEASURE
};

char *measure_format(char *buffer, enum measure measure, double value)
{
    if (isnan(value)) {
        snprintf(buffer, MEASURE_TEXT, "-");
        return buffer;
    }
    switch (measure_table[measure].unit) {
    case MEASURE_OF_COUNT:
        return format_number(buffer, MEASURE_TEXT, value);
    case MEASURE_OF_TIME:
        return units_format_ns(buffer, MEASURE_TEXT, value * (double)NS_PER_US);
    case MEASURE_OF_PERCENT:
        snprintf(buffer, MEASURE_TEXT, value > 0 && value < 0.995 ? "%.2g%%" : "%.3g%%", value);
        break;
    case MEASURE_OF_CORES:
        snprintf(buffer, MEASURE_TEXT, "%.2f", value);
        break;
    }
    return buffer;
}

/* ---- Many runs ---- */

struct trials {
    size_t point_count;
    uint32_t rounds;
    uint32_t *done;            /* trials added to each point */
    struct measures *measures; /* [point * rounds + number] */
};

struct trials *trials_create(size_t point_count, uint32_t rounds)
{
    struct trials *trials = calloc(1, sizeof(*trials));

    if (trials == NULL)
        return NULL;
    trials->point_count = point_count;
    trials->rounds = rounds;
    trials->done = calloc(point_count, sizeof(*trials->done));
    trials->measures = calloc(point_count * rounds, sizeof(*trials->measures));
    if (trials->done != NULL && trials->measures != NULL)
        return trials;
    trials_free(trials);
    return NULL;
}

void trials_free(struct trials *trials)
{
    if (trials == NULL)
        return;
    free(trials->done);
    free(trials->measures);
    free(trials);
}

void trials_add(struct trials *trials, size_t point, const struct measures *measures)
{
    if (trials->done[point] < trials->rounds)
        trials->measures[point * trials->rounds + trials->done[point]++] = *measures;
}

uint32_t trials_done(const struct trials *trials, size_t point)
{
    return trials->done[point];
}

const struct measures *trials_get(const struct trials *trials, size_t point, uint32_t number)
{
    return &trials->measures[point * trials->rounds + number];
}

struct interval trials_interval(const struct trials *trials, size_t point, enum measure measure)
{
    double *values = calloc(trials->rounds, sizeof(*values));
    struct interval interval = {NAN, NAN, NAN, 0};

    if (values == NULL)
        return interval;
    for (uint32_t i = 0; i < trials->done[point]; i++)
        values[i] = trials_get(trials, point, i)->value[measure];
    interval = statistics_interval(values, trials->done[point]);
    interval.low = interval.low < 0 ? 0 : interval.low; /* no measure is negative */
    free(values);
    return interval;
}
