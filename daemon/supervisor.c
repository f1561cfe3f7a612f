#include "daemon/supervisor.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/dealer.h"
#include "daemon/events.h"
#include "daemon/listener.h"
#include "daemon/logger_process.h"
#include "daemon/loop.h"
#include "daemon/messages.h"
#include "daemon/slots.h"
#include "daemon/worker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_WORKERS = 64 }; /* the limit of max_processes */

struct supervisor {
    struct master *master;
    struct supervisor_owner owner;
    uint32_t slots;
    struct worker_process *worker; /* [slots] */
    struct dealer dealer;
    struct backoff backoff;
    struct event *retry; /* reconcile again when the back-off is over */

    struct logger_process logger;
    bool stopping; /* no worker is wanted any more */
};

enum worker_event {
    EVENT_START,  /* one more worker is wanted, here */
    EVENT_REPORT, /* it says how many threads serve */
    EVENT_LEAVE,  /* one is too many: this one */
    EVENT_STOP,   /* the server stops */
    EVENT_EXIT,   /* the process has ended */
    EVENT_COUNT
};

static void happen(struct supervisor *supervisor, struct worker_process *worker,
                   enum worker_event event);

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

/* Threads */

/*
 * While others leave there may be too few slots for a moment: the worker gets what there is, and the
 * next reconciliation asks again.
 */
static void tell_threads(struct supervisor *supervisor, struct worker_process *worker)
{
    uint32_t room = segment_count(&supervisor->master->segment, SEGMENT_THREADS);
    uint32_t wanted = supervisor->master->threads_wanted;
    struct message_threads *message;
    int failed;

    if (worker->resizing || worker->threads_sent == wanted)
        return;
    message = malloc(sizeof(*message) + room * sizeof(uint32_t));
    if (message == NULL)
        return;
    message->count = slots_let(&supervisor->master->segment, worker->slot, worker->threads_actual,
                               wanted, message->slot, &failed);
    if (failed != 0 && failed != ENOBUFS)
        event_log(LEVEL_ERROR, "no shared memory for another serving thread: %s", strerror(failed));
    if (message->count != worker->threads_sent) {
        worker->threads_sent = message->count;
        worker->resizing = true;
        atomic_store_explicit(&block_of(supervisor, worker)->threads_wanted, wanted,
                              memory_order_relaxed);
        channel_send(worker->commands, MESSAGE_THREADS, message,
                     sizeof(*message) + message->count * sizeof(uint32_t), -1, false);
    }
    free(message);
}

static void tell_offload(struct supervisor *supervisor, struct worker_process *worker)
{
    const struct config_range *wanted = &supervisor->master->offload_wanted;
    const struct message_offload message = {wanted->least, wanted->most};

    channel_send(worker->commands, MESSAGE_OFFLOAD, &message, sizeof(message), -1, false);
}

/* Lanes */

static uint32_t list_serving(const struct supervisor *supervisor, struct dealer_hand *hands)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (supervisor->worker[i].state == WORKER_SERVING)
            hands[count++] = (struct dealer_hand){i, supervisor->worker[i].commands};
    return count;
}

static void deal_lanes(struct supervisor *supervisor)
{
    const struct master *master = supervisor->master;
    struct dealer_hand hands[MOST_WORKERS];
    uint32_t count = list_serving(supervisor, hands);

    if (master->config->workers_dispatch == DISPATCH_MASTER || supervisor->stopping)
        return;
    if (dealer_deal(&supervisor->dealer, master->listeners, hands, count) != 0)
        event_log(LEVEL_ERROR, "cannot deal the listening sockets: out of memory");
}

/* Forking */

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

static void on_message(void *owner, int kind, const void *data, size_t length, int fd);
static void on_closed(void *owner);
static void on_drained(void *owner);

static int open_channels(struct supervisor *supervisor, struct worker_process *worker,
                         const int commands[2], const int connections[2])
{
    struct channel_owner owner = {on_message, on_closed, on_drained, worker};
    struct event_base *base = supervisor->master->base;

    worker->commands = channel_open(base, commands[0], &owner);
    worker->connections = channel_open(base, connections[0], &owner);
    return worker->commands != NULL && worker->connections != NULL ? 0 : -1;
}

static void close_channels(struct worker_process *worker)
{
    channel_close(worker->commands);
    channel_close(worker->connections);
    worker->commands = worker->connections = NULL;
}

static pid_t fork_worker(struct supervisor *supervisor, struct worker_process *worker,
                         const int commands[2], const int connections[2])
{
    struct master *master = supervisor->master;
    struct worker_setup setup = {.config = master->config,
                                 .segment = &master->segment,
                                 .slot = worker->slot,
                                 .command_fd = commands[1],
                                 .connection_fd = connections[1],
                                 .doorbell = master->doorbell};
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0)
        return pid;
    close(commands[0]);
    close(connections[0]);
    become_child(supervisor);
    exit(worker_run(&setup));
}

static void close_both(const int fds[2])
{
    close(fds[0]);
    close(fds[1]);
}

/* Returns 0, or -1 with errno: then nothing of it is left. */
static int spawn(struct supervisor *supervisor, struct worker_process *worker)
{
    int commands[2], connections[2];

    if (channel_pair(commands) != 0)
        return -1;
    if (channel_pair(connections) != 0) {
        close_both(commands);
        return -1;
    }
    worker->pid = fork_worker(supervisor, worker, commands, connections);
    if (worker->pid < 0) {
        close_both(commands);
        close_both(connections);
        return -1;
    }
    close(commands[1]);
    close(connections[1]);
    if (open_channels(supervisor, worker, commands, connections) == 0)
        return 0;
    kill(worker->pid, SIGKILL);
    close_channels(worker);
    return -1;
}

/* The grid: what happens to a worker in each state at each event. */

static void nothing(struct supervisor *supervisor, struct worker_process *worker)
{
    (void)supervisor, (void)worker;
}

static void start(struct supervisor *supervisor, struct worker_process *worker)
{
    struct master *master = supervisor->master;
    struct segment_worker *block = block_of(supervisor, worker);
    int failed = segment_reserve_worker(&master->segment, worker->slot);

    if (failed == 0 && spawn(supervisor, worker) != 0)
        failed = errno;
    if (failed != 0) {
        event_log(LEVEL_ERROR, "cannot start a worker: %s", strerror(failed));
        backoff_count(&supervisor->backoff, 0, clock_monotonic_ns());
        return;
    }
    worker->threads_sent = worker->threads_actual = 0;
    worker->resizing = false;
    worker->dispatched = 0;
    worker->received_before = metric_get(block->metrics, METRIC_connections_received);
    atomic_store_explicit(&block->started_ns, clock_wall_ns(), memory_order_relaxed);
    atomic_fetch_add_explicit(&block->starts, 1, memory_order_relaxed);
    set_state(supervisor, worker, WORKER_STARTING);
    metric_add(segment_master(&master->segment)->metrics, METRIC_workers_started, 1);
    tell_offload(supervisor, worker);
    tell_threads(supervisor, worker);
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
    deal_lanes(supervisor);
    supervisor->owner.room(supervisor->master);
}

/* Others take its lanes first; what is on its way to it comes before the word to leave. */
static void leave(struct supervisor *supervisor, struct worker_process *worker)
{
    set_state(supervisor, worker, WORKER_LEAVING);
    event_log(LEVEL_INFO, "worker slot %u leaves (pid %d)", worker->slot, worker->pid);
    dealer_gone(&supervisor->dealer, worker->slot);
    deal_lanes(supervisor);
    channel_send(worker->connections, MESSAGE_LEAVE, NULL, 0, -1, false);
}

static void stop(struct supervisor *supervisor, struct worker_process *worker)
{
    set_state(supervisor, worker, WORKER_LEAVING);
    channel_send(worker->connections, MESSAGE_STOP, NULL, 0, -1, false);
}

/* What still lies in its channel are connections that it gave back. */
static void gone(struct supervisor *supervisor, struct worker_process *worker)
{
    channel_read_all(worker->connections);
    close_channels(worker);
    slots_clear(&supervisor->master->segment, worker->slot);
    dealer_gone(&supervisor->dealer, worker->slot);
    worker->pid = 0;
    worker->resizing = false; /* it may have gone before it could report */
    set_state(supervisor, worker, WORKER_NONE);
}

static void died(struct supervisor *supervisor, struct worker_process *worker)
{
    uint64_t started =
        atomic_load_explicit(&block_of(supervisor, worker)->started_ns, memory_order_relaxed);

    metric_add(segment_master(&supervisor->master->segment)->metrics, METRIC_workers_died, 1);
    backoff_count(&supervisor->backoff, clock_wall_ns() - started, clock_monotonic_ns());
    gone(supervisor, worker);
    deal_lanes(supervisor); /* the others adopt its lanes at once */
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

static void happen(struct supervisor *supervisor, struct worker_process *worker,
                   enum worker_event event)
{
    grid[worker->state][event](supervisor, worker);
}

/* What workers say */

/* It had no descriptor left for a lane: somebody else, or it a little later, takes it. */
static void lane_lost(struct supervisor *supervisor, const struct worker_process *worker,
                      const struct message_lane *message)
{
    static const struct timeval second = {.tv_sec = 1};

    dealer_lost(&supervisor->dealer, worker->slot, message->id);
    event_add(supervisor->retry, &second);
}

static void on_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct worker_process *worker = owner;
    struct supervisor *supervisor = worker->supervisor;
    const struct message_threads_are *report = data;

    if (kind == MESSAGE_CONNECTION) {
        supervisor->owner.returned(supervisor->master, data, length, fd);
        return;
    }
    if (kind == MESSAGE_LANE_LOST) {
        lane_lost(supervisor, worker, data);
        return;
    }
    assert(kind == MESSAGE_THREADS_ARE);
    worker->threads_actual = report->count;
    happen(supervisor, worker, EVENT_REPORT);
    supervisor_reconcile(supervisor);
    supervisor->owner.changed(supervisor->master);
}

/* Its end closed: SIGCHLD tells the rest. */
static void on_closed(void *owner)
{
    (void)owner;
}

static void on_drained(void *owner)
{
    const struct worker_process *worker = owner;

    worker->supervisor->owner.room(worker->supervisor->master);
}

/* The logger */

static void start_logger(struct supervisor *supervisor)
{
    struct master *master = supervisor->master;
    struct logger_setup setup = {
        .config = master->config, .segment = &master->segment, .doorbell = master->doorbell};

    logger_process_start(&supervisor->logger, &setup, become_child, supervisor);
}

void supervisor_stop_logger(struct supervisor *supervisor)
{
    supervisor->logger.backoff = (struct backoff){0}; /* one more try: lines may wait */
    start_logger(supervisor);
    logger_process_stop(&supervisor->logger);
}

pid_t supervisor_logger(const struct supervisor *supervisor)
{
    return supervisor->logger.pid;
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

static void reap_worker(struct supervisor *supervisor, pid_t pid, int status, const char *how)
{
    for (uint32_t i = 0; i < supervisor->slots; i++) {
        struct worker_process *worker = &supervisor->worker[i];

        if (worker->pid != pid || worker->state == WORKER_NONE)
            continue;
        if (worker->state != WORKER_LEAVING)
            event_log(LEVEL_ERROR, "worker slot %u (pid %d) %s: starting another", worker->slot,
                      pid, how);
        else if (status != 0)
            event_log(LEVEL_WARN, "worker slot %u (pid %d) %s while leaving", worker->slot, pid,
                      how);
        else
            event_log(LEVEL_INFO, "worker slot %u has left (pid %d)", worker->slot, pid);
        happen(supervisor, worker, EVENT_EXIT);
        return;
    }
}

void supervisor_reap(struct supervisor *supervisor)
{
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
        char how[96];

        describe_end(how, sizeof(how), status);
        if (pid == supervisor->logger.pid)
            logger_process_ended(&supervisor->logger, &supervisor->master->segment, how);
        else
            reap_worker(supervisor, pid, status, how);
    }
    supervisor_reconcile(supervisor);
    supervisor->owner.changed(supervisor->master);
}

/* Wanted against actual */

static uint32_t active(const struct supervisor *supervisor)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < supervisor->slots; i++)
        count += supervisor->worker[i].state == WORKER_STARTING ||
                 supervisor->worker[i].state == WORKER_SERVING;
    return count;
}

static struct worker_process *lowest_free(struct supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (supervisor->worker[i].state == WORKER_NONE)
            return &supervisor->worker[i];
    return NULL;
}

static struct worker_process *highest_active(struct supervisor *supervisor)
{
    for (uint32_t i = supervisor->slots; i-- > 0;)
        if (supervisor->worker[i].state == WORKER_STARTING ||
            supervisor->worker[i].state == WORKER_SERVING)
            return &supervisor->worker[i];
    return NULL;
}

static bool some_missing(const struct supervisor *supervisor)
{
    return active(supervisor) < supervisor->master->workers_wanted;
}

static void start_missing(struct supervisor *supervisor)
{
    struct worker_process *worker;

    while (some_missing(supervisor) && backoff_over(&supervisor->backoff, clock_monotonic_ns()) &&
           (worker = lowest_free(supervisor)) != NULL)
        happen(supervisor, worker, EVENT_START);
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

void supervisor_reconcile(struct supervisor *supervisor)
{
    start_logger(supervisor);
    if (!supervisor->stopping) {
        start_missing(supervisor);
        while (active(supervisor) > supervisor->master->workers_wanted)
            happen(supervisor, highest_active(supervisor), EVENT_LEAVE);
        for (uint32_t i = 0; i < supervisor->slots; i++)
            if (supervisor->worker[i].state == WORKER_STARTING ||
                supervisor->worker[i].state == WORKER_SERVING)
                tell_threads(supervisor, &supervisor->worker[i]);
        deal_lanes(supervisor);
    }
    plan_retry(supervisor);
}

static void on_retry(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    supervisor_reconcile(argument);
}

void supervisor_tell_offload(struct supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (supervisor->worker[i].state != WORKER_NONE)
            tell_offload(supervisor, &supervisor->worker[i]);
}

void supervisor_stop_workers(struct supervisor *supervisor)
{
    supervisor->stopping = true;
    for (uint32_t i = 0; i < supervisor->slots; i++)
        happen(supervisor, &supervisor->worker[i], EVENT_STOP);
}

void supervisor_kill_all(struct supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (supervisor->worker[i].pid > 0)
            kill(supervisor->worker[i].pid, SIGKILL);
}

/* What is in force */

uint32_t supervisor_serving(const struct supervisor *supervisor)
{
    struct dealer_hand hands[MOST_WORKERS];

    return list_serving(supervisor, hands);
}

uint32_t supervisor_alive(const struct supervisor *supervisor)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < supervisor->slots; i++)
        count += supervisor->worker[i].state != WORKER_NONE;
    return count;
}

uint32_t supervisor_threads(const struct supervisor *supervisor)
{
    uint32_t least = UINT32_MAX;

    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (supervisor->worker[i].state == WORKER_SERVING &&
            supervisor->worker[i].threads_actual < least)
            least = supervisor->worker[i].threads_actual;
    return least == UINT32_MAX ? 0 : least;
}

bool supervisor_settled(const struct supervisor *supervisor)
{
    const struct master *master = supervisor->master;

    for (uint32_t i = 0; i < supervisor->slots; i++) {
        const struct worker_process *worker = &supervisor->worker[i];

        if (worker->state == WORKER_STARTING || worker->state == WORKER_LEAVING || worker->resizing)
            return false;
    }
    return supervisor_serving(supervisor) == master->workers_wanted;
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

struct supervisor *supervisor_new(struct master *master, const struct supervisor_owner *owner)
{
    struct supervisor *supervisor = calloc(1, sizeof(*supervisor));

    if (supervisor == NULL)
        return NULL;
    supervisor->master = master;
    supervisor->owner = *owner;
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
    }
    if (supervisor->logger.fd >= 0)
        close(supervisor->logger.fd);
    loop_free_event(supervisor->retry);
    free(supervisor->worker);
    dealer_free(&supervisor->dealer);
    free(supervisor);
}
