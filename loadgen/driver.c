#include "loadgen/driver.h"

#include "common/clock.h"

#include "loadgen/due.h"
#include "loadgen/slot_queue.h"

#include <stdlib.h>

enum {
    FIRST_WAVE = 20,
    LATE_NS = 1000 * 1000, /* what begins that long after it was due, is noted */
};

enum slot_state {
    SLOT_OFF,      /* not wanted, or not begun yet */
    SLOT_FREE,     /* waits for a request that is due: in the queue of free slots */
    SLOT_THINKING, /* its timer runs */
    SLOT_BUSY,     /* a request is under way */
    SLOT_DONE,     /* there was no more request for it */
};

struct slot {
    struct driver *driver;
    uint32_t number;
    enum slot_state state;
    bool counted;       /* the request under way is counted, not part of the warm-up */
    bool used, came_up; /* ever */
    uint64_t begun_ns, due_ns;
    uint64_t free_since_ns;
    struct event *thinking; /* NULL without think time */
};

struct driver {
    struct driver_place place;
    struct driver_orders orders;
    struct engine *engine;
    struct slot **slots;
    uint32_t slot_count; /* made; at least orders.connections */
    uint32_t under_way;
    uint32_t started;       /* slots that the waves have reached */
    struct slot_queue free; /* in an open loop */
    struct due due;         /* the same */
    bool open;
    bool no_more; /* nothing is due any more */
    uint64_t origin_ns;
    uint64_t last_end_ns;
    uint64_t random;
    struct event *timer; /* open loop: the next request; closed loop: the next wave */
};

/* ---- Beginning one request ---- */

static bool is_counted(const struct driver *driver, uint64_t now_ns)
{
    return now_ns >= driver->place.share->supply->counted_from_ns;
}

static struct tally *tally_of(const struct driver *driver, const struct slot *slot)
{
    return slot->counted ? driver->place.tally : driver->place.warmup;
}

static void begin(struct driver *driver, uint32_t number, const struct request *request,
                  uint64_t due_ns, uint64_t now_ns)
{
    struct slot *slot = driver->slots[number];

    slot->state = SLOT_BUSY;
    slot->counted = is_counted(driver, due_ns);
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

static void look_for_end(struct driver *driver, uint64_t now_ns)
{
    if (driver->under_way == 0 && (driver->no_more || supply_is_over(driver->place.share, now_ns)))
        event_base_loopbreak(driver->place.base);
}

/* ---- Closed loop ---- */

static void turn_off(struct driver *driver, uint32_t number)
{
    driver->slots[number]->state = SLOT_OFF;
    driver->place.engine->close(driver->engine, number);
}

static void begin_closed(struct driver *driver, uint32_t number, uint64_t now_ns, bool first)
{
    struct supply_share *share = driver->place.share;

    if (first ? supply_take_first(share, now_ns) : supply_take(share, now_ns))
        begin(driver, number, work_choose(driver->place.work, &driver->random), now_ns, now_ns);
    else
        driver->slots[number]->state = SLOT_DONE;
}

static void on_thought(evutil_socket_t fd, short events, void *context)
{
    struct slot *slot = context;
    struct driver *driver = slot->driver;
    uint64_t now_ns = clock_monotonic_ns();

    (void)fd;
    (void)events;
    if (slot->number >= driver->orders.connections)
        turn_off(driver, slot->number);
    else
        begin_closed(driver, slot->number, now_ns, false);
    driver->place.engine->flush(driver->engine);
    look_for_end(driver, now_ns);
}

static void think(struct driver *driver, struct slot *slot)
{
    const struct plan *plan = driver->place.plan;
    double range = (double)(plan->think_most_ms - plan->think_least_ms);
    uint64_t us =
        (uint64_t)(((double)plan->think_least_ms + range * random_unit(&driver->random)) * 1000);
    const struct timeval wait = {(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};

    slot->state = SLOT_THINKING;
    event_add(slot->thinking, &wait);
}

/* ---- Open loop ---- */

static void push_free(struct driver *driver, uint32_t number, uint64_t now_ns)
{
    driver->slots[number]->state = SLOT_FREE;
    driver->slots[number]->free_since_ns = now_ns;
    slot_queue_push(&driver->free, number);
}

/* Late is what a free connection had to wait for: then the client was slow, not the server. */
static void note_lateness(struct driver *driver, const struct slot *slot, uint64_t due_ns,
                          uint64_t now_ns)
{
    if (now_ns < due_ns + LATE_NS || !is_counted(driver, due_ns))
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
static void send_due(struct driver *driver, uint64_t now_ns)
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
        begin(driver, number, due_take(&driver->due, &driver->random), due_ns, now_ns);
        due_ns = due_next_ns(&driver->due);
    }
    if (due_ns == UINT64_MAX || !supply_goes_on(driver->place.share, due_ns))
        driver->no_more = true;
    if (!driver->no_more && driver->free.length > 0)
        arm_timer(driver, due_ns);
}

/* ---- What a slot does next ---- */

static void go_on(struct driver *driver, uint32_t number, uint64_t now_ns)
{
    if (number >= driver->orders.connections) {
        turn_off(driver, number);
    } else if (driver->open) {
        push_free(driver, number, now_ns);
        send_due(driver, now_ns);
    } else if (driver->slots[number]->thinking != NULL) {
        think(driver, driver->slots[number]);
    } else {
        begin_closed(driver, number, now_ns, false);
    }
}

static bool is_good_status(const struct plan_checks *checks, uint32_t status)
{
    if (checks->status_count == 0)
        return status >= 200 && status <= 399;
    for (size_t i = 0; i < checks->status_count; i++)
        if (checks->statuses[i] == status)
            return true;
    return false;
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
    exchange->bad_status = !is_good_status(&driver->place.plan->checks, exchange->status);
    tally_record_connection(driver->place.tally, exchange);
    tally_record(tally_of(driver, slot), exchange);
    driver->under_way--;
    driver->last_end_ns = now_ns;
    go_on(driver, number, now_ns);
    look_for_end(driver, now_ns);
}

/* ---- Starting ---- */

static void start_slot(struct driver *driver, uint32_t number, uint64_t now_ns)
{
    if (driver->slots[number]->state != SLOT_OFF)
        return;
    if (driver->open)
        push_free(driver, number, now_ns);
    else
        begin_closed(driver, number, now_ns, true);
}

/*
 * Connections begin in waves, each in a turn of the loop of its own and as large as all before
 * together: the answers to the first are not kept waiting until the last is opened, and opening the
 * last does not wait for long either.
 */
static void start_wave(struct driver *driver)
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

static void on_timer(evutil_socket_t fd, short events, void *context)
{
    struct driver *driver = context;

    (void)fd;
    (void)events;
    if (driver->open)
        send_due(driver, clock_monotonic_ns());
    else
        start_wave(driver);
    driver->place.engine->flush(driver->engine);
    look_for_end(driver, clock_monotonic_ns());
}

static void start_open(struct driver *driver)
{
    const struct driver_place *place = &driver->place;
    uint64_t now_ns = clock_monotonic_ns();

    due_begin(&driver->due, place->work, driver->origin_ns);
    arrivals_begin(&driver->due.arrivals, &driver->orders.rate, place->index,
                   driver->orders.threads, place->plan->poisson);
    if (place->late)
        arrivals_skip(&driver->due.arrivals, (double)(now_ns - driver->origin_ns));
    for (; driver->started < driver->orders.connections; driver->started++)
        start_slot(driver, driver->started, now_ns);
    send_due(driver, now_ns);
}

void driver_start(struct driver *driver)
{
    driver->origin_ns = driver->place.share->supply->begun_ns;
    if (driver->open)
        start_open(driver);
    else
        start_wave(driver);
    driver->place.engine->flush(driver->engine);
    look_for_end(driver, clock_monotonic_ns());
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
    slot->thinking = event_new(driver->place.base, -1, 0, on_thought, slot);
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
            turn_off(driver, number);
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
            push_free(driver, i, now_ns);
        else
            begin_closed(driver, i, now_ns, false);
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
                        (double)(now_ns - driver->origin_ns));
        send_due(driver, now_ns);
    }
    driver->place.engine->flush(driver->engine);
    look_for_end(driver, now_ns);
    return good;
}

void driver_look(struct driver *driver)
{
    look_for_end(driver, clock_monotonic_ns());
}

/* ---- The end ---- */

/* Counts what was due before the run's end and never begun. */
void driver_finish(struct driver *driver)
{
    struct supply_share *share = driver->place.share;
    uint64_t end_ns = supply_end_ns(share->supply), unsent = 0;

    if (!driver->open || end_ns == UINT64_MAX)
        return;
    while (due_next_ns(&driver->due) < end_ns && supply_take_unsent(share)) {
        if (is_counted(driver, due_next_ns(&driver->due)))
            unsent++;
        due_take(&driver->due, &driver->random);
    }
    tally_count(driver->place.tally, TALLY_unsent, unsent);
}

void driver_abandon(struct driver *driver)
{
    for (uint32_t i = 0; i < driver->slot_count; i++) {
        struct slot *slot = driver->slots[i];

        if (slot->state != SLOT_BUSY)
            continue;
        driver->place.engine->cancel(driver->engine, i);
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

const char *driver_other_error(const struct driver *driver)
{
    return driver->place.engine->other_error(driver->engine);
}

struct driver *driver_create(const struct driver_place *place, const struct driver_orders *orders)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    const struct engine_place engine_place = {place->plan, place->work, place->base, driver};

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
