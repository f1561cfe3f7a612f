#include "daemon/master/dispatch.h"

#include "common/clock.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/network.h"
#include "daemon/master/capacity.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ACCEPTS_PER_ITERATION = 64 };

/* A connection that waits until a worker can take it. */
struct queued {
    STAILQ_ENTRY(queued) link;
    int fd;
    size_t length;
    char message[]; /* struct message_connection */
};

struct dispatch {
    struct server *server;
    const struct workers *workers;
    struct event **readable; /* of the listen sockets that the master accepts from */
    uint32_t readable_count;
    struct event *retry;       /* a timer, because nothing reports free descriptors */
    struct rlimit descriptors; /* limit of a worker: equal to the master's, never changes */
    bool accepting, stopped;
    uint64_t warned_ns; /* last warning about a lack of descriptors, monotonic clock */
    uint32_t next;      /* worker for the next connection in round robin */
    STAILQ_HEAD(, queued) queue;
    uint32_t queue_length;
};

static void set_accepting(struct dispatch *dispatch, bool accepting)
{
    if (dispatch->stopped || accepting == dispatch->accepting)
        return;
    dispatch->accepting = accepting;
    for (uint32_t i = 0; i < dispatch->readable_count; i++) {
        if (accepting)
            event_add(dispatch->readable[i], NULL);
        else
            event_del(dispatch->readable[i]);
    }
}

/* Choosing a worker */

/* Number of connections open in its threads or on their way to it. */
static uint64_t load_of(const struct segment *segment, const struct worker_process *worker)
{
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

/* Logs at most once a second. */
static void warn_of_descriptors(struct dispatch *dispatch, uint32_t slot)
{
    uint64_t now = clock_monotonic_ns();

    if (now - dispatch->warned_ns < NS_PER_S)
        return;
    dispatch->warned_ns = now;
    event_log(
        LEVEL_WARN,
        "worker slot %u has no free descriptor for another connection (raise the limit: ulimit -n)",
        slot);
}

enum { NOT_ABLE = -1 };

/* The load of WORKER if it can take one more connection, or NOT_ABLE. */
static int64_t load_if_able(struct dispatch *dispatch, const struct worker_process *worker)
{
    uint64_t load;

    if (worker->state != WORKER_SERVING || channel_is_broken(worker->connections) ||
        channel_backlog(worker->connections) > 0)
        return NOT_ABLE;
    load = load_of(&dispatch->server->segment, worker);
    if (load < capacity_of_worker(dispatch->server->config, &dispatch->descriptors))
        return (int64_t)load;
    warn_of_descriptors(dispatch, worker->slot);
    return NOT_ABLE;
}

static struct worker_process *next_in_turn(struct dispatch *dispatch)
{
    const struct workers *workers = dispatch->workers;

    for (uint32_t i = 0; i < workers->count; i++) {
        struct worker_process *worker = &workers->worker[dispatch->next++ % workers->count];

        if (load_if_able(dispatch, worker) != NOT_ABLE)
            return worker;
    }
    return NULL;
}

static struct worker_process *least_loaded(struct dispatch *dispatch)
{
    struct worker_process *best = NULL;
    int64_t best_load = INT64_MAX;

    for (uint32_t i = 0; i < dispatch->workers->count; i++) {
        struct worker_process *worker = &dispatch->workers->worker[i];
        int64_t load = load_if_able(dispatch, worker);

        if (load != NOT_ABLE && load < best_load) {
            best = worker;
            best_load = load;
        }
    }
    return best;
}

static struct worker_process *pick_worker(struct dispatch *dispatch)
{
    return dispatch->server->config->workers_balance == BALANCE_LEAST_CONNECTIONS
               ? least_loaded(dispatch)
               : next_in_turn(dispatch);
}

/*
 * Returns true if a worker's channel accepted the connection; its descriptor is then closed here.
 * If the channel is broken the worker has just died, and the next one gets the connection.
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
    metric_add(segment_master(&dispatch->server->segment)->metrics, METRIC_connections_dispatched,
               1);
    return true;
}

/* The queue */

static void publish_queue_length(const struct dispatch *dispatch)
{
    metric_set(segment_master(&dispatch->server->segment)->metrics, METRIC_dispatch_pending,
               dispatch->queue_length);
}

static void retry_soon(struct dispatch *dispatch)
{
    static const struct timeval soon = {.tv_usec = 10000};

    event_add(dispatch->retry, &soon);
}

static void enqueue(struct dispatch *dispatch, const void *message, size_t length, int fd)
{
    struct queued *queued = malloc(sizeof(*queued) + length);

    set_accepting(dispatch, false);
    retry_soon(dispatch);
    if (queued == NULL) {
        event_log(LEVEL_ERROR, "a connection was dropped: out of memory");
        close(fd);
        return;
    }
    queued->fd = fd;
    queued->length = length;
    memcpy(queued->message, message, length);
    STAILQ_INSERT_TAIL(&dispatch->queue, queued, link);
    dispatch->queue_length++;
    publish_queue_length(dispatch);
}

static void send_or_enqueue(struct dispatch *dispatch, const void *message, size_t length, int fd)
{
    if (dispatch->queue_length > 0 || !send_to_worker(dispatch, message, length, fd))
        enqueue(dispatch, message, length, fd);
}

void dispatch_return(struct dispatch *dispatch, const void *message, size_t length, int fd)
{
    if (fd >= 0)
        send_or_enqueue(dispatch, message, length, fd);
}

void dispatch_resume(struct dispatch *dispatch)
{
    struct queued *first;

    while ((first = STAILQ_FIRST(&dispatch->queue)) != NULL &&
           send_to_worker(dispatch, first->message, first->length, first->fd)) {
        STAILQ_REMOVE_HEAD(&dispatch->queue, link);
        dispatch->queue_length--;
        free(first);
    }
    publish_queue_length(dispatch);
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

static int accept_one(int listener, struct message_connection *message)
{
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof(peer);
    int fd = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);

    *message = (struct message_connection){.requests = 0};
    if (fd >= 0)
        network_socket_address(&peer, message->address);
    return fd;
}

/* True if connections.max connections are open, on their way to a worker, or queued. */
static bool is_full(const struct dispatch *dispatch)
{
    uint64_t max = dispatch->server->config->connections_max, all = dispatch->queue_length;

    if (max == 0)
        return false;
    for (uint32_t i = 0; i < dispatch->workers->count; i++)
        if (dispatch->workers->worker[i].state != WORKER_NONE)
            all += load_of(&dispatch->server->segment, &dispatch->workers->worker[i]);
    return all >= max;
}

static void on_readable(evutil_socket_t listener, short what, void *argument)
{
    struct dispatch *dispatch = argument;

    (void)what;
    for (int i = 0; i < ACCEPTS_PER_ITERATION && dispatch->accepting; i++) {
        struct message_connection message;
        int fd;

        if (is_full(dispatch)) { /* more connections stay in the accept queue */
            set_accepting(dispatch, false);
            retry_soon(dispatch);
            return;
        }
        fd = accept_one(listener, &message);
        if (fd < 0) {
            accept_failed(dispatch);
            return;
        }
        send_or_enqueue(dispatch, &message, sizeof(message), fd);
    }
}

void dispatch_drain_listener(void *dispatch, int fd)
{
    struct message_connection message;
    int client;

    while ((client = accept_one(fd, &message)) >= 0)
        send_or_enqueue(dispatch, &message, sizeof(message), client);
}

static void on_retry(evutil_socket_t fd, short what, void *argument)
{
    struct dispatch *dispatch = argument;

    (void)fd, (void)what;
    dispatch_resume(dispatch);
    if (dispatch->queue_length > 0)
        retry_soon(dispatch);
}

void dispatch_stop_accepting(struct dispatch *dispatch)
{
    set_accepting(dispatch, false);
    dispatch->stopped = true;
}

static void free_events(struct dispatch *dispatch)
{
    for (uint32_t i = 0; i < dispatch->readable_count; i++)
        event_free(dispatch->readable[i]);
    free(dispatch->readable);
    dispatch->readable = NULL;
    dispatch->readable_count = 0;
    dispatch->accepting = false;
}

static int make_events(struct dispatch *dispatch)
{
    const struct listeners *listeners = dispatch->server->listeners;
    uint32_t count = listeners_count(listeners);
    bool all = dispatch->server->config->workers_dispatch == DISPATCH_MASTER;

    dispatch->readable = calloc(count, sizeof(struct event *));
    if (dispatch->readable == NULL)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        int fd = listeners_fd(listeners, i);
        struct event *event;

        if (fd < 0 || (!all && !listeners_is_shared(listeners, i)))
            continue;
        event = event_new(dispatch->server->base, fd, EV_READ | EV_PERSIST, on_readable, dispatch);
        if (event == NULL)
            return -1;
        dispatch->readable[dispatch->readable_count++] = event;
    }
    return 0;
}

int dispatch_update_listeners(struct dispatch *dispatch)
{
    free_events(dispatch);
    if (make_events(dispatch) != 0)
        return -1;
    dispatch_resume(dispatch);
    return 0;
}

struct dispatch *dispatch_new(struct server *server, const struct workers *workers)
{
    struct dispatch *dispatch = calloc(1, sizeof(*dispatch));

    if (dispatch == NULL)
        return NULL;
    dispatch->server = server;
    dispatch->workers = workers;
    dispatch->descriptors.rlim_cur = RLIM_INFINITY;
    getrlimit(RLIMIT_NOFILE, &dispatch->descriptors);
    STAILQ_INIT(&dispatch->queue);
    dispatch->retry = event_new(server->base, -1, 0, on_retry, dispatch);
    if (dispatch->retry == NULL || make_events(dispatch) != 0) {
        dispatch_free(dispatch);
        return NULL;
    }
    return dispatch;
}

void dispatch_free(struct dispatch *dispatch)
{
    struct queued *queued;

    if (dispatch == NULL)
        return;
    while ((queued = STAILQ_FIRST(&dispatch->queue)) != NULL) {
        STAILQ_REMOVE_HEAD(&dispatch->queue, link);
        close(queued->fd);
        free(queued);
    }
    free_events(dispatch);
    loop_free_event(dispatch->retry);
    free(dispatch);
}
