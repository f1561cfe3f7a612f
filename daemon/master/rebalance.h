/*
 * Connections follow the workers: moves them between workers so that all have the same load, at
 * once when a worker was added, otherwise when their load stays uneven (daemon/base/balance.h).
 * Each worker balances its threads itself (daemon/worker/balancer.h).
 *
 *   look ──MESSAGE_GIVE──▶ giving worker ──MESSAGE_CONNECTION_RETURNED──▶ dispatch ──▶ taking worker
 *                                └──MESSAGE_GIVEN──▶ rebalance_given()
 *
 * A worker is not trusted. The master knows its CPU time from the kernel, but its numbers of
 * connections only from its part of the segment. A worker that claims to have none therefore
 * attracts connections at a limited rate only (struct balance_credit). A worker that does not answer
 * is left out. The master's loop.
 */
#ifndef DAEMON_REBALANCE_H
#define DAEMON_REBALANCE_H

#include "daemon/master/workers.h"

struct rebalance;

/*
 * SERVER and WORKERS are borrowed. CHANGED is called when rebalance_is_moving() has become false.
 * NULL: out of memory.
 */
struct rebalance *rebalance_new(const struct server *server, struct workers *workers,
                                void (*changed)(void *context), void *context);
void rebalance_free(struct rebalance *rebalance);

/* WORKER serves. */
void rebalance_added(struct rebalance *rebalance, const struct worker_process *worker);

/* Balancing was turned on or off. */
void rebalance_switched(struct rebalance *rebalance);

/*
 * WORKER has returned a connection. Returns the worker that should have it, or NULL if it was not
 * ordered for any.
 */
struct worker_process *rebalance_returned(struct rebalance *rebalance,
                                          const struct worker_process *worker);

/*
 * WORKER has returned all connections that it was ordered to. Returns NULL, or what the worker did
 * wrong.
 */
const char *rebalance_given(struct rebalance *rebalance, const struct worker_process *worker);

/* Orders no more moves; ends a wait of rebalance_await(). */
void rebalance_stop(struct rebalance *rebalance);

/*
 * Orders no more moves. Calls ARRIVED, at once or later, when no connection is on its way from a worker to
 * another: after all workers have been told to finish, none would take it. Waits at most MOST_MS after a
 * connection has left its worker.
 */
void rebalance_await(struct rebalance *rebalance, uint64_t most_ms, void (*arrived)(void *context),
                     void *context);

/* True until the first connections have moved to the worker that was added last. */
bool rebalance_is_moving(const struct rebalance *rebalance);

#endif
