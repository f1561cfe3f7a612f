#include "daemon/transaction/memory.h"

#include "common/segment_writer.h"

enum { FEW_CONNECTIONS = 8 };

/* An idle thread would not drop its references to evicted entries for up to a second. */
static void ask_all_to_sweep(const struct worker_context *worker)
{
    struct worker_shortages *shortages = worker->shortages;

    if (!atomic_exchange(&shortages->sweep_posted, true))
        mailbox_post(worker->main, &shortages->sweep, SHORTAGE_SWEEP_ITEM);
}

bool memory_make_room(struct transaction_context *context)
{
    struct cache *cache = context->worker->cache;
    bool evicted;
    uint64_t in_use;

    shortage_note(&context->shortages, SHORTAGE_MEMORY, context->loop_now_ns, 0);
    if (cache == NULL)
        return false;
    evicted = cache_shed(cache) > 0;
    in_use = cache_stale_bytes(cache);
    thread_cache_sweep(context->thread_cache);
    if (memory_is_awaited(context->worker))
        ask_all_to_sweep(context->worker);
    return evicted || cache_stale_bytes(cache) < in_use;
}

bool memory_is_awaited(const struct worker_context *worker)
{
    return worker->cache != NULL && cache_stale_bytes(worker->cache) > 0;
}

bool memory_admits(const struct transaction_context *context)
{
    return memory_left(context->worker) != MEMORY_EXHAUSTED ||
           metric_get(context->metrics, METRIC_connections_open) < FEW_CONNECTIONS;
}
