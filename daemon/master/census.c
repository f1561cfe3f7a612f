#include "daemon/master/supervision.h"

/* Which workers are which */

static bool is_active(const struct worker_process *worker)
{
    return worker->state == WORKER_STARTING || worker->state == WORKER_SERVING;
}

bool census_current(const struct supervisor *supervisor, const struct worker_process *worker)
{
    return is_active(worker) && worker->generation == supervisor->generation;
}

bool census_old(const struct supervisor *supervisor, const struct worker_process *worker)
{
    return is_active(worker) && worker->generation != supervisor->generation;
}

static bool serves_now(const struct supervisor *supervisor, const struct worker_process *worker)
{
    return census_current(supervisor, worker) && worker->state == WORKER_SERVING;
}

bool census_old_serves(const struct supervisor *supervisor, const struct worker_process *worker)
{
    return census_old(supervisor, worker) && worker->state == WORKER_SERVING;
}

bool census_leaving(const struct supervisor *supervisor, const struct worker_process *worker)
{
    (void)supervisor;
    return worker->state == WORKER_LEAVING;
}

uint32_t census_count(const struct supervisor *supervisor, worker_test *test)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < supervisor->slots; i++)
        found += test(supervisor, &supervisor->worker[i]);
    return found;
}

struct worker_process *census_highest(struct supervisor *supervisor, worker_test *test)
{
    for (uint32_t i = supervisor->slots; i-- > 0;)
        if (test(supervisor, &supervisor->worker[i]))
            return &supervisor->worker[i];
    return NULL;
}

bool census_serves(const struct supervisor *supervisor, const struct worker_process *worker)
{
    (void)supervisor;
    return worker->state == WORKER_SERVING;
}

bool census_threadless(const struct supervisor *supervisor, const struct worker_process *worker)
{
    return census_current(supervisor, worker) && worker->threads_sent == 0;
}

/* What is in force */

uint32_t supervisor_serving(const struct supervisor *supervisor)
{
    return census_count(supervisor, census_serves);
}

uint32_t supervisor_alive(const struct supervisor *supervisor)
{
    uint32_t alive = 0;

    for (uint32_t i = 0; i < supervisor->slots; i++)
        alive += supervisor->worker[i].state != WORKER_NONE;
    return alive;
}

uint32_t supervisor_threads(const struct supervisor *supervisor)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (serves_now(supervisor, &supervisor->worker[i]) &&
            supervisor->worker[i].threads_actual < least)
            least = supervisor->worker[i].threads_actual;
    return least == UINT32_MAX ? 0 : least;
}

static bool is_changing(const struct supervisor *supervisor, const struct worker_process *worker)
{
    return worker->state == WORKER_STARTING || census_old(supervisor, worker) || worker->resizing;
}

bool supervisor_is_renewed(const struct supervisor *supervisor)
{
    return census_count(supervisor, is_changing) == 0 &&
           census_count(supervisor, serves_now) == supervisor->master->config->workers_processes;
}

/* A worker that was told to leave goes on accepting until its threads have heard of it. */
bool supervisor_old_accept(const struct supervisor *supervisor)
{
    const struct segment *segment = &supervisor->master->segment;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++) {
        const struct segment_slot *slot = segment_thread_slot(segment, i);
        uint32_t worker;

        if (!segment_slot_reserved(slot))
            continue;
        worker = atomic_load_explicit(&slot->worker, memory_order_relaxed);
        if (worker < supervisor->slots && supervisor->worker[worker].state == WORKER_LEAVING &&
            metric_get(segment_thread(segment, i)->metrics, METRIC_listen_sockets) > 0)
            return true;
    }
    return false;
}

bool supervisor_is_replacing(const struct supervisor *supervisor)
{
    return census_count(supervisor, census_old) + census_count(supervisor, census_leaving) > 0;
}

bool supervisor_settled(const struct supervisor *supervisor)
{
    return supervisor_is_renewed(supervisor) && census_count(supervisor, census_leaving) == 0;
}

bool supervisor_is_complete(const struct supervisor *supervisor)
{
    return census_count(supervisor, serves_now) >= supervisor->master->config->workers_processes;
}
