/*
 * A serving thread: runs an event loop and serves all requests of its connections from first to
 * last byte. Other threads communicate with it only by its mailbox.
 */
#ifndef DAEMON_WORKER_THREAD_H
#define DAEMON_WORKER_THREAD_H

#include "daemon/connection/connection.h"

#include <pthread.h>

struct broadcast;

/* Posted to a thread with ITEM_SWEEP and back with ITEM_SWEPT; see broadcast.h. */
struct sweep_item {
    struct mailbox_item item;
    struct broadcast *broadcast;
};

struct serving_thread {
    struct mailbox_item leave;     /* from the main thread... */
    enum thread_mode leaving_mode; /* ...with this mode; valid after the item arrived */
    struct mailbox_item ended;     /* to the main thread */
    _Atomic uint64_t beat_ns;      /* monotonic; updated every second while the loop runs */
    pthread_t id;
    uint32_t slot;               /* in the segment */
    uint64_t mode_since_ns;      /* when loop.mode changed */
    uint64_t swept;              /* see cache_wants_sweep() */
    uint32_t threads_of_workers; /* as of the last check of the scheduling policy */
    bool batch;                  /* scheduled with SCHED_BATCH */
    struct event *mail, *tick;
    struct event_loop loop;
};

/* Makes a thread for SLOT. NULL with errno. The main thread, like all below unless noted. */
struct serving_thread *thread_new(const struct worker_context *worker, uint32_t slot);

/* Starts it. Returns 0, or -1 with errno. */
int thread_start(struct serving_thread *thread);

/* Joins and frees: after ITEM_THREAD_ENDED, or if it was never STARTED. */
void thread_free(struct serving_thread *thread, bool started);

/* Ends the thread in a MODE other than THREAD_SERVING. At most once. */
void thread_leave(struct serving_thread *thread, enum thread_mode mode);

/* When its loop last ran, to within about a second; monotonic. Any thread. */
uint64_t thread_beat_ns(const struct serving_thread *thread);

/* Number of open and queued connections. Any thread. */
uint64_t thread_load(const struct serving_thread *thread);

#endif
