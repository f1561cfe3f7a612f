#include "daemon/connection/crowding.h"

#include <sched.h>

static uint32_t threads_of_all(const struct segment *segment)
{
    uint32_t threads = 0;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_WORKERS); i++)
        if (segment_slot_reserved(segment_worker_slot(segment, i)))
            threads += atomic_load_explicit(&segment_worker(segment, i)->threads_actual,
                                            memory_order_relaxed);
    return threads;
}

/* 0 when it can't be told. */
static uint32_t cores_of_this(void)
{
    cpu_set_t cores;

    return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? (uint32_t)CPU_COUNT(&cores) : 0;
}

void crowding_look(struct serving_thread *thread)
{
    static const struct sched_param none = {0};
    uint32_t threads = threads_of_all(thread->site->segment), cores;
    bool crowded;

    if (threads == thread->threads_seen)
        return;
    thread->threads_seen = threads;
    cores = cores_of_this();
    crowded = cores > 0 && threads > cores;
    if (crowded != thread->crowded &&
        sched_setscheduler(0, crowded ? SCHED_BATCH : SCHED_OTHER, &none) == 0)
        thread->crowded = crowded;
}
