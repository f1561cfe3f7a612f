/*
 * Starts, replaces and stops the worker processes and the logger, so that the actual workers (workers.h)
 * become the wanted ones (configuration in force, generation). supervisor.c has a grid with the action
 * for each state of a worker and each event. The master's loop.
 */
#ifndef DAEMON_SUPERVISOR_H
#define DAEMON_SUPERVISOR_H

#include "daemon/master/dispatch.h"
#include "daemon/master/workers.h"

#include <sys/types.h>

struct supervisor;

/* What the supervisor reports to the master. CONTEXT is the master's own. */
struct supervisor_callbacks {
    /* A worker or the logger has started, changed or ended. */
    void (*changed)(void *context);
    /* WORKER has died, HOW in words; its part of the segment is as it left it. */
    void (*died)(void *context, const struct worker_process *worker, const char *how);
    /* The new generation serves; the old one is about to leave. */
    void (*replaced)(void *context);
    /* A child that is neither worker nor logger has ended. */
    void (*child_ended)(void *context, pid_t pid, const char *how);
    /* In a forked child: frees what is the master's alone. */
    void (*after_fork)(void *context);
    void *context;
};

/*
 * DISPATCH gets the connections that workers give back, and learns when a worker can take some again.
 * All are borrowed. NULL: out of memory.
 */
struct supervisor *supervisor_new(struct server *server, struct workers *workers,
                                  struct dispatch *dispatch,
                                  const struct supervisor_callbacks *callbacks);

/* Frees. The processes keep running. */
void supervisor_free(struct supervisor *supervisor);

/* Starts, resizes and sends away workers as the configuration wants. Call it after each change. */
void supervisor_reconcile(struct supervisor *supervisor);

/* Reaps children that have ended: after SIGCHLD. */
void supervisor_reap(struct supervisor *supervisor);

/*
 * Replaces all workers by a new generation: the old ones leave once the new ones serve, or one by one
 * if the segment has no slots for both. supervisor_revert() goes back to an earlier generation if its
 * workers are still there; the caller reconciles.
 */
void supervisor_renew(struct supervisor *supervisor);
void supervisor_revert(struct supervisor *supervisor, uint32_t generation);

/* The same within the current generation: a worker of the same configuration replaces it. */
void supervisor_replace(struct supervisor *supervisor, uint32_t slot);
void supervisor_replace_all(struct supervisor *supervisor);

/* Makes one worker leave, after the caller has lowered workers_processes. */
void supervisor_drain(struct supervisor *supervisor, uint32_t slot);

/* Sends the configured bounds of the offload threads to all workers. */
void supervisor_send_offload(struct supervisor *supervisor);

/*
 * Makes all workers finish their requests and exit; no worker starts any more. GRACEFULLY: each
 * idle connection may have one more response (for a server with a successor).
 */
void supervisor_stop_workers(struct supervisor *supervisor, bool gracefully);

/* Makes the logger write all that is left and exit, for good or to be replaced by a new one. */
void supervisor_stop_logger(struct supervisor *supervisor);
void supervisor_restart_logger(struct supervisor *supervisor);

pid_t supervisor_logger_pid(const struct supervisor *supervisor);           /* 0: none */
uint64_t supervisor_logger_started_ns(const struct supervisor *supervisor); /* monotonic clock */

#endif
