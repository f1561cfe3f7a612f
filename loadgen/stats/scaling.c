#include "loadgen/stats/scaling.h"

#include <math.h>

/* ---- The Universal Scalability Law ---- */

enum { TERMS = 3 }; /* the terms 1, N - 1 and N (N - 1) */

/* The normal equations of the least-squares fit, and the terms in use. */
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

/* Eliminates term I from the other equations. Returns false if the term is not determined. */
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

/* Gauss-Jordan elimination of the terms in use; no pivoting: the matrix is positive definite. */
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
        double relative = usl_throughput(usl, points[i].n) / points[i].x - 1;

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
        double difference = points[i].x - usl_throughput(usl, points[i].n);

        all += (points[i].x - mean) * (points[i].x - mean);
        left += difference * difference;
    }
    return all > 0 ? 1 - left / all : NAN;
}

/* Fits with the terms in use. Returns false if one becomes negative. */
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

/*
 * sigma and kappa must not be negative: tries all four combinations of including or omitting them,
 * and keeps the best valid fit.
 */
bool usl_fit(const struct usl_point *points, size_t count, struct usl *usl)
{
    struct equations sums = {.used = {true, false, false}};
    bool found = false;

    for (size_t i = 0; i < count; i++)
        add_point(&sums, &points[i]);
    for (unsigned terms = 0; terms < 4; terms++) {
        struct usl candidate;

        sums.used[1] = terms & 1;
        sums.used[2] = terms & 2;
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
    return usl->points >= USL_POINTS_MIN && usl->error <= USL_ERROR_MAX;
}

double usl_throughput(const struct usl *usl, double n)
{
    return usl->lambda * n / (1 + usl->sigma * (n - 1) + usl->kappa * n * (n - 1));
}

double usl_peak_n(const struct usl *usl)
{
    if (!(usl->kappa > 0))
        return INFINITY;
    return usl->sigma < 1 ? fmax(sqrt((1 - usl->sigma) / usl->kappa), 1) : 1;
}

double usl_peak_throughput(const struct usl *usl)
{
    double best = usl_peak_n(usl);

    if (!isinf(best))
        return usl_throughput(usl, best);
    return usl->sigma > 0 ? usl->lambda / usl->sigma : INFINITY;
}

/* ---- Zones ---- */

const char *const zone_names[] = {[ZONE_UNKNOWN] = "-",
                                  [ZONE_LINEAR] = "linear",
                                  [ZONE_PLATEAU] = "plateau",
                                  [ZONE_OVERLOAD] = "overload"};

static size_t find_best(const struct zone_point *points, size_t count)
{
    size_t best = 0;

    for (size_t i = 1; i < count; i++)
        if (points[i].x > points[best].x)
            best = i;
    return best;
}

/* Throughput with many errors is not a plateau. */
static bool is_on_plateau(const struct zone_point *point, double max)
{
    return point->x >= ZONES_PLATEAU * max && point->errors <= ZONES_ERRORS;
}

/* After the maximum, a lower throughput is overload only if it is significant. */
static bool may_be_on_plateau(const struct zone_point *point, double max)
{
    return is_on_plateau(point, max) ||
           (point->high >= ZONES_PLATEAU * max && point->errors <= ZONES_ERRORS);
}

/* The first and last point of the plateau, which always includes the maximum. */
static void find_plateau(const struct zone_point *points, size_t count, size_t best, size_t *first,
                         size_t *last)
{
    *first = *last = best;
    for (size_t i = 0; i < count; i++) {
        if (!(i < best ? is_on_plateau : may_be_on_plateau)(&points[i], points[best].x))
            continue;
        *first = i < *first ? i : *first;
        *last = i > *last ? i : *last;
    }
}

struct zones zones_find(const struct zone_point *points, size_t count, enum zone *of)
{
    struct zones zones = {.best = find_best(points, count), .knee = NAN};
    double max = points[zones.best].x;
    size_t first, last;

    find_plateau(points, count, zones.best, &first, &last);
    zones.reached = count > 1 && max > 0 && (last > first || last + 1 < count);
    for (size_t i = 0; i < count; i++)
        of[i] = !zones.reached || i < first ? ZONE_LINEAR
                : i <= last                 ? ZONE_PLATEAU
                                            : ZONE_OVERLOAD;
    if (zones.reached && points[0].x > 0)
        zones.knee = points[0].n * max / points[0].x;
    return zones;
}
