/*
 * Connections that the master passes to workers: those it accepts itself (workers.dispatch =
 * master, UNIX sockets, activated sockets) and those that a leaving worker returns. Each goes to
 * the next worker in round robin or to the one with the fewest connections; a worker that claims
 * fewer than it has gets no more than an equal share. If no worker can take one, it is queued here
 * and the master stops accepting; if many are queued, also reading those that workers return. The
 * master's loop.
 */
#ifndef DAEMON_MASTER_DISPATCH_H
#define DAEMON_MASTER_DISPATCH_H

#include "daemon/base/messages.h"
#include "daemon/config/config.h"

#include <event2/event.h>
#include <sys/queue.h>
#include <sys/resource.h>

struct master;
struct worker_process;

/* A listen socket that the master accepts from. */
struct dispatch_source {
    struct master *master;
    struct event *readable;
    uint8_t opening; /* what its connections begin with */
};

struct dispatch {
    struct dispatch_source *source;
    uint32_t source_count;
    struct event *retry;       /* a timer, because nothing reports free descriptors */
    struct rlimit descriptors; /* limit of a worker: equal to the master's, never changes */
    bool accepting, stopped;
    bool flushing;                     /* the last connections are passed on */
    bool incomplete;                   /* a listen socket is not watched for lack of memory */
    uint64_t short_ns;                 /* when a worker last lacked descriptors, monotonic clock */
    uint64_t shed_ns;                  /* when a worker was last asked to close idle connections */
    uint64_t shed_dispatched;          /* connections_dispatched then */
    uint32_t shed_worker, shed_wanted; /* the next to ask, and for how many */
    uint32_t next;                     /* the slot whose turn is next */
    STAILQ_HEAD(dispatch_queue, queued_connection) queue;
    uint32_t queue_length;
    bool returns_stopped; /* connections that workers return are not read */
};

/* Starts accepting. Returns 0, or -1: out of memory. */
int dispatch_init(struct master *master);

/* Closes queued connections and frees. The listen sockets stay open. */
void dispatch_free(struct dispatch *dispatch);

/*
 * Call when the listen sockets or workers.dispatch have changed. Returns 0, or -1: out of memory.
 */
int dispatch_update_listeners(struct master *master);

/*
 * Accepts all connections, over TLS or not, queued in the listen socket FD, which the caller then
 * closes. MASTER is a struct master.
 */
void dispatch_drain_listener(void *master, int fd, uint8_t opening);

/*
 * Takes a connection (struct message_connection) that WORKER returns, and passes it to worker TO,
 * or to any other if TO is NULL or cannot take it. FD is -1 if it was lost. Returns NULL, or what
 * the worker did wrong: "returned ...".
 */
const char *dispatch_returned(struct master *master, struct worker_process *worker,
                              struct worker_process *to, const struct message_connection *message,
                              size_t length, int fd);

/*
 * A worker may return any descriptor as a client connection. Checks that FD is the connection that
 * MESSAGE describes: its address is that of the peer, or of a client that a peer of TRUSTED
 * has named. Sets *OPEN to false if it is not, or no longer. Returns NULL, or what the
 * worker did wrong. A connection of a proxy that a reload has removed from TRUSTED is no fault, but
 * not open.
 */
const char *dispatch_fault(int fd, const struct message_connection *message,
                           const struct network_set *trusted, bool *open);

/* Passes on a connection that a dead worker has not received. */
void dispatch_again(struct master *master, const void *message, size_t length, int fd);

/* Empties the queue; call when a worker can take connections again. */
void dispatch_resume(struct master *master);

/*
 * For the end of this master: dispatch_flush() passes on all queued connections, even to workers
 * that have too many. dispatch_take_all() also accepts and passes on those that wait in listen
 * sockets. Afterwards the workers are told to finish, on the same channel.
 */
void dispatch_flush(struct master *master);
void dispatch_take_all(struct master *master);

/* Stops accepting for good, for the shutdown. */
void dispatch_stop_accepting(struct dispatch *dispatch);

#endif
