#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"

#include <string.h>
#include <time.h>

enum {
    LATE_MS = 1000,      /* a worker that takes longer to give, or to take over, is left out */
    CHECK_MS = 5,        /* rebalance_await() checks so often */
    OPEN_MAX = 10000000, /* more connections are not believed */
};

/* Orders */

/*
 * Some that were moved to it are still on their way, by what it says. A channel keeps their order.
 */
static bool is_taking(const struct master *master, uint32_t slot)
{
    const struct rebalance *rebalance = &master->rebalance;
    const struct worker_process *worker = &master->workers.worker[slot];
    uint64_t in_transit = worker_process_in_transit(worker, &master->segment);

    return in_transit > 0 && worker->dispatched - in_transit < rebalance->share[slot].taking;
}

/* Its connections are still being moved; a late one is not waited for. */
static bool is_moving(const struct master *master, uint32_t slot, uint64_t now_ns)
{
    const struct rebalance *rebalance = &master->rebalance;
    const struct rebalance_share *share = &rebalance->share[slot];
    uint64_t late_ns = rebalance->late_ms * NS_PER_MS;

    return (share->giving_ns != 0 && now_ns < share->giving_ns + late_ns) ||
           (is_taking(master, slot) && now_ns < share->taking_ns + late_ns);
}

/* Sends what a worker has to give to all others. */
static void send_order(struct rebalance *rebalance, struct worker_process *worker,
                       const struct message_give *order, uint64_t now_ns)
{
    if (order->active + order->idle == 0)
        return;
    rebalance->share[worker->slot].giving_ns = now_ns;
    worker_process_send_give(worker, order);
}

struct worker_process *rebalance_returned(struct master *master,
                                          const struct worker_process *worker)
{
    struct rebalance *rebalance = &master->rebalance;
    uint32_t *due = rebalance->share[worker->slot].due;

    balance_refund(&rebalance->share[worker->slot].credit, 1);
    for (uint32_t i = 0; i < master->workers.count; i++)
        if (due[i] > 0) {
            due[i]--;
            rebalance->moved++;
            rebalance->share[i].taking = master->workers.worker[i].dispatched + 1;
            rebalance->share[i].taking_ns = clock_monotonic_ns();
            return &master->workers.worker[i];
        }
    return NULL;
}

const char *rebalance_given(struct rebalance *rebalance, const struct worker_process *worker)
{
    struct rebalance_share *share = &rebalance->share[worker->slot];

    if (share->giving_ns == 0)
        return "reported connections that it was not ordered to give";
    share->giving_ns = 0;
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        balance_refund(&rebalance->share[i].credit, share->due[i]);
        share->due[i] = 0;
    }
    return NULL;
}

/* Loads */

/* A worker's CPU time as the kernel counts it; 0: unknown. */
static uint64_t cpu_ns_of(const struct worker_process *worker)
{
    struct timespec used;
    clockid_t clock;

    if (clock_getcpuclockid(worker->pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

/* As published by its threads. */
static uint64_t active_connections_of(const struct segment *segment,
                                      const struct worker_process *worker)
{
    uint32_t first = worker->slot * segment_threads_per_worker(segment);
    uint64_t active = 0;

    for (uint32_t i = first; i < first + worker->threads_actual; i++)
        active += metric_get(segment_thread(segment, i)->metrics, METRIC_connections_active);
    return active;
}

/* As counted by all threads of its slot. */
static uint64_t connections_closed_by(const struct segment *segment, uint32_t slot)
{
    uint32_t threads = segment_threads_per_worker(segment), first = slot * threads;
    uint64_t closed = 0;

    for (uint32_t i = first; i < first + threads; i++)
        if (segment_thread_reserved(segment, i))
            closed += metric_get(segment_thread(segment, i)->metrics, METRIC_connections_closed);
    return closed;
}

static uint32_t at_most(uint64_t value, uint64_t most)
{
    return (uint32_t)(value < most ? value : most);
}

/*
 * The workers to balance: current ones that serve, and whose connections have been moved as
 * ordered.
 */
static uint32_t list_balanced(const struct master *master, struct worker_process **list)
{
    const struct rebalance *rebalance = &master->rebalance;
    const struct workers *workers = &master->workers;
    uint32_t count = 0;

    for (uint32_t i = 0; i < workers->count; i++)
        if (worker_is_current(&workers->worker[i]) && workers->worker[i].state == WORKER_SERVING &&
            rebalance->share[i].giving_ns == 0 && !is_taking(master, i))
            list[count++] = &workers->worker[i];
    return count;
}

/* What the workers claim, and the CPU time that the kernel knows. */
static void read_claims(struct master *master, struct worker_process *const *list, uint32_t count,
                        uint64_t passed_ns, struct balance_load *load, uint32_t *closed)
{
    struct rebalance *rebalance = &master->rebalance;
    const struct segment *segment = &master->segment;

    for (uint32_t i = 0; i < count; i++) {
        struct rebalance_share *share = &rebalance->share[list[i]->slot];
        uint64_t cpu_ns = cpu_ns_of(list[i]), used_ns = cpu_ns - share->cpu_ns;
        uint64_t all_closed = connections_closed_by(segment, list[i]->slot);

        load[i].open = at_most(worker_process_load(list[i], segment), OPEN_MAX);
        load[i].active = at_most(active_connections_of(segment, list[i]), load[i].open);
        load[i].busy = at_most(used_ns * 1000 / passed_ns / list[i]->threads_actual, 1000);
        closed[i] = at_most(all_closed - share->closed, OPEN_MAX);
        share->cpu_ns = cpu_ns;
        share->closed = all_closed;
    }
}

static void read_worker_loads(struct master *master, struct worker_process *const *list,
                              uint32_t count, uint64_t passed_ns, struct balance_load *load)
{
    struct balance_load claimed[WORKERS_MAX];
    uint32_t closed[WORKERS_MAX];

    read_claims(master, list, count, passed_ns, claimed, closed);
    for (uint32_t i = 0; i < count; i++) {
        struct balance_credit *credit = &master->rebalance.share[list[i]->slot].credit;

        balance_refill(credit, claimed, closed, count, i);
        load[i] = balance_believed(credit, claimed, count, i);
    }
}

/* Looks */

static void order_moves(struct master *master, struct worker_process *const *list, uint32_t count,
                        struct balance_move *moves, uint32_t length, uint64_t now_ns)
{
    struct rebalance *rebalance = &master->rebalance;
    struct message_give order[WORKERS_MAX] = {{0}};

    for (uint32_t i = 0; i < length; i++) {
        struct balance_move *move = &moves[i];
        uint32_t from = list[move->from]->slot, to = list[move->to]->slot;

        move->count = balance_charge(&rebalance->share[to].credit, move->count);
        rebalance->share[from].due[to] += move->count;
        if (move->idle)
            order[move->from].idle += move->count;
        else
            order[move->from].active += move->count;
    }
    for (uint32_t i = 0; i < count; i++) {
        order[i].resized = rebalance->added_ns != 0;
        send_order(rebalance, list[i], &order[i], now_ns);
    }
}

static void log_added(struct rebalance *rebalance, uint32_t count, uint64_t now_ns)
{
    if (rebalance->added_ns != 0 && rebalance->moved > 0)
        event_log(LEVEL_INFO, "%u %s: %u %s moved between workers, %s after %.1f s", count,
                  units_plural(count, "worker", "workers"), rebalance->moved,
                  units_plural(rebalance->moved, "connection", "connections"),
                  rebalance->balance.even ? "balanced" : "still uneven",
                  (double)(now_ns - rebalance->added_ns) / (double)NS_PER_S);
    rebalance->added_ns = 0;
    rebalance->moved = 0;
}

static void look(struct master *master, uint64_t now_ns)
{
    struct rebalance *rebalance = &master->rebalance;
    struct worker_process *list[WORKERS_MAX];
    struct balance_load load[WORKERS_MAX] = {{0}};
    struct balance_move moves[2 * WORKERS_MAX];
    uint64_t passed_ns = now_ns - rebalance->looked_ns;
    uint32_t count = list_balanced(master, list), length;

    rebalance->looked_ns = now_ns;
    read_worker_loads(master, list, count, passed_ns, load);
    length = balance_decide(&rebalance->balance, load, count, moves);
    order_moves(master, list, count, moves, length, now_ns);
    if (rebalance->balance.state != BALANCE_MOVING)
        log_added(rebalance, count, now_ns);
}

static bool some_are_moving(const struct master *master, uint64_t now_ns)
{
    for (uint32_t i = 0; i < master->workers.count; i++)
        if (is_moving(master, i, now_ns))
            return true;
    return false;
}

static bool rebalance_is_on(const struct master *master)
{
    return master->config->workers_balance_connections && !master->rebalance.stopped;
}

/* Two looks: the first orders moves, the second comes when they have arrived. */
bool rebalance_is_moving(const struct rebalance *rebalance)
{
    return rebalance->balance.state == BALANCE_MOVING &&
           rebalance->balance.rounds + 1 >= BALANCE_ROUNDS;
}

static int schedule(struct rebalance *rebalance, uint32_t wait_ms)
{
    return event_add(rebalance->look,
                     &(struct timeval){.tv_sec = wait_ms / 1000, .tv_usec = wait_ms % 1000 * 1000});
}

static bool serving_ones_are_moving(const struct master *master, uint64_t now_ns)
{
    const struct workers *workers = &master->workers;

    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->worker[i].state == WORKER_SERVING && is_moving(master, i, now_ns))
            return true;
    return false;
}

/* Without memory for the timer, the end does not wait. */
static void check_arrival(struct master *master)
{
    struct rebalance *rebalance = &master->rebalance;

    if (!serving_ones_are_moving(master, clock_monotonic_ns()) ||
        schedule(rebalance, CHECK_MS) != 0)
        rebalance->arrived(master);
}

static void on_look(evutil_socket_t fd, short what, void *argument)
{
    struct master *master = argument;
    struct rebalance *rebalance = &master->rebalance;
    uint64_t now_ns = clock_monotonic_ns();
    bool moving = rebalance_is_moving(rebalance);

    (void)fd, (void)what;
    if (rebalance->stopped) {
        check_arrival(master);
        return;
    }
    if (rebalance_is_on(master) && !some_are_moving(master, now_ns))
        look(master, now_ns);
    schedule(rebalance, balance_interval_ms(&rebalance->balance));
    if (moving && !rebalance_is_moving(rebalance))
        master_changed(master);
}

/* Not before connections that were moved after the last look have arrived. */
static void start(struct master *master)
{
    struct rebalance *rebalance = &master->rebalance;
    uint64_t since_ms = (clock_monotonic_ns() - rebalance->looked_ns) / NS_PER_MS;

    balance_resized(&rebalance->balance);
    schedule(rebalance, since_ms < BALANCE_MOVING_MS ? BALANCE_MOVING_MS - (uint32_t)since_ms : 0);
}

/* What the current workers that serve, of which WORKER is a new one, claim to have open. */
static struct balance_credit credit_of_added(const struct master *master,
                                             const struct worker_process *worker)
{
    const struct workers *workers = &master->workers;
    struct balance_load load[WORKERS_MAX + 1] = {{0}};
    uint32_t count = 1; /* the new one is the first */

    for (uint32_t i = 0; i < workers->count; i++)
        if (i != worker->slot && worker_is_current(&workers->worker[i]) &&
            workers->worker[i].state == WORKER_SERVING)
            load[count++].open =
                at_most(worker_process_load(&workers->worker[i], &master->segment), OPEN_MAX);
    return balance_credit_of_new(load, count, 0);
}

void rebalance_added(struct master *master, const struct worker_process *worker)
{
    struct rebalance *rebalance = &master->rebalance;

    rebalance->share[worker->slot] =
        (struct rebalance_share){.credit = credit_of_added(master, worker),
                                 .closed = connections_closed_by(&master->segment, worker->slot)};
    if (!rebalance_is_on(master))
        return;
    rebalance->added_ns = clock_monotonic_ns();
    start(master);
}

void rebalance_switched(struct master *master)
{
    struct rebalance *rebalance = &master->rebalance;

    if (rebalance_is_on(master)) {
        start(master);
        return;
    }
    rebalance->balance = (struct balance){0};
    rebalance->added_ns = 0;
    master_changed(master);
}

/* The end */

void rebalance_stop(struct rebalance *rebalance)
{
    rebalance->stopped = true;
    event_del(rebalance->look);
}

void rebalance_await(struct master *master, uint64_t most_ms,
                     void (*arrived)(struct master *master))
{
    struct rebalance *rebalance = &master->rebalance;

    rebalance_stop(rebalance);
    rebalance->late_ms = most_ms;
    rebalance->arrived = arrived;
    check_arrival(master);
}

int rebalance_init(struct master *master)
{
    master->rebalance.late_ms = LATE_MS;
    master->rebalance.look = event_new(master->base, -1, 0, on_look, master);
    return master->rebalance.look != NULL ? 0 : -1;
}

void rebalance_free(struct rebalance *rebalance)
{
    loop_free_event(rebalance->look);
}
