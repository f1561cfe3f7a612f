#include "loadgen/stats/usl.h"

#include <math.h>

enum { TERMS = 3 }; /* 1, N - 1, N (N - 1) */

/* The sums of the normal equations, and which terms take part. */
struct equations {
    double left[TERMS][TERMS], right[TERMS];
    bool used[TERMS];
};

static void add_point(struct equations *sums, const struct usl_point *point)
{
    double scale = point->x / point->n;
    double terms[TERMS] = {scale, scale * (point->n - 1), scale * point->n * (point->n - 1)};

    for (size_t i = 0; i < TERMS; i++) {
        for (size_t k = 0; k < TERMS; k++)
            sums->left[i][k] += terms[i] * terms[k];
        sums->right[i] += terms[i];
    }
}

/* Takes term I out of the other equations. Returns false when that term can not be told apart. */
static bool eliminate(struct equations *sums, size_t i)
{
    double pivot = sums->left[i][i];

    if (!(fabs(pivot) > 1e-300))
        return false;
    for (size_t row = 0; row < TERMS; row++) {
        double factor = sums->left[row][i] / pivot;

        if (row == i || !sums->used[row])
            continue;
        for (size_t k = 0; k < TERMS; k++)
            sums->left[row][k] -= factor * sums->left[i][k];
        sums->right[row] -= factor * sums->right[i];
    }
    return true;
}

/* Solves for the terms in use (Gauss and Jordan); the matrix is positive definite: no pivoting. */
static bool solve(struct equations sums, double *solution)
{
    for (size_t i = 0; i < TERMS; i++)
        if (sums.used[i] && !eliminate(&sums, i))
            return false;
    for (size_t i = 0; i < TERMS; i++)
        solution[i] = sums.used[i] ? sums.right[i] / sums.left[i][i] : 0;
    return true;
}

static double residual(const struct usl_point *points, size_t count, const struct usl *usl)
{
    double squares = 0;

    for (size_t i = 0; i < count; i++) {
        double relative = usl_at(usl, points[i].n) / points[i].x - 1;

        squares += relative * relative;
    }
    return sqrt(squares / (double)count);
}

static double explained(const struct usl_point *points, size_t count, const struct usl *usl)
{
    double mean = 0, all = 0, left = 0;

    for (size_t i = 0; i < count; i++)
        mean += points[i].x / (double)count;
    for (size_t i = 0; i < count; i++) {
        double difference = points[i].x - usl_at(usl, points[i].n);

        all += (points[i].x - mean) * (points[i].x - mean);
        left += difference * difference;
    }
    return all > 0 ? 1 - left / all : NAN;
}

/* The law with these terms, unless one comes out below 0. */
static bool try_terms(struct equations sums, const struct usl_point *points, size_t count,
                      struct usl *usl)
{
    double solution[TERMS];

    if (!solve(sums, solution) || !(solution[0] > 0) || solution[1] < 0 || solution[2] < 0)
        return false;
    usl->lambda = 1 / solution[0];
    usl->sigma = solution[1] / solution[0];
    usl->kappa = solution[2] / solution[0];
    usl->points = count;
    usl->error = residual(points, count, usl);
    usl->r2 = explained(points, count, usl);
    return true;
}

/* What must not be below 0 is tried at 0: of the four ways that remain, the best. */
bool usl_fit(const struct usl_point *points, size_t count, struct usl *usl)
{
    struct equations sums = {.used = {true, false, false}};
    bool found = false;

    for (size_t i = 0; i < count; i++)
        add_point(&sums, &points[i]);
    for (unsigned way = 0; way < 4; way++) {
        struct usl candidate;

        sums.used[1] = way & 1;
        sums.used[2] = way & 2;
        if (!try_terms(sums, points, count, &candidate))
            continue;
        if (!found || candidate.error < usl->error)
            *usl = candidate;
        found = true;
    }
    return found;
}

bool usl_is_good(const struct usl *usl)
{
    return usl->points >= USL_POINTS_LEAST && usl->error <= USL_ERROR_MOST;
}

double usl_at(const struct usl *usl, double n)
{
    return usl->lambda * n / (1 + usl->sigma * (n - 1) + usl->kappa * n * (n - 1));
}

double usl_best(const struct usl *usl)
{
    if (!(usl->kappa > 0))
        return INFINITY;
    return usl->sigma < 1 ? fmax(sqrt((1 - usl->sigma) / usl->kappa), 1) : 1;
}

double usl_most(const struct usl *usl)
{
    double best = usl_best(usl);

    if (!isinf(best))
        return usl_at(usl, best);
    return usl->sigma > 0 ? usl->lambda / usl->sigma : INFINITY;
}
