/*
 * Lack of memory: the cache is the first to shrink. When it is empty, idle connections are closed
 * (daemon/connection/shedding.h), then new ones are refused.
 */
#ifndef DAEMON_TRANSACTION_MEMORY_H
#define DAEMON_TRANSACTION_MEMORY_H

#include "daemon/base/messages.h"
#include "daemon/transaction/context.h"

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
