#include "loadgen/statistics.h"

#include <math.h>
#include <stdlib.h>

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

/* A series, and how many independent values it is worth. */
struct summary {
    double mean, variance, worth;
};

/*
 * Correlation of a value with the one before it, from 0 to 0.9. Estimates from short series are too
 * low by (1 + 3 r) / count (Kendall 1954), which is added.
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

static struct summary summarize(const double *values, size_t count)
{
    struct summary summary = {0};
    double r;

    for (size_t i = 0; i < count; i++)
        summary.mean += values[i] / (double)count;
    for (size_t i = 0; i < count; i++)
        summary.variance +=
            (values[i] - summary.mean) * (values[i] - summary.mean) / (double)(count - 1);
    r = correlation(values, count, summary.mean);
    summary.worth = fmax((double)count * (1 - r) / (1 + r), 2);
    return summary;
}

/* The continued fraction of the incomplete beta function, by the method of Lentz. */
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

double statistics_difference(const double *a, size_t a_count, const double *b, size_t b_count)
{
    struct summary one, other;
    double of_one, of_other, error, freedom, t;

    if (a_count < STATISTICS_LEAST || b_count < STATISTICS_LEAST)
        return NAN;
    one = summarize(a, a_count);
    other = summarize(b, b_count);
    of_one = one.variance / one.worth;
    of_other = other.variance / other.worth;
    error = of_one + of_other;
    if (error <= 0)
        return fabs(one.mean - other.mean) > 0 ? 0 : 1;
    freedom = error * error /
              (of_one * of_one / (one.worth - 1) + of_other * of_other / (other.worth - 1));
    t = (one.mean - other.mean) / sqrt(error);
    return beta(freedom / (freedom + t * t), freedom / 2, 0.5);
}
