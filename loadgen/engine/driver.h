/*
 * The driver of a client thread decides when each request begins and on which connection, and
 * counts the results.
 *
 * Closed loop: a connection begins its next request after the response to the last one (and the
 * think time). Open loop: requests are due at times given by the rate or by a replayed log. A
 * request that is due while all connections are busy waits, and its latency counts from when it was
 * due, which avoids coordinated omission. The backlog takes no memory: due times follow from the
 * rate.
 *
 * With scenarios, what a closed loop begins next, and what is due in an open loop, is a scenario.
 * Its first request has that due time; each further one is due when it begins.
 *
 * The client thread calls everything but driver_create() and driver_destroy().
 */
#ifndef LOADGEN_DRIVER_H
#define LOADGEN_DRIVER_H

#include "loadgen/engine/engine.h"
#include "loadgen/engine/request_budget.h"
#include "loadgen/engine/request_log.h"
#include "loadgen/plan/arrivals.h"
#include "loadgen/stats/tally.h"

/* What a driver is created with. */
struct driver_config {
    const struct engine_ops *engine;
    const struct plan *plan;
    struct request_plan *request_plan;
    struct event_base *base;
    struct budget_share *share;
    struct tally *tally;                   /* counted requests, and all connections */
    struct tally *warmup;                  /* requests begun during the warm-up */
    struct scenario_tally *scenario_tally; /* NULL: no scenarios */
    struct error_texts *error_texts;
    struct negotiations *negotiations;
    struct request_log *log; /* NULL: none */
    uint32_t thread_index;
    bool late; /* created during the run: requests due earlier belong to other threads */
    struct transcript *transcript; /* records the first slot; NULL: none */
};

/* The load of one thread; may change during the run. */
struct driver_settings {
    uint32_t slots;      /* requests at a time: the streams of all connections of this thread */
    uint32_t threads;    /* number of threads that share the rate */
    struct profile rate; /* open loop: the sum over all threads */
};

struct driver;

/* Returns NULL if out of memory. */
struct driver *driver_create(const struct driver_config *config,
                             const struct driver_settings *settings);

/*
 * Begins the first requests; the event loop does the rest. At the end the driver leaves the loop
 * (event_base_loopbreak).
 */
void driver_start(struct driver *driver);

/* Applies new settings. Returns false if out of memory for more connections. */
bool driver_apply(struct driver *driver, const struct driver_settings *settings);

/* Leaves the loop if the run has ended: other threads may have stopped it or used up the budget. */
void driver_check_end(struct driver *driver);

/* Counts every request in flight as unanswered, cancels it, and leaves the loop. */
void driver_abort(struct driver *driver);

/* After the loop: counts the requests that were due but never begun. */
void driver_finish(struct driver *driver);

/* Open loop: when the last begun request was due, monotonic ns; 0: none was. */
uint64_t driver_last_due_ns(const struct driver *driver);

/* When the last request ended, monotonic ns; 0: none did. */
uint64_t driver_last_end_ns(const struct driver *driver);

void driver_destroy(struct driver *driver);

#endif
