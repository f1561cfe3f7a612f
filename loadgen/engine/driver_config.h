/* What a driver is created with (driver.h), and its settings, which may change. */
#ifndef LOADGEN_DRIVER_CONFIG_H
#define LOADGEN_DRIVER_CONFIG_H

#include "loadgen/engine/engine.h"
#include "loadgen/engine/request_budget.h"
#include "loadgen/plan/arrivals.h"
#include "loadgen/stats/tally.h"

struct driver_config {
    const struct engine_ops *engine;
    const struct plan *plan;
    struct request_plan *request_plan;
    struct event_base *base;
    struct budget_share *share;
    struct tally *tally;                   /* counted requests, and all connections */
    struct tally *warmup;                  /* requests begun during the warm-up */
    struct scenario_tally *scenario_tally; /* NULL: no scenarios */
    uint32_t index;                        /* index of the thread */
    bool late; /* created during the run: requests due earlier belong to other threads */
    struct transcript *transcript; /* of the first slot; NULL: none */
};

/* The load of one thread; may change during the run. */
struct driver_settings {
    uint32_t slots;      /* requests at a time: the streams of all connections of this thread */
    uint32_t threads;    /* number of threads that share the rate */
    struct profile rate; /* of all threads together; open loop only */
};

#endif
