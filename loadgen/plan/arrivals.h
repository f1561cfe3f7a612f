/*
 * When requests are due in an open loop: a rate that may change over time, and the times that follow
 * from it. The number of requests due by a time is the integral of the rate, so steps, ramps and a
 * Poisson process are one rule: the next request is due when the integral has grown by 1, or by an
 * exponentially distributed amount of mean 1.
 *
 * Pure; times are nanoseconds since the begin of the run. One thread at a time.
 */
#ifndef LOADGEN_ARRIVALS_H
#define LOADGEN_ARRIVALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROFILE_STEPS_MAX = 72 };

/* From its begin the value goes evenly FROM to TO, which it reaches where the next step begins. */
struct profile_step {
    double begin_ns;
    double from, to;
};

/* A value over time: a rate in requests a second, or a number of connections. */
struct profile {
    struct profile_step step[PROFILE_STEPS_MAX]; /* the first begins at 0; the last never ends */
    size_t count;
};

/* VALUE, for ever. */
struct profile profile_constant(double value);

/* Adds a step. The caller keeps to PROFILE_STEPS_MAX and to rising begins. */
void profile_add(struct profile *profile, double begin_ns, double from, double to);

double profile_at(const struct profile *profile, double time_ns);

/* Numbers that look random, from a seed (xorshift64*, Vigna 2016). The state is never 0. */
uint64_t random_next(uint64_t *state);

/* Evenly from 0 to below 1. */
double random_unit(uint64_t *state);

/* The requests of one of several threads that share a rate. */
struct arrivals {
    struct profile rate;
    double threads; /* this one gets every THREADSth request */
    bool poisson;
    uint64_t random;
    double next_ns; /* when the next one is due; INFINITY: none comes any more */
};

/* Thread INDEX of THREADS: their constant arrivals interleave evenly. */
void arrivals_begin(struct arrivals *arrivals, const struct profile *rate, uint32_t index,
                    uint32_t threads, bool poisson);

/* Leaves out what is due before NOW_NS. */
void arrivals_skip(struct arrivals *arrivals, double now_ns);

/* Goes on to the next one. */
void arrivals_step(struct arrivals *arrivals);

/* Another rate or another number of threads from NOW_NS on; what is overdue stays so. */
void arrivals_change(struct arrivals *arrivals, const struct profile *rate, uint32_t threads,
                     double now_ns);

#endif
