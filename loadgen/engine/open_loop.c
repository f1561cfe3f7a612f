#include "loadgen/engine/driver_inside.h"

#include "common/clock.h"

/* What begins that long after it was due, is noted. */
#define LATE_NS (1000 * 1000)

void open_loop_push_free(struct driver *driver, uint32_t number, uint64_t now_ns)
{
    driver->slots[number]->state = SLOT_FREE;
    driver->slots[number]->free_since_ns = now_ns;
    slot_queue_push(&driver->free, number);
}

/* Late is what a free connection had to wait for: then the client was slow, not the server. */
static void note_lateness(struct driver *driver, const struct slot *slot, uint64_t due_ns,
                          uint64_t now_ns)
{
    if (now_ns < due_ns + LATE_NS || !driver_is_counted(driver, due_ns))
        return;
    if (slot->free_since_ns + LATE_NS < now_ns)
        tally_count(driver->place.tally, TALLY_late, 1);
    else
        tally_count(driver->place.tally, TALLY_waited, 1);
}

static void arm_timer(struct driver *driver, uint64_t due_ns)
{
    uint64_t now_ns = clock_monotonic_ns();
    uint64_t us = due_ns > now_ns ? (due_ns - now_ns + NS_PER_US - 1) / NS_PER_US : 0;
    const struct timeval wait = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};

    event_add(driver->timer, &wait);
}

/* Begins all that is due while there are free connections, and waits for the next. */
void open_loop_send_due(struct driver *driver, uint64_t now_ns)
{
    uint64_t due_ns = due_next_ns(&driver->due);

    while (driver->free.length > 0 && due_ns <= now_ns && !driver->no_more) {
        uint32_t number;

        if (!supply_take_due(driver->place.share, due_ns, now_ns)) {
            driver->no_more = true;
            break;
        }
        number = slot_queue_pop(&driver->free);
        note_lateness(driver, driver->slots[number], due_ns, now_ns);
        driver_begin(driver, number, due_take(&driver->due, &driver->random), due_ns, now_ns);
        due_ns = due_next_ns(&driver->due);
    }
    if (due_ns == UINT64_MAX)
        driver->no_more = true;
    /* What is due behind the end keeps nobody from waiting for it: the run is as long as was said. */
    if (!driver->no_more && driver->free.length > 0 && supply_goes_on(driver->place.share, due_ns))
        arm_timer(driver, due_ns);
}

void open_loop_start(struct driver *driver)
{
    const struct driver_place *place = &driver->place;
    uint64_t now_ns = clock_monotonic_ns();

    due_begin(&driver->due, place->work, driver->origin_ns);
    arrivals_begin(&driver->due.arrivals, &driver->orders.rate, place->index,
                   driver->orders.threads, place->plan->poisson);
    if (place->late)
        arrivals_skip(&driver->due.arrivals, driver_age_ns(driver, now_ns));
    for (; driver->started < driver->orders.connections; driver->started++)
        if (driver->slots[driver->started]->state == SLOT_OFF)
            open_loop_push_free(driver, driver->started, driver->origin_ns);
    open_loop_send_due(driver, now_ns);
}

/* Whether a connection was free for long before END_NS, and what was due was not begun on it. */
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
    struct supply_share *share = driver->place.share;
    uint64_t end_ns = supply_end_ns(share->supply), unsent = 0;

    if (end_ns == UINT64_MAX)
        return;
    while (due_next_ns(&driver->due) < end_ns && supply_take_unsent(share)) {
        if (driver_is_counted(driver, due_next_ns(&driver->due)))
            unsent++;
        due_take(&driver->due, &driver->random);
    }
    tally_count(driver->place.tally,
                was_late(driver, end_ns) ? TALLY_unsent_late : TALLY_unsent_busy, unsent);
}
