#include "loadgen/engine/schedule.h"

#include <math.h>

/* Sets the next entry of a list that ends. */
static void fetch_entry(struct schedule *schedule, uint64_t *random)
{
    size_t unused = 0; /* such a list has no positions of slots */

    schedule->entry = schedule->replay ? request_plan_take_entry(schedule->request_plan)
                                       : request_plan_next(schedule->request_plan, &unused, random);
}

void schedule_begin(struct schedule *schedule, struct request_plan *request_plan,
                    uint64_t origin_ns, uint64_t *random)
{
    *schedule = (struct schedule){
        .request_plan = request_plan,
        .origin_ns = origin_ns,
        .replay = request_plan->plan->replay_file != NULL,
    };
    schedule->ends = schedule->replay || request_plan_limit(request_plan) > 0;
    if (schedule->ends)
        fetch_entry(schedule, random);
}

uint64_t schedule_next_ns(const struct schedule *schedule)
{
    if (schedule->ends && schedule->entry == NULL)
        return UINT64_MAX;
    if (schedule->replay)
        return schedule->origin_ns + schedule->entry->due_ns;
    return isinf(schedule->arrivals.next_ns)
               ? UINT64_MAX
               : schedule->origin_ns + (uint64_t)schedule->arrivals.next_ns;
}

const struct request_entry *schedule_take(struct schedule *schedule, size_t *position,
                                          uint64_t *random)
{
    const struct request_entry *entry = schedule->entry;

    if (!schedule->replay)
        arrivals_step(&schedule->arrivals);
    if (!schedule->ends)
        return request_plan_next(schedule->request_plan, position, random);
    fetch_entry(schedule, random);
    return entry;
}

void schedule_step(struct schedule *schedule)
{
    arrivals_step(&schedule->arrivals);
}
