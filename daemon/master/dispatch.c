#include "daemon/master/dispatch.h"

#include "common/clock.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/messages.h"
#include "daemon/connection/listen_socket.h"
#include "daemon/master/capacity.h"
#include "daemon/master/listeners.h"
#include "daemon/master/supervisor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPTS_A_TURN = 64 };

struct waiting {
    STAILQ_ENTRY(waiting) link;
    int fd;
    size_t length;
    char message[]; /* struct message_connection */
};

struct dispatch {
    struct master *master;
    struct event **lanes; /* accepting events; NULL with dispatch = kernel */
    uint32_t lane_count;
    struct event *retry;       /* accepting failed for want of descriptors: again in a second */
    struct rlimit descriptors; /* of a worker: those of the master, since it does not change them */
    bool accepting, stopped;
    uint64_t warned_ns; /* of a lack of descriptors, monotonic clock */
    uint32_t next;      /* round robin */
    STAILQ_HEAD(, waiting) waiting;
    uint32_t waiting_count;
};

static void set_accepting(struct dispatch *dispatch, bool accepting)
{
    if (dispatch->stopped || accepting == dispatch->accepting)
        return;
    dispatch->accepting = accepting;
    for (uint32_t i = 0; i < dispatch->lane_count; i++) {
        if (accepting)
            event_add(dispatch->lanes[i], NULL);
        else
            event_del(dispatch->lanes[i]);
    }
}

/* Choosing a worker */

/* Connections open in its threads and those on their way to it. */
static uint64_t load_of(const struct master *master, const struct worker_process *worker)
{
    const struct segment *segment = &master->segment;
    uint64_t received =
        metric_get(segment_worker(segment, worker->slot)->metrics, METRIC_connections_received);
    uint64_t load = worker->dispatched - (received - worker->received_before);

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_THREADS); i++) {
        const struct segment_slot *slot = segment_thread_slot(segment, i);

        if (segment_slot_reserved(slot) &&
            atomic_load_explicit(&slot->worker, memory_order_relaxed) == worker->slot)
            load += metric_get(segment_thread(segment, i)->metrics, METRIC_connections_open);
    }
    return load;
}

/* At most once a second. */
static void warn_of_descriptors(struct dispatch *dispatch, uint32_t slot)
{
    uint64_t now = clock_monotonic_ns();

    if (now - dispatch->warned_ns < NS_PER_S)
        return;
    dispatch->warned_ns = now;
    event_log(
        LEVEL_WARN,
        "worker slot %u has no descriptors left for more connections (raise the limit: ulimit -n)",
        slot);
}

enum { CANNOT_TAKE = -1 };

/* The load of WORKER if it can take one more connection, or CANNOT_TAKE. */
static int64_t load_of_able(struct dispatch *dispatch, const struct worker_process *worker)
{
    uint64_t load;

    if (worker->state != WORKER_SERVING || channel_is_broken(worker->connections) ||
        channel_backlog(worker->connections) > 0)
        return CANNOT_TAKE;
    load = load_of(dispatch->master, worker);
    if (load < capacity_of_worker(dispatch->master, &dispatch->descriptors))
        return (int64_t)load;
    warn_of_descriptors(dispatch, worker->slot);
    return CANNOT_TAKE;
}

static struct worker_process *next_in_turn(struct dispatch *dispatch)
{
    struct supervisor *supervisor = dispatch->master->supervisor;
    uint32_t slots = supervisor_slots(supervisor);

    for (uint32_t i = 0; i < slots; i++) {
        struct worker_process *worker = supervisor_worker(supervisor, dispatch->next++ % slots);

        if (load_of_able(dispatch, worker) != CANNOT_TAKE)
            return worker;
    }
    return NULL;
}

static struct worker_process *least_loaded(struct dispatch *dispatch)
{
    struct supervisor *supervisor = dispatch->master->supervisor;
    struct worker_process *best = NULL;
    int64_t best_load = INT64_MAX;

    for (uint32_t i = 0; i < supervisor_slots(supervisor); i++) {
        struct worker_process *worker = supervisor_worker(supervisor, i);
        int64_t load = load_of_able(dispatch, worker);

        if (load != CANNOT_TAKE && load < best_load) {
            best = worker;
            best_load = load;
        }
    }
    return best;
}

static _Atomic uint64_t *metrics_of(const struct dispatch *dispatch)
{
    return segment_master(&dispatch->master->segment)->metrics;
}

static struct worker_process *pick_worker(struct dispatch *dispatch)
{
    return dispatch->master->config->workers_balance == BALANCE_LEAST_CONNECTIONS
               ? least_loaded(dispatch)
               : next_in_turn(dispatch);
}

/*
 * True when a worker's channel has taken the connection; the descriptor is then closed here. A
 * worker that has just died shows by its broken channel: the next one gets the connection.
 */
static bool send_to_worker(struct dispatch *dispatch, const void *message, size_t length, int fd)
{
    struct worker_process *worker = pick_worker(dispatch);

    while (worker != NULL &&
           channel_send(worker->connections, MESSAGE_CONNECTION, message, length, fd, true) != 0)
        worker = channel_is_broken(worker->connections) ? pick_worker(dispatch) : NULL;
    if (worker == NULL)
        return false;
    worker->dispatched++;
    metric_add(metrics_of(dispatch), METRIC_connections_dispatched, 1);
    return true;
}

/* Waiting for room */

static void publish_waiting(const struct dispatch *dispatch)
{
    metric_set(metrics_of(dispatch), METRIC_dispatch_pending, dispatch->waiting_count);
}

/* Of room in a channel the worker tells; that descriptors have become free nobody does. */
static void look_again_soon(struct dispatch *dispatch)
{
    static const struct timeval soon = {.tv_usec = 10000};

    event_add(dispatch->retry, &soon);
}

static void wait_for_room(struct dispatch *dispatch, const void *message, size_t length, int fd)
{
    struct waiting *waiting = malloc(sizeof(*waiting) + length);

    set_accepting(dispatch, false);
    look_again_soon(dispatch);
    if (waiting == NULL) {
        event_log(LEVEL_ERROR, "a connection was dropped: out of memory");
        close(fd);
        return;
    }
    waiting->fd = fd;
    waiting->length = length;
    memcpy(waiting->message, message, length);
    STAILQ_INSERT_TAIL(&dispatch->waiting, waiting, link);
    dispatch->waiting_count++;
    publish_waiting(dispatch);
}

static void place(struct dispatch *dispatch, const void *message, size_t length, int fd)
{
    if (dispatch->waiting_count > 0 || !send_to_worker(dispatch, message, length, fd))
        wait_for_room(dispatch, message, length, fd);
}

void dispatch_returned(struct dispatch *dispatch, const void *message, size_t length, int fd)
{
    if (fd >= 0)
        place(dispatch, message, length, fd);
}

void dispatch_resume(struct dispatch *dispatch)
{
    struct waiting *first;

    while ((first = STAILQ_FIRST(&dispatch->waiting)) != NULL &&
           send_to_worker(dispatch, first->message, first->length, first->fd)) {
        STAILQ_REMOVE_HEAD(&dispatch->waiting, link);
        dispatch->waiting_count--;
        free(first);
    }
    publish_waiting(dispatch);
    if (first == NULL)
        set_accepting(dispatch, true);
}

/* Accepting */

static void accept_failed(struct dispatch *dispatch)
{
    static const struct timeval second = {.tv_sec = 1};

    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
        return;
    event_log(LEVEL_WARN, "cannot accept a connection: %s; trying again in a second",
              strerror(errno));
    set_accepting(dispatch, false);
    event_add(dispatch->retry, &second);
}

static int accept_one(int lane, struct message_connection *message)
{
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof(peer);
    int fd = accept4(lane, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);

    *message = (struct message_connection){.requests = 0};
    if (fd >= 0)
        lane_address(&peer, message->address);
    return fd;
}

/* As many connections are open, or on their way to a worker, as may be. */
static bool is_full(const struct dispatch *dispatch)
{
    const struct master *master = dispatch->master;
    uint64_t most = master->config->connections_max, all = dispatch->waiting_count;

    if (most == 0)
        return false;
    for (uint32_t i = 0; i < supervisor_slots(master->supervisor); i++) {
        const struct worker_process *worker = supervisor_worker(master->supervisor, i);

        if (worker->state != WORKER_NONE)
            all += load_of(master, worker);
    }
    return all >= most;
}

static void on_lane(evutil_socket_t lane, short what, void *argument)
{
    struct dispatch *dispatch = argument;

    (void)what;
    for (int i = 0; i < ACCEPTS_A_TURN && dispatch->accepting; i++) {
        struct message_connection message;
        int fd;

        if (is_full(dispatch)) { /* the others wait in the socket */
            set_accepting(dispatch, false);
            look_again_soon(dispatch);
            return;
        }
        fd = accept_one(lane, &message);
        if (fd < 0) {
            accept_failed(dispatch);
            return;
        }
        place(dispatch, &message, sizeof(message), fd);
    }
}

static void on_retry(evutil_socket_t fd, short what, void *argument)
{
    struct dispatch *dispatch = argument;

    (void)fd, (void)what;
    dispatch_resume(dispatch);
    if (dispatch->waiting_count > 0)
        look_again_soon(dispatch);
}

void dispatch_stop_accepting(struct dispatch *dispatch)
{
    set_accepting(dispatch, false);
    dispatch->stopped = true;
}

static void close_lanes(struct dispatch *dispatch)
{
    for (uint32_t i = 0; i < dispatch->lane_count; i++)
        event_free(dispatch->lanes[i]);
    free(dispatch->lanes);
    dispatch->lanes = NULL;
    dispatch->lane_count = 0;
    dispatch->accepting = false;
}

static int open_lanes(struct dispatch *dispatch)
{
    struct listeners *listeners = dispatch->master->listeners;
    uint32_t count = listeners_lanes(listeners);
    bool all = dispatch->master->config->workers_dispatch == DISPATCH_MASTER;

    dispatch->lanes = calloc(count, sizeof(struct event *));
    if (dispatch->lanes == NULL)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        int fd = listeners_lane(listeners, i);
        struct event *event;

        if (fd < 0 || (!all && !listeners_is_shared(listeners, i)))
            continue;
        event = event_new(dispatch->master->base, fd, EV_READ | EV_PERSIST, on_lane, dispatch);
        if (event == NULL)
            return -1;
        dispatch->lanes[dispatch->lane_count++] = event;
    }
    return 0;
}

int dispatch_listen(struct dispatch *dispatch)
{
    close_lanes(dispatch);
    if (open_lanes(dispatch) != 0)
        return -1;
    dispatch_resume(dispatch);
    return 0;
}

void dispatch_take_rest(void *dispatch, int fd)
{
    struct message_connection message;
    int client;

    while ((client = accept_one(fd, &message)) >= 0)
        place(dispatch, &message, sizeof(message), client);
}

struct dispatch *dispatch_new(struct master *master)
{
    struct dispatch *dispatch = calloc(1, sizeof(*dispatch));

    if (dispatch == NULL)
        return NULL;
    dispatch->master = master;
    dispatch->descriptors.rlim_cur = RLIM_INFINITY;
    getrlimit(RLIMIT_NOFILE, &dispatch->descriptors);
    STAILQ_INIT(&dispatch->waiting);
    dispatch->retry = event_new(master->base, -1, 0, on_retry, dispatch);
    if (dispatch->retry == NULL || open_lanes(dispatch) != 0) {
        dispatch_free(dispatch);
        return NULL;
    }
    return dispatch;
}

void dispatch_free(struct dispatch *dispatch)
{
    struct waiting *waiting;

    if (dispatch == NULL)
        return;
    while ((waiting = STAILQ_FIRST(&dispatch->waiting)) != NULL) {
        STAILQ_REMOVE_HEAD(&dispatch->waiting, link);
        close(waiting->fd);
        free(waiting);
    }
    close_lanes(dispatch);
    loop_free_event(dispatch->retry);
    free(dispatch);
}
