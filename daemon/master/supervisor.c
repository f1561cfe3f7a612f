#include "daemon/master/supervisor.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/master/capacity.h"
#include "daemon/master/worker_lifecycle.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct supervisor {
    struct server *server;
    struct workers *workers;
    struct dispatch *dispatch;
    struct rebalance *rebalance;
    struct auxiliary *auxiliary;
    struct supervisor_callbacks callbacks;
    struct worker_callbacks worker_callbacks;
    uint32_t generations; /* number of the newest generation */
    bool hold_sockets;    /* the old workers keep the listen sockets until all new ones serve */
    struct listener_assign assign;
    struct backoff backoff; /* of starting workers */
    struct event *retry;    /* reconciles when a back-off is over */
    bool stopping;          /* workers are no longer started */
};

/* The actions of worker_lifecycle.def. Each returns 0, or -1: it failed, and the state remains. */

static int act_nothing(struct supervisor *supervisor, struct worker_process *worker)
{
    (void)supervisor, (void)worker;
    return 0;
}

static void record_start(struct supervisor *supervisor, struct worker_process *worker)
{
    struct segment *segment = &supervisor->server->segment;
    struct segment_worker_slot *slot = segment_worker_slot(segment, worker->slot);

    worker->generation = supervisor->workers->generation;
    worker->threads_sent = worker->threads_actual = 0;
    worker->broadcasts_done = supervisor->workers->broadcasts;
    worker->dispatched = worker->returned = worker->returns_allowed = 0;
    worker->received_before =
        metric_get(segment_worker(segment, worker->slot)->metrics, METRIC_connections_received);
    atomic_store_explicit(&slot->started_ns, clock_wall_ns(), memory_order_relaxed);
    atomic_store_explicit(&slot->generation, worker->generation, memory_order_relaxed);
    atomic_fetch_add_explicit(&slot->starts, 1, memory_order_relaxed);
    metric_add(segment_master(segment)->metrics, METRIC_workers_started, 1);
}

static int act_fork(struct supervisor *supervisor, struct worker_process *worker)
{
    struct server *server = supervisor->server;

    if (worker_process_start(worker, server) != 0)
        return -1;
    record_start(supervisor, worker);
    worker_process_send_memory(worker, server);
    worker_process_send_offload(worker, server);
    worker_process_send_threads(worker, server);
    return 0;
}

static int act_resized(struct supervisor *supervisor, struct worker_process *worker)
{
    worker->resizing = false;
    segment_use_threads(&supervisor->server->segment, worker->slot, worker->threads_actual);
    return 0;
}

static int act_count_in(struct supervisor *supervisor, struct worker_process *worker)
{
    act_resized(supervisor, worker);
    event_log(LEVEL_INFO, "worker slot %u serves with %u %s (pid %d)", worker->slot,
              worker->threads_actual, units_plural(worker->threads_actual, "thread", "threads"),
              worker->pid);
    dispatch_resume(supervisor->dispatch);
    rebalance_added(supervisor->rebalance, worker);
    return 0;
}

/* send_leave() sends the message once other workers have its listen sockets. */
static int act_withdraw(struct supervisor *supervisor, struct worker_process *worker)
{
    worker->leaving_ns = clock_monotonic_ns();
    event_log(LEVEL_INFO, "worker slot %u leaves (pid %d)", worker->slot, worker->pid);
    listener_assign_remove_worker(&supervisor->assign, worker->slot);
    return 0;
}

static int act_stop(struct supervisor *supervisor, struct worker_process *worker)
{
    (void)supervisor;
    worker_process_send_leave(worker, MESSAGE_STOP);
    return 0;
}

static int act_finish(struct supervisor *supervisor, struct worker_process *worker)
{
    (void)supervisor;
    worker_process_send_leave(worker, MESSAGE_FINISH);
    return 0;
}

static int act_retire(struct supervisor *supervisor, struct worker_process *worker)
{
    (void)supervisor;
    worker_process_send_leave(worker, MESSAGE_RETIRE);
    return 0;
}

/* The worker's channels may still hold connections that it returned or never read. */
static int act_clear(struct supervisor *supervisor, struct worker_process *worker)
{
    worker_process_take_connections(worker);
    worker_process_ended(worker);
    capacity_clear_slot(&supervisor->server->segment, worker->slot);
    if (!supervisor->stopping) /* otherwise the table ends with the segment */
        capacity_clear_cache(&supervisor->server->segment, worker->slot);
    listener_assign_remove_worker(&supervisor->assign, worker->slot);
    return 0;
}

static int act_bury(struct supervisor *supervisor, struct worker_process *worker)
{
    uint64_t now = clock_monotonic_ns();

    metric_add(segment_master(&supervisor->server->segment)->metrics, METRIC_workers_died, 1);
    backoff_count(&supervisor->backoff, now - worker->started_ns, now);
    return act_clear(supervisor, worker);
}

typedef int worker_function(struct supervisor *supervisor, struct worker_process *worker);

static worker_function *const actions[WORKER_ACTIONS] = {
#define WORKER_LIFE_ACTION(name, next, help) [WORKER_ACTION_##name] = act_##name,
#include "daemon/master/worker_lifecycle.def"
};

static void publish_threads(const struct supervisor *supervisor)
{
    atomic_store_explicit(&segment_master(&supervisor->server->segment)->threads_actual,
                          workers_threads(supervisor->workers), memory_order_relaxed);
}

/* For consoles. */
static void publish(const struct supervisor *supervisor, const struct worker_process *worker)
{
    struct segment_worker_slot *slot =
        segment_worker_slot(&supervisor->server->segment, worker->slot);

    atomic_store_explicit(&slot->pid, worker->pid, memory_order_relaxed);
    atomic_store_explicit(&slot->state, (uint32_t)worker->state, memory_order_relaxed);
    publish_threads(supervisor);
}

/* The state changes before the action. Returns 0, or -1: the action failed. */
static int handle(struct supervisor *supervisor, struct worker_process *worker,
                  enum worker_event event)
{
    enum worker_state before = worker->state;
    int action = state_table_action(&worker_lifecycle, (int)before, (int)event);
    int result;

    worker->state = (enum worker_state)state_table_next(&worker_lifecycle, (int)before, action);
    result = actions[action](supervisor, worker);
    if (result != 0)
        worker->state = before;
    publish(supervisor, worker);
    return result;
}

/* Messages of workers. A worker that breaks the protocol is compromised. */

static void on_fault(void *owner, const char *what)
{
    struct worker_process *worker = owner;
    const struct supervisor *supervisor = worker->callbacks->context;

    if (worker->state == WORKER_NONE || worker->killed_for != NULL)
        return;
    metric_add(segment_master(&supervisor->server->segment)->metrics, METRIC_protocol_errors, 1);
    event_log(LEVEL_ERROR, "worker slot %u (pid %d) %s: killing it", worker->slot, worker->pid,
              what);
    worker_process_kill(worker, "broke the message protocol");
}

/* Handles MESSAGE_LISTEN_SOCKET_LOST: the socket is assigned again later. */
static const char *take_lost_socket(struct supervisor *supervisor,
                                    const struct worker_process *worker,
                                    const struct message_listen_socket *lost)
{
    if (!listener_assign_remove(&supervisor->assign, worker->slot, lost->id))
        return "reported an unknown listen socket";
    loop_start_timer(supervisor->retry, 1000);
    return NULL;
}

static const char *take_threads(struct supervisor *supervisor, struct worker_process *worker,
                                const struct message_threads_running *running)
{
    if (!worker->resizing || running->count == 0 || running->count > worker->threads_sent)
        return "reported threads that it was not sent";
    worker->threads_actual = running->count;
    handle(supervisor, worker, WORKER_EVENT_report);
    supervisor_reconcile(supervisor);
    supervisor->callbacks.changed(supervisor->callbacks.context);
    return NULL;
}

static const char *take_command_done(struct supervisor *supervisor, struct worker_process *worker,
                                     const struct message_command_done *done)
{
    if (!workers_broadcast_reported(supervisor->workers, worker, done))
        return "completed an unknown command";
    supervisor->callbacks.changed(supervisor->callbacks.context);
    return NULL;
}

/* Each report answers a message to the worker, so a worker cannot flood the master. */
static void on_report(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct worker_process *worker = owner;
    struct supervisor *supervisor = worker->callbacks->context;
    const char *fault = NULL;

    (void)length, (void)fd;
    if (channel_received(worker->commands) > channel_sent(worker->commands))
        fault = "sent more reports than it received commands";
    else if (kind == MESSAGE_LISTEN_SOCKET_LOST)
        fault = take_lost_socket(supervisor, worker, data);
    else if (kind == MESSAGE_COMMAND_DONE)
        fault = take_command_done(supervisor, worker, data);
    else if (kind == MESSAGE_THREADS_RUNNING)
        fault = take_threads(supervisor, worker, data);
    if (fault != NULL)
        channel_fail(worker->commands, fault);
}

/* A report of the keys process, which may be late: the worker of that process may have ended. */
void supervisor_report_fault(struct supervisor *supervisor, uint32_t slot, pid_t pid,
                             const char *what)
{
    struct worker_process *worker =
        slot < supervisor->workers->count ? &supervisor->workers->worker[slot] : NULL;

    if (worker != NULL && worker->pid == pid)
        on_fault(worker, what);
}

static void on_connection(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct worker_process *worker = owner;
    const struct supervisor *supervisor = worker->callbacks->context;
    const char *fault = NULL;

    if (kind == MESSAGE_CONNECTION) /* the worker has not received it */
        dispatch_again(supervisor->dispatch, data, length, fd);
    else if (kind == MESSAGE_CONNECTION_RETURNED)
        fault =
            dispatch_returned(supervisor->dispatch, worker,
                              rebalance_returned(supervisor->rebalance, worker), data, length, fd);
    else if (kind == MESSAGE_GIVEN)
        fault = rebalance_given(supervisor->rebalance, worker);
    if (fault != NULL)
        channel_fail(worker->connections, fault);
}

static void on_drained(void *owner)
{
    const struct worker_process *worker = owner;
    const struct supervisor *supervisor = worker->callbacks->context;

    dispatch_resume(supervisor->dispatch);
}

static void after_fork(void *context)
{
    const struct supervisor *supervisor = context;

    supervisor->callbacks.after_fork(supervisor->callbacks.context);
}

/* Wanted against actual */

static uint32_t list_targets(const struct workers *workers, worker_test *test,
                             struct listener_target *targets)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < workers->count; i++)
        if (test(workers, &workers->worker[i]))
            targets[found++] = (struct listener_target){i, workers->worker[i].commands};
    return found;
}

static void assign_sockets(struct supervisor *supervisor)
{
    const struct server *server = supervisor->server;
    struct listener_target targets[WORKERS_MAX];
    uint32_t found = 0;

    if (server->config->workers_dispatch == DISPATCH_MASTER)
        return;
    if (supervisor->hold_sockets)
        found = list_targets(supervisor->workers, worker_is_old_serving, targets);
    if (found == 0)
        found = list_targets(supervisor->workers, worker_is_serving, targets);
    if (listener_assign_update(&supervisor->assign, server->listeners, targets, found) != 0)
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
static struct worker_process *find_slot(const struct supervisor *supervisor)
{
    const struct workers *workers = supervisor->workers;
    struct server *server = supervisor->server;

    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->worker[i].state == WORKER_NONE &&
            segment_reserve(&server->segment, i, server->config->workers_threads) == 0)
            return &workers->worker[i];
    return NULL;
}

static bool some_missing(const struct supervisor *supervisor)
{
    return workers_count(supervisor->workers, worker_is_current) <
           supervisor->server->config->workers_processes;
}

/*
 * The old workers leave when the new ones serve; or one by one if there are not enough worker slots,
 * or not enough shared memory, for both.
 */
static void replace_old(struct supervisor *supervisor)
{
    const struct workers *workers = supervisor->workers;
    bool full = some_missing(supervisor) && find_slot(supervisor) == NULL;
    struct worker_process *old = workers_highest(workers, worker_is_old);

    if (workers_are_complete(workers)) {
        if (old != NULL)
            supervisor->callbacks.replaced(supervisor->callbacks.context);
        supervisor->hold_sockets = false;
        while ((old = workers_highest(workers, worker_is_old)) != NULL)
            handle(supervisor, old, WORKER_EVENT_leave);
    } else if (full && workers_count(workers, worker_is_leaving) == 0) {
        supervisor->hold_sockets = false;
        if (old != NULL)
            handle(supervisor, old, WORKER_EVENT_leave);
    }
}

static void report_not_started(struct supervisor *supervisor)
{
    const char *why = strerror(errno);

    backoff_count(&supervisor->backoff, 0, clock_monotonic_ns());
    event_log(LEVEL_ERROR, "cannot start a worker: %s; trying again in %.1f s", why,
              (double)supervisor->backoff.wait_ns / (double)NS_PER_S);
    supervisor->callbacks.not_started(supervisor->callbacks.context, why);
}

static void reconcile_workers(struct supervisor *supervisor)
{
    const struct workers *workers = supervisor->workers;
    struct worker_process *free_slot;

    while (some_missing(supervisor) && backoff_over(&supervisor->backoff, clock_monotonic_ns()) &&
           (free_slot = find_slot(supervisor)) != NULL)
        if (handle(supervisor, free_slot, WORKER_EVENT_start) != 0)
            report_not_started(supervisor);
    while (workers_count(workers, worker_is_current) >
           supervisor->server->config->workers_processes)
        handle(supervisor, workers_highest(workers, worker_is_current), WORKER_EVENT_leave);
    for (uint32_t i = 0; i < workers->count; i++)
        if (worker_is_current(workers, &workers->worker[i]))
            worker_process_send_threads(&workers->worker[i], supervisor->server);
    replace_old(supervisor);
    assign_sockets(supervisor);
    send_leave(workers);
}

/* Reconciles again when the earliest of the back-offs ends. */
static void schedule_retry(struct supervisor *supervisor)
{
    uint64_t now = clock_monotonic_ns(), when = auxiliary_retry_ns(supervisor->auxiliary, now);

    if (some_missing(supervisor) && !backoff_over(&supervisor->backoff, now) &&
        supervisor->backoff.not_before_ns < when)
        when = supervisor->backoff.not_before_ns;
    if (when != UINT64_MAX)
        loop_start_timer(supervisor->retry, (when - now) / NS_PER_MS + 1);
}

void supervisor_reconcile(struct supervisor *supervisor)
{
    auxiliary_reconcile(supervisor->auxiliary, supervisor->stopping);
    if (!supervisor->stopping)
        reconcile_workers(supervisor);
    auxiliary_send_links(supervisor->auxiliary);
    schedule_retry(supervisor);
}

/* Changing what is wanted */

static void set_generation(struct supervisor *supervisor, uint32_t generation)
{
    supervisor->workers->generation = generation;
    supervisor->backoff = (struct backoff){0};
    atomic_store_explicit(&segment_master(&supervisor->server->segment)->generation, generation,
                          memory_order_relaxed);
    publish_threads(supervisor);
}

void supervisor_renew(struct supervisor *supervisor)
{
    set_generation(supervisor, ++supervisor->generations);
    supervisor->hold_sockets = true;
    supervisor_reconcile(supervisor);
}

void supervisor_revert(struct supervisor *supervisor, uint32_t generation)
{
    set_generation(supervisor, generation);
}

void supervisor_replace(struct supervisor *supervisor, uint32_t slot)
{
    supervisor->workers->worker[slot].generation = 0;
    supervisor_reconcile(supervisor);
}

void supervisor_replace_all(struct supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->workers->count; i++)
        supervisor->workers->worker[i].generation = 0;
    supervisor_reconcile(supervisor);
}

void supervisor_drain(struct supervisor *supervisor, uint32_t slot)
{
    handle(supervisor, &supervisor->workers->worker[slot], WORKER_EVENT_leave);
    supervisor_reconcile(supervisor);
}

void supervisor_send_balance(struct supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->workers->count; i++)
        if (supervisor->workers->worker[i].state != WORKER_NONE)
            worker_process_send_balance(&supervisor->workers->worker[i], supervisor->server);
    rebalance_switched(supervisor->rebalance);
}

void supervisor_send_offload(struct supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->workers->count; i++)
        if (supervisor->workers->worker[i].state != WORKER_NONE)
            worker_process_send_offload(&supervisor->workers->worker[i], supervisor->server);
}

static void end_workers(struct supervisor *supervisor, enum worker_event event)
{
    supervisor->stopping = true;
    for (uint32_t i = 0; i < supervisor->workers->count; i++)
        handle(supervisor, &supervisor->workers->worker[i], event);
}

void supervisor_stop_workers(struct supervisor *supervisor)
{
    end_workers(supervisor, WORKER_EVENT_stop);
}

void supervisor_finish_workers(struct supervisor *supervisor)
{
    end_workers(supervisor, WORKER_EVENT_finish);
}

void supervisor_retire_workers(struct supervisor *supervisor)
{
    end_workers(supervisor, WORKER_EVENT_retire);
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
static void log_death(const struct supervisor *supervisor, const struct worker_process *worker,
                      pid_t pid, const char *how)
{
    char next[64] = "starting another";

    if (supervisor->backoff.wait_ns > 0)
        snprintf(next, sizeof(next), "starting another in %.1f s",
                 (double)supervisor->backoff.wait_ns / (double)NS_PER_S);
    if (supervisor->backoff.failures > 1)
        event_log(LEVEL_ERROR,
                  "worker slot %u (pid %d) %s soon after its start (%u consecutive failures): %s",
                  worker->slot, pid, how, supervisor->backoff.failures, next);
    else
        event_log(LEVEL_ERROR, "worker slot %u (pid %d) %s: %s", worker->slot, pid, how, next);
}

static void reap_worker(struct supervisor *supervisor, struct worker_process *worker, int status,
                        const char *how)
{
    bool leaving = worker->state == WORKER_LEAVING || supervisor->stopping;
    pid_t pid = worker->pid;

    if (leaving && worker->killed_for == NULL) {
        event_log(status != 0 ? LEVEL_WARN : LEVEL_INFO, "worker slot %u (pid %d) %s%s",
                  worker->slot, pid, status != 0 ? how : "exited",
                  status != 0 ? " while leaving" : "");
        handle(supervisor, worker, WORKER_EVENT_exit);
        return;
    }
    supervisor->callbacks.died(supervisor->callbacks.context, worker, how);
    handle(supervisor, worker, WORKER_EVENT_exit);
    if (leaving)
        event_log(LEVEL_ERROR, "worker slot %u (pid %d) %s while leaving", worker->slot, pid, how);
    else
        log_death(supervisor, worker, pid, how);
}

static struct worker_process *find_worker(const struct workers *workers, pid_t pid)
{
    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->worker[i].pid == pid && workers->worker[i].state != WORKER_NONE)
            return &workers->worker[i];
    return NULL;
}

void supervisor_reap(struct supervisor *supervisor)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct worker_process *worker = find_worker(supervisor->workers, pid);
        char how[96];

        describe_end(how, sizeof(how), status);
        if (auxiliary_ended(supervisor->auxiliary, pid, status, how))
            continue;
        if (worker != NULL)
            reap_worker(supervisor, worker, status, how);
        else
            supervisor->callbacks.child_ended(supervisor->callbacks.context, pid, how);
    }
    supervisor_reconcile(supervisor);
    supervisor->callbacks.changed(supervisor->callbacks.context);
}

static void on_retry(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    supervisor_reconcile(argument);
}

struct supervisor *supervisor_new(struct server *server, struct workers *workers,
                                  struct dispatch *dispatch, struct rebalance *rebalance,
                                  struct auxiliary *auxiliary,
                                  const struct supervisor_callbacks *callbacks)
{
    struct supervisor *supervisor = calloc(1, sizeof(*supervisor));

    if (supervisor == NULL)
        return NULL;
    supervisor->server = server;
    supervisor->workers = workers;
    supervisor->dispatch = dispatch;
    supervisor->rebalance = rebalance;
    supervisor->auxiliary = auxiliary;
    supervisor->callbacks = *callbacks;
    supervisor->worker_callbacks = (struct worker_callbacks){.report = on_report,
                                                             .connection = on_connection,
                                                             .drained = on_drained,
                                                             .fault = on_fault,
                                                             .after_fork = after_fork,
                                                             .context = supervisor};
    supervisor->generations = workers->generation;
    supervisor->retry = event_new(server->base, -1, 0, on_retry, supervisor);
    if (supervisor->retry == NULL) {
        supervisor_free(supervisor);
        return NULL;
    }
    for (uint32_t i = 0; i < workers->count; i++)
        workers->worker[i].callbacks = &supervisor->worker_callbacks;
    return supervisor;
}

void supervisor_free(struct supervisor *supervisor)
{
    if (supervisor == NULL)
        return;
    loop_free_event(supervisor->retry);
    listener_assign_free(&supervisor->assign);
    free(supervisor);
}
