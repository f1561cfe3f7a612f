/*
 * The schedule of an open loop in one client thread: when requests are due, and which ones. By the rate, or by a
 * replayed log. With scenarios, what is due is the start of a scenario, and the schedule has no entries. One thread at
 * a time.
 */
#ifndef LOADGEN_SCHEDULE_H
#define LOADGEN_SCHEDULE_H

#include "loadgen/plan/arrivals.h"
#include "loadgen/plan/request_plan.h"

struct schedule {
    struct request_plan *request_plan;
    uint64_t origin_ns;                /* the run's begin, monotonic */
    struct arrivals arrivals;          /* by rate */
    const struct request_entry *entry; /* if the list ends: the next one; NULL: none is left */
    bool ends;                         /* the list ends */
    bool replay;
};

/* The arrivals must be begun by the caller. */
void schedule_begin(struct schedule *schedule, struct request_plan *request_plan,
                    uint64_t origin_ns, uint64_t *random);

/* When the next request is due, monotonic ns; UINT64_MAX: there is none. */
uint64_t schedule_next_ns(const struct schedule *schedule);

/* Removes and returns the next request, which must exist. POSITION: of its slot. */
const struct request_entry *schedule_take(struct schedule *schedule, size_t *position,
                                          uint64_t *random);

/* Removes the next start of a scenario. */
void schedule_step(struct schedule *schedule);

#endif
