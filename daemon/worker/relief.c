#include "daemon/worker/relief.h"

#include "daemon/transaction/shortage.h"

#include <malloc.h>

enum { SHED_PART = 8 }; /* of the connections, at a time */

void relief_set(const struct worker_context *context, const struct message_memory *memory)
{
    atomic_store_explicit(&context->shortages->memory, (uint32_t)memory->level,
                          memory_order_relaxed);
    if (context->cache != NULL)
        cache_allow(context->cache, memory->cache_bytes);
}

bool relief_needed(const struct worker_context *context)
{
    return memory_left(context) != MEMORY_ENOUGH;
}

bool relief_admits(const struct worker_context *context, struct serving_thread *const *threads,
                   uint32_t count)
{
    if (memory_left(context) != MEMORY_EXHAUSTED)
        return true;
    for (uint32_t i = 0; i < count; i++)
        if (memory_admits(&threads[i]->loop.context))
            return true;
    return false;
}

void relief_step(const struct worker_context *context, struct worker_shedding *shedding,
                 struct serving_thread **threads, uint32_t count)
{
    uint64_t open = 0;

    if (context->cache == NULL || cache_shed(context->cache) == 0) {
        for (uint32_t i = 0; i < count; i++)
            open += metric_get(threads[i]->loop.context.metrics, METRIC_connections_open);
        worker_shedding_begin(shedding, SHORTAGE_MEMORY, (uint32_t)(open / SHED_PART) + 1, threads,
                              count);
    }
    malloc_trim(0); /* the limit counts what the allocator keeps */
}
