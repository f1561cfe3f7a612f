#include "loadgen/engine/driver_inside.h"

#include "common/clock.h"

#include <stdlib.h>

/* ---- Beginning one request ---- */

bool driver_is_counted(const struct driver *driver, uint64_t now_ns)
{
    return now_ns >= driver->place.share->supply->counted_from_ns;
}

static struct tally *tally_of(const struct driver *driver, const struct slot *slot)
{
    return slot->counted ? driver->place.tally : driver->place.warmup;
}

void driver_begin(struct driver *driver, uint32_t number, const struct request *request,
                  uint64_t due_ns, uint64_t now_ns)
{
    struct slot *slot = driver->slots[number];

    slot->state = SLOT_BUSY;
    slot->counted = driver_is_counted(driver, due_ns);
    slot->begun_ns = now_ns;
    slot->due_ns = due_ns;
    driver->under_way++;
    if (!slot->used) {
        slot->used = true;
        tally_count(driver->place.tally, TALLY_clients_used, 1);
    }
    tally_count(tally_of(driver, slot), TALLY_begun, 1);
    driver->place.engine->begin(driver->engine, number, request, now_ns);
}

/* ---- The end of all ---- */

void driver_look_for_end(struct driver *driver, uint64_t now_ns)
{
    if (driver->under_way == 0 && (driver->no_more || supply_is_over(driver->place.share, now_ns)))
        event_base_loopbreak(driver->place.base);
}

void driver_turn_off(struct driver *driver, uint32_t number)
{
    driver->slots[number]->state = SLOT_OFF;
    driver->place.engine->close(driver->engine, number);
}

/* ---- What a slot does next ---- */

static void go_on(struct driver *driver, uint32_t number, uint64_t now_ns)
{
    if (number >= driver->orders.connections) {
        driver_turn_off(driver, number);
    } else if (driver->open) {
        open_loop_push_free(driver, number, now_ns);
        open_loop_send_due(driver, now_ns);
    } else if (driver->slots[number]->thinking != NULL) {
        closed_loop_think(driver, driver->slots[number]);
    } else {
        closed_loop_begin(driver, number, now_ns, false);
    }
}

void driver_up(struct driver *driver, uint32_t number)
{
    if (driver->slots[number]->came_up)
        return;
    driver->slots[number]->came_up = true;
    tally_count(driver->place.tally, TALLY_clients_up, 1);
}

void driver_ended(struct driver *driver, uint32_t number, struct exchange *exchange,
                  uint64_t now_ns)
{
    struct slot *slot = driver->slots[number];

    exchange->service_ns = now_ns - slot->begun_ns;
    exchange->latency_ns = now_ns - slot->due_ns;
    exchange->bad_status = !plan_is_good_status(&driver->place.plan->checks, exchange->status);
    tally_record_connection(driver->place.tally, exchange);
    tally_record(tally_of(driver, slot), exchange);
    driver->under_way--;
    driver->last_end_ns = now_ns;
    go_on(driver, number, now_ns);
    driver_look_for_end(driver, now_ns);
}

/* ---- Starting ---- */

static void on_timer(evutil_socket_t fd, short events, void *context)
{
    struct driver *driver = context;

    (void)fd;
    (void)events;
    if (driver->open)
        open_loop_send_due(driver, clock_monotonic_ns());
    else
        closed_loop_start_wave(driver);
    driver->place.engine->flush(driver->engine);
    driver_look_for_end(driver, clock_monotonic_ns());
}

void driver_start(struct driver *driver)
{
    driver->origin_ns = driver->place.share->supply->begun_ns;
    if (driver->open)
        open_loop_start(driver);
    else
        closed_loop_start_wave(driver);
    driver->place.engine->flush(driver->engine);
    driver_look_for_end(driver, clock_monotonic_ns());
}

/* ---- Orders ---- */

static void free_slot(struct slot *slot)
{
    if (slot != NULL && slot->thinking != NULL)
        event_free(slot->thinking);
    free(slot);
}

static struct slot *make_slot(struct driver *driver)
{
    struct slot *slot = calloc(1, sizeof(*slot));

    if (slot == NULL)
        return NULL;
    slot->driver = driver;
    slot->number = driver->slot_count;
    if (driver->place.plan->think_most_ms == 0)
        return slot;
    slot->thinking = event_new(driver->place.base, -1, 0, closed_loop_on_thought, slot);
    if (slot->thinking != NULL)
        return slot;
    free(slot);
    return NULL;
}

static bool reserve(struct driver *driver, uint32_t count)
{
    struct slot **grown;

    if (count <= driver->slot_count)
        return true;
    if (!driver->place.engine->reserve(driver->engine, count) ||
        !slot_queue_grow(&driver->free, count))
        return false;
    grown = realloc(driver->slots, count * sizeof(struct slot *));
    if (grown == NULL)
        return false;
    driver->slots = grown;
    while (driver->slot_count < count) {
        struct slot *slot = make_slot(driver);

        if (slot == NULL)
            return false;
        driver->slots[driver->slot_count++] = slot;
    }
    return true;
}

/* Takes slots that are not wanted any more out of the queue, and off. */
static void drop_free_slots(struct driver *driver)
{
    for (uint32_t count = driver->free.length; count > 0; count--) {
        uint32_t number = slot_queue_pop(&driver->free);

        if (number < driver->orders.connections)
            slot_queue_push(&driver->free, number);
        else
            driver_turn_off(driver, number);
    }
}

/* Slots that were reached by the first waves and are wanted (again) begin at once. */
static void start_wanted(struct driver *driver, uint64_t now_ns)
{
    for (uint32_t i = 0; i < driver->orders.connections; i++) {
        struct slot *slot = driver->slots[i];

        if (slot->state != SLOT_OFF)
            continue;
        if (driver->open)
            open_loop_push_free(driver, i, now_ns);
        else
            closed_loop_begin(driver, i, now_ns, false);
    }
    if (driver->started < driver->orders.connections)
        driver->started = driver->orders.connections;
    supply_release(driver->place.share);
}

bool driver_order(struct driver *driver, const struct driver_orders *orders)
{
    uint64_t now_ns = clock_monotonic_ns();
    bool good = reserve(driver, orders->connections);
    uint32_t connections = good ? orders->connections : driver->orders.connections;

    driver->orders = *orders;
    driver->orders.connections = connections;
    drop_free_slots(driver);
    start_wanted(driver, now_ns);
    if (driver->open) {
        arrivals_change(&driver->due.arrivals, &orders->rate, orders->threads,
                        driver_age_ns(driver, now_ns));
        open_loop_send_due(driver, now_ns);
    }
    driver->place.engine->flush(driver->engine);
    driver_look_for_end(driver, now_ns);
    return good;
}

void driver_look(struct driver *driver)
{
    driver_look_for_end(driver, clock_monotonic_ns());
}

/* ---- The end ---- */

void driver_finish(struct driver *driver)
{
    if (driver->open)
        open_loop_finish(driver);
}

void driver_abandon(struct driver *driver)
{
    for (uint32_t i = 0; i < driver->slot_count; i++) {
        struct slot *slot = driver->slots[i];

        if (slot->state != SLOT_BUSY)
            continue;
        if (driver->place.engine->cancel(driver->engine, i))
            tally_count(driver->place.tally, TALLY_connections_opened, 1);
        tally_count(tally_of(driver, slot), TALLY_unanswered, 1);
        slot->state = SLOT_DONE;
    }
    driver->under_way = 0;
    event_base_loopbreak(driver->place.base);
}

uint64_t driver_last_end_ns(const struct driver *driver)
{
    return driver->last_end_ns;
}

const struct error_texts *driver_error_texts(const struct driver *driver)
{
    return driver->place.engine->error_texts(driver->engine);
}

struct driver *driver_create(const struct driver_place *place, const struct driver_orders *orders)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    const struct engine_place engine_place = {place->plan, place->work, place->base, driver,
                                              place->conversation};

    if (driver == NULL)
        return NULL;
    driver->place = *place;
    driver->open = plan_is_open(place->plan);
    driver->random = UINT64_C(0x9e3779b97f4a7c15) * (place->index + 1);
    driver->engine = place->engine->create(&engine_place);
    driver->timer = event_new(place->base, -1, 0, on_timer, driver);
    if (driver->engine == NULL || driver->timer == NULL || !reserve(driver, orders->connections)) {
        driver_destroy(driver);
        return NULL;
    }
    driver->orders = *orders;
    return driver;
}

void driver_destroy(struct driver *driver)
{
    if (driver->engine != NULL)
        driver->place.engine->destroy(driver->engine);
    for (uint32_t i = 0; i < driver->slot_count; i++)
        free_slot(driver->slots[i]);
    if (driver->timer != NULL)
        event_free(driver->timer);
    free(driver->slots);
    slot_queue_free(&driver->free);
    free(driver);
}
