/*
 * The offload threads of a worker: whatever could block a serving thread's loop is done here. The
 * queue is the classic bounded buffer: two counting semaphores (free places, waiting jobs) and a
 * mutex around the ring of pointers.
 *
 * A serving thread never waits: it asks for a place with sem_trywait, and a full queue is an
 * answer. Offload threads sleep in sem_wait. Their number follows the work between two bounds:
 * another one starts when a job has waited OFFLOAD_GROW_WAIT_NS, also while all others are stuck in
 * theirs; one leaves after OFFLOAD_IDLE_NS without work.
 */
#ifndef DAEMON_OFFLOAD_H
#define DAEMON_OFFLOAD_H

#include "common/segment.h"
#include "common/span.h"
#include "daemon/base/mailbox.h"

#include <stdbool.h>
#include <stdint.h>

#define OFFLOAD_GROW_WAIT_NS UINT64_C(2000000)
#define OFFLOAD_IDLE_NS      UINT64_C(5000000000)

/* The first member of whatever a job needs. Owned by the queue and its thread until it is posted
 * back. */
struct offload_job {
    struct mailbox_item item;
    void (*run)(struct offload_job *job); /* on an offload thread; may block */
    struct span work;        /* what it works on, for the consoles; lives with the job... */
    enum thread_state state; /* ...and how */
    struct mailbox *owner;   /* where it is posted when done... */
    int kind;                /* ...as this kind of item */
    uint64_t queued_ns;      /* set by offload_submit() */
};

struct offload;

/* Starts LEAST threads. BLOCK is the worker's (borrowed). NULL with errno when that fails. */
struct offload *offload_start(uint32_t queue_length, uint32_t least, uint32_t most,
                              struct segment_worker *block);

/* Lets the waiting jobs finish, ends all threads and frees. No submit may follow or be under way.
 */
void offload_stop(struct offload *offload);

/* Queues JOB and returns true, or false when the queue is full: the job stays the caller's. Any
 * thread. */
bool offload_submit(struct offload *offload, struct offload_job *job, uint64_t now_ns);

/* New bounds; in force when offload_actual() lies within them. The worker's main thread. */
void offload_resize(struct offload *offload, uint32_t least, uint32_t most);

/*
 * Starts those that are missing, where starting one had failed, or one more where a job waits. The
 * worker's main thread, now and then.
 */
void offload_refill(struct offload *offload, uint64_t now_ns);

/* Threads there are now. Any thread. */
uint32_t offload_actual(const struct offload *offload);

#endif
