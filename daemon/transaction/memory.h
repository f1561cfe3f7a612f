/*
 * Lack of memory: the cache is the first to shrink. When it is empty, idle connections are closed
 * (daemon/connection/shedding.h), then new ones are refused.
 */
#ifndef DAEMON_TRANSACTION_MEMORY_H
#define DAEMON_TRANSACTION_MEMORY_H

#include "daemon/base/messages.h"
#include "daemon/transaction/context.h"

/*
 * An allocation has failed: empties half of the cache, and all threads of the worker drop what it
 * has evicted. Returns true if entries were evicted or the thread's own cache has freed some; the
 * caller may then try again. The owning thread.
 */
bool memory_make_room(struct transaction_context *context);

/* True if evicted entries are still in use: their memory becomes free soon. Any thread. */
bool memory_is_awaited(const struct worker_context *worker);

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
