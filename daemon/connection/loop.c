#include "daemon/connection/loop.h"

#include "common/clock.h"
#include "common/macros.h"
#include "daemon/http1/connection.h"

void turn_begin(struct serving_thread *thread)
{
    if (UNLIKELY(thread->turn_ns == 0)) {
        thread->turn_ns = clock_monotonic_ns();
        metric_add(thread->metrics, METRIC_wakeups, 1);
        response_prefixes_update(&thread->prefixes, (int64_t)(turn_wall_ns(thread) / NS_PER_S));
    }
}

void turn_enter(struct serving_thread *thread)
{
    turn_begin(thread);
    serving_catch_up(thread);
}
