/*
 * Shortages of a worker: of log space, connections, descriptors, memory or threads. Each is logged once when
 * it begins in any thread, and once when no thread has noted it for a while. If memory is
 * lacking, the cache is the first to shrink; when it is empty, idle connections are closed
 * (daemon/worker/connections.c), then new ones are refused.
 */
#ifndef DAEMON_TRANSACTION_SHORTAGE_H
#define DAEMON_TRANSACTION_SHORTAGE_H

#include "daemon/base/mailbox.h"
#include "daemon/base/messages.h"
#include "daemon/transaction/context.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 * The calling thread has SHORTAGE, which cost LOST of what enum shortage names. NOW_NS: monotonic, not
 * 0. Any thread.
 */
void shortage_note(const struct worker_context *worker, enum shortage shortage, uint64_t now_ns,
                   uint64_t lost);

/* True from the first note of SHORTAGE until it has ended. Any thread. */
static inline bool shortage_lasts(const struct worker_context *worker, enum shortage shortage)
{
    return atomic_load_explicit(&worker->shortages->of[shortage].noted_ns, memory_order_relaxed) !=
           0;
}

/*
 * Ends the shortages that were last noted a while before NOW_NS (UINT64_MAX: all). One thread, once a
 * second.
 */
void shortages_expire(const struct worker_context *worker, uint64_t now_ns);

/* Memory */

enum memory_room {
    MEMORY_NONE,    /* the cache has nothing to evict or to free */
    MEMORY_AWAITED, /* evicted entries are still in use: their memory becomes free soon */
    MEMORY_FREED    /* entries were evicted or freed since the allocation began: try again */
};

/* Attempts without memory before the first pause: more than the halvings that empty any cache. */
enum { MEMORY_EAGER_TRIES = 32 };

/* Read this before an allocation, for memory_find_room() if it fails. Any thread. */
uint64_t memory_freed(const struct worker_context *worker);

/*
 * An allocation has failed that began when memory_freed() was FREED_BEFORE: empties half of the
 * cache, and all threads of the worker drop what it has evicted. The owning thread.
 */
enum memory_room memory_find_room(struct transaction_context *context, uint64_t freed_before);

/*
 * For a caller that cannot wait: returns true if it may try again. Memory that was freed before the
 * call does not count.
 */
bool memory_make_room(struct transaction_context *context);

/*
 * False if the control group has no memory for another connection of the thread. A thread with few
 * connections accepts all the same: they are not what fills the memory. Any thread.
 */
bool memory_admits(const struct transaction_context *context);

/* What the limit of the control group leaves. Any thread. */
static inline enum memory_level memory_left(const struct worker_context *worker)
{
    return (enum memory_level)atomic_load_explicit(&worker->shortages->memory,
                                                   memory_order_relaxed);
}

#endif
