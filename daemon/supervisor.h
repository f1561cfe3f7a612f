/*
 * Worker processes and the logger, as a table of states and events: what is wanted against what is.
 * The master's loop; see daemon/supervisor.c for the grid.
 */
#ifndef DAEMON_SUPERVISOR_H
#define DAEMON_SUPERVISOR_H

#include "daemon/channel.h"
#include "daemon/master.h"

#include <sys/types.h>

/* One slot of the table of workers. */
struct worker_process {
    struct supervisor *supervisor;
    uint32_t slot;
    enum segment_worker_state state;
    pid_t pid;
    struct channel *commands, *connections; /* NULL in state WORKER_NONE */
    uint32_t threads_sent;                  /* what it was last told */
    uint32_t threads_actual;                /* what it last reported */
    bool resizing;                          /* it was told, and has not reported yet */
    uint64_t dispatched;                    /* connections sent to it */
    uint64_t received_before;               /* its slot's connections_received when it started */
};

/* What the supervisor tells the master. */
struct supervisor_owner {
    void (*changed)(struct master *master); /* something is in force now, or has ended */
    void (*room)(struct master *master);    /* some worker can take connections again */
    /* A worker gave a connection back (struct message_connection); FD is the callee's. */
    void (*returned)(struct master *master, const void *message, size_t length, int fd);
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

/* Tells all workers the wanted bounds of the offload threads. */
void supervisor_tell_offload(struct supervisor *supervisor);

/* Tells all workers to finish and end, or kills them. */
void supervisor_stop_workers(struct supervisor *supervisor);
void supervisor_kill_all(struct supervisor *supervisor);

/* Tells the logger to write all it has and end. */
void supervisor_stop_logger(struct supervisor *supervisor);
pid_t supervisor_logger(const struct supervisor *supervisor); /* 0: none */

/* What is in force. */
uint32_t supervisor_serving(const struct supervisor *supervisor); /* workers */
uint32_t supervisor_alive(const struct supervisor *supervisor); /* those that start or leave, too */
uint32_t supervisor_threads(const struct supervisor *supervisor); /* least of any serving worker */
bool supervisor_settled(const struct supervisor *supervisor);     /* nothing is on its way */
uint32_t supervisor_slots(const struct supervisor *supervisor);
struct worker_process *supervisor_worker(struct supervisor *supervisor, uint32_t slot);

#endif
