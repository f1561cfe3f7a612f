/* The course of a plan's load over time, as profiles of arrivals.h. Pure. */
#ifndef LOADGEN_LOAD_PROFILE_H
#define LOADGEN_LOAD_PROFILE_H

#include "loadgen/plan/arrivals.h"
#include "loadgen/plan/plan.h"

/* Requests a second in all. */
struct profile load_profile_rate(const struct plan *plan);

/* Connections in all; rounded down they are what a run has at a time, but never less than one. */
struct profile load_profile_connections(const struct plan *plan);

#endif
