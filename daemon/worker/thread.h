/*
 * A serving thread: runs an event loop and serves all requests of its connections from first to
 * last byte. Other threads communicate with it only by its mailbox.
 */
#ifndef DAEMON_WORKER_THREAD_H
#define DAEMON_WORKER_THREAD_H

#include "daemon/connection/connection.h"

#include <pthread.h>

struct serving_thread {
    struct mailbox_item mode[THREAD_MODES]; /* the main thread posts each at most once */
    struct mailbox_item ended;              /* is posted to the main thread */
    struct mailbox_item link;               /* the main thread posts it while keys_link is not 0 */
    struct mailbox_item certificates;       /* the same while tls is not NULL */
    struct mailbox_item sweep;              /* the main thread posts it if sweep_posted was false */
    _Atomic bool sweep_posted;
    /* Not yet taken by the thread: a link to the keys process, as its descriptor + 1 and, in the
     * upper half, its set of keys (0: none); and certificates, a reference. */
    _Atomic uint64_t keys_link;
    _Atomic(struct tls_context *) tls;
    _Atomic uint32_t taken; /* connections taken from the mailbox that siblings handed over */
    uint32_t passed;        /* and those posted to it; the main thread's, as the next */
    uint64_t cpu_ns;        /* CPU time as of the balancer's last look */
    pthread_t id;
    bool joined;
    uint32_t slot;               /* its number in the segment */
    struct log_ring ring;        /* has the log records of this slot */
    uint64_t mode_since_ns;      /* when loop.mode changed */
    uint64_t swept;              /* see cache_wants_sweep() */
    uint32_t threads_of_workers; /* as of the last check of the scheduling policy */
    bool batch;                  /* scheduled with SCHED_BATCH */
    bool single;                 /* the model is thread: exits after one connection */
    bool has_taken;              /* and that is, or was, taken */
    struct event *mail, *tick;
    struct event_loop loop;
};

/* What a thread serves. */
enum thread_role {
    THREAD_OF_EVENTS,     /* any number of connections */
    THREAD_ACCEPTOR,      /* those that the connection queue drops; it puts the others into it */
    THREAD_OF_POOL,       /* one connection at a time, from the queue */
    THREAD_OF_CONNECTION, /* one connection, from the queue */
};

/*
 * Makes a thread for SLOT. QUEUE (borrowed) is NULL for THREAD_OF_EVENTS. NULL with errno. The main
 * thread, like all below unless noted.
 */
struct serving_thread *thread_new(const struct worker_context *worker, uint32_t slot,
                                  enum thread_role role, struct connection_queue *queue);

/* Starts it. Returns 0, or -1 with errno. */
int thread_start(struct serving_thread *thread);

/*
 * Joins a thread that has ended, and delivers what it has not taken from its mailbox. Returns false if
 * there was something, which may be on its way to the main thread: call it again after that.
 */
bool thread_finish(struct serving_thread *thread);

/* Joins and frees: after worker_thread_ended(), or if it was never STARTED. */
void thread_free(struct serving_thread *thread, bool started);

/*
 * Changes the mode. The thread exits when it has no connection left in a mode other than
 * THREAD_SERVING and THREAD_CLOSING. At most once for each mode.
 */
void thread_set_mode(struct serving_thread *thread, enum thread_mode mode);

/* FD, which it takes over, is its link to the keys process for SET, as in signer_connect(). */
void thread_set_keys_link(struct serving_thread *thread, uint32_t set, int fd);

/* Its new connections use TLS. */
void thread_set_certificates(struct serving_thread *thread, struct tls_context *tls);

/* Drops stale entries of the cache of the thread of LOOP, and its negative cache. That thread. */
void thread_sweep(struct event_loop *loop);

/* Makes it drop what the shared cache has evicted. */
void thread_sweep_evicted(struct serving_thread *thread);

/* Delivers a struct connection, which came back into the queue, to the thread that takes it. */
void thread_deliver_connection(struct mailbox_item *item, void *receiver);

/* Passes it a connection that a sibling has handed over. */
void thread_pass(struct serving_thread *thread, struct connection *connection);

/* Number of connections passed to it that it has not taken from its mailbox yet. */
uint32_t thread_in_transit(const struct serving_thread *thread);

/* Number of open and queued connections. */
uint64_t thread_load(const struct serving_thread *thread);

/* CPU time used by the running thread; 0 if unknown. */
uint64_t thread_cpu_ns(const struct serving_thread *thread);

#endif
