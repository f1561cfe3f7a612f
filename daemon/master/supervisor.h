/*
 * Starts, replaces and stops the worker processes and the logger, so that the actual workers
 * (workers.h) match the configuration in force and its generation. supervisor.c has a table with
 * the action for each state of a worker and each event. The master's loop.
 */
#ifndef DAEMON_SUPERVISOR_H
#define DAEMON_SUPERVISOR_H

#include "daemon/master/dispatch.h"
#include "daemon/master/workers.h"

#include <sys/types.h>

struct supervisor;

/* Callbacks of the supervisor. CONTEXT is the master's own. */
struct supervisor_callbacks {
    /* A worker or the logger has started, changed or ended. */
    void (*changed)(void *context);
    /* WORKER has died; HOW describes it. Its part of the segment is not cleared yet. */
    void (*died)(void *context, const struct worker_process *worker, const char *how);
    /* The new generation serves; the old one is about to leave. */
    void (*replaced)(void *context);
    /* A child that is neither worker nor logger has ended. */
    void (*child_ended)(void *context, pid_t pid, const char *how);
    /* In a forked child: frees the master's resources. */
    void (*after_fork)(void *context);
    void *context;
};

/*
 * DISPATCH receives the connections that workers return, and is called when a worker can take
 * connections again. All are borrowed. NULL: out of memory.
 */
struct supervisor *supervisor_new(struct server *server, struct workers *workers,
                                  struct dispatch *dispatch,
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

/* Sends the configured bounds of the offload threads to all workers. */
void supervisor_send_offload(struct supervisor *supervisor);

/*
 * Makes all workers finish their requests and exit; no worker is started any more. GRACEFULLY: each
 * idle connection may have one more response (for a binary upgrade).
 */
void supervisor_stop_workers(struct supervisor *supervisor, bool gracefully);

/* Makes the logger write all remaining lines and exit, for good or to be replaced. */
void supervisor_stop_logger(struct supervisor *supervisor);
void supervisor_restart_logger(struct supervisor *supervisor);

pid_t supervisor_logger_pid(const struct supervisor *supervisor);           /* 0: none */
uint64_t supervisor_logger_started_ns(const struct supervisor *supervisor); /* monotonic clock */

#endif
