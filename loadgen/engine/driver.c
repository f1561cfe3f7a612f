#include "loadgen/engine/driver.h"

#include "common/clock.h"

#include "loadgen/base/events.h"
#include "loadgen/engine/slot_queue.h"

#include <math.h>
#include <stdlib.h>

enum { FIRST_WAVE = 20 };

/* A request that begins this long after it was due counts as late. */
#define LATE_NS (1000 * 1000)

/* The due times and requests of an open loop: from the rate, or from a replayed log. */
struct schedule {
    struct request_plan *request_plan;
    uint64_t origin_ns;                /* the run's begin, monotonic */
    struct arrivals arrivals;          /* by rate */
    const struct request_entry *entry; /* if the list ends: the next one; NULL: none is left */
    bool ends;                         /* the list ends */
    bool replay;
};

enum slot_state {
    SLOT_OFF,      /* not in use, or not started yet */
    SLOT_FREE,     /* open loop: in the queue of free slots */
    SLOT_THINKING, /* its timer runs */
    SLOT_BUSY,     /* a request is in flight */
    SLOT_DONE,     /* the budget is used up */
};

struct slot {
    struct driver *driver;
    uint32_t number;
    enum slot_state state;
    bool counted;         /* the request in flight is not part of the warm-up */
    bool used, connected; /* ever; of the first slot of each connection */
    uint64_t begun_ns, due_ns;
    uint64_t free_since_ns;
    size_t position;        /* in the list (--order each) */
    uint64_t think_ns;      /* recorded, after the request in flight */
    struct event *thinking; /* NULL without think time */
};

struct driver {
    struct driver_config config;
    struct driver_settings settings;
    struct engine *engine;
    struct slot **slots;
    uint32_t slot_count;          /* at least settings.slots */
    uint32_t in_flight, thinking; /* slots */
    uint32_t started;             /* slots that the waves have reached */
    struct slot_queue free;       /* open loop */
    struct schedule schedule;     /* open loop */
    bool open;
    bool exhausted; /* no more requests: the list or the schedule has ended */
    uint64_t origin_ns;
    uint64_t last_end_ns;
    uint64_t random;
    struct event *timer; /* for the next request (open loop) or the next wave (closed loop) */
};

static struct timeval timeval_of_us(uint64_t us)
{
    return (struct timeval){(time_t)(us / 1000000), (suseconds_t)(us % 1000000)};
}

/* ---- The schedule of an open loop ---- */

/* Sets the next entry of a list that ends. */
static void fetch_entry(struct schedule *schedule, uint64_t *random)
{
    size_t unused = 0; /* such a list has no positions of slots */

    schedule->entry = schedule->replay ? request_plan_take_entry(schedule->request_plan)
                                       : request_plan_next(schedule->request_plan, &unused, random);
}

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

/* Removes and returns the next request, which must exist. POSITION: of its slot. */
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

/* ---- One request ---- */

/* Time since the origin; 0 before it: an open loop starts shortly before its origin. */
static double age_ns(const struct driver *driver, uint64_t now_ns)
{
    return now_ns > driver->origin_ns ? (double)(now_ns - driver->origin_ns) : 0;
}

/* Whether a request due at DUE_NS is counted, not part of the warm-up. */
static bool is_counted(const struct driver *driver, uint64_t due_ns)
{
    return due_ns >= driver->config.share->budget->counted_from_ns;
}

/* The first slot of the connection that slot NUMBER uses. */
static struct slot *leader_of(const struct driver *driver, uint32_t number)
{
    return driver->slots[number - number % driver->config.plan->streams];
}

static struct tally *tally_of(const struct driver *driver, const struct slot *slot)
{
    return slot->counted ? driver->config.tally : driver->config.warmup;
}

/* Begins the request of ENTRY on an idle slot. */
static void begin_request(struct driver *driver, uint32_t number, const struct request_entry *entry,
                          uint64_t due_ns, uint64_t now_ns)
{
    struct slot *slot = driver->slots[number];
    const struct request *request = &driver->config.request_plan->requests[entry->request];

    slot->state = SLOT_BUSY;
    slot->counted = is_counted(driver, due_ns);
    slot->begun_ns = now_ns;
    slot->due_ns = due_ns;
    slot->think_ns = entry->think_ns;
    driver->in_flight++;
    if (!leader_of(driver, number)->used) {
        leader_of(driver, number)->used = true;
        tally_count(driver->config.tally, TALLY_clients_used, 1);
    }
    tally_count(tally_of(driver, slot), TALLY_begun, 1);
    driver->config.engine->begin(driver->engine, number, request, now_ns);
}

static void check_end(struct driver *driver, uint64_t now_ns)
{
    if (driver->in_flight == 0 && ((driver->exhausted && driver->thinking == 0) ||
                                   budget_share_is_exhausted(driver->config.share, now_ns)))
        event_base_loopbreak(driver->config.base);
}

static void turn_off(struct driver *driver, uint32_t number)
{
    driver->slots[number]->state = SLOT_OFF;
    driver->config.engine->close(driver->engine, number);
}

/* ---- Closed loop ---- */

/* Begins the next request of a slot, if there is one. FIRST: the first request of its connection. */
static void begin_closed(struct driver *driver, uint32_t number, uint64_t now_ns, bool first)
{
    struct budget_share *share = driver->config.share;
    struct slot *slot = driver->slots[number];
    const struct request_entry *entry = NULL;

    if (first ? budget_share_take_first(share, now_ns) : budget_share_take(share, now_ns)) {
        entry = request_plan_next(driver->config.request_plan, &slot->position, &driver->random);
        driver->exhausted = entry == NULL;
    }
    if (entry != NULL)
        begin_request(driver, number, entry, now_ns, now_ns);
    else
        slot->state = SLOT_DONE;
}

/* The think time of a slot is over. */
static void on_think_time_over(evutil_socket_t fd, short events, void *context)
{
    struct slot *slot = context;
    struct driver *driver = slot->driver;
    uint64_t now_ns = clock_monotonic_ns();

    (void)fd;
    (void)events;
    driver->thinking--;
    if (slot->number >= driver->settings.slots)
        turn_off(driver, slot->number);
    else
        begin_closed(driver, slot->number, now_ns, false);
    driver->config.engine->flush(driver->engine);
    check_end(driver, now_ns);
}

static void start_thinking(struct driver *driver, struct slot *slot)
{
    const struct plan *plan = driver->config.plan;
    double range = (double)(plan->think_max_ms - plan->think_min_ms);
    double think_ms = (double)plan->think_min_ms + range * random_unit(&driver->random);
    const struct timeval wait = timeval_of_us(plan->think_recorded ? slot->think_ns / NS_PER_US
                                                                   : (uint64_t)(think_ms * 1000));

    slot->state = SLOT_THINKING;
    driver->thinking++;
    events_add(slot->thinking, &wait);
}

/*
 * Connections start in waves, one per loop iteration, each as large as all previous ones together:
 * responses are read between the waves, and N connections take only log2(N) waves.
 */
static void start_wave(struct driver *driver)
{
    uint32_t end = driver->started > 0 ? 2 * driver->started : FIRST_WAVE;
    const struct timeval now = {0, 0};

    end = end < driver->settings.slots ? end : driver->settings.slots;
    for (; driver->started < end; driver->started++)
        if (driver->slots[driver->started]->state == SLOT_OFF)
            begin_closed(driver, driver->started, clock_monotonic_ns(),
                         driver->started % driver->config.plan->streams == 0);
    if (driver->started < driver->settings.slots)
        events_add(driver->timer, &now);
    else
        budget_share_release(driver->config.share);
}

/* ---- Open loop ---- */

static void push_free(struct driver *driver, uint32_t number, uint64_t now_ns)
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
    if (now_ns < due_ns + LATE_NS || !is_counted(driver, due_ns))
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
    const struct timeval wait = timeval_of_us(us);

    events_add(driver->timer, &wait);
}

/* Begins all requests that are due while slots are free, and arms the timer for the next one. */
static void send_due(struct driver *driver, uint64_t now_ns)
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
        begin_request(driver, number,
                      schedule_take(schedule, &driver->slots[number]->position, &driver->random),
                      due_ns, now_ns);
        due_ns = schedule_next_ns(schedule);
    }
    if (due_ns == UINT64_MAX)
        driver->exhausted = true;
    /* If the next request is due after the deadline, the run still lasts until the deadline. */
    if (!driver->exhausted && driver->free.length > 0 &&
        budget_share_allows(driver->config.share, due_ns))
        arm_timer(driver, due_ns);
}

static void start_open(struct driver *driver)
{
    const struct driver_config *config = &driver->config;
    uint64_t now_ns = clock_monotonic_ns();

    schedule_begin(&driver->schedule, config->request_plan, driver->origin_ns, &driver->random);
    arrivals_begin(&driver->schedule.arrivals, &driver->settings.rate, config->index,
                   driver->settings.threads, config->plan->poisson);
    if (config->late)
        arrivals_skip(&driver->schedule.arrivals, age_ns(driver, now_ns));
    for (; driver->started < driver->settings.slots; driver->started++)
        if (driver->slots[driver->started]->state == SLOT_OFF)
            push_free(driver, driver->started, driver->origin_ns);
    send_due(driver, now_ns);
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

void driver_finish(struct driver *driver)
{
    struct budget_share *share = driver->config.share;
    uint64_t end_ns = request_budget_end_ns(share->budget), unsent = 0;
    size_t position = 0;

    if (!driver->open || end_ns == UINT64_MAX)
        return;
    while (schedule_next_ns(&driver->schedule) < end_ns && budget_share_take_unsent(share)) {
        if (is_counted(driver, schedule_next_ns(&driver->schedule)))
            unsent++;
        schedule_take(&driver->schedule, &position, &driver->random);
    }
    tally_count(driver->config.tally,
                was_late(driver, end_ns) ? TALLY_unsent_late : TALLY_unsent_busy, unsent);
}

/* ---- Events ---- */

/* A request ended on slot NUMBER: begins the next one, now or later. */
static void continue_slot(struct driver *driver, uint32_t number, uint64_t now_ns)
{
    if (number >= driver->settings.slots) {
        turn_off(driver, number);
    } else if (driver->open) {
        push_free(driver, number, now_ns);
        send_due(driver, now_ns);
    } else if (driver->slots[number]->thinking != NULL) {
        start_thinking(driver, driver->slots[number]);
    } else {
        begin_closed(driver, number, now_ns, false);
    }
}

static void on_connected(void *context, uint32_t number)
{
    struct driver *driver = context;
    struct slot *leader = leader_of(driver, number);

    if (leader->connected)
        return;
    leader->connected = true;
    tally_count(driver->config.tally, TALLY_clients_up, 1);
}

static void on_ended(void *context, uint32_t number, struct transaction *transaction,
                     uint64_t now_ns)
{
    struct driver *driver = context;
    struct slot *slot = driver->slots[number];

    transaction->service_ns = now_ns - slot->begun_ns;
    transaction->latency_ns = now_ns - slot->due_ns;
    transaction->bad_status =
        !plan_accepts_status(&driver->config.plan->checks, transaction->status);
    tally_record_connection(driver->config.tally, transaction);
    tally_record(tally_of(driver, slot), transaction);
    driver->in_flight--;
    driver->last_end_ns = now_ns;
    continue_slot(driver, number, now_ns);
    check_end(driver, now_ns);
}

static void on_unsolicited(void *context)
{
    const struct driver *driver = context;

    tally_count(driver->config.tally, TALLY_connections_unsolicited, 1);
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
    driver->config.engine->flush(driver->engine);
    check_end(driver, clock_monotonic_ns());
}

void driver_start(struct driver *driver)
{
    driver->origin_ns = driver->config.share->budget->begun_ns;
    if (driver->open)
        start_open(driver);
    else
        start_wave(driver);
    driver->config.engine->flush(driver->engine);
    check_end(driver, clock_monotonic_ns());
}

void driver_check_end(struct driver *driver)
{
    check_end(driver, clock_monotonic_ns());
}

/* ---- Settings ---- */

static struct slot *make_slot(struct driver *driver)
{
    struct slot *slot = calloc(1, sizeof(*slot));

    if (slot == NULL)
        return NULL;
    slot->driver = driver;
    slot->number = driver->slot_count;
    if (driver->config.plan->think_max_ms == 0 && !driver->config.plan->think_recorded)
        return slot;
    slot->thinking = event_new(driver->config.base, -1, 0, on_think_time_over, slot);
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
    if (!driver->config.engine->reserve(driver->engine, count) ||
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

/* Turns off the free slots that the settings no longer include. */
static void drop_free_slots(struct driver *driver)
{
    for (uint32_t count = driver->free.length; count > 0; count--) {
        uint32_t number = slot_queue_pop(&driver->free);

        if (number < driver->settings.slots)
            slot_queue_push(&driver->free, number);
        else
            turn_off(driver, number);
    }
}

/* Starts all slots of the settings that are off, at once instead of in waves. */
static void start_slots(struct driver *driver, uint64_t now_ns)
{
    for (uint32_t i = 0; i < driver->settings.slots; i++) {
        if (driver->slots[i]->state != SLOT_OFF)
            continue;
        if (driver->open)
            push_free(driver, i, now_ns);
        else
            begin_closed(driver, i, now_ns, false);
    }
    if (driver->started < driver->settings.slots)
        driver->started = driver->settings.slots;
    budget_share_release(driver->config.share);
}

bool driver_apply(struct driver *driver, const struct driver_settings *settings)
{
    uint64_t now_ns = clock_monotonic_ns();
    bool reserved = reserve(driver, settings->slots);
    uint32_t slots = reserved ? settings->slots : driver->settings.slots;

    driver->settings = *settings;
    driver->settings.slots = slots;
    drop_free_slots(driver);
    start_slots(driver, now_ns);
    if (driver->open) {
        arrivals_change(&driver->schedule.arrivals, &settings->rate, settings->threads,
                        age_ns(driver, now_ns));
        send_due(driver, now_ns);
    }
    driver->config.engine->flush(driver->engine);
    check_end(driver, now_ns);
    return reserved;
}

/* ---- Life cycle ---- */

void driver_abort(struct driver *driver)
{
    for (uint32_t i = 0; i < driver->slot_count; i++) {
        struct slot *slot = driver->slots[i];

        if (slot->state != SLOT_BUSY)
            continue;
        if (driver->config.engine->cancel(driver->engine, i))
            tally_count(driver->config.tally, TALLY_connections_opened, 1);
        tally_count(tally_of(driver, slot), TALLY_unanswered, 1);
        slot->state = SLOT_DONE;
    }
    driver->in_flight = 0;
    event_base_loopbreak(driver->config.base);
}

uint64_t driver_last_end_ns(const struct driver *driver)
{
    return driver->last_end_ns;
}

const struct error_texts *driver_error_texts(const struct driver *driver)
{
    return driver->config.engine->error_texts(driver->engine);
}

const struct negotiations *driver_negotiations(const struct driver *driver)
{
    return driver->config.engine->negotiations(driver->engine);
}

struct driver *driver_create(const struct driver_config *config,
                             const struct driver_settings *settings)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    const struct engine_config engine_config = {
        .plan = config->plan,
        .request_plan = config->request_plan,
        .base = config->base,
        .owner = {on_connected, on_ended, on_unsolicited, driver},
        .transcript = config->transcript,
    };

    if (driver == NULL)
        return NULL;
    driver->config = *config;
    driver->open = plan_is_open(config->plan);
    driver->random = UINT64_C(0x9e3779b97f4a7c15) * (config->index + 1);
    driver->engine = config->engine->create(&engine_config);
    driver->timer = event_new(config->base, -1, 0, on_timer, driver);
    if (driver->engine == NULL || driver->timer == NULL || !reserve(driver, settings->slots)) {
        driver_destroy(driver);
        return NULL;
    }
    driver->settings = *settings;
    return driver;
}

void driver_destroy(struct driver *driver)
{
    if (driver->engine != NULL)
        driver->config.engine->destroy(driver->engine);
    for (uint32_t i = 0; i < driver->slot_count; i++) {
        if (driver->slots[i]->thinking != NULL)
            event_free(driver->slots[i]->thinking);
        free(driver->slots[i]);
    }
    if (driver->timer != NULL)
        event_free(driver->timer);
    free(driver->slots);
    slot_queue_free(&driver->free);
    free(driver);
}
