/*
 * Connections follow the threads: keeps the load of a worker's threads even by moving connections
 * between them, after a resize at once, otherwise when the load stays uneven
 * (daemon/base/balance.h). Also gives connections to other workers, as the master orders.
 *
 *   look ──struct give──▶ giving thread ──connection──▶ main thread ──connection──▶ taking thread
 *                              └──struct give──▶ deliver_given()
 *
 * It looks again only when all connections of the last look have arrived. The threads publish their
 * numbers of connections; their CPU time is the kernel's. The worker's main thread.
 */
#include "common/clock.h"
#include "common/macros.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/worker/internal.h"

#include <stdlib.h>

enum { TRANSIT_MS = 5 }; /* time to wait for connections that are being moved */

static uint64_t gauge(const struct serving_thread *thread, enum metric metric)
{
    return metric_get(thread->loop.context.metrics, metric);
}

bool balancer_is_moving(const struct worker *worker)
{
    bool moving = worker->balancer.gives > 0;

    for (uint32_t i = 0; i < worker->count; i++)
        moving |= thread_in_transit(worker->threads[i]) > 0;
    return moving;
}

/* Orders */

/* A thread has executed the order. */
static void deliver_given(struct mailbox_item *item, void *receiver)
{
    struct give *give = CONTAINER_OF(item, struct give, item);
    struct worker *worker = receiver;
    bool away = give->destination == DESTINATION_MASTER;

    worker->balancer.gives--;
    worker->balancer.gives_away -= away;
    free(give);
    if (away)
        worker_report_given(worker);
    if (worker->leaving || worker->stopping)
        worker_end_threads(worker);
}

/* Without memory nothing is ordered: the next look tries again. */
static void order_give(struct balancer *balancer, struct serving_thread *giver, struct give give)
{
    struct give *copy = malloc(sizeof(*copy));

    if (copy == NULL)
        return;
    *copy = give;
    copy->given = deliver_given;
    balancer->gives++;
    balancer->gives_away += give.destination == DESTINATION_MASTER;
    mailbox_post(&giver->loop.mailbox, &copy->item, connections_give);
}

bool balancer_gives_away(const struct balancer *balancer)
{
    return balancer->gives_away > 0;
}

static uint32_t active_connections(const struct serving_thread *thread)
{
    return (uint32_t)gauge(thread, METRIC_connections_active);
}

static uint32_t idle_connections(const struct serving_thread *thread)
{
    uint64_t open = gauge(thread, METRIC_connections_open), active = active_connections(thread);

    return open > active ? (uint32_t)(open - active) : 0;
}

static void order_part(struct worker *worker, struct give give)
{
    struct serving_thread **threads = worker->threads;
    uint32_t count = worker->count;
    uint32_t wanted = give.count, total = 0, sum = 0, ordered = 0;
    uint32_t has[count];

    for (uint32_t i = 0; i < count; i++)
        total += has[i] = give.idle ? idle_connections(threads[i]) : active_connections(threads[i]);
    for (uint32_t i = 0; i < count && total > 0; i++) {
        sum += has[i];
        give.count = (uint32_t)((uint64_t)wanted * sum / total) - ordered;
        ordered += give.count;
        if (give.count > 0)
            order_give(&worker->balancer, threads[i], give);
    }
}

void balancer_give_away(struct worker *worker, const struct message_give *message)
{
    struct give give = {.destination = DESTINATION_MASTER,
                        .reason = message->resized != 0 ? MOVE_RESIZE : MOVE_UNEVEN};

    give.count = message->active;
    order_part(worker, give);
    give.count = message->idle;
    give.idle = true;
    order_part(worker, give);
}

/* Logs the effect of a resize. RESULT describes how it ended. */
static void log_resize(struct balancer *balancer, const char *result, uint64_t now_ns)
{
    if (balancer->resized_ns != 0 && balancer->moved > 0)
        event_log(LEVEL_INFO, "worker %u: threads %u to %u: %u %s moved, %s after %.1f s",
                  balancer->worker_slot, balancer->threads_before, balancer->threads_after,
                  balancer->moved, units_plural(balancer->moved, "connection", "connections"),
                  result, (double)(now_ns - balancer->resized_ns) / (double)NS_PER_S);
    balancer->resized_ns = 0;
    balancer->moved = 0;
}

/* Looks */

void balancer_switch(struct balancer *balancer, bool on)
{
    balancer->on = on;
    balancer->looked_ns = 0;
    balance_resized(&balancer->balance);
}

void balancer_resized(struct balancer *balancer, uint32_t before, uint32_t count)
{
    if (!balancer->on)
        return;
    log_resize(balancer, "resized again", clock_monotonic_ns());
    balance_resized(&balancer->balance);
    balancer->looked_ns = 0;
    balancer->resized_ns = clock_monotonic_ns();
    balancer->threads_before = before;
    balancer->threads_after = count;
}

static void read_thread_loads(const struct worker *worker, uint64_t now_ns,
                              struct balance_load *load)
{
    const struct balancer *balancer = &worker->balancer;
    struct serving_thread **threads = worker->threads;
    uint64_t passed_ns = now_ns - balancer->looked_ns;

    for (uint32_t i = 0; i < worker->count; i++) {
        uint64_t cpu_ns = thread_cpu_ns(threads[i]), used_ns = cpu_ns - threads[i]->cpu_ns;

        load[i].active = active_connections(threads[i]);
        load[i].open = (uint32_t)gauge(threads[i], METRIC_connections_open);
        load[i].busy = (uint32_t)(used_ns * 1000 / passed_ns);
        threads[i]->cpu_ns = cpu_ns;
    }
}

uint32_t balancer_look(struct worker *worker)
{
    struct balancer *balancer = &worker->balancer;
    uint32_t count = worker->count;
    struct balance_load load[count];
    struct balance_move moves[balance_moves_max(count)];
    uint64_t now_ns = clock_monotonic_ns();
    uint32_t length;

    if (!balancer->on)
        return BALANCE_REST_MS;
    if (balancer_is_moving(worker))
        return TRANSIT_MS;
    if (now_ns < balancer->looked_ns + balance_interval_ms(&balancer->balance) * NS_PER_MS)
        return BALANCE_MOVING_MS;
    read_thread_loads(worker, now_ns, load);
    balancer->looked_ns = now_ns;
    length = balance_decide(&balancer->balance, load, count, moves);
    for (uint32_t i = 0; i < length; i++)
        order_give(balancer, worker->threads[moves[i].from],
                   (struct give){.destination = moves[i].to,
                                 .count = moves[i].count,
                                 .idle = moves[i].idle,
                                 .reason = balancer->resized_ns != 0 ? MOVE_RESIZE : MOVE_UNEVEN});
    if (balancer->balance.state != BALANCE_MOVING)
        log_resize(balancer, balancer->balance.even ? "balanced" : "still uneven", now_ns);
    return length > 0 ? TRANSIT_MS : balance_interval_ms(&balancer->balance);
}
