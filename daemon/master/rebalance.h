/*
 * Connections follow the workers: moves them between workers so that all have the same load, at
 * once when a worker was added, otherwise when their load stays uneven (daemon/base/balance.h).
 * Each worker balances its threads itself (daemon/worker/balancer.c).
 *
 *   look ──MESSAGE_GIVE──▶ giving worker ──MESSAGE_CONNECTION_RETURNED──▶ dispatch ──▶ taking worker
 *                                └──MESSAGE_GIVEN──▶ rebalance_given()
 *
 * A worker is not trusted. The master knows its CPU time from the kernel, and how many connections
 * were moved to and from it; but its numbers of connections only from its part of the segment. A
 * worker that claims to have none therefore gets no more than an equal share (struct
 * balance_credit). A worker that does not answer is left out. The master's loop.
 */
#ifndef DAEMON_MASTER_REBALANCE_H
#define DAEMON_MASTER_REBALANCE_H

#include "daemon/base/balance.h"
#include "daemon/master/workers.h"

/* What is known of the worker in a slot. */
struct rebalance_share {
    uint64_t cpu_ns; /* CPU time used, as of the last look */
    uint64_t closed; /* connections that it has closed, as of the last look */
    struct balance_credit credit;
    uint64_t giving_ns; /* when it was ordered to give; 0: it has given */
    uint64_t taking_ns; /* when the last connection that was moved to it came from its giver */
    uint64_t taking;    /* connections passed to it since it started, up to that one */
    uint32_t due[WORKERS_MAX]; /* connections still to return, by the slot of the taker */
};

/* Times are of the monotonic clock. */
struct rebalance {
    struct event *look;
    struct balance balance;
    uint64_t looked_ns;
    uint64_t added_ns; /* when a worker was added, until that is balanced and logged; 0: it is */
    uint32_t moved;    /* connections returned since then */
    bool stopped;      /* no more moves are ordered */
    uint64_t late_ms;  /* a worker that takes longer is left out */
    void (*arrived)(struct master *master); /* rebalance_await() calls it */
    struct rebalance_share share[WORKERS_MAX];
};

/* Returns 0, or -1: out of memory. */
int rebalance_init(struct master *master);
void rebalance_free(struct rebalance *rebalance);

/* WORKER serves. */
void rebalance_added(struct master *master, const struct worker_process *worker);

/* Balancing was turned on or off. */
void rebalance_switched(struct master *master);

/*
 * WORKER has returned a connection. Returns the worker that should have it, or NULL if it was not
 * ordered for any.
 */
struct worker_process *rebalance_returned(struct master *master,
                                          const struct worker_process *worker);

/*
 * WORKER has returned all connections that it was ordered to. Returns NULL, or what the worker did
 * wrong.
 */
const char *rebalance_given(struct rebalance *rebalance, const struct worker_process *worker);

/* Orders no more moves; ends a wait of rebalance_await(). */
void rebalance_stop(struct rebalance *rebalance);

/*
 * Orders no more moves. Calls ARRIVED, at once or later, when no connection is on its way from a
 * worker to another. ARRIVED may order the workers to finish, after which none takes connections.
 * Waits at most MOST_MS after a connection has left its worker.
 */
void rebalance_await(struct master *master, uint64_t most_ms,
                     void (*arrived)(struct master *master));

/* True until the first connections have moved to the worker that was added last. */
bool rebalance_is_moving(const struct rebalance *rebalance);

#endif
