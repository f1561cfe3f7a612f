#include "daemon/base/mutex.h"

#include "common/clock.h"
#include "common/segment_writer.h"

static _Thread_local struct segment_thread *own_block;

void mutex_publish_waits(struct segment_thread *block)
{
    own_block = block;
}

void mutex_lock(pthread_mutex_t *mutex)
{
    uint64_t since_ns, now_ns;
    uint32_t state;

    if (pthread_mutex_trylock(mutex) == 0)
        return;
    if (own_block == NULL) {
        pthread_mutex_lock(mutex);
        return;
    }
    since_ns = clock_monotonic_ns();
    state = atomic_load_explicit(&own_block->activity.state, memory_order_relaxed);
    segment_activity_state(&own_block->activity, THREAD_STATE_LOCK, since_ns);
    pthread_mutex_lock(mutex);
    now_ns = clock_monotonic_ns();
    segment_activity_state(&own_block->activity, (enum thread_state)state, now_ns);
    metric_add(own_block->metrics, METRIC_lock_waits, 1);
    metric_add(own_block->metrics, METRIC_lock_wait, now_ns - since_ns);
}
