#include "loadgen/plan/load_profile.h"

#include "common/clock.h"

/* From 0 to VALUE in the time of the ramp, then on. */
static void add_ramp(struct profile *profile, const struct plan *plan, double value)
{
    double end_ns = (double)(plan->ramp_ms * NS_PER_MS);

    if (plan->ramp_ms > 0)
        profile_add(profile, 0, 0, value);
    profile_add(profile, end_ns, value, value);
}

/* One step behind the other; the last goes on. */
static void add_stages(struct profile *profile, const struct plan *plan)
{
    double begin_ns = 0;

    for (size_t i = 0; i < plan->stage_count; i++) {
        profile_add(profile, begin_ns, plan->stages[i].value, plan->stages[i].value);
        begin_ns += (double)(plan->stages[i].duration_ms * NS_PER_MS);
    }
}

struct profile load_profile_rate(const struct plan *plan)
{
    struct profile profile = {.count = 0};

    if (plan->stage_count > 0 && !plan->stages_of_connections)
        add_stages(&profile, plan);
    else
        add_ramp(&profile, plan, plan->rate);
    return profile;
}

struct profile load_profile_connections(const struct plan *plan)
{
    struct profile profile = {.count = 0};

    if (plan->stage_count > 0 && plan->stages_of_connections)
        add_stages(&profile, plan);
    else if (!plan_is_open(plan))
        add_ramp(&profile, plan, plan->connections);
    else
        profile = profile_constant(plan->connections);
    return profile;
}
