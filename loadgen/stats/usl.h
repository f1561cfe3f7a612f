/*
 * The Universal Scalability Law (Gunther, Guerrilla Capacity Planning, 2007, chapter 4):
 *
 *     X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))
 *
 * lambda is the throughput of one, sigma the part of the work that has to wait its turn (contention),
 * kappa what it costs each to keep up with all the others (coherency). Pure.
 */
#ifndef LOADGEN_USL_H
#define LOADGEN_USL_H

#include <stdbool.h>
#include <stddef.h>

struct usl_point {
    double n, x; /* both above 0 */
};

struct usl {
    double lambda, sigma, kappa; /* sigma and kappa are not below 0 */
    double error; /* root of the mean square of the relative differences, 0.05 is 5 % */
    double r2;    /* part of the points' variance that the curve explains; NAN: they have none */
    size_t points;
};

/* A law of three unknowns says nothing of fewer points, and nothing that is further off than that. */
enum { USL_POINTS_LEAST = 5 };
#define USL_ERROR_MOST 0.10

/*
 * Fits the law by least squares of N / X, which is linear in 1/lambda, sigma/lambda and kappa/lambda;
 * each point weighs by its (X / N)^2, so that relative differences count. Returns whether there is
 * one with a lambda above 0.
 */
bool usl_fit(const struct usl_point *points, size_t count, struct usl *usl);

/* Whether there are points enough and the curve goes through them. */
bool usl_is_good(const struct usl *usl);

double usl_at(const struct usl *usl, double n);

/* Where the throughput is greatest: sqrt((1 - sigma) / kappa); INFINITY without coherency. */
double usl_best(const struct usl *usl);

/* The greatest throughput there: for N without end lambda / sigma, INFINITY without contention. */
double usl_most(const struct usl *usl);

#endif
