#include "loadgen/engine/driver_inside.h"

#include "common/clock.h"

enum { FIRST_WAVE = 20 };

void closed_loop_begin(struct driver *driver, uint32_t number, uint64_t now_ns, bool first)
{
    struct supply_share *share = driver->place.share;

    if (first ? supply_take_first(share, now_ns) : supply_take(share, now_ns))
        driver_begin(driver, number, work_choose(driver->place.work, &driver->random), now_ns,
                     now_ns);
    else
        driver->slots[number]->state = SLOT_DONE;
}

void closed_loop_on_thought(evutil_socket_t fd, short events, void *context)
{
    struct slot *slot = context;
    struct driver *driver = slot->driver;
    uint64_t now_ns = clock_monotonic_ns();

    (void)fd;
    (void)events;
    if (slot->number >= driver->orders.connections)
        driver_turn_off(driver, slot->number);
    else
        closed_loop_begin(driver, slot->number, now_ns, false);
    driver->place.engine->flush(driver->engine);
    driver_look_for_end(driver, now_ns);
}

void closed_loop_think(struct driver *driver, struct slot *slot)
{
    const struct plan *plan = driver->place.plan;
    double range = (double)(plan->think_most_ms - plan->think_least_ms);
    uint64_t us =
        (uint64_t)(((double)plan->think_least_ms + range * random_unit(&driver->random)) * 1000);
    const struct timeval wait = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};

    slot->state = SLOT_THINKING;
    event_add(slot->thinking, &wait);
}

static void start_slot(struct driver *driver, uint32_t number, uint64_t now_ns)
{
    if (driver->slots[number]->state == SLOT_OFF)
        closed_loop_begin(driver, number, now_ns, true);
}

/*
 * Connections begin in waves, each in a turn of the loop of its own and as large as all before
 * together: the answers to the first are not kept waiting until the last is opened, and opening the
 * last does not wait for long either.
 */
void closed_loop_start_wave(struct driver *driver)
{
    uint32_t end = driver->started > 0 ? 2 * driver->started : FIRST_WAVE;
    const struct timeval now = {0, 0};

    end = end < driver->orders.connections ? end : driver->orders.connections;
    for (; driver->started < end; driver->started++)
        start_slot(driver, driver->started, clock_monotonic_ns());
    if (driver->started < driver->orders.connections)
        event_add(driver->timer, &now);
    else
        supply_release(driver->place.share);
}
