#include "daemon/base/mutex.h"

#include "common/clock.h"
#include "common/segment.h"

static _Thread_local _Atomic uint64_t *wait_metrics;

void mutex_count_waits(_Atomic uint64_t *metrics)
{
    wait_metrics = metrics;
}

void mutex_lock(pthread_mutex_t *mutex)
{
    uint64_t since_ns;

    if (pthread_mutex_trylock(mutex) == 0)
        return;
    since_ns = clock_monotonic_ns();
    pthread_mutex_lock(mutex);
    if (wait_metrics == NULL)
        return;
    metric_add(wait_metrics, METRIC_lock_waits, 1);
    metric_add(wait_metrics, METRIC_lock_wait, clock_monotonic_ns() - since_ns);
}
