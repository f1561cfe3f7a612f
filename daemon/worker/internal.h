/*
 * What the files of this directory share: the struct of a worker process. Only its main thread uses
 * it and calls these functions; the struct is also the receiver of the items in its mailbox.
 */
#ifndef DAEMON_WORKER_INTERNAL_H
#define DAEMON_WORKER_INTERNAL_H

#include "daemon/base/balance.h"
#include "daemon/base/channel.h"
#include "daemon/base/messages.h"
#include "daemon/worker/thread.h"

#include <sys/resource.h>

struct arrival;
struct worker_listener;

/* Initially zero, with worker_slot and on set. */
struct balancer {
    uint32_t worker_slot;
    bool on; /* [workers] balance_connections */
    struct balance balance;
    uint32_t gives;      /* orders to threads that have not come back */
    uint32_t gives_away; /* those that give to other workers */
    uint32_t moved;      /* connections passed to threads since the last resize */
    uint64_t looked_ns;  /* last look; monotonic */
    uint64_t resized_ns; /* last resize, until it is balanced and logged; monotonic; 0: it is */
    uint32_t threads_before, threads_after; /* the last resize changed their number so */
};

struct worker {
    struct worker_context context;
    struct segment_worker *block;
    struct event_base *base;
    struct event *mail, *heartbeat, *retry, *balance, *relief, *assign;
    uint64_t closed_unused_ns;              /* when the cache last closed unused descriptors */
    struct rusage usage;                    /* as last published */
    struct mailbox mailbox;                 /* receives what threads post to the main thread */
    struct channel *commands, *connections; /* lead to the master */
    struct serving_thread **threads; /* [0 .. count) serve, [count .. count + ending) are exiting */
    uint32_t count, ending, capacity;
    struct connection_queue *queue; /* NULL: the model is events; else thread 0 is the acceptor */
    bool starts_by_connection;      /* the model is thread */
    uint32_t mailbox_limit;         /* of new connections, with the model events */
    uint32_t limit;                 /* of threads at one time, as the master has ordered */
    struct queue_waiter waiter;     /* in the model thread: for connections without a thread */
    bool *slot_taken;               /* [capacity] a thread has this slot */
    bool resized;                   /* and not reported yet */
    struct balancer balancer;
    struct worker_listener *listeners; /* sorted by row, then by id */
    uint32_t listener_count, listener_capacity;
    struct tls_tickets *tickets; /* NULL: none */
    int *keys_links;             /* [capacity] links of the threads to the keys process; -1: none */
    uint32_t keys_set;           /* the set of keys of those links */
    struct arrival *spare;    /* for a connection that has no memory; NULL: used or not allocated */
    struct arrival *deferred; /* rejected by all mailboxes; reading is paused until one has room */
    struct shed_request shed; /* the main thread's own request... */
    bool shed_pending;        /* ...is under way */
    struct worker_shortages shortages;
    uint32_t modes_on_way;     /* THREAD_DRAINING that a thread has not received yet */
    bool leaving;              /* returns connections to the master */
    bool stopping;             /* finishes its connections */
    enum thread_mode end_mode; /* its threads get it, if leaving or stopping */
};

/* worker.c */

/*
 * Opens the roots, unless they are given as ROOTS (see worker.h), and the directories of [files]
 * follow_into, with the master's privileges. CONFIG is borrowed; CONTEXT is all zero. Returns 0, or -1 with errno. The caller must call
 * worker_context_close() in either case.
 */
int worker_context_open(struct worker_context *context, const struct config *config,
                        const int *roots);

/*
 * In the sandbox: creates the remaining members and starts the offload threads, which publish in
 * BLOCK. The caller has set segment, worker_slot, host_places, main and doorbell. Returns 0, or -1
 * with errno.
 */
int worker_context_fill(struct worker_context *context, struct segment_worker *block);

/* Call after all serving threads have ended. */
void worker_context_close(struct worker_context *context);

/* Reports to the master when all connections that it ordered have been returned. */
void worker_report_given(struct worker *worker);

/* Ends all threads of a worker that ends, unless connections are in transit between them. */
void worker_end_threads(struct worker *worker);

/* Delivers the item by which a thread has received THREAD_DRAINING; reports the last one. */
void worker_mode_received(struct mailbox_item *item, void *receiver);

/* Delivers a struct serving_thread, which has ended. */
void worker_thread_ended(struct mailbox_item *item, void *receiver);

/*
 * Executes a command of the master about the caches: changes the shared cache, has each serving
 * thread sweep its own, and reports completion after the last one. Without memory for a thread's
 * mailbox item, the report does not wait for that thread, which sweeps within a second.
 */
void worker_command_caches(struct worker *worker, const struct message_command *message);

/* connections.c */

/* Takes ownership of FD, a listen socket. Returns false and closes it if out of memory. */
bool worker_listeners_add(struct worker *worker, const struct message_listen_socket *message,
                          int fd);

/* Closes one listen socket and revokes it from its thread. */
void worker_listeners_drop(struct worker *worker, uint32_t id);

/* Closes all. The threads are exiting and close theirs themselves. */
void worker_listeners_drop_all(struct worker *worker);

/*
 * Assigns the listen sockets to the threads: the i-th row to thread i modulo their number. Retries
 * those that failed for lack of descriptors.
 */
void worker_listeners_assign(struct worker *worker);

/* Whether the worker can take the next connection of the master; else makes room for it. */
bool worker_ready_for_connection(void *owner);
void worker_no_descriptor_for_connection(void *owner);

/* Passes FD to a thread. worker_ready_for_connection() has returned true. */
void worker_receive_connection(struct worker *worker, const struct message_connection *message,
                               int fd);

/* Tries again to pass a connection that all threads have rejected. */
void worker_retry_arrival(struct worker *worker);

/*
 * Delivers a struct connection, which its thread has handed over: passes it to a sibling or, by the
 * master, to another worker.
 */
void worker_pass_connection(struct mailbox_item *item, void *receiver);

/* Makes the threads close WANTED idle connections, unless the last such request is under way. */
void worker_shed(struct worker *worker, enum shortage reason, uint32_t wanted);

/*
 * The worker leaves: passes the connections that wait in the queue to threads, which finish them or
 * hand them over, and those without a thread, or new, to the master.
 */
void worker_return_queue(struct worker *worker);

/* Delivers a struct shed_request: to the next thread, or to its asker. */
void worker_pass_shed_request(struct mailbox_item *item, void *receiver);

/*
 * The limit of the control group leaves what MESSAGE says (daemon/master/monitor.c). While it
 * is near, frees memory every 200 ms: half of the cache at a time, and once that is empty, idle
 * connections. At MEMORY_EXHAUSTED listen sockets pause as well (listen_socket.c).
 */
void worker_set_memory(struct worker *worker, const struct message_memory *message);

/* Frees memory if it is short and the next time is due; on_relief_due() is the timer's callback. */
void worker_relieve(struct worker *worker);

/* Makes the threads drop what the shared cache has evicted. */
void worker_sweep_evicted(struct worker *worker);

/* balancer.c */

/* Turns it on or off. After turning it on, the next look is due, as after a resize. */
void balancer_switch(struct balancer *balancer, bool on);

/* The worker has COUNT threads instead of BEFORE: the next look, which is due, evens them out. */
void balancer_resized(struct balancer *balancer, uint32_t before, uint32_t count);

/*
 * Compares the threads and orders moves. Returns the time until the next look in
 * milliseconds.
 */
uint32_t balancer_look(struct worker *worker);

/*
 * Orders connections for other workers, from each thread in proportion to its own.
 * They have been given when balancer_gives_away() is false.
 */
void balancer_give_away(struct worker *worker, const struct message_give *message);

bool balancer_gives_away(const struct balancer *balancer);

/* True while connections are on their way from one thread to another. */
bool balancer_is_moving(const struct worker *worker);

#endif
