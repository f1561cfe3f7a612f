#include "daemon/master/watchdog.h"

#include "common/clock.h"
#include "daemon/base/events.h"

enum { LATE_S = 5 };

static uint64_t later(uint64_t one_ns, uint64_t other_ns)
{
    return one_ns > other_ns ? one_ns : other_ns;
}

/*
 * The last heartbeat; 0 if it is from the future, because that would never grow old. NOW_NS of this
 * check may be older than a heartbeat just sent, so it is compared with the clock.
 */
static uint64_t last_beat(const _Atomic uint64_t *heartbeat_ns)
{
    uint64_t beat = atomic_load_explicit(heartbeat_ns, memory_order_acquire);

    return beat <= clock_monotonic_ns() ? beat : 0;
}

/* Seconds since the later of two times. */
static uint64_t age_s(uint64_t now_ns, uint64_t one_ns, uint64_t other_ns)
{
    uint64_t last = later(one_ns, other_ns);

    return now_ns > last ? (now_ns - last) / NS_PER_S : 0;
}

static void kill_worker(struct worker_process *worker, const char *why, uint64_t age)
{
    event_log(LEVEL_ERROR, "worker slot %u (pid %d) %s for %lu s: killing it", worker->slot,
              worker->pid, why, (unsigned long)age);
    worker_process_kill(worker, "hung");
}

/* A worker that closed a channel exits soon, or it cannot be controlled any more. */
static uint64_t broken_s(struct worker_process *worker, uint64_t since_ns, uint64_t now_ns)
{
    if (!channel_is_broken(worker->commands) && !channel_is_broken(worker->connections))
        return 0;
    if (worker->broken_ns == 0)
        worker->broken_ns = now_ns;
    return age_s(now_ns, worker->broken_ns, since_ns);
}

static void check_worker(const struct server *server, struct worker_process *worker,
                         uint64_t since_ns, uint64_t now_ns)
{
    uint64_t timeout_ms = server->config->workers_heartbeat_timeout;
    uint64_t leave_ms = server->config->workers_drain_timeout + WATCHDOG_GRACE_MS;
    const struct segment_worker *block = segment_worker(&server->segment, worker->slot);
    uint64_t beat = last_beat(&block->heartbeat_ns);
    uint64_t silent = age_s(now_ns, later(beat, since_ns), worker->started_ns);
    uint64_t broken = broken_s(worker, since_ns, now_ns);
    uint64_t leaving = worker->leaving_ns > 0 ? age_s(now_ns, worker->leaving_ns, since_ns) : 0;
    uint64_t starting =
        worker->state == WORKER_STARTING ? age_s(now_ns, worker->started_ns, since_ns) : 0;

    if (timeout_ms > 0 && silent * 1000 > timeout_ms)
        kill_worker(worker, "has had no heartbeat", silent);
    else if (timeout_ms > 0 && broken * 1000 > timeout_ms)
        kill_worker(worker, "has closed its channel", broken);
    else if (timeout_ms > 0 && starting * 1000 > timeout_ms + WATCHDOG_GRACE_MS)
        kill_worker(worker, "has not begun to serve", starting);
    else if (leaving * 1000 > leave_ms)
        kill_worker(worker, "has been leaving", leaving);
}

void watchdog_check(struct watchdog *watchdog, const struct server *server, struct workers *workers,
                    struct auxiliary *auxiliary, uint64_t now_ns)
{
    if (age_s(now_ns, watchdog->checked_ns, 0) > LATE_S)
        watchdog->resumed_ns = now_ns;
    watchdog->checked_ns = now_ns;
    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->worker[i].pid > 0 && workers->worker[i].killed_for == NULL)
            check_worker(server, &workers->worker[i], watchdog->resumed_ns, now_ns);
    auxiliary_check(auxiliary, watchdog->resumed_ns, now_ns);
}
