#include "daemon/master/watchdog.h"

#include "common/clock.h"
#include "daemon/base/events.h"
#include "daemon/master/master.h"
#include "daemon/master/supervisor.h"

#include <signal.h>

enum { LATE_S = 5, LEAVE_GRACE_MS = 5000 };

static uint64_t later(uint64_t one_ns, uint64_t other_ns)
{
    return one_ns > other_ns ? one_ns : other_ns;
}

/* Seconds since the later of two moments. */
static uint64_t age_s(uint64_t now_ns, uint64_t one_ns, uint64_t other_ns)
{
    uint64_t last = later(one_ns, other_ns);

    return now_ns > last ? (now_ns - last) / NS_PER_S : 0;
}

static void kill_worker(struct worker_process *worker, const char *why, uint64_t age)
{
    event_log(LEVEL_ERROR, "worker slot %u (pid %d) %s for %lu s: killing it", worker->slot,
              worker->pid, why, (unsigned long)age);
    worker->killed = true;
    kill(worker->pid, SIGKILL);
}

static void look_at_worker(struct master *master, struct worker_process *worker, uint64_t since_ns,
                           uint64_t now_ns)
{
    const struct config *config = master->config;
    const struct segment_worker *block = segment_worker(&master->segment, worker->slot);
    uint64_t beat = atomic_load_explicit(&block->heartbeat_ns, memory_order_relaxed);
    uint64_t silent = age_s(now_ns, later(beat, since_ns), worker->started_ns);
    uint64_t leaving = worker->leaving_ns > 0 ? age_s(now_ns, worker->leaving_ns, since_ns) : 0;

    if (config->workers_heartbeat_timeout > 0 && silent * 1000 > config->workers_heartbeat_timeout)
        kill_worker(worker, "has had no heartbeat", silent);
    else if (leaving * 1000 > (uint64_t)config->workers_drain_timeout + LEAVE_GRACE_MS)
        kill_worker(worker, "has been leaving", leaving);
}

static void look_at_logger(struct master *master, uint64_t since_ns, uint64_t now_ns)
{
    const struct segment_logger *block = segment_logger(&master->segment);
    uint64_t beat = atomic_load_explicit(&block->heartbeat_ns, memory_order_relaxed);
    uint64_t silent =
        age_s(now_ns, later(beat, since_ns), supervisor_logger_started_ns(master->supervisor));
    pid_t pid = supervisor_logger(master->supervisor);

    if (pid <= 0 || master->config->workers_heartbeat_timeout == 0 ||
        silent * 1000 <= master->config->workers_heartbeat_timeout)
        return;
    event_log(LEVEL_ERROR, "the logger (pid %d) has had no heartbeat for %lu s: killing it", pid,
              (unsigned long)silent);
    kill(pid, SIGKILL);
}

/* Late ourselves, we have been stopped, perhaps with all the others: they get their time again. */
void watchdog_look(struct watchdog *watchdog, struct master *master, uint64_t now_ns)
{
    bool late = age_s(now_ns, watchdog->looked_ns, 0) > LATE_S;

    watchdog->looked_ns = now_ns;
    if (late)
        watchdog->resumed_ns = now_ns;
    for (uint32_t i = 0; i < supervisor_slots(master->supervisor); i++) {
        struct worker_process *worker = supervisor_worker(master->supervisor, i);

        if (worker->pid > 0 && !worker->killed)
            look_at_worker(master, worker, watchdog->resumed_ns, now_ns);
    }
    look_at_logger(master, watchdog->resumed_ns, now_ns);
}
