/*
 * Worker processes and the logger, as a table of states and events: what is wanted against what is.
 * The master's loop; see daemon/master/supervisor.c for the grid.
 */
#ifndef DAEMON_SUPERVISOR_H
#define DAEMON_SUPERVISOR_H

#include "daemon/master/master.h"
#include "daemon/master/workers.h"

#include <sys/types.h>

/* What the supervisor tells the master. */
struct supervisor_owner {
    void (*changed)(struct master *master); /* something is in force now, or has ended */
    void (*room)(struct master *master);    /* some worker can take connections again */
    /* A worker gave a connection back (struct message_connection); FD is the callee's. */
    void (*returned)(struct master *master, const void *message, size_t length, int fd);
    /* A worker has died, HOW in words; its part of the segment is as it left it. */
    void (*died)(struct master *master, const struct worker_process *worker, const char *how);
    /* The new workers serve, the old ones are about to leave. */
    void (*replaced)(struct master *master);
    /* A child that is neither worker nor logger has ended. */
    void (*other_ended)(struct master *master, pid_t pid, const char *how);
    void (*forget)(struct master *master); /* in a forked child: free what is the master's alone */
};

/* NULL: out of memory. */
struct supervisor *supervisor_new(struct master *master, const struct supervisor_owner *owner);

/* Closes the channels and frees; processes are not ended by this. */
void supervisor_free(struct supervisor *supervisor);

/* Brings what is towards what is wanted: starts, resizes and sends away. */
void supervisor_reconcile(struct supervisor *supervisor);

/* Reaps what has ended. */
void supervisor_reap(struct supervisor *supervisor);

/*
 * Generations of workers. _renew() wants all workers replaced: once the new ones serve, the old ones
 * leave; where the tables have no room for both, one by one. _revert() wants those of an earlier
 * generation (again), if they are still there. _replace() wants one worker replaced. The caller
 * reconciles.
 */
uint32_t supervisor_generation(const struct supervisor *supervisor);
void supervisor_renew(struct supervisor *supervisor);
void supervisor_revert(struct supervisor *supervisor, uint32_t generation);
void supervisor_replace(struct supervisor *supervisor, uint32_t slot);
void supervisor_replace_all(struct supervisor *supervisor);

/* Sends one worker away; the caller wants one less, and reconciles. */
void supervisor_send_away(struct supervisor *supervisor, uint32_t slot);

/* Tells all workers the wanted bounds of the offload threads. */
void supervisor_tell_offload(struct supervisor *supervisor);

/*
 * Tells all workers to finish and end; GENTLY: an idle connection has one more answer, with which it
 * is closed. Or kills them.
 */
void supervisor_stop_workers(struct supervisor *supervisor, bool gently);
void supervisor_kill_all(struct supervisor *supervisor);

/* Tells the logger to write all it has and end. */
void supervisor_stop_logger(struct supervisor *supervisor);
/* Another logger, with the configuration in force, follows the present one. */
void supervisor_renew_logger(struct supervisor *supervisor);
pid_t supervisor_logger(const struct supervisor *supervisor);               /* 0: none */
uint64_t supervisor_logger_started_ns(const struct supervisor *supervisor); /* monotonic */

/* What is in force. */
uint32_t supervisor_serving(const struct supervisor *supervisor); /* workers */
uint32_t supervisor_alive(const struct supervisor *supervisor); /* those that start or leave, too */
uint32_t supervisor_threads(const struct supervisor *supervisor);  /* least of any serving worker */
bool supervisor_is_complete(const struct supervisor *supervisor);  /* all new workers serve */
bool supervisor_is_renewed(const struct supervisor *supervisor);   /* and only those, as wanted */
bool supervisor_is_replacing(const struct supervisor *supervisor); /* old ones are still there */
bool supervisor_old_accept(const struct supervisor *supervisor);   /* leaving ones still do */
bool supervisor_settled(const struct supervisor *supervisor);      /* and all others have gone */
uint32_t supervisor_slots(const struct supervisor *supervisor);
struct worker_process *supervisor_worker(struct supervisor *supervisor, uint32_t slot);

#endif
