/*
 * The offload threads of a worker run the jobs that would block a serving thread's event loop. The
 * queue is a bounded buffer: two counting semaphores (free places, queued jobs) and a mutex around
 * the ring of pointers.
 *
 * A serving thread never blocks on the queue: offload_submit() fails if it is full. The number of
 * offload threads follows the load between two bounds: one more starts when a job has waited
 * OFFLOAD_GROW_WAIT_NS, even if all others are blocked; one ends after OFFLOAD_IDLE_NS without a
 * job.
 */
#ifndef DAEMON_BASE_OFFLOAD_H
#define DAEMON_BASE_OFFLOAD_H

#include "common/segment.h"
#include "common/span.h"
#include "daemon/base/mailbox.h"

#include <stdbool.h>
#include <stdint.h>

#define OFFLOAD_GROW_WAIT_NS UINT64_C(2000000)
#define OFFLOAD_IDLE_NS      UINT64_C(5000000000)

/*
 * First member of the job's struct. Owned by the queue and then its thread, until posted to the
 * owner.
 */
struct offload_job {
    struct mailbox_item item;
    void (*run)(struct offload_job *job);    /* on an offload thread; may block */
    void (*finish)(struct offload_job *job); /* on the owner's thread, when its mailbox delivers */
    struct span work;                        /* shown by the consoles; lives as long as the job */
    enum thread_state state;                 /* the offload thread has it while it runs the job */
    struct segment_activity *activity;       /* the submitting thread's */
    struct mailbox *owner;                   /* receives the finished job */
    uint64_t queued_ns;                      /* set by offload_submit() */
};

struct offload;

/*
 * Starts MIN threads; with MAX 0 jobs run in the thread that submits them. BLOCK is the worker's
 * (borrowed). NULL with errno on failure.
 */
struct offload *offload_start(uint32_t queue_length, uint32_t min, uint32_t max,
                              struct segment_worker *block);

/* Finishes the queued jobs, ends all threads and frees. No thread may submit any more. */
void offload_stop(struct offload *offload);

/* Queues JOB. Returns false if the queue is full; the caller then keeps JOB. Any thread. */
bool offload_submit(struct offload *offload, struct offload_job *job, uint64_t now_ns);

/*
 * Sets new bounds, which are in force once offload_actual() is within them. The worker's main
 * thread.
 */
void offload_resize(struct offload *offload, uint32_t min, uint32_t max);

/*
 * Starts threads that could not be started before, or one more if a job waits too long. The
 * worker's main thread, about once a second.
 */
void offload_refill(struct offload *offload, uint64_t now_ns);

/* Number of threads. Any thread. */
uint32_t offload_actual(const struct offload *offload);

#endif
