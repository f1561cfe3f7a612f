#include "daemon/transaction/shortage.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "common/units.h"
#include "daemon/base/events.h"

#include <inttypes.h>

enum { QUIET_S = 10 };

static const struct {
    const char *begins, *one, *more; /* what was lost, by its number */
} texts[SHORTAGE_COUNT] = {
    [SHORTAGE_LOG] = {"the log ring is full: access log records are dropped",
                      "access log record was dropped", "access log records were dropped"},
    [SHORTAGE_CONNECTIONS] = {"connections.max is reached: closing idle connections",
                              "idle connection was closed", "idle connections were closed"},
    [SHORTAGE_DESCRIPTORS] = {"out of descriptors: closing idle connections (raise the limit: "
                              "ulimit -n)",
                              "idle connection was closed", "idle connections were closed"},
    [SHORTAGE_MEMORY] = {"out of memory: emptying the cache and closing idle connections",
                         "idle connection was closed", "idle connections were closed"},
    [SHORTAGE_THREADS] = {"not every connection has a thread: the others wait in the queue",
                          "start of a thread failed", "starts of threads failed"},
};

void shortage_note(const struct worker_context *worker, enum shortage shortage, uint64_t now_ns,
                   uint64_t lost)
{
    struct worker_shortages *all = worker->shortages;

    if (atomic_exchange(&all->of[shortage].noted_ns, now_ns) == 0)
        event_log(LEVEL_WARN, "worker %u: %s", worker->worker_slot, texts[shortage].begins);
    atomic_fetch_add_explicit(&all->of[shortage].lost, lost, memory_order_relaxed);
}

/* Does nothing if another thread has noted the shortage again since NOTED_NS. */
static void end_shortage(const struct worker_context *worker, enum shortage shortage,
                         uint64_t noted_ns)
{
    struct worker_shortages *all = worker->shortages;
    uint64_t lost;

    if (!atomic_compare_exchange_strong(&all->of[shortage].noted_ns, &noted_ns, 0))
        return;
    lost = atomic_exchange(&all->of[shortage].lost, 0);
    event_log(LEVEL_INFO, "worker %u: the shortage is over: %" PRIu64 " %s", worker->worker_slot,
              lost, units_plural(lost, texts[shortage].one, texts[shortage].more));
}

void shortages_expire(const struct worker_context *worker, uint64_t now_ns)
{
    for (enum shortage i = 0; i < SHORTAGE_COUNT; i++) {
        uint64_t noted_ns = atomic_load(&worker->shortages->of[i].noted_ns);

        if (noted_ns != 0 && now_ns >= noted_ns + QUIET_S * NS_PER_S)
            end_shortage(worker, i, noted_ns);
    }
}

enum { FEW_CONNECTIONS = 8 };

uint64_t memory_freed(const struct worker_context *worker)
{
    return worker->cache != NULL ? cache_freed(worker->cache) : 0;
}

enum memory_room memory_find_room(struct transaction_context *context, uint64_t freed_before)
{
    const struct worker_context *worker = context->worker;
    bool evicted, awaited;

    shortage_note(worker, SHORTAGE_MEMORY, context->loop_now_ns, 0);
    body_source_keep(&context->output.body); /* the thread cache may have lent it */
    if (worker->cache == NULL)
        return MEMORY_NONE;
    evicted = cache_shed(worker->cache) > 0;
    thread_cache_sweep(context->thread_cache);
    awaited = cache_frees_soon(worker->cache);
    /* An idle thread would not drop its references to evicted entries for up to a second. */
    if (awaited && !atomic_exchange(&worker->shortages->sweep_posted, true))
        mailbox_post(worker->main, &worker->shortages->sweep, worker->shortages->deliver_sweep);
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
