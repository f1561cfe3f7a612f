#include "daemon/supervisor.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/dispatch.h"
#include "daemon/events.h"
#include "daemon/listener.h"
#include "daemon/logger.h"
#include "daemon/messages.h"
#include "daemon/worker.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process that ends sooner than this after its start counts as a failure to start. */
static const uint64_t STEADY_NS = 1 * NS_PER_S;
static const uint64_t BACKOFF_FIRST_NS = 200 * NS_PER_MS;
static const uint64_t BACKOFF_MOST_NS = 10 * NS_PER_S;

/* When the next fork may be: at once, unless the last ones failed soon after their start. */
struct backoff {
    uint64_t not_before_ns;
    uint64_t wait_ns;
};

struct supervisor {
    struct master *master;
    uint32_t slots;
    struct worker_process *worker; /* [slots] */
    uint32_t *lane_owner;          /* by lane: worker slot, or SEGMENT_NO_WORKER */
    uint32_t lane_room;
    struct backoff backoff;
    struct event *retry; /* reconcile again when the back-off is over */

    pid_t logger_pid; /* 0: none */
    int logger_fd;    /* our end of its socketpair */
    struct backoff logger_backoff;
    bool logger_unwanted;
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

static uint32_t tenant_of(const struct supervisor *supervisor, uint32_t thread_slot)
{
    const struct segment_slot *slot =
        segment_thread_slot(&supervisor->master->segment, thread_slot);

    if (!segment_slot_reserved(slot))
        return SEGMENT_NO_WORKER;
    return atomic_load_explicit(&slot->worker, memory_order_relaxed);
}

static void let_slot(struct supervisor *supervisor, uint32_t thread_slot, uint32_t worker,
                     uint32_t thread)
{
    struct segment_slot *slot = segment_thread_slot(&supervisor->master->segment, thread_slot);

    atomic_store_explicit(&slot->thread, thread, memory_order_relaxed);
    atomic_store_explicit(&slot->worker, worker, memory_order_relaxed);
}

/* Thread slots of WORKER from its thread FIRST on become free. */
static void free_threads(struct supervisor *supervisor, const struct worker_process *worker,
                         uint32_t first)
{
    const struct segment *segment = &supervisor->master->segment;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++)
        if (tenant_of(supervisor, i) == worker->slot &&
            atomic_load_explicit(&segment_thread_slot(segment, i)->thread, memory_order_relaxed) >=
                first)
            let_slot(supervisor, i, SEGMENT_NO_WORKER, 0);
}

/* A dead worker's gauges: nobody else will ever set them to 0. */
static void zero_gauges(_Atomic uint64_t *metrics)
{
    for (int i = 0; i < METRIC_COUNT; i++)
        if (metric_table[i].kind == KIND_GAUGE)
            metric_set(metrics, (enum metric)i, 0);
}

static void clear_cache_table(const struct segment *segment, uint32_t slot)
{
    struct segment_cache_entry *table = segment_cache(segment, slot);

    for (uint32_t i = 0; i < segment->directory->cache_entries; i++)
        if (atomic_load_explicit(&table[i].state, memory_order_relaxed) != CACHE_SLOT_FREE)
            segment_cache_state(&table[i], CACHE_SLOT_FREE);
}

static void clear_blocks(struct supervisor *supervisor, const struct worker_process *worker)
{
    const struct segment *segment = &supervisor->master->segment;
    struct segment_worker *block = block_of(supervisor, worker);
    uint64_t now = clock_monotonic_ns();

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++)
        if (tenant_of(supervisor, i) == worker->slot) {
            zero_gauges(segment_thread(segment, i)->metrics);
            segment_activity_clear(&segment_thread(segment, i)->activity, now);
        }
    zero_gauges(block->metrics);
    for (uint32_t i = 0; i < SEGMENT_OFFLOAD_THREADS; i++)
        segment_activity_clear(&block->offload[i], now);
    atomic_store_explicit(&block->threads_actual, 0, memory_order_relaxed);
    atomic_store_explicit(&block->offload_actual, 0, memory_order_relaxed);
    clear_cache_table(segment, worker->slot);
    free_threads(supervisor, worker, 0);
}

/* Threads */

/* A free thread slot with its memory reserved, or SEGMENT_NO_WORKER when there is none left. */
static uint32_t find_slot(struct supervisor *supervisor, int *failed)
{
    struct segment *segment = &supervisor->master->segment;

    *failed = ENOBUFS;
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++) {
        if (tenant_of(supervisor, i) != SEGMENT_NO_WORKER)
            continue;
        *failed = segment_reserve_thread(segment, i);
        return *failed == 0 ? i : SEGMENT_NO_WORKER;
    }
    return SEGMENT_NO_WORKER;
}

/*
 * The slots of the worker's threads in their order. Returns how many of COUNT could be had: while
 * others leave there may be too few for a moment; the next reconciliation asks again.
 */
static uint32_t gather_slots(struct supervisor *supervisor, struct worker_process *worker,
                             uint32_t count, uint32_t *slots)
{
    const struct segment *segment = &supervisor->master->segment;
    uint32_t had = worker->threads_actual;
    int failed;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++)
        if (tenant_of(supervisor, i) == worker->slot)
            slots[atomic_load_explicit(&segment_thread_slot(segment, i)->thread,
                                       memory_order_relaxed)] = i;
    for (; had < count; had++) {
        slots[had] = find_slot(supervisor, &failed);
        if (slots[had] == SEGMENT_NO_WORKER) {
            event_log(failed == ENOBUFS ? LEVEL_DEBUG : LEVEL_ERROR,
                      "no shared memory for another serving thread: %s", strerror(failed));
            return had;
        }
        let_slot(supervisor, slots[had], worker->slot, had);
    }
    return count;
}

static void tell_threads(struct supervisor *supervisor, struct worker_process *worker)
{
    struct {
        struct message_threads head;
        uint32_t slot[1024]; /* max_threads' limit */
    } message;
    uint32_t wanted = supervisor->master->threads_wanted;

    if (worker->resizing || worker->threads_sent == wanted)
        return;
    message.head.count = gather_slots(supervisor, worker, wanted, message.slot);
    if (message.head.count == worker->threads_sent)
        return;
    worker->threads_sent = message.head.count;
    worker->resizing = true;
    atomic_store_explicit(&block_of(supervisor, worker)->threads_wanted, wanted,
                          memory_order_relaxed);
    channel_send(worker->commands, MESSAGE_THREADS, &message,
                 sizeof(message.head) + message.head.count * sizeof(uint32_t), -1, false);
}

static void tell_offload(struct supervisor *supervisor, struct worker_process *worker)
{
    const struct config_range *wanted = &supervisor->master->offload_wanted;
    const struct message_offload message = {wanted->least, wanted->most};

    channel_send(worker->commands, MESSAGE_OFFLOAD, &message, sizeof(message), -1, false);
}

/* Lanes: row i belongs to the i-th serving worker, modulo their number. */

static void give_lane(struct supervisor *supervisor, uint32_t lane, struct worker_process *worker)
{
    struct listeners *listeners = supervisor->master->listeners;
    const struct message_lane message = {lane, listeners_row(listeners, lane)};
    uint32_t owner = supervisor->lane_owner[lane];

    if (owner == worker->slot)
        return;
    channel_send(worker->commands, MESSAGE_LANE_ADD, &message, sizeof(message),
                 listeners_lane(listeners, lane), false);
    if (owner != SEGMENT_NO_WORKER && supervisor->worker[owner].state == WORKER_SERVING)
        channel_send(supervisor->worker[owner].commands, MESSAGE_LANE_DROP, &message,
                     sizeof(message), -1, false);
    supervisor->lane_owner[lane] = worker->slot;
}

static bool make_lane_room(struct supervisor *supervisor, uint32_t lanes)
{
    uint32_t *owner;

    if (lanes <= supervisor->lane_room)
        return true;
    owner = realloc(supervisor->lane_owner, lanes * sizeof(*owner));
    if (owner == NULL)
        return false;
    supervisor->lane_owner = owner;
    while (supervisor->lane_room < lanes)
        owner[supervisor->lane_room++] = SEGMENT_NO_WORKER;
    return true;
}

static uint32_t list_serving(const struct supervisor *supervisor, uint32_t *slots)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (supervisor->worker[i].state == WORKER_SERVING)
            slots[count++] = i;
    return count;
}

static void deal_lanes(struct supervisor *supervisor)
{
    struct master *master = supervisor->master;
    uint32_t serving[64]; /* max_processes' limit */
    uint32_t count = list_serving(supervisor, serving);
    uint32_t lanes = listeners_lanes(master->listeners);

    if (master->config->workers_dispatch == DISPATCH_MASTER || count == 0 || master->stopping)
        return;
    if (!make_lane_room(supervisor, lanes)) {
        event_log(LEVEL_ERROR, "cannot deal the listening sockets: out of memory");
        return;
    }
    for (uint32_t i = 0; i < lanes; i++)
        give_lane(supervisor, i,
                  &supervisor->worker[serving[listeners_row(master->listeners, i) % count]]);
}

static void forget_lanes(struct supervisor *supervisor, uint32_t slot)
{
    for (uint32_t i = 0; i < supervisor->lane_room; i++)
        if (supervisor->lane_owner[i] == slot)
            supervisor->lane_owner[i] = SEGMENT_NO_WORKER;
}

/* Forking */

static bool may_fork(const struct backoff *backoff)
{
    return clock_monotonic_ns() >= backoff->not_before_ns;
}

/* A process has ended that should not have: the next one waits if this one hardly lived. */
static void count_failure(struct backoff *backoff, uint64_t lived_ns)
{
    if (lived_ns >= STEADY_NS) {
        backoff->wait_ns = 0;
        return;
    }
    backoff->wait_ns = backoff->wait_ns == 0 ? BACKOFF_FIRST_NS : 2 * backoff->wait_ns;
    if (backoff->wait_ns > BACKOFF_MOST_NS)
        backoff->wait_ns = BACKOFF_MOST_NS;
    backoff->not_before_ns = clock_monotonic_ns() + backoff->wait_ns;
}

/*
 * In a child, first of all: it leaves the master's event base as it is there (without event_reinit
 * freeing would remove the master's registrations from the shared epoll) and closes what is not
 * its.
 */
static void become_child(struct master *master)
{
    event_reinit(master->base);
    master_forget(master);
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
    become_child(master);
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
    return open_channels(supervisor, worker, commands, connections);
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
        count_failure(&supervisor->backoff, 0);
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
    free_threads(supervisor, worker, worker->threads_actual);
}

/* The first report: it serves, and takes its share of the lanes. */
static void serving(struct supervisor *supervisor, struct worker_process *worker)
{
    resized(supervisor, worker);
    set_state(supervisor, worker, WORKER_SERVING);
    event_log(LEVEL_INFO, "worker slot %u serves with %u threads (pid %d)", worker->slot,
              worker->threads_actual, worker->pid);
    deal_lanes(supervisor);
    dispatch_resume(supervisor->master->dispatch);
}

/* Others take its lanes first; what is on its way to it comes before the word to leave. */
static void leave(struct supervisor *supervisor, struct worker_process *worker)
{
    set_state(supervisor, worker, WORKER_LEAVING);
    event_log(LEVEL_INFO, "worker slot %u leaves (pid %d)", worker->slot, worker->pid);
    forget_lanes(supervisor, worker->slot);
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
    channel_close(worker->commands);
    channel_close(worker->connections);
    worker->commands = worker->connections = NULL;
    clear_blocks(supervisor, worker);
    forget_lanes(supervisor, worker->slot);
    worker->pid = 0;
    set_state(supervisor, worker, WORKER_NONE);
}

static void died(struct supervisor *supervisor, struct worker_process *worker)
{
    uint64_t started =
        atomic_load_explicit(&block_of(supervisor, worker)->started_ns, memory_order_relaxed);

    metric_add(segment_master(&supervisor->master->segment)->metrics, METRIC_workers_died, 1);
    count_failure(&supervisor->backoff, clock_wall_ns() - started);
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

static void on_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct worker_process *worker = owner;
    struct supervisor *supervisor = worker->supervisor;
    const struct message_threads_are *report = data;

    if (kind == MESSAGE_CONNECTION) {
        dispatch_returned(supervisor->master->dispatch, data, length, fd);
        return;
    }
    assert(kind == MESSAGE_THREADS_ARE);
    worker->threads_actual = report->count;
    happen(supervisor, worker, EVENT_REPORT);
    supervisor_reconcile(supervisor);
    master_changed(supervisor->master);
}

/* Its end closed: SIGCHLD tells the rest. */
static void on_closed(void *owner)
{
    (void)owner;
}

static void on_drained(void *owner)
{
    const struct worker_process *worker = owner;

    dispatch_resume(worker->supervisor->master->dispatch);
}

/* The logger */

static void become_logger(struct supervisor *supervisor, const int fds[2])
{
    struct master *master = supervisor->master;
    struct logger_setup setup = {.config = master->config,
                                 .segment = &master->segment,
                                 .doorbell = master->doorbell,
                                 .command_fd = fds[1]};

    close(fds[0]);
    become_child(master);
    exit(logger_run(&setup));
}

static void set_logger(struct supervisor *supervisor, pid_t pid, int fd)
{
    supervisor->logger_pid = pid;
    supervisor->logger_fd = fd;
    atomic_store_explicit(&segment_logger(&supervisor->master->segment)->pid, pid,
                          memory_order_relaxed);
}

static void start_logger(struct supervisor *supervisor)
{
    int fds[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        count_failure(&supervisor->logger_backoff, 0);
        return;
    }
    fflush(NULL);
    pid = fork();
    if (pid == 0)
        become_logger(supervisor, fds);
    close(fds[1]);
    if (pid > 0) {
        set_logger(supervisor, pid, fds[0]);
        return;
    }
    close(fds[0]);
    event_log(LEVEL_ERROR, "cannot start the logger: %s", strerror(errno));
    count_failure(&supervisor->logger_backoff, 0);
}

void supervisor_stop_logger(struct supervisor *supervisor)
{
    supervisor->logger_unwanted = true;
    if (supervisor->logger_pid > 0 && send(supervisor->logger_fd, "s", 1, MSG_NOSIGNAL) != 1)
        kill(supervisor->logger_pid, SIGKILL);
}

pid_t supervisor_logger(const struct supervisor *supervisor)
{
    return supervisor->logger_pid;
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

static void reap_logger(struct supervisor *supervisor, const char *how)
{
    close(supervisor->logger_fd);
    set_logger(supervisor, 0, -1);
    if (supervisor->logger_unwanted)
        return;
    event_log(LEVEL_ERROR, "the logger %s: starting another", how);
    count_failure(&supervisor->logger_backoff, 0);
}

static void reap_worker(struct supervisor *supervisor, pid_t pid, const char *how)
{
    for (uint32_t i = 0; i < supervisor->slots; i++) {
        struct worker_process *worker = &supervisor->worker[i];

        if (worker->pid != pid || worker->state == WORKER_NONE)
            continue;
        if (worker->state != WORKER_LEAVING)
            event_log(LEVEL_ERROR, "worker slot %u (pid %d) %s: starting another", worker->slot,
                      pid, how);
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
        if (pid == supervisor->logger_pid)
            reap_logger(supervisor, how);
        else
            reap_worker(supervisor, pid, how);
    }
    supervisor_reconcile(supervisor);
    master_changed(supervisor->master);
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

static void start_missing(struct supervisor *supervisor)
{
    struct worker_process *worker;

    while (active(supervisor) < supervisor->master->workers_wanted &&
           may_fork(&supervisor->backoff) && (worker = lowest_free(supervisor)) != NULL)
        happen(supervisor, worker, EVENT_START);
}

/* Looks again when the earlier of the two back-offs is over. */
static void plan_retry(struct supervisor *supervisor)
{
    uint64_t now = clock_monotonic_ns(), wait = UINT64_MAX;
    struct timeval when;

    if (active(supervisor) < supervisor->master->workers_wanted && !may_fork(&supervisor->backoff))
        wait = supervisor->backoff.not_before_ns - now;
    if (supervisor->logger_pid == 0 && !may_fork(&supervisor->logger_backoff) &&
        supervisor->logger_backoff.not_before_ns - now < wait)
        wait = supervisor->logger_backoff.not_before_ns - now;
    if (wait == UINT64_MAX)
        return;
    when = (struct timeval){.tv_sec = (time_t)(wait / NS_PER_S),
                            .tv_usec = (suseconds_t)(wait % NS_PER_S / NS_PER_US) + 1000};
    event_add(supervisor->retry, &when);
}

void supervisor_reconcile(struct supervisor *supervisor)
{
    if (supervisor->logger_pid == 0 && !supervisor->logger_unwanted &&
        may_fork(&supervisor->logger_backoff))
        start_logger(supervisor);
    if (!supervisor->master->stopping) {
        start_missing(supervisor);
        while (active(supervisor) > supervisor->master->workers_wanted)
            happen(supervisor, highest_active(supervisor), EVENT_LEAVE);
        for (uint32_t i = 0; i < supervisor->slots; i++)
            if (supervisor->worker[i].state == WORKER_SERVING)
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
    for (uint32_t i = 0; i < supervisor->slots; i++)
        happen(supervisor, &supervisor->worker[i], EVENT_STOP);
}

void supervisor_kill_all(struct supervisor *supervisor)
{
    for (uint32_t i = 0; i < supervisor->slots; i++)
        if (supervisor->worker[i].pid > 0)
            kill(supervisor->worker[i].pid, SIGKILL);
}

/* Before a change is promised */

static int reserve_threads(struct segment *segment, uint32_t count)
{
    uint32_t reserved = 0;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++)
        reserved += segment_slot_reserved(segment_thread_slot(segment, i));
    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS) && reserved < count; i++) {
        int failed;

        if (segment_slot_reserved(segment_thread_slot(segment, i)))
            continue;
        failed = segment_reserve_thread(segment, i);
        if (failed != 0)
            return failed;
        reserved++;
    }
    return 0;
}

int supervisor_prepare(struct supervisor *supervisor, uint32_t count, uint32_t threads, char *why,
                       size_t size)
{
    struct master *master = supervisor->master;
    uint32_t room = segment_count(&master->segment, SEGMENT_THREADS);
    int failed;

    if (count > supervisor->slots) {
        snprintf(why, size, "%u workers are more than [workers] max_processes = %u", count,
                 supervisor->slots);
        return -1;
    }
    if ((uint64_t)count * threads > room) {
        snprintf(why, size,
                 "%u workers with %u threads each are more than [workers] max_threads = %u", count,
                 threads, room);
        return -1;
    }
    failed = reserve_threads(&master->segment, count * threads);
    if (failed != 0) {
        snprintf(
            why, size,
            "no shared memory for %u threads: %s (make /dev/shm larger, or [log] ring smaller)",
            count * threads, strerror(failed));
        return -1;
    }
    if (master->config->workers_dispatch == DISPATCH_KERNEL &&
        listeners_grow(master->listeners, count * threads) != 0) {
        snprintf(why, size, "cannot open listening sockets for %u threads: %s", count * threads,
                 strerror(errno));
        return -1;
    }
    return 0;
}

/* What is in force */

uint32_t supervisor_serving(const struct supervisor *supervisor)
{
    uint32_t slots[64];

    return list_serving(supervisor, slots);
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

struct supervisor *supervisor_new(struct master *master)
{
    struct supervisor *supervisor = calloc(1, sizeof(*supervisor));

    if (supervisor == NULL)
        return NULL;
    supervisor->master = master;
    supervisor->logger_fd = -1;
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
    if (supervisor->logger_fd >= 0)
        close(supervisor->logger_fd);
    if (supervisor->retry != NULL)
        event_free(supervisor->retry);
    free(supervisor->worker);
    free(supervisor->lane_owner);
    free(supervisor);
}
