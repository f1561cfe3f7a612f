#include "daemon/transaction/memory.h"

#include "common/segment_writer.h"

enum { FEW_CONNECTIONS = 8 };

/* An idle thread would not drop its references to evicted entries for up to a second. */
static void ask_all_to_sweep(const struct worker_context *worker)
{
    struct worker_shortages *shortages = worker->shortages;

    if (!atomic_exchange(&shortages->sweep_posted, true))
        mailbox_post(worker->main, &shortages->sweep, shortages->deliver_sweep);
}

uint64_t memory_freed(const struct worker_context *worker)
{
    return worker->cache != NULL ? cache_freed(worker->cache) : 0;
}

enum memory_room memory_find_room(struct transaction_context *context, uint64_t freed_before)
{
    const struct worker_context *worker = context->worker;
    bool evicted, awaited;

    shortage_note(&context->shortages, SHORTAGE_MEMORY, context->loop_now_ns, 0);
    if (worker->cache == NULL)
        return MEMORY_NONE;
    evicted = cache_shed(worker->cache) > 0;
    thread_cache_sweep(context->thread_cache);
    awaited = cache_frees_soon(worker->cache);
    if (awaited)
        ask_all_to_sweep(worker);
    /* Read the number last: awaited memory may have become free. */
    if (evicted || memory_freed(worker) != freed_before)
        return MEMORY_FREED;
    return awaited ? MEMORY_AWAITED : MEMORY_NONE;
}

bool memory_make_room(struct transaction_context *context)
{
    return memory_find_room(context, memory_freed(context->worker)) == MEMORY_FREED;
}

bool memory_admits(const struct transaction_context *context)
{
    return memory_left(context->worker) != MEMORY_EXHAUSTED ||
           metric_get(context->metrics, METRIC_connections_open) < FEW_CONNECTIONS;
}
