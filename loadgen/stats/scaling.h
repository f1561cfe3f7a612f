/*
 * Throughput as a function of the number of connections: a fitted law, and the zones of the curve.
 * Pure.
 */
#ifndef LOADGEN_SCALING_H
#define LOADGEN_SCALING_H

#include <stdbool.h>
#include <stddef.h>

/*
 * The Universal Scalability Law (Gunther, Guerrilla Capacity Planning, 2007, chapter 4):
 *
 *     X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))
 *
 * lambda: throughput of one connection; sigma: contention, the serialized part of the work; kappa:
 * coherency, the cost of each pair of connections.
 */
struct usl {
    double lambda, sigma, kappa; /* sigma and kappa are at least 0 */
    double error;                /* root mean square of the relative differences; 0.05 is 5 % */
    double r2;                   /* coefficient of determination; NAN: the points do not vary */
    size_t points;
};

struct usl_point {
    double n, x; /* both above 0 */
};

/* A good fit has at least this many points and at most this error. */
enum { USL_POINTS_MIN = 5 };
#define USL_ERROR_MAX 0.10

/*
 * Fits the law by least squares of N / X, which is linear in 1/lambda, sigma/lambda and
 * kappa/lambda. Each point has the weight (X / N)^2, so that relative differences count. Returns
 * false if there is no fit with a positive lambda.
 */
bool usl_fit(const struct usl_point *points, size_t count, struct usl *usl);

bool usl_is_good(const struct usl *usl);

double usl_throughput(const struct usl *usl, double n);

/* The N with the peak throughput: sqrt((1 - sigma) / kappa); INFINITY without coherency. */
double usl_peak_n(const struct usl *usl);

/* The peak throughput; for N without limit lambda / sigma, INFINITY without contention. */
double usl_peak_throughput(const struct usl *usl);

/*
 * Zones of the throughput over a rising number of connections: it grows with them (linear), stays
 * the same above the knee (plateau), and falls with too many (overload).
 */
enum zone { ZONE_UNKNOWN, ZONE_LINEAR, ZONE_PLATEAU, ZONE_OVERLOAD };
extern const char *const zone_names[];

struct zone_point {
    double n;      /* connections; rising */
    double x;      /* responses per second */
    double errors; /* percent */
    double high;   /* upper end of the confidence interval of x; NAN: unknown */
};

struct zones {
    size_t best;  /* the point with the maximum throughput */
    bool reached; /* the plateau was reached; else everything is linear */
    /*
     * Connections where the line from 0 through the first point meets the maximum throughput: the
     * saturation point of operational analysis (Denning and Buzen 1978). NAN unless reached.
     */
    double knee;
};

/*
 * Points of the plateau have at least this part of the maximum throughput, and at most this share
 * of errors.
 */
#define ZONES_PLATEAU 0.9
#define ZONES_ERRORS  1.0 /* percent */

/* Finds the zones of COUNT points, at least one; OF receives the zone of each. */
struct zones zones_find(const struct zone_point *points, size_t count, enum zone *of);

#endif
