#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/wait.h>

/* The actions of worker_lifecycle.def. Each returns 0, or -1: it failed, and the state remains. */

static int worker_act_nothing(struct worker_process *worker)
{
    (void)worker;
    return 0;
}

static void record_start(struct worker_process *worker)
{
    struct master *master = worker->master;
    struct segment_worker_slot *slot = segment_worker_slot(&master->segment, worker->slot);

    worker->generation = master->workers.generation;
    worker->model = master->config->workers_model;
    worker->threads_sent = worker->threads_actual = 0;
    worker->broadcasts_done = master->workers.broadcasts;
    worker->dispatched = worker->returned = worker->returns_allowed = 0;
    worker->received_before = metric_get(segment_worker(&master->segment, worker->slot)->metrics,
                                         METRIC_connections_received);
    atomic_store_explicit(&slot->generation, worker->generation, memory_order_relaxed);
    atomic_fetch_add_explicit(&slot->starts, 1, memory_order_relaxed);
    metric_add(segment_master(&master->segment)->metrics, METRIC_workers_started, 1);
}

static int worker_act_fork(struct worker_process *worker)
{
    if (worker_process_start(worker) != 0)
        return -1;
    worker->master->workers.start_error = 0;
    record_start(worker);
    worker_process_send_memory(worker);
    worker_process_send_offload(worker);
    worker_process_send_threads(worker);
    return 0;
}

static int worker_act_resized(struct worker_process *worker)
{
    worker->resizing = false;
    segment_use_threads(&worker->master->segment, worker->slot, worker->threads_actual);
    return 0;
}

static int worker_act_count_in(struct worker_process *worker)
{
    uint32_t threads = worker_process_threads(worker);

    worker_act_resized(worker);
    event_log(LEVEL_INFO, "worker %u serves with %u %s (pid %d)", worker->slot, threads,
              units_plural(threads, "thread", "threads"), worker->pid);
    dispatch_resume(worker->master);
    rebalance_added(worker->master, worker);
    return 0;
}

/* send_leave() sends the message once other workers have its listen sockets. */
static int worker_act_withdraw(struct worker_process *worker)
{
    worker->leaving_ns = clock_monotonic_ns();
    event_log(LEVEL_INFO, "worker %u leaves (pid %d)", worker->slot, worker->pid);
    listener_assign_remove_worker(&worker->master->workers.assign, worker->slot);
    return 0;
}

static int worker_act_stop(struct worker_process *worker)
{
    if (worker->finishing)
        return 0;
    worker_process_send_leave(worker, MESSAGE_STOP);
    return 0;
}

static int worker_act_finish(struct worker_process *worker)
{
    worker_process_send_leave(worker, MESSAGE_FINISH);
    worker->leaving_ns = clock_monotonic_ns();
    worker->finishing = true;
    return 0;
}

static int worker_act_retire(struct worker_process *worker)
{
    if (worker->finishing)
        return 0;
    worker_process_send_leave(worker, MESSAGE_RETIRE);
    worker->leaving_ns = clock_monotonic_ns();
    worker->left = true;
    return 0;
}

/* The worker's channels may still hold connections that it returned or never read. */
static int worker_act_clear(struct worker_process *worker)
{
    struct master *master = worker->master;

    worker_process_take_connections(worker);
    worker_process_ended(worker);
    totals_limit(worker, clock_monotonic_ns());
    capacity_clear_slot(&master->segment, worker->slot);
    if (!master->workers.stopping) /* otherwise the table ends with the segment */
        capacity_clear_cache(&master->segment, worker->slot);
    listener_assign_remove_worker(&master->workers.assign, worker->slot);
    return 0;
}

static int worker_act_bury(struct worker_process *worker)
{
    uint64_t now = clock_monotonic_ns();

    metric_add(segment_master(&worker->master->segment)->metrics, METRIC_workers_died, 1);
    backoff_count(&worker->master->workers.start_backoff, now - worker->started_ns, now);
    return worker_act_clear(worker);
}

/* The table */

enum worker_action {
#define WORKER_LIFE_ACTION(name, next, help) WORKER_ACTION_##name,
#include "daemon/master/worker_lifecycle.def"
    WORKER_ACTIONS
};

enum { WORKER_SAME = WORKER_STATE_COUNT };

static const struct {
    int (*act)(struct worker_process *worker);
    int next;
} actions[WORKER_ACTIONS] = {
#define WORKER_LIFE_ACTION(name, next, help) {worker_act_##name, WORKER_##next},
#include "daemon/master/worker_lifecycle.def"
};

/* Each row names its actions without a prefix. */
#define ROW(a, b, c, d)                                                                            \
    {WORKER_ACTION_##a, WORKER_ACTION_##b, WORKER_ACTION_##c, WORKER_ACTION_##d},

static const enum worker_action cells[WORKER_EVENTS][WORKER_STATE_COUNT] = {
#define WORKER_LIFE_EVENT(name, help, ...) ROW(__VA_ARGS__)
#include "daemon/master/worker_lifecycle.def"
};

static void publish_thread_number(const struct master *master)
{
    atomic_store_explicit(&segment_master(&master->segment)->threads_actual,
                          workers_threads(&master->workers), memory_order_relaxed);
}

/* For consoles. */
static void publish_worker(const struct worker_process *worker)
{
    struct segment_worker_slot *slot = segment_worker_slot(&worker->master->segment, worker->slot);

    atomic_store_explicit(&slot->pid, worker->pid, memory_order_relaxed);
    atomic_store_explicit(&slot->state, (uint32_t)worker->state, memory_order_relaxed);
    publish_thread_number(worker->master);
    metric_set(segment_master(&worker->master->segment)->metrics, METRIC_generations_old,
               workers_old_generations(&worker->master->workers));
}

/* The state changes before the action. Returns 0, or -1: the action failed. */
static int handle_worker_event(struct worker_process *worker, enum worker_event event)
{
    enum worker_state before = worker->state;
    enum worker_action action = cells[event][before];
    int result;

    if (actions[action].next != WORKER_SAME)
        worker->state = (enum worker_state)actions[action].next;
    result = actions[action].act(worker);
    if (result != 0)
        worker->state = before;
    publish_worker(worker);
    return result;
}

void supervisor_threads_reported(struct worker_process *worker)
{
    handle_worker_event(worker, WORKER_EVENT_report);
    supervisor_reconcile(worker->master);
    master_changed(worker->master);
}

/* The socket is assigned again later. */
bool supervisor_socket_lost(const struct worker_process *worker, uint32_t id)
{
    struct workers *workers = &worker->master->workers;

    if (!listener_assign_remove(&workers->assign, worker->slot, id))
        return false;
    loop_start_timer(workers->retry, 1000);
    return true;
}

bool supervisor_worker_left(struct worker_process *worker)
{
    if (worker->state != WORKER_LEAVING)
        return false;
    worker->left = true;
    supervisor_reconcile(worker->master);
    master_changed(worker->master);
    return true;
}

/* Wanted against actual */

static uint32_t list_targets(const struct workers *workers, worker_test *test,
                             struct listener_target *targets)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < workers->count; i++)
        if (test(&workers->worker[i]))
            targets[found++] =
                (struct listener_target){.worker = i, .commands = workers->worker[i].commands};
    return found;
}

static void assign_sockets(struct master *master)
{
    struct workers *workers = &master->workers;
    struct listener_target targets[WORKERS_MAX];
    uint32_t found = 0;

    if (master->config->workers_dispatch == DISPATCH_MASTER)
        return;
    if (workers->hold_sockets)
        found = list_targets(workers, worker_is_old_serving, targets);
    if (found == 0 && workers_hold_back(workers))
        return;
    if (found == 0)
        found = list_targets(workers, worker_is_serving, targets);
    if (listener_assign_update(&workers->assign, master->listeners, targets, found) != 0)
        event_log(LEVEL_ERROR, "cannot assign the listen sockets: out of memory");
}

/* Sends to the leaving workers, after others have received their listen sockets. */
static void send_leave(const struct workers *workers)
{
    for (uint32_t i = 0; i < workers->count; i++) {
        struct worker_process *worker = &workers->worker[i];

        if (worker->state == WORKER_LEAVING && !worker->leave_sent)
            worker_process_send_leave(worker, MESSAGE_LEAVE);
    }
}

/* The lowest free slot that has memory or gets it now; NULL: none. */
static struct worker_process *find_slot(struct master *master)
{
    const struct workers *workers = &master->workers;

    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->worker[i].state == WORKER_NONE &&
            segment_reserve(&master->segment, i,
                            master->config->workers_threads +
                                MODEL_ACCEPTORS(master->config->workers_model)) == 0)
            return &workers->worker[i];
    return NULL;
}

static bool some_missing(const struct master *master)
{
    return workers_count(&master->workers, worker_is_current) < master->config->workers_processes;
}

/* A leaving worker gets drain_timeout for what it has not finished. */
static void finish_worker(struct worker_process *worker, const char *why)
{
    const struct segment_worker *block = segment_worker(&worker->master->segment, worker->slot);

    event_log(LEVEL_WARN, "worker %u (pid %d) has drain_timeout to finish %u %s: %s", worker->slot,
              worker->pid, atomic_load(&block->connections_open),
              units_plural(atomic_load(&block->connections_open), "connection", "connections"),
              why);
    handle_worker_event(worker, WORKER_EVENT_finish);
}

/* The worker that has been leaving for the longest time, without a limit; NULL: none. */
static struct worker_process *oldest_leaving(const struct workers *workers)
{
    struct worker_process *oldest = NULL;

    for (uint32_t i = 0; i < workers->count; i++) {
        struct worker_process *worker = &workers->worker[i];

        if (worker->state == WORKER_LEAVING && !worker->finishing &&
            (oldest == NULL || worker->leaving_ns < oldest->leaving_ns))
            oldest = worker;
    }
    return oldest;
}

/*
 * True if the idle connections of WORKER, which leaves, have had their time. Those that cannot move
 * to another worker, over TLS, get a last response until then.
 */
static bool may_finish(const struct worker_process *worker)
{
    const struct config *config = worker->master->config;
    uint64_t drain_ms = config->workers_drain_timeout, stop_ms = config->workers_stop_grace;
    uint64_t grace_ns = (drain_ms > stop_ms ? drain_ms : stop_ms) * NS_PER_MS;

    return worker->left && clock_monotonic_ns() - worker->leaving_ns >= grace_ns;
}

static void finish_generation(const struct workers *workers, uint32_t generation, const char *why)
{
    for (uint32_t i = 0; i < workers->count; i++) {
        struct worker_process *worker = &workers->worker[i];

        if (worker->state == WORKER_LEAVING && !worker->finishing &&
            worker->generation == generation)
            finish_worker(worker, why);
    }
}

static bool is_finishing(const struct worker_process *worker)
{
    return worker->state == WORKER_LEAVING && worker->finishing;
}

/*
 * Without a slot for another worker: the worker that has been leaving for the longest time must
 * end, or else one of the old ones leaves.
 */
static void free_slot(struct master *master)
{
    struct workers *workers = &master->workers;
    struct worker_process *old = workers_highest(workers, worker_is_old);
    struct worker_process *oldest = oldest_leaving(workers);

    workers->hold_sockets = false;
    if (workers_count(workers, is_finishing) > 0)
        return;
    if (oldest == NULL && old != NULL)
        handle_worker_event(old, WORKER_EVENT_leave);
    else if (oldest != NULL && may_finish(oldest))
        finish_worker(oldest, "a new worker needs its place (see workers.max_processes)");
}

/*
 * The old workers leave when the new ones serve; or one by one if there are not enough worker
 * slots, or not enough shared memory, for both.
 */
static void replace_old(struct master *master)
{
    struct workers *workers = &master->workers;
    bool full = some_missing(master) && find_slot(master) == NULL;
    struct worker_process *old = workers_highest(workers, worker_is_old);

    if (workers_are_complete(master)) {
        if (old != NULL)
            lifecycle_report(master, EVENT_new_serve);
        while ((old = workers_highest(workers, worker_is_old)) != NULL)
            handle_worker_event(old, WORKER_EVENT_leave);
    } else if (full) {
        free_slot(master);
    }
    while (workers_old_generations(workers) > OLD_GENERATIONS_MAX &&
           (old = oldest_leaving(workers)) != NULL && may_finish(old))
        finish_generation(workers, old->generation, "too many older generations have not finished");
}

/* Begins to pass connections to the new workers once no old one begins a request. */
static void release_sockets(struct master *master)
{
    struct workers *workers = &master->workers;

    if (!workers->hold_sockets || !workers_are_complete(master) || workers_hold_back(workers))
        return;
    workers->hold_sockets = false;
    dispatch_resume(master);
}

static void report_not_started(struct master *master)
{
    struct backoff *backoff = &master->workers.start_backoff;
    const char *why = strerror(errno);

    master->workers.start_error = errno;
    backoff_count(backoff, 0, clock_monotonic_ns());
    event_log(LEVEL_ERROR, "cannot start a worker: %s; trying again in %.1f s", why,
              (double)backoff->wait_ns / (double)NS_PER_S);
    reload_worker_not_started(master, why);
}

static void reconcile_workers(struct master *master)
{
    struct workers *workers = &master->workers;
    struct worker_process *free_slot;

    while (some_missing(master) && backoff_over(&workers->start_backoff, clock_monotonic_ns()) &&
           (free_slot = find_slot(master)) != NULL)
        if (handle_worker_event(free_slot, WORKER_EVENT_start) != 0)
            report_not_started(master);
    while (workers_count(workers, worker_is_current) > master->config->workers_processes)
        handle_worker_event(workers_highest(workers, worker_is_current), WORKER_EVENT_leave);
    for (uint32_t i = 0; i < workers->count; i++)
        if (worker_is_current(&workers->worker[i]))
            worker_process_send_threads(&workers->worker[i]);
    replace_old(master);
    release_sockets(master);
    assign_sockets(master);
    send_leave(workers);
}

/* Reconciles again when the earliest of the back-offs ends. */
static void schedule_reconcile(const struct master *master)
{
    const struct backoff *backoff = &master->workers.start_backoff;
    uint64_t now = clock_monotonic_ns(), when = auxiliary_retry_ns(&master->auxiliary, now);

    if (some_missing(master) && !backoff_over(backoff, now) && backoff->not_before_ns < when)
        when = backoff->not_before_ns;
    if (when != UINT64_MAX)
        loop_start_timer(master->workers.retry, (when - now) / NS_PER_MS + 1);
}

void supervisor_reconcile(struct master *master)
{
    auxiliary_reconcile(master);
    if (!master->workers.stopping)
        reconcile_workers(master);
    auxiliary_send_links(master);
    schedule_reconcile(master);
}

/* Changing what is wanted */

void supervisor_set_generation(struct master *master, uint32_t generation)
{
    master->workers.generation = generation;
    master->workers.hold_sockets = false;
    master->workers.start_backoff = (struct backoff){0};
    atomic_store_explicit(&segment_master(&master->segment)->generation, generation,
                          memory_order_relaxed);
    publish_thread_number(master);
}

void supervisor_renew(struct master *master)
{
    supervisor_set_generation(master, ++master->workers.generations);
    master->workers.hold_sockets = true;
    supervisor_reconcile(master);
}

void supervisor_replace(struct master *master, uint32_t slot)
{
    master->workers.worker[slot].generation = 0;
    supervisor_reconcile(master);
}

void supervisor_replace_all(struct master *master)
{
    for (uint32_t i = 0; i < master->workers.count; i++)
        master->workers.worker[i].generation = 0;
    supervisor_reconcile(master);
}

void supervisor_drain(struct master *master, uint32_t slot)
{
    handle_worker_event(&master->workers.worker[slot], WORKER_EVENT_leave);
    supervisor_reconcile(master);
}

void supervisor_end_workers(struct master *master, enum worker_event event)
{
    master->workers.stopping = true;
    master->workers.hold_sockets = false;
    for (uint32_t i = 0; i < master->workers.count; i++)
        handle_worker_event(&master->workers.worker[i], event);
}

/* Reaping */

static void describe_end(char *text, size_t size, int status)
{
    if (WIFSIGNALED(status))
        snprintf(text, size, "was killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(text, size, "ended with status %d", WEXITSTATUS(status));
}

/* Logs the death of a worker that was not asked to leave. */
static void log_death(const struct worker_process *worker, pid_t pid, const char *how)
{
    const struct backoff *backoff = &worker->master->workers.start_backoff;
    char next[64] = "starting another";

    if (backoff->wait_ns > 0)
        snprintf(next, sizeof(next), "starting another in %.1f s",
                 (double)backoff->wait_ns / (double)NS_PER_S);
    if (backoff->failures > 1)
        event_log(LEVEL_ERROR,
                  "worker %u (pid %d) %s soon after its start (%u consecutive failures): %s",
                  worker->slot, pid, how, backoff->failures, next);
    else
        event_log(LEVEL_ERROR, "worker %u (pid %d) %s: %s", worker->slot, pid, how, next);
}

/* Records what a worker that has died was doing; its part of the segment is not cleared yet. */
static void record_death(const struct worker_process *worker, const char *how)
{
    struct master *master = worker->master;
    char text[128];

    if (worker->killed_for != NULL)
        snprintf(text, sizeof(text), "%s and %s", worker->killed_for, how);
    else
        snprintf(text, sizeof(text), "%s", how);
    post_mortem_record(&master->monitor.worker_deaths, &master->segment, worker->slot, worker->pid,
                       text);
    reload_worker_died(master, worker, text);
}

static void reap_worker(struct worker_process *worker, int status, const char *how)
{
    bool leaving = worker->state == WORKER_LEAVING || worker->master->workers.stopping;
    pid_t pid = worker->pid;

    if (leaving && worker->killed_for == NULL) {
        event_log(status != 0 ? LEVEL_WARN : LEVEL_INFO, "worker %u (pid %d) %s%s", worker->slot,
                  pid, status != 0 ? how : "exited", status != 0 ? " while leaving" : "");
        handle_worker_event(worker, WORKER_EVENT_exit);
        return;
    }
    record_death(worker, how);
    handle_worker_event(worker, WORKER_EVENT_exit);
    if (leaving)
        event_log(LEVEL_ERROR, "worker %u (pid %d) %s while leaving", worker->slot, pid, how);
    else
        log_death(worker, pid, how);
}

static struct worker_process *find_process(const struct workers *workers, pid_t pid)
{
    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->worker[i].pid == pid && workers->worker[i].state != WORKER_NONE)
            return &workers->worker[i];
    return NULL;
}

void supervisor_reap(struct master *master)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct worker_process *worker = find_process(&master->workers, pid);
        char how[96];

        describe_end(how, sizeof(how), status);
        if (certificates_reaped(&master->certificates, pid, status) ||
            auxiliary_ended(master, pid, status, how))
            continue;
        if (worker != NULL)
            reap_worker(worker, status, how);
        else if (!acme_process_ended(&master->certificates.process, pid, how))
            upgrade_child_ended(master, pid, how);
    }
    supervisor_reconcile(master);
    master_changed(master);
}

static void on_supervisor_retry(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    supervisor_reconcile(argument);
}

int supervisor_init(struct master *master)
{
    master->workers.retry = event_new(master->base, -1, 0, on_supervisor_retry, master);
    return master->workers.retry != NULL ? 0 : -1;
}

/* Hung processes */

enum { LATE_S = 5, LATE_TO_LEAVE_S = 3600 };

static uint64_t later(uint64_t one_ns, uint64_t other_ns)
{
    return one_ns > other_ns ? one_ns : other_ns;
}

/* Nobody can answer before it is asked. Without random numbers, the clock is the question. */
static void ask(struct master *master, uint64_t now_ns)
{
    struct monitor *monitor = &master->monitor;
    uint32_t next = monitor->questions++ % QUESTIONS_REMEMBERED;
    uint64_t number;

    if (getrandom(&number, sizeof(number), GRND_NONBLOCK) != sizeof(number))
        number = now_ns;
    monitor->question[next].number = number;
    monitor->question[next].asked_ns = now_ns;
    atomic_store_explicit(&segment_master(&master->segment)->question, number,
                          memory_order_relaxed);
}

/* When the question was asked that ANSWER repeats; 0: long ago or never. */
static uint64_t asked_ns(const struct monitor *monitor, const _Atomic uint64_t *answer)
{
    uint64_t number = atomic_load_explicit(answer, memory_order_relaxed);

    for (int i = 0; i < QUESTIONS_REMEMBERED; i++)
        if (monitor->question[i].number == number)
            return monitor->question[i].asked_ns;
    return 0;
}

/* The last question that all threads of the worker have answered: those that stay, in a resize. */
static uint64_t answered_ns(struct worker_process *worker)
{
    const struct segment *segment = &worker->master->segment;
    const struct monitor *monitor = &worker->master->monitor;
    uint32_t first = worker->slot * segment_threads_per_worker(segment);
    uint32_t threads = worker->threads_actual < worker->threads_sent ? worker->threads_actual
                                                                     : worker->threads_sent;
    uint64_t oldest = asked_ns(monitor, &segment_worker(segment, worker->slot)->answer);

    if (worker->model == MODEL_THREAD) /* the others come and go */
        threads = MODEL_ACCEPTORS(worker->model);

    for (uint32_t i = 0; i < threads && worker->state == WORKER_SERVING; i++) {
        uint64_t asked = asked_ns(monitor, &segment_thread(segment, first + i)->answer);

        oldest = asked < oldest ? asked : oldest;
    }
    if (oldest > worker->answered_ns)
        worker->answered_ns = oldest;
    return worker->answered_ns;
}

/* Seconds since the later of two times. */
static uint64_t age_s(uint64_t now_ns, uint64_t one_ns, uint64_t other_ns)
{
    uint64_t last = later(one_ns, other_ns);

    return now_ns > last ? (now_ns - last) / NS_PER_S : 0;
}

static void kill_worker(struct worker_process *worker, const char *why, uint64_t age)
{
    event_log(LEVEL_ERROR, "worker %u (pid %d) %s for %lu s: killing it", worker->slot, worker->pid,
              why, (unsigned long)age);
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

/*
 * A worker that leaves may finish its responses for reload_timeout. It is killed if it does not
 * begin to leave, or does not exit within drain_timeout after MESSAGE_FINISH.
 */
static void check_leaving(struct worker_process *worker, uint64_t since_ns, uint64_t now_ns)
{
    const struct master *master = worker->master;
    uint64_t leaving = age_s(now_ns, worker->leaving_ns, since_ns);
    uint64_t timeout_ms = master->config->workers_reload_timeout;

    if (worker->finishing || !worker->left) {
        if (leaving * 1000 > master->config->workers_drain_timeout + WATCHDOG_GRACE_MS)
            kill_worker(worker, "has been leaving", leaving);
    } else if (timeout_ms > 0 && leaving * 1000 >= timeout_ms && !master->workers.stopping) {
        finish_worker(worker, "reload_timeout is over");
    } else if (leaving >= LATE_TO_LEAVE_S && !worker->reported_late) {
        worker->reported_late = true;
        event_log(LEVEL_WARN,
                  "worker %u (pid %d) has been finishing responses for an hour (see "
                  "workers.reload_timeout)",
                  worker->slot, worker->pid);
    }
}

enum { THREADS_SPARE = 8 }; /* the main thread, and what the C library may need */

/* A worker needs no more threads than it has slots for. */
static void check_thread_count(struct worker_process *worker)
{
    uint64_t most = segment_threads_per_worker(&worker->master->segment) + SEGMENT_OFFLOAD_THREADS +
                    THREADS_SPARE;
    uint64_t threads = process_threads(worker->pid);

    if (threads <= most)
        return;
    event_log(LEVEL_ERROR, "worker %u (pid %d) has %lu threads, %lu are possible: killing it",
              worker->slot, worker->pid, (unsigned long)threads, (unsigned long)most);
    worker_process_kill(worker, "had too many threads");
}

static void check_worker(struct worker_process *worker, uint64_t since_ns, uint64_t now_ns)
{
    const struct master *master = worker->master;
    uint64_t timeout_ms = master->config->workers_heartbeat_timeout;
    uint64_t silent = age_s(now_ns, answered_ns(worker), since_ns);
    uint64_t broken = broken_s(worker, since_ns, now_ns);
    uint64_t starting =
        worker->state == WORKER_STARTING ? age_s(now_ns, worker->started_ns, since_ns) : 0;

    if (timeout_ms > 0 && silent * 1000 > timeout_ms)
        kill_worker(worker, "has had no heartbeat", silent);
    else if (timeout_ms > 0 && broken * 1000 > timeout_ms)
        kill_worker(worker, "has closed its channel", broken);
    else if (timeout_ms > 0 && starting * 1000 > timeout_ms + WATCHDOG_GRACE_MS)
        kill_worker(worker, "has not begun to serve", starting);
    else if (worker->leaving_ns > 0)
        check_leaving(worker, since_ns, now_ns);
}

void supervisor_check(struct master *master, uint64_t now_ns)
{
    struct workers *workers = &master->workers;
    struct monitor *monitor = &master->monitor;

    if (age_s(now_ns, monitor->checked_ns, 0) > LATE_S)
        monitor->resumed_ns = now_ns;
    monitor->checked_ns = now_ns;
    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->worker[i].pid > 0 && workers->worker[i].killed_for == NULL) {
            check_worker(&workers->worker[i], monitor->resumed_ns, now_ns);
            check_thread_count(&workers->worker[i]);
        }
    ask(master, now_ns);
    auxiliary_check(master, now_ns);
}
