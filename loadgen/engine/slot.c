#include "loadgen/engine/slot.h"

#include "loadgen/base/interrupts.h"

/* Begins REQUEST on an idle slot. */
static void begin_request(struct driver *driver, uint32_t number, const struct request *request,
                          uint64_t due_ns, uint64_t now_ns)
{
    struct slot *slot = driver->slots[number];

    slot->state = SLOT_BUSY;
    slot->counted = driver_is_counted(driver, due_ns);
    slot->begun_ns = now_ns;
    slot->due_ns = due_ns;
    driver->in_flight++;
    if (!slot_leader(driver, number)->used) {
        slot_leader(driver, number)->used = true;
        tally_count(driver->config.tally, TALLY_clients_used, 1);
    }
    tally_count(slot_tally(driver, slot), TALLY_begun, 1);
    driver->config.engine->begin(driver->engine, number, request, now_ns);
}

void slot_begin_entry(struct driver *driver, uint32_t number, const struct request_entry *entry,
                      uint64_t due_ns, uint64_t now_ns)
{
    driver->slots[number]->think_ns = entry->think_ns;
    begin_request(driver, number, &driver->config.request_plan->requests[entry->request], due_ns,
                  now_ns);
}

void slot_think(struct driver *driver, struct slot *slot, uint64_t us)
{
    const struct timeval wait = driver_timeval(us);

    slot->state = SLOT_THINKING;
    driver->thinking++;
    events_add(slot->thinking, &wait);
}

/* Counts a step whose request cannot be made as a failed one. */
static void count_unmade(struct driver *driver, struct slot *slot, uint64_t due_ns)
{
    struct transaction transaction = {.error = ERROR_KIND_OTHER};

    slot->counted = driver_is_counted(driver, due_ns);
    tally_count(slot_tally(driver, slot), TALLY_begun, 1);
    tally_record(slot_tally(driver, slot), &transaction);
    virtual_user_begin_step(slot->user, slot->counted);
    virtual_user_fail_step(slot->user);
    driver->running--;
}

void slot_begin_step(struct driver *driver, struct slot *slot, uint64_t due_ns, uint64_t now_ns)
{
    const struct request *request = virtual_user_request(slot->user);

    if (request == NULL) {
        count_unmade(driver, slot, due_ns);
        slot_think(driver, slot, 0); /* the loop continues with the slot */
        return;
    }
    begin_request(driver, slot->number, request, due_ns, now_ns);
    virtual_user_begin_step(slot->user, slot->counted);
}

void slot_begin_scenario(struct driver *driver, struct slot *slot,
                         const struct scenario_start *start, uint64_t due_ns, uint64_t now_ns)
{
    virtual_user_start(slot->user, start, due_ns, driver_is_counted(driver, due_ns));
    driver->running++;
    driver->config.engine->forget(driver->engine, slot->number);
    slot_begin_step(driver, slot, due_ns, now_ns);
}

void slot_leave_scenario(struct driver *driver, struct slot *slot)
{
    if (!slot_is_running(slot))
        return;
    virtual_user_leave(slot->user);
    driver->running--;
}
