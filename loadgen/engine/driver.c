#include "loadgen/engine/driver.h"

#include "common/clock.h"

#include "loadgen/base/events.h"
#include "loadgen/engine/schedule.h"
#include "loadgen/engine/slot_queue.h"
#include "loadgen/engine/virtual_user.h"

#include <stdlib.h>

enum { FIRST_WAVE = 20 };

/* A request that begins this long after it was due counts as late. */
#define LATE_NS (1000 * 1000)

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
    size_t position;           /* in the list (--order each) */
    uint64_t think_ns;         /* recorded, after the request in flight */
    struct event *thinking;    /* NULL without think time */
    struct virtual_user *user; /* NULL without scenarios */
};

struct driver {
    struct driver_config config;
    struct driver_settings settings;
    struct engine *engine;
    struct slot **slots;
    uint32_t slot_count;          /* at least settings.slots */
    uint32_t in_flight, thinking; /* slots */
    uint32_t running;             /* slots that run a scenario */
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

/* Begins REQUEST on an idle slot. */
static void begin_request(struct driver *driver, uint32_t number, const struct request *request,
                          uint64_t due_ns, uint64_t now_ns)
{
    struct slot *slot = driver->slots[number];

    slot->state = SLOT_BUSY;
    slot->counted = is_counted(driver, due_ns);
    slot->begun_ns = now_ns;
    slot->due_ns = due_ns;
    driver->in_flight++;
    if (!leader_of(driver, number)->used) {
        leader_of(driver, number)->used = true;
        tally_count(driver->config.tally, TALLY_clients_used, 1);
    }
    tally_count(tally_of(driver, slot), TALLY_begun, 1);
    driver->config.engine->begin(driver->engine, number, request, now_ns);
}

/* Begins the request of ENTRY on an idle slot. */
static void begin_entry(struct driver *driver, uint32_t number, const struct request_entry *entry,
                        uint64_t due_ns, uint64_t now_ns)
{
    driver->slots[number]->think_ns = entry->think_ns;
    begin_request(driver, number, &driver->config.request_plan->requests[entry->request], due_ns,
                  now_ns);
}

/* Whether the run has stopped: no request begins any more, not even the next one of a scenario. */
static bool is_over(const struct driver *driver, uint64_t now_ns)
{
    return !budget_share_allows(driver->config.share, now_ns);
}

static void check_end(struct driver *driver, uint64_t now_ns)
{
    bool no_more = (driver->exhausted && driver->thinking == 0) ||
                   budget_share_is_exhausted(driver->config.share, now_ns);

    if (driver->in_flight == 0 && (is_over(driver, now_ns) || (no_more && driver->running == 0)))
        event_base_loopbreak(driver->config.base);
}

/* ---- Scenarios ---- */

static bool is_running(const struct slot *slot)
{
    return slot->user != NULL && slot->user->scenario != NULL;
}

/* Counts a step whose request cannot be made as a failed one. */
static void count_unmade(struct driver *driver, struct slot *slot, uint64_t due_ns)
{
    struct transaction transaction = {.error = ERROR_KIND_OTHER};

    slot->counted = is_counted(driver, due_ns);
    tally_count(tally_of(driver, slot), TALLY_begun, 1);
    tally_record(tally_of(driver, slot), &transaction);
    virtual_user_begin_step(slot->user, slot->counted);
    virtual_user_fail_step(slot->user);
    driver->running--;
}

static void start_thinking(struct driver *driver, struct slot *slot, uint64_t us);

/* Begins the step of the scenario that the slot runs. */
static void begin_step(struct driver *driver, struct slot *slot, uint64_t due_ns, uint64_t now_ns)
{
    const struct request *request = virtual_user_request(slot->user);

    if (request == NULL) {
        count_unmade(driver, slot, due_ns);
        start_thinking(driver, slot, 0); /* the loop continues with the slot */
        return;
    }
    begin_request(driver, slot->number, request, due_ns, now_ns);
    virtual_user_begin_step(slot->user, slot->counted);
}

static void begin_scenario(struct driver *driver, struct slot *slot,
                           const struct scenario_start *start, uint64_t due_ns, uint64_t now_ns)
{
    virtual_user_start(slot->user, start, due_ns, is_counted(driver, due_ns));
    driver->running++;
    driver->config.engine->forget(driver->engine, slot->number);
    begin_step(driver, slot, due_ns, now_ns);
}

/* Ends the scenario of SLOT, if it runs one, before its last step. */
static void leave_scenario(struct driver *driver, struct slot *slot)
{
    if (!is_running(slot))
        return;
    virtual_user_leave(slot->user);
    driver->running--;
}

static void turn_off(struct driver *driver, uint32_t number)
{
    leave_scenario(driver, driver->slots[number]);
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
    struct scenario_start start;
    bool begins = false;

    if (first ? budget_share_take_first(share, now_ns) : budget_share_take(share, now_ns)) {
        if (slot->user != NULL)
            begins = request_plan_next_scenario(driver->config.request_plan, &start);
        else
            entry =
                request_plan_next(driver->config.request_plan, &slot->position, &driver->random);
        driver->exhausted = entry == NULL && !begins;
    }
    if (begins)
        begin_scenario(driver, slot, &start, now_ns, now_ns);
    else if (entry != NULL)
        begin_entry(driver, number, entry, now_ns, now_ns);
    else
        slot->state = SLOT_DONE;
}

static void continue_slot(struct driver *driver, uint32_t number, uint64_t now_ns);

/* The think time of a slot is over. */
static void on_think_time_over(evutil_socket_t fd, short events, void *context)
{
    struct slot *slot = context;
    struct driver *driver = slot->driver;
    uint64_t now_ns = clock_monotonic_ns();

    (void)fd;
    (void)events;
    driver->thinking--;
    if (slot->number < driver->settings.slots && is_over(driver, now_ns))
        slot->state = SLOT_DONE;
    else
        continue_slot(driver, slot->number, now_ns);
    driver->config.engine->flush(driver->engine);
    check_end(driver, now_ns);
}

/* The think time after the request that has ended; STEP: its step, or NULL. */
static uint64_t think_us(struct driver *driver, const struct slot *slot,
                         const struct scenario_step *step)
{
    const struct plan *plan = driver->config.plan;
    bool own = step != NULL && step->thinks;
    double min_ms = (double)(own ? step->think_min_ms : plan->think_min_ms);
    double max_ms = (double)(own ? step->think_max_ms : plan->think_max_ms);

    if (plan->think_recorded)
        return slot->think_ns / NS_PER_US;
    return (uint64_t)((min_ms + (max_ms - min_ms) * random_unit(&driver->random)) * 1000);
}

static void start_thinking(struct driver *driver, struct slot *slot, uint64_t us)
{
    const struct timeval wait = timeval_of_us(us);

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

/* Begins what is due at DUE_NS: a request, or a scenario. */
static void begin_due(struct driver *driver, struct slot *slot, uint64_t due_ns, uint64_t now_ns)
{
    struct scenario_start start;

    if (slot->user == NULL) {
        begin_entry(driver, slot->number,
                    schedule_take(&driver->schedule, &slot->position, &driver->random), due_ns,
                    now_ns);
        return;
    }
    schedule_step(&driver->schedule);
    request_plan_next_scenario(driver->config.request_plan, &start); /* no end: no --rows once */
    begin_scenario(driver, slot, &start, due_ns, now_ns);
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

static void count_unsent(struct driver *driver)
{
    struct budget_share *share = driver->config.share;
    uint64_t end_ns = request_budget_end_ns(share->budget), unsent = 0;
    size_t position = 0;

    if (!driver->open || end_ns == UINT64_MAX)
        return;
    while (schedule_next_ns(&driver->schedule) < end_ns && budget_share_take_unsent(share)) {
        if (is_counted(driver, schedule_next_ns(&driver->schedule)))
            unsent++;
        if (driver->config.scenario_tally != NULL)
            schedule_step(&driver->schedule);
        else
            schedule_take(&driver->schedule, &position, &driver->random);
    }
    tally_count(driver->config.tally,
                was_late(driver, end_ns) ? TALLY_unsent_late : TALLY_unsent_busy, unsent);
}

void driver_finish(struct driver *driver)
{
    for (uint32_t i = 0; i < driver->slot_count; i++)
        leave_scenario(driver, driver->slots[i]);
    count_unsent(driver);
}

/* ---- Events ---- */

/* Begins the next step or request on slot NUMBER, which is idle and does not think. */
static void continue_slot(struct driver *driver, uint32_t number, uint64_t now_ns)
{
    struct slot *slot = driver->slots[number];

    if (number >= driver->settings.slots) {
        turn_off(driver, number);
    } else if (is_running(slot)) {
        begin_step(driver, slot, now_ns, now_ns);
    } else if (driver->open) {
        push_free(driver, number, now_ns);
        send_due(driver, now_ns);
    } else {
        begin_closed(driver, number, now_ns, false);
    }
}

/* A request ended on SLOT: continues now, or after the think time. STEP: its step, or NULL. */
static void go_on(struct driver *driver, struct slot *slot, const struct scenario_step *step,
                  uint64_t now_ns)
{
    bool pauses = slot->thinking != NULL && (!driver->open || is_running(slot));
    uint64_t us = pauses ? think_us(driver, slot, step) : 0;

    if (is_running(slot) && is_over(driver, now_ns))
        slot->state = SLOT_DONE;
    else if (slot->number < driver->settings.slots && us > 0)
        start_thinking(driver, slot, us);
    else
        continue_slot(driver, slot->number, now_ns);
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
    const struct scenario_step *step = NULL;

    transaction->service_ns = now_ns - slot->begun_ns;
    transaction->latency_ns = now_ns - slot->due_ns;
    transaction->bad_status =
        !plan_accepts_status(&driver->config.plan->checks, transaction->status);
    tally_record_connection(driver->config.tally, transaction);
    if (is_running(slot)) {
        step = virtual_user_end_step(slot->user, transaction, now_ns);
        driver->running -= is_running(slot) ? 0 : 1;
    }
    tally_record(tally_of(driver, slot), transaction);
    driver->in_flight--;
    driver->last_end_ns = now_ns;
    go_on(driver, slot, step, now_ns);
    check_end(driver, now_ns);
}

static void on_field(void *context, uint32_t slot, struct span name, struct span value)
{
    const struct driver *driver = context;

    if (is_running(driver->slots[slot]))
        virtual_user_see_field(driver->slots[slot]->user, name, value);
}

static void on_body(void *context, uint32_t slot, const char *bytes, size_t length)
{
    const struct driver *driver = context;

    if (is_running(driver->slots[slot]))
        virtual_user_see_body(driver->slots[slot]->user, bytes, length);
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

static void free_slot(struct slot *slot)
{
    if (slot->thinking != NULL)
        event_free(slot->thinking);
    virtual_user_free(slot->user);
    free(slot);
}

static struct slot *make_slot(struct driver *driver)
{
    bool has_user = driver->config.scenario_tally != NULL;
    const struct plan *plan = driver->config.plan;
    bool thinks = has_user || plan->think_max_ms > 0 || plan->think_recorded;
    struct slot *slot = calloc(1, sizeof(*slot));

    if (slot == NULL)
        return NULL;
    slot->driver = driver;
    slot->number = driver->slot_count;
    if (thinks)
        slot->thinking = event_new(driver->config.base, -1, 0, on_think_time_over, slot);
    if (has_user)
        slot->user =
            virtual_user_create(driver->config.request_plan, driver->config.scenario_tally);
    if ((!thinks || slot->thinking != NULL) && (!has_user || slot->user != NULL))
        return slot;
    free_slot(slot);
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
        if (is_running(slot))
            virtual_user_abort_step(slot->user);
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
        .owner = {.connected = on_connected,
                  .ended = on_ended,
                  .field = config->scenario_tally != NULL ? on_field : NULL,
                  .body = config->scenario_tally != NULL ? on_body : NULL,
                  .unsolicited = on_unsolicited,
                  .context = driver},
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
    for (uint32_t i = 0; i < driver->slot_count; i++)
        free_slot(driver->slots[i]);
    if (driver->timer != NULL)
        event_free(driver->timer);
    free(driver->slots);
    slot_queue_free(&driver->free);
    free(driver);
}
