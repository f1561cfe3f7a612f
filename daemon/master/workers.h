/*
 * One worker as the master sees it: its process, its two channels, and what it was told against what
 * it reported. Which states there are and what leads from one to another: daemon/master/supervisor.c. The
 * master's loop.
 */
#ifndef DAEMON_WORKER_PROCESS_H
#define DAEMON_WORKER_PROCESS_H

#include "daemon/base/channel.h"
#include "daemon/master/master.h"

#include <sys/types.h>

struct worker_process {
    struct supervisor *supervisor;
    uint32_t slot;
    enum segment_worker_state state;
    uint32_t generation; /* of the configuration that it runs with; 0: it is to be replaced */
    pid_t pid;
    struct channel *commands, *connections; /* NULL in state WORKER_NONE */
    struct channel *unread;   /* the worker's own end of connections: see _take_unread() */
    uint64_t started_ns;      /* monotonic clock, as the next */
    uint64_t leaving_ns;      /* since when it leaves; 0: it does not */
    bool leave_told;          /* it leaves, and knows */
    bool killed;              /* it hung, and was killed for that */
    uint32_t threads_sent;    /* what it was last told */
    uint32_t threads_actual;  /* what it last reported */
    bool resizing;            /* it was told, and has not reported yet */
    uint64_t orders_done;     /* the last order (daemon/master/orders.h) that is carried out here */
    uint64_t dispatched;      /* connections sent to it */
    uint64_t received_before; /* its slot's connections_received when it started */
};

/* What a worker says, and how a child begins. */
struct worker_process_owner {
    struct channel_owner commands, connections, unread; /* their owner is filled in */
    void (*child)(void *context); /* in the child, first of all: frees what is the master's */
    void *context;
};

/* Forks it. Returns 0, or -1 with errno: then nothing of it is left. */
int worker_process_start(struct worker_process *worker, struct master *master,
                         const struct worker_process_owner *owner);

/* The process has ended: its channels go. */
void worker_process_ended(struct worker_process *worker);

/*
 * Delivers, before worker_process_ended(), all that a dead worker did not read: what still lies in
 * its end of the channel comes to the owner of `unread`, and what waited to be sent is handed to
 * TAKE.
 */
void worker_process_take_unread(struct worker_process *worker, channel_taker *take);

/* Tells it how many threads are wanted, unless it knows or is just changing that. */
void worker_process_tell_threads(struct worker_process *worker, struct master *master);
void worker_process_tell_offload(struct worker_process *worker, struct master *master);

#endif
