/*
 * Starts, replaces and stops the worker processes, so that the actual workers (workers.h) match the
 * configuration in force and its generation. supervisor.c has a table with the action for each state
 * of a worker and each event. The master's loop.
 */
#ifndef DAEMON_SUPERVISOR_H
#define DAEMON_SUPERVISOR_H

#include "daemon/master/auxiliary.h"
#include "daemon/master/dispatch.h"
#include "daemon/master/rebalance.h"
#include "daemon/master/workers.h"

#include <sys/types.h>

struct supervisor;

/* Callbacks of the supervisor. CONTEXT is the master's own. */
struct supervisor_callbacks {
    /* A process has started, changed or ended. */
    void (*changed)(void *context);
    /* WORKER has died; HOW describes it. Its part of the segment is not cleared yet. */
    void (*died)(void *context, const struct worker_process *worker, const char *how);
    /* A worker could not be started; it will be tried again. */
    void (*not_started)(void *context, const char *why);
    /* The new generation serves; the old one is about to leave. */
    void (*replaced)(void *context);
    /* A child that the supervisor did not start has ended. */
    void (*child_ended)(void *context, pid_t pid, const char *how);
    /* In a forked child: frees the master's resources. */
    void (*after_fork)(void *context);
    void *context;
};

/*
 * AUXILIARY is reconciled with the workers. DISPATCH receives the connections that workers return,
 * and is called when a worker can take connections again. REBALANCE selects the worker for those that
 * it has ordered. All are borrowed. NULL: out of memory.
 */
struct supervisor *supervisor_new(struct server *server, struct workers *workers,
                                  struct dispatch *dispatch, struct rebalance *rebalance,
                                  struct auxiliary *auxiliary,
                                  const struct supervisor_callbacks *callbacks);

/* Frees; the processes keep running. */
void supervisor_free(struct supervisor *supervisor);

/* Starts, resizes and drains workers according to the configuration. Call it after each change. */
void supervisor_reconcile(struct supervisor *supervisor);

/* Reaps children; call it after SIGCHLD. */
void supervisor_reap(struct supervisor *supervisor);

/*
 * Replaces all workers by a new generation: the old ones leave once the new ones serve, or one by
 * one if the segment has no slots for both. supervisor_revert() returns to an earlier generation if
 * its workers still run; the caller reconciles.
 */
void supervisor_renew(struct supervisor *supervisor);
void supervisor_revert(struct supervisor *supervisor, uint32_t generation);

/* Replaces one worker by another of the same configuration and generation. */
void supervisor_replace(struct supervisor *supervisor, uint32_t slot);
void supervisor_replace_all(struct supervisor *supervisor);

/* Drains one worker, after the caller has lowered workers_processes. */
void supervisor_drain(struct supervisor *supervisor, uint32_t slot);

/*
 * Balances connections between workers and makes all workers balance those of their threads, or
 * not, as configured.
 */
void supervisor_send_balance(struct supervisor *supervisor);

/* Sends the configured bounds of the offload threads to all workers. */
void supervisor_send_offload(struct supervisor *supervisor);

/*
 * The end of all workers; none is started any more. supervisor_stop_workers(): they close each
 * connection after its next response, and still take connections. supervisor_finish_workers(): they
 * finish their requests, close the other connections and exit. supervisor_retire_workers(): the
 * same, but each idle connection may have one more response (for a binary upgrade).
 */
void supervisor_stop_workers(struct supervisor *supervisor);
void supervisor_finish_workers(struct supervisor *supervisor);
void supervisor_retire_workers(struct supervisor *supervisor);

/*
 * WORKER, a slot, with process PID, did WHAT against the protocol: it is killed, unless that process
 * has ended.
 */
void supervisor_report_fault(struct supervisor *supervisor, uint32_t slot, pid_t pid,
                             const char *what);

#endif
