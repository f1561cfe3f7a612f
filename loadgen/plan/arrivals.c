#include "loadgen/plan/arrivals.h"

#include "common/clock.h"

#include <math.h>

struct profile profile_constant(double value)
{
    return (struct profile){.step = {{0, value, value}}, .count = 1};
}

/* Adds a step. Steps are added in order of BEGIN_NS, at most PROFILE_STEPS_MAX of them. */
static void add_profile_step(struct profile *profile, double begin_ns, double from, double to)
{
    profile->step[profile->count++] = (struct profile_step){begin_ns, from, to};
}

/* The step at TIME_NS. */
static size_t find_step(const struct profile *profile, double time_ns)
{
    size_t i = profile->count - 1;

    while (i > 0 && profile->step[i].begin_ns > time_ns)
        i--;
    return i;
}

static double end_of(const struct profile *profile, size_t i)
{
    return i + 1 < profile->count ? profile->step[i + 1].begin_ns : INFINITY;
}

/* Change of the value per nanosecond. */
static double slope_of(const struct profile *profile, size_t i)
{
    const struct profile_step *step = &profile->step[i];

    return i + 1 < profile->count ? (step->to - step->from) / (end_of(profile, i) - step->begin_ns)
                                  : 0;
}

double profile_at(const struct profile *profile, double time_ns)
{
    size_t i = find_step(profile, time_ns);

    return profile->step[i].from + slope_of(profile, i) * (time_ns - profile->step[i].begin_ns);
}

/*
 * The time in which the integral of a value that starts at AT and grows by SLOPE reaches AREA: the
 * root of AT t + SLOPE t^2 / 2 = AREA, in the form that is numerically stable for small SLOPE.
 */
static double time_to_reach(double at, double slope, double area)
{
    return area > 0 ? 2 * area / (at + sqrt(at * at + 2 * slope * area)) : 0;
}

/* When the integral since TIME_NS (value times seconds) reaches AMOUNT; INFINITY: never. */
static double profile_advance(const struct profile *profile, double time_ns, double amount)
{
    double left = amount * (double)NS_PER_S; /* value times nanoseconds */

    for (size_t i = find_step(profile, time_ns); i < profile->count; i++) {
        double at = profile_at(profile, time_ns), slope = slope_of(profile, i);
        double length = end_of(profile, i) - time_ns;
        double area = isinf(length) ? INFINITY : length * (at + slope * length / 2);

        if (isinf(length) && at <= 0)
            return INFINITY;
        if (area > left)
            return time_ns + time_to_reach(at, slope, left);
        left -= area;
        time_ns = end_of(profile, i);
    }
    return INFINITY;
}

uint64_t random_next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
uint64_t random_begin(uint64_t seed, uint64_t number)
{
    uint64_t state = seed + (number + 1) * UINT64_C(0x9e3779b97f4a7c15);

    state = (state ^ state >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    state = (state ^ state >> 27) * UINT64_C(0x94d049bb133111eb);
    state ^= state >> 31;
    return state != 0 ? state : 1;
}

double random_unit(uint64_t *state)
{
    return (double)(random_next(state) >> 11) * 0x1p-53;
}

/* The growth of the integral of the total rate until this thread's next request. */
static double gap(struct arrivals *arrivals)
{
    return arrivals->random != 0 ? -log(1 - random_unit(&arrivals->random)) * arrivals->threads
                                 : arrivals->threads;
}

void arrivals_begin(struct arrivals *arrivals, const struct profile *rate, uint32_t index,
                    uint32_t threads, uint64_t random)
{
    *arrivals = (struct arrivals){
        .rate = *rate,
        .threads = threads,
        .random = random,
    };
    arrivals->next_ns = profile_advance(rate, 0, random != 0 ? gap(arrivals) : index);
}

void arrivals_skip(struct arrivals *arrivals, double now_ns)
{
    arrivals->next_ns = profile_advance(&arrivals->rate, now_ns, gap(arrivals));
}

void arrivals_step(struct arrivals *arrivals)
{
    if (!isinf(arrivals->next_ns))
        arrivals->next_ns = profile_advance(&arrivals->rate, arrivals->next_ns, gap(arrivals));
}

void arrivals_change(struct arrivals *arrivals, const struct profile *rate, uint32_t threads,
                     double now_ns)
{
    double next_ns;

    arrivals->rate = *rate;
    arrivals->threads = threads;
    if (arrivals->next_ns <= now_ns)
        return;
    next_ns = profile_advance(rate, now_ns, gap(arrivals));
    if (arrivals->random != 0 || next_ns < arrivals->next_ns)
        arrivals->next_ns = next_ns;
}

/* ---- The load of a plan ---- */

/* From 0 to VALUE during the ramp, then constant. */
static void add_ramp(struct profile *profile, const struct plan *plan, double value)
{
    double end_ns = (double)(plan->ramp_ms * NS_PER_MS);

    if (plan->ramp_ms > 0)
        add_profile_step(profile, 0, 0, value);
    add_profile_step(profile, end_ns, value, value);
}

/* The last stage never ends. */
static void add_stages(struct profile *profile, const struct plan *plan)
{
    double begin_ns = 0;

    for (size_t i = 0; i < plan->stage_count; i++) {
        add_profile_step(profile, begin_ns, plan->stages[i].value, plan->stages[i].value);
        begin_ns += (double)(plan->stages[i].duration_ms * NS_PER_MS);
    }
}

struct profile profile_of_rate(const struct plan *plan)
{
    struct profile profile = {.count = 0};

    if (plan->stage_count > 0 && !plan->stages_of_connections)
        add_stages(&profile, plan);
    else
        add_ramp(&profile, plan, plan->rate);
    return profile;
}

struct profile profile_of_connections(const struct plan *plan)
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
