#include "daemon/master/supervisor.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/logger/logger.h"
#include "daemon/master/capacity.h"

#include <assert.h>
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
    struct supervisor_callbacks callbacks;
    struct worker_callbacks worker_callbacks;
    uint32_t generations; /* number of the newest generation */
    bool hold_sockets;    /* the old workers keep the listen sockets until all new ones serve */
    struct listener_assign assign;
    struct backoff backoff; /* of starting workers */
    struct event *retry;    /* reconciles when a back-off is over */
    struct logger_process logger;
    bool stopping; /* workers are no longer started */
    bool graceful; /* idle connections may have one more response */
};

enum worker_event {
    EVENT_START,  /* start a worker in the free slot */
    EVENT_REPORT, /* it reports the number of its serving threads */
    EVENT_LEAVE,  /* hand over its connections and exit */
    EVENT_STOP,   /* the server stops */
    EVENT_EXIT,   /* the process has ended */
    EVENT_COUNT
};

/* The grid: the action for each state of a worker and each event */

static void set_state(struct supervisor *supervisor, struct worker_process *worker,
                      enum segment_worker_state state)
{
    struct segment_worker *block = segment_worker(&supervisor->server->segment, worker->slot);

    worker->state = state;
    atomic_store_explicit(&block->pid, worker->pid, memory_order_relaxed);
    atomic_store_explicit(&block->state, (uint32_t)state, memory_order_relaxed);
}

static void nothing(struct supervisor *supervisor, struct worker_process *worker)
{
    (void)supervisor, (void)worker;
}

static void record_start(struct supervisor *supervisor, struct worker_process *worker)
{
    struct segment_worker *block = segment_worker(&supervisor->server->segment, worker->slot);

    worker->generation = supervisor->workers->generation;
    worker->threads_sent = worker->threads_actual = 0;
    worker->broadcasts_done = supervisor->workers->broadcasts;
    worker->dispatched = 0;
    worker->received_before = metric_get(block->metrics, METRIC_connections_received);
    atomic_store_explicit(&block->started_ns, clock_wall_ns(), memory_order_relaxed);
    atomic_fetch_add_explicit(&block->starts, 1, memory_order_relaxed);
    metric_add(segment_master(&supervisor->server->segment)->metrics, METRIC_workers_started, 1);
    set_state(supervisor, worker, WORKER_STARTING);
}

static void start(struct supervisor *supervisor, struct worker_process *worker)
{
    struct server *server = supervisor->server;
    int failed = segment_reserve_worker(&server->segment, worker->slot);

    if (failed == 0 && worker_process_start(worker, server) != 0)
        failed = errno;
    if (failed != 0) {
        backoff_count(&supervisor->backoff, 0, clock_monotonic_ns());
        event_log(LEVEL_ERROR, "cannot start a worker: %s; trying again in %.1f s",
                  strerror(failed), (double)supervisor->backoff.wait_ns / (double)NS_PER_S);
        return;
    }
    record_start(supervisor, worker);
    worker_process_send_offload(worker, server);
    worker_process_send_threads(worker, server);
}

static void resized(struct supervisor *supervisor, struct worker_process *worker)
{
    worker->resizing = false;
    capacity_release_slots(&supervisor->server->segment, worker->slot, worker->threads_actual);
}

/* Handles the first report. */
static void serving(struct supervisor *supervisor, struct worker_process *worker)
{
    resized(supervisor, worker);
    set_state(supervisor, worker, WORKER_SERVING);
    event_log(LEVEL_INFO, "worker slot %u serves with %u threads (pid %d)", worker->slot,
              worker->threads_actual, worker->pid);
    dispatch_resume(supervisor->dispatch);
}

/* send_leave() sends the message once other workers have its listen sockets. */
static void leave(struct supervisor *supervisor, struct worker_process *worker)
{
    set_state(supervisor, worker, WORKER_LEAVING);
    worker->leaving_ns = clock_monotonic_ns();
    event_log(LEVEL_INFO, "worker slot %u leaves (pid %d)", worker->slot, worker->pid);
    listener_assign_remove_worker(&supervisor->assign, worker->slot);
}

static void stop(struct supervisor *supervisor, struct worker_process *worker)
{
    set_state(supervisor, worker, WORKER_LEAVING);
    worker->leave_sent = true;
    channel_send(worker->connections, supervisor->graceful ? MESSAGE_RETIRE : MESSAGE_STOP, NULL, 0,
                 -1, false);
}

/* The worker's channels may still hold connections that it returned or never read. */
static void ended(struct supervisor *supervisor, struct worker_process *worker)
{
    set_state(supervisor, worker, WORKER_NONE);
    channel_read_all(worker->connections);
    worker_process_take_unread(worker);
    worker_process_ended(worker);
    capacity_clear_slot(&supervisor->server->segment, worker->slot);
    listener_assign_remove_worker(&supervisor->assign, worker->slot);
    set_state(supervisor, worker, WORKER_NONE); /* again, now without its pid */
}

static void died(struct supervisor *supervisor, struct worker_process *worker)
{
    uint64_t now = clock_monotonic_ns();

    metric_add(segment_master(&supervisor->server->segment)->metrics, METRIC_workers_died, 1);
    backoff_count(&supervisor->backoff, now - worker->started_ns, now);
    ended(supervisor, worker);
}

typedef void action(struct supervisor *supervisor, struct worker_process *worker);

/* clang-format off */
static action *const grid[][EVENT_COUNT] = {
    /*                   START    REPORT   LEAVE    STOP     EXIT */
    [WORKER_NONE] =     {start,   nothing, nothing, nothing, nothing},
    [WORKER_STARTING] = {nothing, serving, leave,   stop,    died},
    [WORKER_SERVING] =  {nothing, resized, leave,   stop,    died},
    [WORKER_LEAVING] =  {nothing, nothing, nothing, stop,    ended},
};
/* clang-format on */

static void handle(struct supervisor *supervisor, struct worker_process *worker,
                   enum worker_event event)
{
    grid[worker->state][event](supervisor, worker);
}

/* Messages of workers */

static void on_report(void *owner, int kind, const void *data, size_t length, int fd)
{
    static const struct timeval second = {.tv_sec = 1};
    struct worker_process *worker = owner;
    struct supervisor *supervisor = worker->callbacks->context;
    const struct message_threads_running *running = data;
    const struct message_listen_socket *lost = data;

    (void)length, (void)fd;
    switch (kind) {
    case MESSAGE_LISTEN_SOCKET_LOST: /* out of descriptors; assigned again later */
        listener_assign_remove(&supervisor->assign, worker->slot, lost->id);
        event_add(supervisor->retry, &second);
        return;
    case MESSAGE_COMMAND_DONE:
        workers_broadcast_reported(supervisor->workers, worker, data);
        break;
    default:
        assert(kind == MESSAGE_THREADS_RUNNING);
        worker->threads_actual = running->count;
        handle(supervisor, worker, EVENT_REPORT);
        supervisor_reconcile(supervisor);
        break;
    }
    supervisor->callbacks.changed(supervisor->callbacks.context);
}

static void on_connection(void *owner, int kind, const void *data, size_t length, int fd)
{
    const struct worker_process *worker = owner;
    const struct supervisor *supervisor = worker->callbacks->context;

    if (kind == MESSAGE_CONNECTION)
        dispatch_return(supervisor->dispatch, data, length, fd);
}

static void on_drained(void *owner)
{
    const struct worker_process *worker = owner;
    const struct supervisor *supervisor = worker->callbacks->context;

    dispatch_resume(supervisor->dispatch);
}

/*
 * The first call of each child. Without event_reinit(), freeing the event base would remove the
 * master's registrations from the shared epoll instance.
 */
static void after_fork(void *context)
{
    struct supervisor *supervisor = context;

    event_reinit(supervisor->server->base);
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

        if (worker->state != WORKER_LEAVING || worker->leave_sent)
            continue;
        worker->leave_sent =
            channel_send(worker->connections, MESSAGE_LEAVE, NULL, 0, -1, false) == 0;
    }
}

static struct worker_process *lowest_free(const struct workers *workers)
{
    for (uint32_t i = 0; i < workers->count; i++)
        if (workers->worker[i].state == WORKER_NONE)
            return &workers->worker[i];
    return NULL;
}

static bool some_missing(const struct supervisor *supervisor)
{
    return workers_count(supervisor->workers, worker_is_current) <
           supervisor->server->config->workers_processes;
}

/* True if a current worker has no threads because others use all thread slots. */
static bool is_without_threads(const struct workers *workers, const struct worker_process *worker)
{
    return worker_is_current(workers, worker) && worker->threads_sent == 0;
}

/*
 * The old workers leave when the new ones serve; or one by one if the tables in shared memory have
 * no room for both.
 */
static void replace_old(struct supervisor *supervisor)
{
    const struct workers *workers = supervisor->workers;
    bool full = (some_missing(supervisor) && lowest_free(workers) == NULL) ||
                workers_count(workers, is_without_threads) > 0;
    struct worker_process *old = workers_highest(workers, worker_is_old);

    if (workers_are_complete(workers)) {
        if (old != NULL)
            supervisor->callbacks.replaced(supervisor->callbacks.context);
        supervisor->hold_sockets = false;
        while ((old = workers_highest(workers, worker_is_old)) != NULL)
            handle(supervisor, old, EVENT_LEAVE);
    } else if (full && workers_count(workers, worker_is_leaving) == 0) {
        supervisor->hold_sockets = false;
        if (old != NULL)
            handle(supervisor, old, EVENT_LEAVE);
    }
}

static void reconcile_workers(struct supervisor *supervisor)
{
    const struct workers *workers = supervisor->workers;
    struct worker_process *free_slot;

    while (some_missing(supervisor) && backoff_over(&supervisor->backoff, clock_monotonic_ns()) &&
           (free_slot = lowest_free(workers)) != NULL)
        handle(supervisor, free_slot, EVENT_START);
    while (workers_count(workers, worker_is_current) >
           supervisor->server->config->workers_processes)
        handle(supervisor, workers_highest(workers, worker_is_current), EVENT_LEAVE);
    for (uint32_t i = 0; i < workers->count; i++)
        if (worker_is_current(workers, &workers->worker[i]))
            worker_process_send_threads(&workers->worker[i], supervisor->server);
    replace_old(supervisor);
    assign_sockets(supervisor);
    send_leave(workers);
}

/* Reconciles again when the earlier of the two back-offs ends. */
static void schedule_retry(struct supervisor *supervisor)
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

static void start_logger(struct supervisor *supervisor)
{
    struct server *server = supervisor->server;
    struct logger_setup setup = {
        .config = server->config, .segment = &server->segment, .doorbell = server->doorbell};

    logger_process_start(&supervisor->logger, &setup, after_fork, supervisor);
}

void supervisor_reconcile(struct supervisor *supervisor)
{
    start_logger(supervisor);
    if (!supervisor->stopping)
        reconcile_workers(supervisor);
    schedule_retry(supervisor);
}

/* Changing what is wanted */

static void set_generation(struct supervisor *supervisor, uint32_t generation)
{
    supervisor->workers->generation = generation;
    supervisor->backoff = (struct backoff){0};
    atomic_store_explicit(&segment_master(&supervisor->server->segment)->generation, generation,
                          memory_order_relaxed);
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
    handle(supervisor, &supervisor->workers->worker[slot], EVENT_LEAVE);
    supervisor_reconcile(supervisor);
}

void supervisor_send_offload(struct supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->workers->count; i++)
        if (supervisor->workers->worker[i].state != WORKER_NONE)
            worker_process_send_offload(&supervisor->workers->worker[i], supervisor->server);
}

void supervisor_stop_workers(struct supervisor *supervisor, bool gracefully)
{
    supervisor->stopping = true;
    supervisor->graceful = gracefully;
    for (uint32_t i = 0; i < supervisor->workers->count; i++)
        handle(supervisor, &supervisor->workers->worker[i], EVENT_STOP);
}

void supervisor_stop_logger(struct supervisor *supervisor)
{
    supervisor->logger.backoff = (struct backoff){0}; /* try again at once, as lines may be left */
    start_logger(supervisor);
    logger_process_stop(&supervisor->logger);
}

void supervisor_restart_logger(struct supervisor *supervisor)
{
    logger_process_restart(&supervisor->logger);
}

pid_t supervisor_logger_pid(const struct supervisor *supervisor)
{
    return supervisor->logger.pid;
}

uint64_t supervisor_logger_started_ns(const struct supervisor *supervisor)
{
    return supervisor->logger.started_ns;
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
    bool leaving = worker->state == WORKER_LEAVING;
    pid_t pid = worker->pid;

    if (leaving && !worker->killed) {
        event_log(status != 0 ? LEVEL_WARN : LEVEL_INFO, "worker slot %u (pid %d) %s%s",
                  worker->slot, pid, status != 0 ? how : "has left",
                  status != 0 ? " while leaving" : "");
        handle(supervisor, worker, EVENT_EXIT);
        return;
    }
    supervisor->callbacks.died(supervisor->callbacks.context, worker, how);
    handle(supervisor, worker, EVENT_EXIT);
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
        if (pid == supervisor->logger.pid)
            logger_process_ended(&supervisor->logger, &supervisor->server->segment, how);
        else if (worker != NULL)
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
                                  struct dispatch *dispatch,
                                  const struct supervisor_callbacks *callbacks)
{
    struct supervisor *supervisor = calloc(1, sizeof(*supervisor));

    if (supervisor == NULL)
        return NULL;
    supervisor->server = server;
    supervisor->workers = workers;
    supervisor->dispatch = dispatch;
    supervisor->callbacks = *callbacks;
    supervisor->worker_callbacks = (struct worker_callbacks){.report = on_report,
                                                             .connection = on_connection,
                                                             .drained = on_drained,
                                                             .after_fork = after_fork,
                                                             .context = supervisor};
    supervisor->generations = workers->generation;
    supervisor->logger.fd = -1;
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
    if (supervisor->logger.fd >= 0)
        close(supervisor->logger.fd);
    loop_free_event(supervisor->retry);
    listener_assign_free(&supervisor->assign);
    free(supervisor);
}
