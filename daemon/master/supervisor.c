#include "daemon/master/supervision.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/messages.h"
#include "daemon/logger/process.h"
#include "daemon/master/listener_assign.h"
#include "daemon/master/listeners.h"
#include "daemon/master/slots.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The segment's side of a worker */

static struct segment_worker *block_of(const struct supervisor *supervisor,
                                       const struct worker_process *worker)
{
    return segment_worker(&supervisor->master->segment, worker->slot);
}

static void set_state(struct supervisor *supervisor, struct worker_process *worker,
                      enum segment_worker_state state)
{
    struct segment_worker *block = block_of(supervisor, worker);

    worker->state = state;
    atomic_store_explicit(&block->pid, worker->pid, memory_order_relaxed);
    atomic_store_explicit(&block->state, (uint32_t)state, memory_order_relaxed);
}

/* What workers say */

static struct master *master_of(const struct worker_process *worker)
{
    return worker->supervisor->master;
}

/* It had no descriptor left for a lane: somebody else, or it a little later, takes it. */
static void lane_lost(struct supervisor *supervisor, const struct worker_process *worker,
                      const struct message_lane *message)
{
    static const struct timeval second = {.tv_sec = 1};

    dealer_lost(&supervisor->dealer, worker->slot, message->id);
    event_add(supervisor->retry, &second);
}

static void on_report(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct worker_process *worker = owner;
    struct supervisor *supervisor = worker->supervisor;
    const struct message_threads_are *report = data;

    (void)length, (void)fd;
    if (kind == MESSAGE_LANE_LOST) {
        lane_lost(supervisor, worker, data);
        return;
    }
    if (kind == MESSAGE_ORDER_DONE) {
        orders_reported(supervisor->master, worker, data);
    } else {
        assert(kind == MESSAGE_THREADS_ARE);
        worker->threads_actual = report->count;
        supervisor_happen(supervisor, worker, EVENT_REPORT);
        supervisor_reconcile(supervisor);
    }
    supervisor->owner.changed(supervisor->master);
}

/* Given back by a worker that leaves, or not seen any more by one that died. */
static void on_connection(void *owner, int kind, const void *data, size_t length, int fd)
{
    const struct worker_process *worker = owner;

    if (kind == MESSAGE_CONNECTION)
        worker->supervisor->owner.returned(master_of(worker), data, length, fd);
}

/* Its end closed: SIGCHLD tells the rest. */
static void on_closed(void *owner)
{
    (void)owner;
}

static void on_drained(void *owner)
{
    const struct worker_process *worker = owner;

    worker->supervisor->owner.room(master_of(worker));
}

/*
 * In a child, first of all: it leaves the master's event base as it is there (without event_reinit
 * freeing would remove the master's registrations from the shared epoll) and closes what is not
 * its.
 */
static void become_child(void *context)
{
    struct supervisor *supervisor = context;

    event_reinit(supervisor->master->base);
    supervisor->owner.forget(supervisor->master);
}

/* The grid: what happens to a worker in each state at each event. */

static void nothing(struct supervisor *supervisor, struct worker_process *worker)
{
    (void)supervisor, (void)worker;
}

static void note_start(struct supervisor *supervisor, struct worker_process *worker)
{
    struct segment_worker *block = block_of(supervisor, worker);

    worker->generation = supervisor->generation;
    worker->threads_sent = worker->threads_actual = 0;
    worker->orders_done = supervisor->master->orders.given;
    worker->dispatched = 0;
    worker->received_before = metric_get(block->metrics, METRIC_connections_received);
    atomic_store_explicit(&block->started_ns, clock_wall_ns(), memory_order_relaxed);
    atomic_fetch_add_explicit(&block->starts, 1, memory_order_relaxed);
    metric_add(segment_master(&supervisor->master->segment)->metrics, METRIC_workers_started, 1);
    set_state(supervisor, worker, WORKER_STARTING);
}

static void start(struct supervisor *supervisor, struct worker_process *worker)
{
    struct master *master = supervisor->master;
    int failed = segment_reserve_worker(&master->segment, worker->slot);

    if (failed == 0 && worker_process_start(worker, master, &supervisor->worker_owner) != 0)
        failed = errno;
    if (failed != 0) {
        backoff_count(&supervisor->backoff, 0, clock_monotonic_ns());
        event_log(LEVEL_ERROR, "cannot start a worker: %s; trying again in %.1f s",
                  strerror(failed), (double)supervisor->backoff.wait_ns / (double)NS_PER_S);
        return;
    }
    note_start(supervisor, worker);
    worker_process_tell_offload(worker, master);
    worker_process_tell_threads(worker, master);
}

static void resized(struct supervisor *supervisor, struct worker_process *worker)
{
    worker->resizing = false;
    slots_take_back(&supervisor->master->segment, worker->slot, worker->threads_actual);
}

/* The first report: it serves, and takes its share of the lanes. */
static void serving(struct supervisor *supervisor, struct worker_process *worker)
{
    resized(supervisor, worker);
    set_state(supervisor, worker, WORKER_SERVING);
    event_log(LEVEL_INFO, "worker slot %u serves with %u threads (pid %d)", worker->slot,
              worker->threads_actual, worker->pid);
    supervisor->owner.room(supervisor->master);
}

/* Others take its lanes first; what is on its way to it comes before the word to leave. */
static void leave(struct supervisor *supervisor, struct worker_process *worker)
{
    set_state(supervisor, worker, WORKER_LEAVING);
    worker->leaving_ns = clock_monotonic_ns();
    event_log(LEVEL_INFO, "worker slot %u leaves (pid %d)", worker->slot, worker->pid);
    dealer_gone(&supervisor->dealer, worker->slot);
}

static void stop(struct supervisor *supervisor, struct worker_process *worker)
{
    set_state(supervisor, worker, WORKER_LEAVING);
    worker->leave_told = true;
    channel_send(worker->connections, supervisor->retiring ? MESSAGE_RETIRE : MESSAGE_STOP, NULL, 0,
                 -1, false);
}

/* What still lies in its channels are connections that it gave back, or that it never saw. */
static void gone(struct supervisor *supervisor, struct worker_process *worker)
{
    set_state(supervisor, worker, WORKER_NONE);
    channel_read_all(worker->connections);
    worker_process_take_unread(worker, on_connection);
    worker_process_ended(worker);
    slots_clear(&supervisor->master->segment, worker->slot);
    dealer_gone(&supervisor->dealer, worker->slot);
    set_state(supervisor, worker, WORKER_NONE);
}

static void died(struct supervisor *supervisor, struct worker_process *worker)
{
    uint64_t now = clock_monotonic_ns();

    metric_add(segment_master(&supervisor->master->segment)->metrics, METRIC_workers_died, 1);
    backoff_count(&supervisor->backoff, now - worker->started_ns, now);
    gone(supervisor, worker);
}

typedef void action(struct supervisor *supervisor, struct worker_process *worker);

/* clang-format off */
static action *const grid[][EVENT_COUNT] = {
    /*                   START    REPORT   LEAVE    STOP     EXIT */
    [WORKER_NONE] =     {start,   nothing, nothing, nothing, nothing},
    [WORKER_STARTING] = {nothing, serving, leave,   stop,    died},
    [WORKER_SERVING] =  {nothing, resized, leave,   stop,    died},
    [WORKER_LEAVING] =  {nothing, nothing, nothing, stop,    gone},
};
/* clang-format on */

void supervisor_happen(struct supervisor *supervisor, struct worker_process *worker,
                       enum worker_event event)
{
    grid[worker->state][event](supervisor, worker);
}

/* The logger */

void supervisor_start_logger(struct supervisor *supervisor)
{
    struct master *master = supervisor->master;
    struct logger_setup setup = {
        .config = master->config, .segment = &master->segment, .doorbell = master->doorbell};

    logger_process_start(&supervisor->logger, &setup, become_child, supervisor);
}

void supervisor_stop_logger(struct supervisor *supervisor)
{
    supervisor->logger.backoff = (struct backoff){0}; /* one more try: lines may wait */
    supervisor_start_logger(supervisor);
    logger_process_stop(&supervisor->logger);
}

void supervisor_renew_logger(struct supervisor *supervisor)
{
    logger_process_renew(&supervisor->logger);
}

pid_t supervisor_logger(const struct supervisor *supervisor)
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

/* A worker that nobody had told to go. */
static void tell_of_death(const struct supervisor *supervisor, const struct worker_process *worker,
                          pid_t pid, const char *how)
{
    char next[64] = "starting another";

    if (supervisor->backoff.wait_ns > 0)
        snprintf(next, sizeof(next), "starting another in %.1f s",
                 (double)supervisor->backoff.wait_ns / (double)NS_PER_S);
    if (supervisor->backoff.failures > 1)
        event_log(LEVEL_ERROR,
                  "worker slot %u (pid %d) %s, the %uth in a row soon after its start: %s",
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
        supervisor_happen(supervisor, worker, EVENT_EXIT);
        return;
    }
    supervisor->owner.died(supervisor->master, worker, how);
    supervisor_happen(supervisor, worker, EVENT_EXIT);
    if (leaving)
        event_log(LEVEL_ERROR, "worker slot %u (pid %d) %s while leaving", worker->slot, pid, how);
    else
        tell_of_death(supervisor, worker, pid, how);
}

static struct worker_process *worker_of(struct supervisor *supervisor, pid_t pid)
{
    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (supervisor->worker[i].pid == pid && supervisor->worker[i].state != WORKER_NONE)
            return &supervisor->worker[i];
    return NULL;
}

void supervisor_reap(struct supervisor *supervisor)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct worker_process *worker = worker_of(supervisor, pid);
        char how[96];

        describe_end(how, sizeof(how), status);
        if (pid == supervisor->logger.pid)
            logger_process_ended(&supervisor->logger, &supervisor->master->segment, how);
        else if (worker != NULL)
            reap_worker(supervisor, worker, status, how);
        else
            supervisor->owner.other_ended(supervisor->master, pid, how);
    }
    supervisor_reconcile(supervisor);
    supervisor->owner.changed(supervisor->master);
}

uint32_t supervisor_slots(const struct supervisor *supervisor)
{
    return supervisor->slots;
}

struct worker_process *supervisor_worker(struct supervisor *supervisor, uint32_t slot)
{
    return &supervisor->worker[slot];
}

/* Making and forgetting */

static void on_retry(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    supervisor_reconcile(argument);
}

struct supervisor *supervisor_new(struct master *master, const struct supervisor_owner *owner)
{
    struct supervisor *supervisor = calloc(1, sizeof(*supervisor));

    if (supervisor == NULL)
        return NULL;
    supervisor->master = master;
    supervisor->owner = *owner;
    supervisor->worker_owner = (struct worker_process_owner){
        .commands = {.message = on_report, .closed = on_closed, .drained = on_drained},
        .connections = {.message = on_connection, .closed = on_closed, .drained = on_drained},
        .unread = {.message = on_connection, .closed = on_closed},
        .child = become_child,
        .context = supervisor};
    supervisor->generation = supervisor->generations = 1;
    supervisor->logger.fd = -1;
    supervisor->slots = segment_count(&master->segment, SEGMENT_WORKERS);
    supervisor->worker = calloc(supervisor->slots, sizeof(struct worker_process));
    supervisor->retry = event_new(master->base, -1, 0, on_retry, supervisor);
    if (supervisor->worker == NULL || supervisor->retry == NULL) {
        supervisor_free(supervisor);
        return NULL;
    }
    for (uint32_t i = 0; i < supervisor->slots; i++)
        supervisor->worker[i] = (struct worker_process){.supervisor = supervisor, .slot = i};
    return supervisor;
}

void supervisor_free(struct supervisor *supervisor)
{
    if (supervisor == NULL)
        return;
    for (uint32_t i = 0; supervisor->worker != NULL && i < supervisor->slots; i++) {
        channel_close(supervisor->worker[i].commands);
        channel_close(supervisor->worker[i].connections);
        channel_close(supervisor->worker[i].unread);
    }
    if (supervisor->logger.fd >= 0)
        close(supervisor->logger.fd);
    loop_free_event(supervisor->retry);
    free(supervisor->worker);
    dealer_free(&supervisor->dealer);
    free(supervisor);
}
