/*
 * The load over time: profiles (a rate or a number of connections) and the times when the requests
 * of an open loop are due. The number of requests due by a time is the integral of the rate, so
 * steps, ramps and Poisson arrivals follow one rule: the next request is due when the integral has
 * grown by 1, or by an exponentially distributed amount of mean 1.
 *
 * Pure; times are nanoseconds since the run's begin. One thread at a time.
 */
#ifndef LOADGEN_ARRIVALS_H
#define LOADGEN_ARRIVALS_H

#include "loadgen/plan/plan.h"

enum { PROFILE_STEPS_MAX = 72 };

/* The value changes linearly from FROM to TO, which it reaches at the start of the next step. */
struct profile_step {
    double begin_ns;
    double from, to;
};

/* A value over time: requests per second, or connections. */
struct profile {
    struct profile_step step[PROFILE_STEPS_MAX]; /* the first begins at 0; the last never ends */
    size_t count;
};

/* VALUE at all times. */
struct profile profile_constant(double value);

double profile_at(const struct profile *profile, double time_ns);

/* The profiles of a plan (--rate, --connections, --ramp, --stages), over all threads. */
struct profile profile_of_rate(const struct plan *plan);
struct profile profile_of_connections(const struct plan *plan); /* round down; at least 1 */

/* Pseudo-random numbers (xorshift64*, Vigna 2016). The state is never 0. */
uint64_t random_next(uint64_t *state);

/* The state of sequence NUMBER of a run with SEED: the sequences do not depend on each other. */
uint64_t random_begin(uint64_t seed, uint64_t number);

/* Uniform in [0, 1). */
double random_unit(uint64_t *state);

/* The due times of one thread's requests; the threads share the rate. */
struct arrivals {
    struct profile rate;
    double threads;  /* number of threads; this one gets one request in THREADS */
    uint64_t random; /* of a Poisson process; 0: constant intervals */
    double next_ns;  /* when the next one is due; INFINITY: never */
};

/*
 * Initializes the arrivals of thread INDEX of THREADS. Constant arrivals of the threads interleave
 * evenly. RANDOM: the state for those of a Poisson process; 0: constant.
 */
void arrivals_begin(struct arrivals *arrivals, const struct profile *rate, uint32_t index,
                    uint32_t threads, uint64_t random);

/* Skips the requests due before NOW_NS. */
void arrivals_skip(struct arrivals *arrivals, double now_ns);

/* Advances to the next request. */
void arrivals_step(struct arrivals *arrivals);

/* Changes the rate or the number of threads from NOW_NS on; an overdue request stays due. */
void arrivals_change(struct arrivals *arrivals, const struct profile *rate, uint32_t threads,
                     double now_ns);

#endif
