/* Wanted against actual: who starts, who leaves, who gets the lanes. */
#include "daemon/master/supervision.h"

#include "common/clock.h"
#include "daemon/base/events.h"
#include "daemon/base/messages.h"

#include <signal.h>

/* Lanes */

static uint32_t list_hands(const struct supervisor *supervisor, worker_test *test,
                           struct dealer_hand *hands)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (test(supervisor, &supervisor->worker[i]))
            hands[found++] = (struct dealer_hand){i, supervisor->worker[i].commands};
    return found;
}

static void deal_lanes(struct supervisor *supervisor)
{
    const struct master *master = supervisor->master;
    struct dealer_hand hands[MOST_WORKERS];
    uint32_t found = 0;

    if (master->config->workers_dispatch == DISPATCH_MASTER)
        return;
    if (supervisor->apart)
        found = list_hands(supervisor, census_old_serves, hands);
    if (found == 0)
        found = list_hands(supervisor, census_serves, hands);
    if (dealer_deal(&supervisor->dealer, master->listeners, hands, found) != 0)
        event_log(LEVEL_ERROR, "cannot deal the listening sockets: out of memory");
}

/* Those that were marked as leaving are told, once others have their lanes. */
static void tell_leavers(struct supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->slots; i++) {
        struct worker_process *worker = &supervisor->worker[i];

        if (worker->state != WORKER_LEAVING || worker->leave_told)
            continue;
        worker->leave_told =
            channel_send(worker->connections, MESSAGE_LEAVE, NULL, 0, -1, false) == 0;
    }
}

/* Workers */

static struct worker_process *lowest_free(struct supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (supervisor->worker[i].state == WORKER_NONE)
            return &supervisor->worker[i];
    return NULL;
}

static bool some_missing(const struct supervisor *supervisor)
{
    return census_count(supervisor, census_current) < supervisor->master->config->workers_processes;
}

static void start_missing(struct supervisor *supervisor)
{
    struct worker_process *worker;

    while (some_missing(supervisor) && backoff_over(&supervisor->backoff, clock_monotonic_ns()) &&
           (worker = lowest_free(supervisor)) != NULL)
        supervisor_happen(supervisor, worker, EVENT_START);
}

/* New workers can't come before old ones go: the tables in shared memory are too small for both. */
static bool needs_room(struct supervisor *supervisor)
{
    return (some_missing(supervisor) && lowest_free(supervisor) == NULL) ||
           census_count(supervisor, census_threadless) > 0;
}

/* The old ones leave when the new ones serve, or one by one where there is no room for both. */
static void replace_old(struct supervisor *supervisor)
{
    struct worker_process *old;

    if (supervisor_is_complete(supervisor)) {
        if (census_highest(supervisor, census_old) != NULL)
            supervisor->owner.replaced(supervisor->master);
        supervisor->apart = false;
        while ((old = census_highest(supervisor, census_old)) != NULL)
            supervisor_happen(supervisor, old, EVENT_LEAVE);
    } else if (needs_room(supervisor) && census_count(supervisor, census_leaving) == 0) {
        supervisor->apart = false;
        if ((old = census_highest(supervisor, census_old)) != NULL)
            supervisor_happen(supervisor, old, EVENT_LEAVE);
    }
}

/* Looks again when the earlier of the two back-offs is over. */
static void plan_retry(struct supervisor *supervisor)
{
    uint64_t now = clock_monotonic_ns(), when = UINT64_MAX, wait;
    struct timeval delay;

    if (some_missing(supervisor) && !backoff_over(&supervisor->backoff, now))
        when = supervisor->backoff.not_before_ns;
    if (supervisor->logger.pid == 0 && !backoff_over(&supervisor->logger.backoff, now) &&
        supervisor->logger.backoff.not_before_ns < when)
        when = supervisor->logger.backoff.not_before_ns;
    if (when == UINT64_MAX)
        return;
    wait = when - now;
    delay = (struct timeval){.tv_sec = (time_t)(wait / NS_PER_S),
                             .tv_usec = (suseconds_t)(wait % NS_PER_S / NS_PER_US) + 1000};
    event_add(supervisor->retry, &delay);
}

static void bring_workers(struct supervisor *supervisor)
{
    start_missing(supervisor);
    while (census_count(supervisor, census_current) > supervisor->master->config->workers_processes)
        supervisor_happen(supervisor, census_highest(supervisor, census_current), EVENT_LEAVE);
    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (census_current(supervisor, &supervisor->worker[i]))
            worker_process_tell_threads(&supervisor->worker[i], supervisor->master);
    replace_old(supervisor);
    deal_lanes(supervisor);
    tell_leavers(supervisor);
}

void supervisor_reconcile(struct supervisor *supervisor)
{
    supervisor_start_logger(supervisor);
    if (!supervisor->stopping)
        bring_workers(supervisor);
    plan_retry(supervisor);
}

/* Changing what is wanted */

uint32_t supervisor_generation(const struct supervisor *supervisor)
{
    return supervisor->generation;
}

void supervisor_renew(struct supervisor *supervisor)
{
    supervisor->generation = ++supervisor->generations;
    supervisor->backoff = (struct backoff){0};
    supervisor->apart = true;
    atomic_store_explicit(&segment_master(&supervisor->master->segment)->generation,
                          supervisor->generation, memory_order_relaxed);
}

void supervisor_revert(struct supervisor *supervisor, uint32_t generation)
{
    supervisor->generation = generation;
    supervisor->backoff = (struct backoff){0};
    atomic_store_explicit(&segment_master(&supervisor->master->segment)->generation, generation,
                          memory_order_relaxed);
}

void supervisor_replace(struct supervisor *supervisor, uint32_t slot)
{
    supervisor->worker[slot].generation = 0;
}

void supervisor_replace_all(struct supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->slots; i++)
        supervisor_replace(supervisor, i);
}

void supervisor_send_away(struct supervisor *supervisor, uint32_t slot)
{
    supervisor_happen(supervisor, &supervisor->worker[slot], EVENT_LEAVE);
}

void supervisor_tell_offload(struct supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (supervisor->worker[i].state != WORKER_NONE)
            worker_process_tell_offload(&supervisor->worker[i], supervisor->master);
}

void supervisor_stop_workers(struct supervisor *supervisor, bool gently)
{
    supervisor->stopping = true;
    supervisor->retiring = gently;
    for (uint32_t i = 0; i < supervisor->slots; i++)
        supervisor_happen(supervisor, &supervisor->worker[i], EVENT_STOP);
}

void supervisor_kill_all(struct supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (supervisor->worker[i].pid > 0)
            kill(supervisor->worker[i].pid, SIGKILL);
}
