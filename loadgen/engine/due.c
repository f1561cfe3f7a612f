#include "loadgen/engine/due.h"

#include <math.h>

void due_begin(struct due *due, struct work *work, uint64_t origin_ns)
{
    *due = (struct due){
        .work = work,
        .origin_ns = origin_ns,
        .replay = work->plan->replay_file != NULL,
    };
    if (due->replay)
        due->entry = work_take_entry(work);
}

uint64_t due_next_ns(const struct due *due)
{
    if (due->replay)
        return due->entry != NULL ? due->origin_ns + due->entry->due_ns : UINT64_MAX;
    return isinf(due->arrivals.next_ns) ? UINT64_MAX
                                        : due->origin_ns + (uint64_t)due->arrivals.next_ns;
}

const struct request *due_take(struct due *due, uint64_t *random)
{
    const struct work_entry *entry = due->entry;

    if (!due->replay) {
        arrivals_step(&due->arrivals);
        return work_choose(due->work, random);
    }
    due->entry = work_take_entry(due->work);
    return &due->work->requests[entry->request];
}
