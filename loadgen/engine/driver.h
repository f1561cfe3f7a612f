/*
 * The driver of one client thread decides when the next request begins and on which connection, and
 * counts what came of it.
 *
 * In a closed loop a connection begins its next request when it has the answer to the last (and has
 * thought). In an open loop requests are due at times of their own; one that is due while all
 * connections are busy waits, and its latency counts from when it was due. What waits is not stored:
 * the times follow from the rate, so the backlog costs no memory.
 *
 * It belongs to its thread, which calls all of it but driver_create() and driver_destroy().
 */
#ifndef LOADGEN_DRIVER_H
#define LOADGEN_DRIVER_H

#include "loadgen/engine/engine.h"
#include "loadgen/engine/supply.h"
#include "loadgen/plan/arrivals.h"

struct driver_place {
    const struct engine_ops *engine;
    const struct plan *plan;
    struct work *work;
    struct event_base *base;
    struct supply_share *share;
    struct tally *tally;  /* of counted requests, and of all connections */
    struct tally *warmup; /* of requests that were begun before counting */
    uint32_t index;       /* of the thread */
    bool late;            /* the run goes on already: requests that were due before are others' */
    struct conversation *conversation; /* for the first slot; or NULL */
};

/* What a thread is to do; may change while it runs. */
struct driver_orders {
    uint32_t connections; /* of this thread */
    uint32_t threads;     /* that share the rate */
    struct profile rate;  /* in all; of an open loop */
};

/* Returns NULL when there is no memory. */
struct driver *driver_create(const struct driver_place *place, const struct driver_orders *orders);

/* Begins. The event loop does the rest, and is left (event_base_loopbreak) when all is done. */
void driver_start(struct driver *driver);

/* Follows new orders. Returns false when there is no memory for more connections. */
bool driver_order(struct driver *driver, const struct driver_orders *orders);

/* Looks whether the run is over: the supply may have been stopped or used up by others. */
void driver_look(struct driver *driver);

/* Counts every request under way as unanswered, gives it up, and leaves the loop. */
void driver_abandon(struct driver *driver);

/* After the loop: counts the requests that were due and never begun. */
void driver_finish(struct driver *driver);

/* When the last request ended, monotonic ns; 0 before. */
uint64_t driver_last_end_ns(const struct driver *driver);

const struct error_texts *driver_error_texts(const struct driver *driver);

void driver_destroy(struct driver *driver);

/* ---- For the engine ---- */

/* The connection of slot NUMBER has come up. */
void driver_up(struct driver *driver, uint32_t number);

/*
 * The request under way on slot NUMBER ended at NOW_NS; of *exchange the engine fills all but latency_ns
 * and bad_status. The slot is free: another request may begin on it before this returns.
 */
void driver_ended(struct driver *driver, uint32_t number, struct exchange *exchange,
                  uint64_t now_ns);

#endif
