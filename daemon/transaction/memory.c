#include "daemon/transaction/memory.h"

#include "common/segment_writer.h"

enum { FEW_CONNECTIONS = 8 };

bool memory_make_room(struct transaction_context *context)
{
    struct cache *cache = context->worker->cache;

    shortage_note(&context->shortages, SHORTAGE_MEMORY, context->loop_now_ns, 0);
    if (cache == NULL || cache_shed(cache) == 0)
        return false;
    thread_cache_sweep(context->thread_cache);
    return true;
}

bool memory_admits(const struct transaction_context *context)
{
    return memory_left(context->worker) != MEMORY_EXHAUSTED ||
           metric_get(context->metrics, METRIC_connections_open) < FEW_CONNECTIONS;
}
