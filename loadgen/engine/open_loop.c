#include "loadgen/engine/open_loop.h"

#include "loadgen/base/interrupts.h"

/* A request that begins this long after it was due counts as late. */
#define LATE_NS (1000 * 1000)

void open_loop_free(struct driver *driver, uint32_t number, uint64_t now_ns)
{
    driver->slots[number]->state = SLOT_FREE;
    driver->slots[number]->free_since_ns = now_ns;
    slot_queue_push(&driver->free, number);
}

/*
 * Counts a late request: if a connection was free meanwhile, the client was slow, not the server.
 */
static void count_lateness(struct driver *driver, const struct slot *slot, uint64_t due_ns,
                           uint64_t now_ns)
{
    if (now_ns < due_ns + LATE_NS || !driver_is_counted(driver, due_ns))
        return;
    if (slot->free_since_ns + LATE_NS < now_ns)
        tally_count(driver->config.tally, TALLY_late, 1);
    else
        tally_count(driver->config.tally, TALLY_waited, 1);
}

static void arm_timer(struct driver *driver, uint64_t due_ns)
{
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t us = due_ns > now_ns ? (due_ns - now_ns + NS_PER_US - 1) / NS_PER_US : 0;
    const struct timeval wait = driver_timeval(us);

    events_add(driver->timer, &wait);
}

/* Begins what is due at DUE_NS: a request, or a scenario. */
static void begin_due(struct driver *driver, struct slot *slot, uint64_t due_ns, uint64_t now_ns)
{
    struct scenario_start start;

    if (slot->user == NULL) {
        slot_begin_entry(driver, slot->number,
                         schedule_take(&driver->schedule, &slot->position, &driver->random), due_ns,
                         now_ns);
        return;
    }
    schedule_step(&driver->schedule);
    request_plan_next_scenario(driver->config.request_plan, &start); /* no end: no --rows once */
    slot_begin_scenario(driver, slot, &start, due_ns, now_ns);
}

void open_loop_send(struct driver *driver, uint64_t now_ns)
{
    struct schedule *schedule = &driver->schedule;
    uint64_t due_ns = schedule_next_ns(schedule);

    while (driver->free.length > 0 && due_ns <= now_ns && !driver->exhausted) {
        uint32_t number;

        if (!budget_share_take_due(driver->config.share, due_ns, now_ns)) {
            driver->exhausted = true;
            break;
        }
        number = slot_queue_pop(&driver->free);
        count_lateness(driver, driver->slots[number], due_ns, now_ns);
        begin_due(driver, driver->slots[number], due_ns, now_ns);
        due_ns = schedule_next_ns(schedule);
    }
    if (due_ns == UINT64_MAX)
        driver->exhausted = true;
    /* If the next request is due after the deadline, the run still lasts until the deadline. */
    if (!driver->exhausted && driver->free.length > 0 &&
        budget_share_allows(driver->config.share, due_ns))
        arm_timer(driver, due_ns);
}

void open_loop_start(struct driver *driver)
{
    const struct driver_config *config = &driver->config;
    uint64_t now_ns = clock_monotonic_ns();

    schedule_begin(&driver->schedule, config->request_plan, driver->origin_ns, &driver->random);
    arrivals_begin(&driver->schedule.arrivals, &driver->settings.rate, config->index,
                   driver->settings.threads, config->plan->poisson);
    if (config->late)
        arrivals_skip(&driver->schedule.arrivals, driver_age_ns(driver, now_ns));
    for (; driver->started < driver->settings.slots; driver->started++)
        if (driver->slots[driver->started]->state == SLOT_OFF)
            open_loop_free(driver, driver->started, driver->origin_ns);
    open_loop_send(driver, now_ns);
}

/* Whether a connection was free well before END_NS although requests were due. */
static bool was_late(const struct driver *driver, uint64_t end_ns)
{
    for (uint32_t i = 0; i < driver->slot_count; i++)
        if (driver->slots[i]->state == SLOT_FREE &&
            driver->slots[i]->free_since_ns + LATE_NS < end_ns)
            return true;
    return false;
}

void open_loop_finish(struct driver *driver)
{
    struct budget_share *share = driver->config.share;
    uint64_t end_ns = request_budget_end_ns(share->budget), unsent = 0;
    size_t position = 0;

    if (!driver->open || end_ns == UINT64_MAX)
        return;
    while (schedule_next_ns(&driver->schedule) < end_ns && budget_share_take_unsent(share)) {
        if (driver_is_counted(driver, schedule_next_ns(&driver->schedule)))
            unsent++;
        if (driver->config.scenario_tally != NULL)
            schedule_step(&driver->schedule);
        else
            schedule_take(&driver->schedule, &position, &driver->random);
    }
    tally_count(driver->config.tally,
                was_late(driver, end_ns) ? TALLY_unsent_late : TALLY_unsent_busy, unsent);
}
