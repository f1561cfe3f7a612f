#include "loadgen/engine/driver.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/engine/page_load.h"
#include "loadgen/engine/slot.h"

#include <stdlib.h>

/* ---- Slots ---- */

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

/* Lets the slot think for US microseconds; then its timer runs. */
static void slot_think(struct driver *driver, struct slot *slot, uint64_t us)
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

static void slot_begin_step(struct driver *driver, struct slot *slot, uint64_t due_ns,
                            uint64_t now_ns)
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

/* Ends the scenario of SLOT, if it runs one, before its last step. */
static void slot_leave_scenario(struct driver *driver, struct slot *slot)
{
    if (!slot_is_running(slot))
        return;
    virtual_user_leave(slot->user);
    driver->running--;
}

enum { FIRST_WAVE = 20 };

/* ---- The end of the run ---- */

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

/* With page loads, the first slot of a browser turns its others off, too. */
static void turn_off(struct driver *driver, uint32_t number)
{
    uint32_t end = number + (driver->config.plan->page_loads ? driver->config.plan->streams : 1);

    slot_leave_scenario(driver, driver->slots[number]);
    browser_leave(driver, driver->slots[number]);
    for (; number < end; number++) {
        driver->slots[number]->state = SLOT_OFF;
        driver->config.engine->close(driver->engine, number);
    }
}

/* ---- Closed loop ---- */

/*
 * Begins the next request of a slot, if there is one. FIRST: the first request of its connection.
 */
static void begin_closed(struct driver *driver, uint32_t number, uint64_t now_ns, bool first)
{
    struct budget_share *share = driver->config.share;
    struct slot *slot = driver->slots[number];
    const struct request_entry *entry = NULL;
    struct scenario_start start;
    bool begins = false;

    if (slot_helps(driver, number)) {
        slot->state = SLOT_WAITING;
        return;
    }
    if (first ? budget_share_take_first(share, now_ns) : budget_share_take(share, now_ns)) {
        if (slot->user != NULL)
            begins = request_plan_next_scenario(driver->config.request_plan, &start);
        else if (slot->browser != NULL)
            begins = true;
        else
            entry = request_plan_next(driver->config.request_plan, &slot->list_position,
                                      &driver->random);
        driver->exhausted = entry == NULL && !begins;
    }
    if (begins && slot->browser != NULL)
        browser_begin_visit(driver, slot, now_ns, now_ns);
    else if (begins)
        slot_begin_scenario(driver, slot, &start, now_ns, now_ns);
    else if (entry != NULL)
        slot_begin_entry(driver, number, entry, now_ns, now_ns);
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

void driver_finish(struct driver *driver)
{
    for (uint32_t i = 0; i < driver->slot_count; i++) {
        slot_leave_scenario(driver, driver->slots[i]);
        browser_leave(driver, driver->slots[i]);
    }
    open_loop_finish(driver);
}

/* ---- Events ---- */

/* Begins the next step or request on slot NUMBER, which is idle and does not think. */
static void continue_slot(struct driver *driver, uint32_t number, uint64_t now_ns)
{
    struct slot *slot = driver->slots[number];

    if (number >= driver->settings.slots) {
        turn_off(driver, number);
    } else if (slot_is_running(slot)) {
        slot_begin_step(driver, slot, now_ns, now_ns);
    } else if (browser_is_visiting(slot)) {
        browser_begin_page(driver, slot, now_ns, now_ns);
    } else if (driver->open) {
        open_loop_free(driver, number, now_ns);
        open_loop_send(driver, now_ns);
    } else {
        begin_closed(driver, number, now_ns, false);
    }
}

/* A request ended on SLOT: continues now, or after the think time. STEP: its step, or NULL. */
static void go_on(struct driver *driver, struct slot *slot, const struct scenario_step *step,
                  uint64_t now_ns)
{
    bool goes_on = slot_is_running(slot) || browser_is_visiting(slot);
    bool pauses = slot->thinking != NULL && (!driver->open || goes_on);
    uint64_t us = pauses ? think_us(driver, slot, step) : 0;

    if (goes_on && is_over(driver, now_ns))
        slot->state = SLOT_DONE;
    else if (slot->number < driver->settings.slots && us > 0)
        slot_think(driver, slot, us);
    else
        continue_slot(driver, slot->number, now_ns);
}

static void driver_on_connected(void *context, uint32_t number)
{
    struct driver *driver = context;
    struct slot *leader = slot_leader(driver, number);

    if (leader->connected)
        return;
    leader->connected = true;
    tally_count(driver->config.tally, TALLY_clients_up, 1);
}

static uint64_t after_origin(const struct driver *driver, uint64_t ns)
{
    return ns > driver->origin_ns ? ns - driver->origin_ns : 0;
}

static void log_request(const struct driver *driver, const struct slot *slot,
                        const struct transaction *transaction, uint64_t now_ns, bool unanswered)
{
    const struct request_log_entry entry = {
        .due_ns = after_origin(driver, slot->due_ns),
        .begun_ns = after_origin(driver, slot->begun_ns),
        .end_ns = after_origin(driver, now_ns),
        .thread = driver->config.thread_index,
        .connection = slot->number / plan_slots_of_connection(driver->config.plan),
        .unanswered = unanswered,
    };

    request_log_add(driver->config.log, &entry, transaction);
}

static void driver_on_ended(void *context, uint32_t number, struct transaction *transaction,
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
    if (slot_is_running(slot)) {
        step = virtual_user_end_step(slot->user, transaction, now_ns);
        driver->running -= slot_is_running(slot) ? 0 : 1;
    }
    tally_record(slot_tally(driver, slot), transaction);
    if (driver->config.log != NULL)
        log_request(driver, slot, transaction, now_ns, false);
    driver->in_flight--;
    driver->last_end_ns = now_ns;
    if (driver->config.plan->page_loads)
        slot = browser_end_request(driver, slot, transaction, now_ns);
    if (slot != NULL)
        go_on(driver, slot, step, now_ns);
    check_end(driver, now_ns);
}

static void driver_on_field(void *context, uint32_t slot, struct span name, struct span value)
{
    const struct driver *driver = context;

    if (slot_is_running(driver->slots[slot]))
        virtual_user_see_field(driver->slots[slot]->user, name, value);
}

static void driver_on_body(void *context, uint32_t slot, const char *bytes, size_t length)
{
    const struct driver *driver = context;

    if (driver->config.plan->page_loads)
        browser_see_body(driver, driver->slots[slot]);
    else if (slot_is_running(driver->slots[slot]))
        virtual_user_see_body(driver->slots[slot]->user, bytes, length);
}

static void driver_on_unsolicited(void *context)
{
    const struct driver *driver = context;

    tally_count(driver->config.tally, TALLY_connections_unsolicited, 1);
}

static void driver_on_timer(evutil_socket_t fd, short events, void *context)
{
    struct driver *driver = context;

    (void)fd;
    (void)events;
    if (driver->open)
        open_loop_send(driver, clock_monotonic_ns());
    else
        start_wave(driver);
    driver->config.engine->flush(driver->engine);
    check_end(driver, clock_monotonic_ns());
}

void driver_start(struct driver *driver)
{
    driver->origin_ns = driver->config.share->budget->begun_ns;
    if (driver->open)
        open_loop_start(driver);
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
    browser_free(slot->browser);
    free(slot);
}

static struct slot *make_slot(struct driver *driver)
{
    const struct plan *plan = driver->config.plan;
    bool has_user = driver->config.request_plan->scenarios.count > 0;
    bool has_browser = plan->page_loads && !slot_helps(driver, driver->slot_count);
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
    if (has_browser)
        slot->browser = browser_create(driver, slot);
    if ((!thinks || slot->thinking != NULL) && (!has_user || slot->user != NULL) &&
        (!has_browser || slot->browser != NULL))
        return slot;
    free_slot(slot);
    return NULL;
}

static bool reserve_slots(struct driver *driver, uint32_t count)
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
            open_loop_free(driver, i, now_ns);
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
    bool reserved = reserve_slots(driver, settings->slots);
    uint32_t slots = reserved ? settings->slots : driver->settings.slots;

    driver->settings = *settings;
    driver->settings.slots = slots;
    drop_free_slots(driver);
    start_slots(driver, now_ns);
    if (driver->open) {
        arrivals_change(&driver->schedule.arrivals, &settings->rate, settings->threads,
                        driver_age_ns(driver, now_ns));
        open_loop_send(driver, now_ns);
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
        tally_count(slot_tally(driver, slot), TALLY_unanswered, 1);
        if (driver->config.log != NULL)
            log_request(driver, slot, &(struct transaction){.error = ERROR_KIND_NONE},
                        clock_monotonic_ns(), true);
        if (slot_is_running(slot))
            virtual_user_abort_step(slot->user);
        slot->state = SLOT_DONE;
    }
    driver->in_flight = 0;
    event_base_loopbreak(driver->config.base);
}

uint64_t driver_last_due_ns(const struct driver *driver)
{
    return driver->last_due_ns;
}

uint64_t driver_last_end_ns(const struct driver *driver)
{
    return driver->last_end_ns;
}

uint64_t driver_random(const struct driver_config *config, enum random_use use)
{
    return random_begin(config->plan->seed,
                        (uint64_t)config->thread_index * RANDOM_USES + (uint64_t)use);
}

struct driver *driver_create(const struct driver_config *config,
                             const struct driver_settings *settings)
{
    struct driver *driver = calloc(1, sizeof(*driver));
    bool has_users = config->request_plan->scenarios.count > 0;
    const struct engine_config engine_config = {
        .plan = config->plan,
        .request_plan = config->request_plan,
        .base = config->base,
        .owner = {.connected = driver_on_connected,
                  .ended = driver_on_ended,
                  .field = has_users ? driver_on_field : NULL,
                  .body = has_users || config->plan->page_loads ? driver_on_body : NULL,
                  .unsolicited = driver_on_unsolicited,
                  .context = driver},
        .error_texts = config->error_texts,
        .negotiations = config->negotiations,
        .transcript = config->transcript,
    };

    if (driver == NULL)
        return NULL;
    driver->config = *config;
    driver->open = plan_is_open(config->plan);
    driver->random = driver_random(config, RANDOM_OF_DRIVER);
    driver->engine = config->engine->create(&engine_config);
    driver->timer = event_new(config->base, -1, 0, driver_on_timer, driver);
    if (driver->engine == NULL || driver->timer == NULL ||
        !reserve_slots(driver, settings->slots)) {
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
