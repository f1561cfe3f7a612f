#include "loadgen/engine/slot.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/engine/page_load.h"

#include <math.h>
#include <stdlib.h>

/* ---- What is due, and when ---- */

/* Sets the next entry of a list that ends. */
static void fetch_entry(struct schedule *schedule, uint64_t *random)
{
    size_t unused = 0; /* such a list has no positions of slots */

    schedule->entry = schedule->replay ? request_plan_take_entry(schedule->request_plan)
                                       : request_plan_next(schedule->request_plan, &unused, random);
}

/* The arrivals must be begun by the caller. */
static void schedule_begin(struct schedule *schedule, struct request_plan *request_plan,
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

/* When the next request is due, monotonic ns; UINT64_MAX: there is none. */
static uint64_t schedule_next_ns(const struct schedule *schedule)
{
    if (schedule->ends && schedule->entry == NULL)
        return UINT64_MAX;
    if (schedule->replay)
        return schedule->origin_ns + schedule->entry->due_ns;
    return isinf(schedule->arrivals.next_ns)
               ? UINT64_MAX
               : schedule->origin_ns + (uint64_t)schedule->arrivals.next_ns;
}

/* Removes and returns the next request, which must exist. *POSITION is that of its slot. */
static const struct request_entry *schedule_take(struct schedule *schedule, size_t *position,
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

/* Removes the next start of a scenario. */
static void schedule_step(struct schedule *schedule)
{
    arrivals_step(&schedule->arrivals);
}

/* ---- Free slots ---- */

bool slot_queue_grow(struct slot_queue *queue, uint32_t capacity)
{
    uint32_t *ring;

    if (capacity <= queue->capacity)
        return true;
    ring = malloc(capacity * sizeof(*ring));
    if (ring == NULL)
        return false;
    for (uint32_t i = 0; i < queue->length; i++)
        ring[i] = queue->ring[(queue->head + i) % queue->capacity];
    free(queue->ring);
    *queue = (struct slot_queue){ring, capacity, 0, queue->length};
    return true;
}

void slot_queue_push(struct slot_queue *queue, uint32_t slot)
{
    queue->ring[(queue->head + queue->length++) % queue->capacity] = slot;
}

uint32_t slot_queue_pop(struct slot_queue *queue)
{
    uint32_t slot = queue->ring[queue->head];

    queue->head = (queue->head + 1) % queue->capacity;
    queue->length--;
    return slot;
}

void slot_queue_free(struct slot_queue *queue)
{
    free(queue->ring);
    *queue = (struct slot_queue){0};
}

/* A request that begins this long after it was due counts as late. */
#define LATE_NS (1000 * 1000)

void open_loop_free(struct driver *driver, uint32_t number, uint64_t now_ns)
{
    if (slot_helps(driver, number)) {
        driver->slots[number]->state = SLOT_WAITING;
        return;
    }
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

static void arm_due_timer(struct driver *driver, uint64_t due_ns)
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

    driver->last_due_ns = due_ns;
    if (slot->browser != NULL) {
        schedule_step(&driver->schedule);
        browser_begin_visit(driver, slot, due_ns, now_ns);
        return;
    }
    if (slot->user == NULL) {
        slot_begin_entry(driver, slot->number,
                         schedule_take(&driver->schedule, &slot->list_position, &driver->random),
                         due_ns, now_ns);
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
        arm_due_timer(driver, due_ns);
}

void open_loop_start(struct driver *driver)
{
    const struct driver_config *config = &driver->config;
    uint64_t now_ns = clock_monotonic_ns();

    schedule_begin(&driver->schedule, config->request_plan, driver->origin_ns, &driver->random);
    arrivals_begin(&driver->schedule.arrivals, &driver->settings.rate, config->thread_index,
                   driver->settings.threads,
                   config->plan->poisson ? driver_random(config, RANDOM_OF_ARRIVALS) : 0);
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
