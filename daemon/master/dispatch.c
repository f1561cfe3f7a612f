#include "daemon/master/dispatch.h"

#include "common/clock.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/network.h"
#include "daemon/master/capacity.h"
#include "daemon/master/returned.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPTS_PER_ITERATION = 64,
    QUEUE_MAX = 1024, /* connections in the queue; more stay in the channels of leaving workers */
    SHED_INTERVAL_MS = 100, /* between two requests to workers to close idle connections */
    SHED_MAX = 256,         /* connections per request */
    RETRY_MS = 10,
    WARN_AGAIN_S = 10, /* after a shortage of descriptors */
};

/* A connection that waits until a worker can take it. */
struct queued {
    STAILQ_ENTRY(queued) link;
    int fd;
    size_t length;
    char message[]; /* struct message_connection */
};

/* A listen socket that the master accepts from. */
struct source {
    struct dispatch *dispatch;
    struct event *readable;
    uint8_t opening; /* of its connections */
};

struct dispatch {
    struct server *server;
    const struct workers *workers;
    struct source *source;
    uint32_t source_count;
    struct event *retry;       /* a timer, because nothing reports free descriptors */
    struct rlimit descriptors; /* limit of a worker: equal to the master's, never changes */
    bool accepting, stopped;
    bool flushing;                     /* the last connections are passed on */
    bool incomplete;                   /* a listen socket is not watched for lack of memory */
    uint64_t short_ns;                 /* when a worker last lacked descriptors, monotonic clock */
    uint64_t shed_ns;                  /* when a worker was last asked to close idle connections */
    uint64_t shed_dispatched;          /* connections_dispatched then */
    uint32_t shed_worker, shed_wanted; /* the next to ask, and for how many */
    uint32_t next;                     /* worker for the next connection in round robin */
    STAILQ_HEAD(, queued) queue;
    uint32_t queue_length;
    bool returns_stopped; /* connections that workers return are not read */
};

static void set_accepting(struct dispatch *dispatch, bool accepting)
{
    if (dispatch->stopped || (accepting == dispatch->accepting && !dispatch->incomplete))
        return;
    dispatch->accepting = accepting;
    dispatch->incomplete = false;
    for (uint32_t i = 0; i < dispatch->source_count; i++) {
        if (!accepting)
            event_del(dispatch->source[i].readable);
        else if (event_add(dispatch->source[i].readable, NULL) != 0)
            dispatch->incomplete = true;
    }
}

/* Making room */

static bool has_descriptors(const struct dispatch *dispatch, const struct worker_process *worker)
{
    return worker_process_load(worker, &dispatch->server->segment) <
           capacity_of_worker(dispatch->server->config, &dispatch->descriptors);
}

/* Logs once per shortage. */
static void warn_of_shortage(struct dispatch *dispatch, uint32_t slot, uint64_t now)
{
    if (dispatch->short_ns == 0 || now - dispatch->short_ns >= WARN_AGAIN_S * NS_PER_S)
        event_log(LEVEL_WARN,
                  "worker slot %u has no free descriptor for another connection (raise the limit: "
                  "ulimit -n)",
                  slot);
    dispatch->short_ns = now;
}

/* The next worker in turn, or if DESCRIPTORS the next one that lacks them; NULL: there is none. */
static struct worker_process *next_to_shed(struct dispatch *dispatch, bool descriptors)
{
    const struct workers *workers = dispatch->workers;

    for (uint32_t i = 0; i < workers->count; i++) {
        struct worker_process *worker = &workers->worker[dispatch->shed_worker++ % workers->count];

        if (worker->state == WORKER_SERVING && !channel_is_broken(worker->commands) &&
            !(descriptors && has_descriptors(dispatch, worker)))
            return worker;
    }
    return NULL;
}

/*
 * Asks a worker to close idle connections, because connections.max is reached or no worker has
 * DESCRIPTORS left: one, and twice as many each time that this made room, until no connection
 * waits.
 */
static void ask_to_shed(struct dispatch *dispatch, bool descriptors)
{
    uint64_t dispatched = metric_get(segment_master(&dispatch->server->segment)->metrics,
                                     METRIC_connections_dispatched);
    struct message_shed message = {dispatch->shed_wanted, descriptors};
    uint64_t now = clock_monotonic_ns();
    struct worker_process *worker;

    if (now - dispatch->shed_ns < SHED_INTERVAL_MS * NS_PER_MS)
        return;
    worker = next_to_shed(dispatch, descriptors);
    if (worker == NULL)
        return;
    if (descriptors)
        warn_of_shortage(dispatch, worker->slot, now);
    if (dispatched == dispatch->shed_dispatched)
        message.connections = 1;
    channel_send(worker->commands, MESSAGE_SHED, &message, sizeof(message), -1, false);
    dispatch->shed_ns = now;
    dispatch->shed_dispatched = dispatched;
    dispatch->shed_wanted = message.connections < SHED_MAX ? 2 * message.connections : SHED_MAX;
}

/* Choosing a worker */

enum { NOT_ABLE = -1 };

/* The load of WORKER if it can take one more connection, or NOT_ABLE. */
static int64_t load_if_able(const struct dispatch *dispatch, const struct worker_process *worker)
{
    if (worker->state != WORKER_SERVING || channel_is_broken(worker->connections))
        return NOT_ABLE;
    if (!dispatch->flushing &&
        (channel_backlog(worker->connections) > 0 || !has_descriptors(dispatch, worker)))
        return NOT_ABLE;
    return (int64_t)worker_process_load(worker, &dispatch->server->segment);
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

/* If no worker is able, asks one that lacks descriptors for some and returns NULL. */
static struct worker_process *pick_worker(struct dispatch *dispatch)
{
    struct worker_process *worker =
        dispatch->server->config->workers_balance == BALANCE_LEAST_CONNECTIONS
            ? least_loaded(dispatch)
            : next_in_turn(dispatch);

    if (worker == NULL)
        ask_to_shed(dispatch, true);
    return worker;
}

/*
 * Returns true if a worker's channel accepted the connection, that of FIRST if it is able; the
 * descriptor is then closed here. If the channel is broken the worker has just died, and the next
 * one gets the connection.
 */
static bool send_to_worker(struct dispatch *dispatch, struct worker_process *first,
                           const void *message, size_t length, int fd)
{
    bool able = first != NULL && load_if_able(dispatch, first) != NOT_ABLE;
    struct worker_process *worker = able ? first : pick_worker(dispatch);

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
    loop_start_timer(dispatch->retry, RETRY_MS);
}

static void set_reading_returns(struct dispatch *dispatch, bool reading)
{
    dispatch->returns_stopped = !reading;
    for (uint32_t i = 0; i < dispatch->workers->count; i++) {
        const struct worker_process *worker = &dispatch->workers->worker[i];

        if (worker->state != WORKER_NONE && worker->killed_for == NULL)
            channel_set_reading(worker->connections, reading);
    }
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
    if (dispatch->queue_length >= QUEUE_MAX)
        set_reading_returns(dispatch, false);
}

static void send_or_enqueue(struct dispatch *dispatch, struct worker_process *first,
                            const void *message, size_t length, int fd)
{
    if (dispatch->queue_length > 0 || !send_to_worker(dispatch, first, message, length, fd))
        enqueue(dispatch, message, length, fd);
}

const char *dispatch_returned(struct dispatch *dispatch, struct worker_process *worker,
                              struct worker_process *to, const struct message_connection *message,
                              size_t length, int fd)
{
    const char *fault = NULL;
    bool open = false;

    if (++worker->returned > worker->returns_allowed)
        fault = "returned a connection unasked";
    else if (fd >= 0)
        fault = returned_fault(fd, message, &dispatch->server->config->proxy_trusted, &open);
    if (open)
        send_or_enqueue(dispatch, to, message, length, fd);
    else if (fd >= 0)
        close(fd);
    return fault;
}

void dispatch_again(struct dispatch *dispatch, const void *message, size_t length, int fd)
{
    if (fd >= 0)
        send_or_enqueue(dispatch, NULL, message, length, fd);
}

void dispatch_resume(struct dispatch *dispatch)
{
    struct queued *first;

    while ((first = STAILQ_FIRST(&dispatch->queue)) != NULL &&
           send_to_worker(dispatch, NULL, first->message, first->length, first->fd)) {
        STAILQ_REMOVE_HEAD(&dispatch->queue, link);
        dispatch->queue_length--;
        free(first);
    }
    publish_queue_length(dispatch);
    if (dispatch->returns_stopped && dispatch->queue_length < QUEUE_MAX)
        set_reading_returns(dispatch, true);
    if (first == NULL)
        set_accepting(dispatch, true);
}

/* Accepting */

static void accept_failed(struct dispatch *dispatch)
{
    if (errno == EAGAIN)
        dispatch->shed_wanted = 1; /* no connection waits */
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
        return;
    event_log(LEVEL_WARN, "cannot accept a connection: %s; trying again in a second",
              strerror(errno));
    set_accepting(dispatch, false);
    loop_start_timer(dispatch->retry, 1000);
}

static int accept_one(int listener, uint8_t opening, struct message_connection *message)
{
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof(peer);
    int fd = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);

    *message = (struct message_connection){.opening = opening};
    if (fd >= 0)
        network_socket_address(&peer, message->address);
    return fd;
}

/*
 * True if connections.max connections are open, on their way to a worker, or queued. A worker that
 * claims more than it has cannot deny the others their fair share.
 */
static bool is_full(const struct dispatch *dispatch)
{
    const struct config *config = dispatch->server->config;
    uint64_t max = config->connections_max, fair = max / config->workers_processes;
    uint64_t all = dispatch->queue_length;

    if (max == 0)
        return false;
    for (uint32_t i = 0; i < dispatch->workers->count; i++) {
        const struct worker_process *worker = &dispatch->workers->worker[i];
        uint64_t load = worker->state == WORKER_NONE
                            ? 0
                            : worker_process_load(worker, &dispatch->server->segment);

        if (worker->state == WORKER_SERVING && load + dispatch->queue_length < fair)
            return false;
        all = load < max ? all + load : max;
    }
    return all >= max;
}

/* More connections stay in the accept queue. */
static void wait_for_room(struct dispatch *dispatch)
{
    ask_to_shed(dispatch, false);
    set_accepting(dispatch, false);
    retry_soon(dispatch);
}

/*
 * The first turn finds a waiting connection; for the next ones nothing is closed, because maybe no
 * other one waits. If one does, this is called again.
 */
static void on_readable(evutil_socket_t listener, short what, void *argument)
{
    const struct source *source = argument;
    struct dispatch *dispatch = source->dispatch;

    (void)what;
    for (int i = 0; i < ACCEPTS_PER_ITERATION && dispatch->accepting; i++) {
        struct message_connection message;
        int fd;

        if (is_full(dispatch)) {
            if (i == 0)
                wait_for_room(dispatch);
            return;
        }
        fd = accept_one(listener, source->opening, &message);
        if (fd < 0) {
            accept_failed(dispatch);
            return;
        }
        send_or_enqueue(dispatch, NULL, &message, sizeof(message), fd);
    }
}

void dispatch_drain_listener(void *dispatch, int fd, uint8_t opening)
{
    struct message_connection message;
    int client;

    while ((client = accept_one(fd, opening, &message)) >= 0)
        send_or_enqueue(dispatch, NULL, &message, sizeof(message), client);
}

static void on_retry(evutil_socket_t fd, short what, void *argument)
{
    struct dispatch *dispatch = argument;

    (void)fd, (void)what;
    dispatch_resume(dispatch);
    if (dispatch->queue_length > 0)
        retry_soon(dispatch);
}

void dispatch_flush(struct dispatch *dispatch)
{
    dispatch->flushing = true;
    dispatch_resume(dispatch);
}

void dispatch_take_all(struct dispatch *dispatch)
{
    const struct listeners *listeners = dispatch->server->listeners;

    dispatch_flush(dispatch);
    for (uint32_t i = 0; listeners != NULL && i < listeners_count(listeners); i++)
        if (listeners_is_ours(listeners, i))
            dispatch_drain_listener(dispatch, listeners_fd(listeners, i),
                                    listeners_opening(listeners, i));
}

void dispatch_stop_accepting(struct dispatch *dispatch)
{
    set_accepting(dispatch, false);
    dispatch->stopped = true;
}

static void free_events(struct dispatch *dispatch)
{
    for (uint32_t i = 0; i < dispatch->source_count; i++)
        event_free(dispatch->source[i].readable);
    free(dispatch->source);
    dispatch->source = NULL;
    dispatch->source_count = 0;
    dispatch->accepting = false;
}

static int make_events(struct dispatch *dispatch)
{
    const struct listeners *listeners = dispatch->server->listeners;
    uint32_t count = listeners_count(listeners);
    bool all = dispatch->server->config->workers_dispatch == DISPATCH_MASTER;

    dispatch->source = calloc(count, sizeof(struct source));
    if (dispatch->source == NULL)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        struct source *source = &dispatch->source[dispatch->source_count];
        int fd = listeners_fd(listeners, i);

        if (fd < 0 || (!all && !listeners_is_shared(listeners, i)))
            continue;
        source->dispatch = dispatch;
        source->opening = listeners_opening(listeners, i);
        source->readable =
            event_new(dispatch->server->base, fd, EV_READ | EV_PERSIST, on_readable, source);
        if (source->readable == NULL)
            return -1;
        dispatch->source_count++;
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
    dispatch->shed_wanted = 1;
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
