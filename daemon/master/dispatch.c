#include "daemon/master/internal.h"

#include "common/clock.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/network.h"
#include "daemon/config/value.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPTS_PER_ITERATION = 64,
    QUEUE_MAX = 1024, /* connections in the queue; more stay in the channels of leaving workers */
    SHED_INTERVAL_MS = 100, /* workers are asked to close idle connections no more often */
    SHED_MAX = 256,         /* connections per request */
    RETRY_MS = 10,
    WARN_AGAIN_S = 10, /* a shortage of descriptors is logged no more often */
    RETURNED_ROOM_MIN = 1024,
};

/* A connection that waits until a worker can take it. */
struct queued_connection {
    STAILQ_ENTRY(queued_connection) link;
    int fd;
    size_t length;
    char message[]; /* struct message_connection */
};

static void set_dispatch_accepting(struct dispatch *dispatch, bool accepting)
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

static bool has_descriptors(const struct master *master, const struct worker_process *worker)
{
    const struct dispatch *dispatch = &master->dispatch;

    return worker_process_load(worker, &master->segment) <
           capacity_of_worker(master->config, &dispatch->descriptors);
}

/* The next worker in turn, or if DESCRIPTORS the next one that lacks them; NULL: there is none. */
static struct worker_process *next_to_shed(struct master *master, bool descriptors)
{
    struct dispatch *dispatch = &master->dispatch;
    const struct workers *workers = &master->workers;

    for (uint32_t i = 0; i < workers->count; i++) {
        struct worker_process *worker = &workers->worker[dispatch->shed_worker++ % workers->count];

        if (worker->state == WORKER_SERVING && !channel_is_broken(worker->commands) &&
            !(descriptors && has_descriptors(master, worker)))
            return worker;
    }
    return NULL;
}

/*
 * Asks a worker to close idle connections, because connections.max is reached or no worker has
 * DESCRIPTORS left: one, and twice as many each time that this made room, until no connection
 * waits.
 */
static void ask_to_shed(struct master *master, bool descriptors)
{
    struct dispatch *dispatch = &master->dispatch;
    uint64_t dispatched =
        metric_get(segment_master(&master->segment)->metrics, METRIC_connections_dispatched);
    struct message_shed message = {dispatch->shed_wanted, descriptors};
    uint64_t now = clock_monotonic_ns();
    struct worker_process *worker;

    if (now - dispatch->shed_ns < SHED_INTERVAL_MS * NS_PER_MS)
        return;
    worker = next_to_shed(master, descriptors);
    if (worker == NULL)
        return;
    if (descriptors) {
        if (dispatch->short_ns == 0 || now - dispatch->short_ns >= WARN_AGAIN_S * NS_PER_S)
            event_log(LEVEL_WARN,
                      "worker %u has no free descriptor for another connection (raise the "
                      "limit: ulimit -n)",
                      worker->slot);
        dispatch->short_ns = now;
    }
    if (dispatched == dispatch->shed_dispatched)
        message.connections = 1;
    channel_send(worker->commands, MESSAGE_SHED, &message, sizeof(message), -1, false);
    dispatch->shed_ns = now;
    dispatch->shed_dispatched = dispatched;
    dispatch->shed_wanted = message.connections < SHED_MAX ? 2 * message.connections : SHED_MAX;
}

/* Choosing a worker */

enum { NOT_ABLE = -1 };

/* The load of WORKER, as it says, if it can take one more connection, or NOT_ABLE. */
static int64_t load_if_able(const struct master *master, const struct worker_process *worker)
{
    const struct dispatch *dispatch = &master->dispatch;

    if (worker->state != WORKER_SERVING || channel_is_broken(worker->connections) ||
        (workers_hold_back(&master->workers) && worker_is_current(worker)))
        return NOT_ABLE;
    if (!dispatch->flushing &&
        (channel_backlog(worker->connections) > 0 || !has_descriptors(master, worker)))
        return NOT_ABLE;
    return (int64_t)worker_process_load(worker, &master->segment);
}

static struct worker_process *next_in_turn(struct master *master)
{
    struct dispatch *dispatch = &master->dispatch;
    const struct workers *workers = &master->workers;

    for (uint32_t i = 0; i < workers->count; i++) {
        struct worker_process *worker = &workers->worker[dispatch->next++ % workers->count];

        if (load_if_able(master, worker) != NOT_ABLE)
            return worker;
    }
    return NULL;
}

/*
 * A worker's claim can be false. So its load is at least the average of the others, unless the
 * master has given it fewer connections than that, less those that came back.
 */
static int64_t believed_load(const struct worker_process *worker, int64_t claimed,
                             int64_t others_average)
{
    int64_t given = worker->dispatched > worker->returned
                        ? (int64_t)(worker->dispatched - worker->returned)
                        : 0;
    int64_t least = given < others_average ? given : others_average;

    return claimed > least ? claimed : least;
}

/* Of equal ones the next in turn. */
static struct worker_process *least_loaded_worker(struct master *master)
{
    const struct workers *workers = &master->workers;
    int64_t load[WORKERS_MAX], sum = 0, able = 0, best_load = INT64_MAX;
    struct worker_process *best = NULL;

    for (uint32_t i = 0; i < workers->count; i++) {
        load[i] = load_if_able(master, &workers->worker[i]);
        if (load[i] == NOT_ABLE)
            continue;
        sum += load[i];
        able++;
    }
    for (uint32_t i = 0; i < workers->count; i++) {
        uint32_t slot = (master->dispatch.next + i) % workers->count;
        int64_t others = able > 1 ? able - 1 : 1, believed;

        if (load[slot] == NOT_ABLE)
            continue;
        believed = believed_load(&workers->worker[slot], load[slot],
                                 (sum - load[slot] + others - 1) / others);
        if (believed >= best_load)
            continue;
        best = &workers->worker[slot];
        best_load = believed;
    }
    if (best != NULL)
        master->dispatch.next = best->slot + 1;
    return best;
}

/* If no worker is able, asks one that lacks descriptors for some and returns NULL. */
static struct worker_process *pick_worker(struct master *master)
{
    struct worker_process *worker = master->config->workers_balance == BALANCE_LEAST_CONNECTIONS
                                        ? least_loaded_worker(master)
                                        : next_in_turn(master);

    if (worker == NULL && !workers_hold_back(&master->workers))
        ask_to_shed(master, true);
    return worker;
}

/*
 * Returns true if a worker's channel accepted the connection, that of FIRST if it is able; the
 * descriptor is then closed here. If the channel is broken the worker has just died, and the next
 * one gets the connection.
 */
static bool send_to_worker(struct master *master, struct worker_process *first, const void *message,
                           size_t length, int fd)
{
    bool able = first != NULL && load_if_able(master, first) != NOT_ABLE;
    struct worker_process *worker = able ? first : pick_worker(master);

    while (worker != NULL &&
           channel_send(worker->connections, MESSAGE_CONNECTION, message, length, fd, true) != 0)
        worker = channel_is_broken(worker->connections) ? pick_worker(master) : NULL;
    if (worker == NULL)
        return false;
    worker->dispatched++;
    metric_add(segment_master(&master->segment)->metrics, METRIC_connections_dispatched, 1);
    return true;
}

/* Connections that workers return */

/* The value of a socket option; -1 if FD is not a socket. */
static int socket_option(int fd, int name)
{
    int value = -1;
    socklen_t length = sizeof(value);

    return getsockopt(fd, SOL_SOCKET, name, &value, &length) == 0 ? value : -1;
}

static bool is_stream(int fd)
{
    int domain = socket_option(fd, SO_DOMAIN);

    return (domain == AF_INET || domain == AF_INET6 || domain == AF_UNIX) &&
           socket_option(fd, SO_TYPE) == SOCK_STREAM && socket_option(fd, SO_ACCEPTCONN) == 0;
}

const char *dispatch_fault(int fd, const struct message_connection *message,
                           const struct network_set *trusted, bool *open)
{
    struct sockaddr_storage peer = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof(peer);
    uint8_t actual[CLIENT_ADDRESS_BYTES];

    *open = false;
    if (!is_stream(fd))
        return "returned a descriptor that is not a connection";
    if (getpeername(fd, (struct sockaddr *)&peer, &length) != 0)
        return NULL; /* the client has reset it */
    network_socket_address(&peer, actual);
    *open = memcmp(actual, message->address, sizeof(actual)) == 0 ||
            (message->proxied != 0 && network_set_contains(trusted, actual));
    return *open || message->proxied != 0 ? NULL : "returned a connection with a wrong address";
}

/* Returns true if the table has COOKIE, which is not 0, or no place for it; else adds it. */
static bool find_or_add_cookie(struct worker_process *worker, uint64_t cookie)
{
    size_t mask = worker->returned_room - 1, at = (cookie * UINT64_C(0x9e3779b97f4a7c15)) >> 32;

    for (size_t i = 0; i < worker->returned_room; i++, at++) {
        uint64_t *place = &worker->returned_sockets[at & mask];

        if (*place == cookie)
            return true;
        if (*place == 0) {
            *place = cookie;
            worker->returned_count++;
            return false;
        }
    }
    return true;
}

static bool grow_returned(struct worker_process *worker)
{
    struct worker_process larger = {
        .returned_room = worker->returned_room > 0 ? 2 * worker->returned_room : RETURNED_ROOM_MIN};

    larger.returned_sockets = calloc(larger.returned_room, sizeof(uint64_t));
    if (larger.returned_sockets == NULL)
        return false;
    for (size_t i = 0; i < worker->returned_room; i++)
        if (worker->returned_sockets[i] != 0)
            find_or_add_cookie(&larger, worker->returned_sockets[i]);
    free(worker->returned_sockets);
    worker->returned_sockets = larger.returned_sockets;
    worker->returned_room = larger.returned_room;
    return true;
}

/*
 * A leaving worker receives no connections any more, so it can return each only once. Copies of one
 * would take descriptors and memory of the other workers. Without memory a copy is not noticed.
 */
static bool is_returned_again(struct worker_process *worker, int fd)
{
    uint64_t cookie = 0;
    socklen_t length = sizeof(cookie);

    if (!worker->leave_sent || getsockopt(fd, SOL_SOCKET, SO_COOKIE, &cookie, &length) != 0 ||
        cookie == 0 ||
        (2 * worker->returned_count >= worker->returned_room && !grow_returned(worker)))
        return false;
    return find_or_add_cookie(worker, cookie);
}

/* The queue */

static void publish_queue_length(const struct master *master)
{
    const struct dispatch *dispatch = &master->dispatch;

    metric_set(segment_master(&master->segment)->metrics, METRIC_dispatch_pending,
               dispatch->queue_length);
}

static void retry_soon(struct dispatch *dispatch)
{
    loop_start_timer(dispatch->retry, RETRY_MS);
}

static void set_reading_returns(struct master *master, bool reading)
{
    struct dispatch *dispatch = &master->dispatch;

    dispatch->returns_stopped = !reading;
    for (uint32_t i = 0; i < master->workers.count; i++) {
        const struct worker_process *worker = &master->workers.worker[i];

        if (worker->state != WORKER_NONE && worker->killed_for == NULL)
            channel_set_reading(worker->connections, reading);
    }
}

static void queue_connection(struct master *master, const void *message, size_t length, int fd)
{
    struct dispatch *dispatch = &master->dispatch;
    struct queued_connection *queued = malloc(sizeof(*queued) + length);

    set_dispatch_accepting(dispatch, false);
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
    publish_queue_length(master);
    if (dispatch->queue_length >= QUEUE_MAX)
        set_reading_returns(master, false);
}

static void send_or_enqueue(struct master *master, struct worker_process *first,
                            const void *message, size_t length, int fd)
{
    struct dispatch *dispatch = &master->dispatch;

    if (dispatch->queue_length > 0 || !send_to_worker(master, first, message, length, fd))
        queue_connection(master, message, length, fd);
}

const char *dispatch_returned(struct master *master, struct worker_process *worker,
                              struct worker_process *to, const struct message_connection *message,
                              size_t length, int fd)
{
    const char *fault = NULL;
    bool open = false;

    if (++worker->returned > worker->returns_allowed)
        fault = "returned a connection unasked";
    else if (fd >= 0)
        fault = dispatch_fault(fd, message, &master->config->proxy_trusted.set, &open);
    if (open && is_returned_again(worker, fd)) {
        fault = "returned a connection twice";
        open = false;
    }
    if (open)
        send_or_enqueue(master, to, message, length, fd);
    else if (fd >= 0)
        close(fd);
    return fault;
}

void dispatch_again(struct master *master, const void *message, size_t length, int fd)
{
    if (fd >= 0)
        send_or_enqueue(master, NULL, message, length, fd);
}

void dispatch_resume(struct master *master)
{
    struct dispatch *dispatch = &master->dispatch;
    struct queued_connection *first;

    while ((first = STAILQ_FIRST(&dispatch->queue)) != NULL &&
           send_to_worker(master, NULL, first->message, first->length, first->fd)) {
        STAILQ_REMOVE_HEAD(&dispatch->queue, link);
        dispatch->queue_length--;
        free(first);
    }
    publish_queue_length(master);
    if (dispatch->returns_stopped && dispatch->queue_length < QUEUE_MAX)
        set_reading_returns(master, true);
    if (first == NULL)
        set_dispatch_accepting(dispatch, true);
}

/* Accepting */

static void accept_failed(struct master *master)
{
    struct dispatch *dispatch = &master->dispatch;

    if (errno == EAGAIN)
        dispatch->shed_wanted = 1; /* no connection waits */
    if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
        return;
    event_log(LEVEL_WARN, "cannot accept a connection: %s; trying again in a second",
              strerror(errno));
    set_dispatch_accepting(dispatch, false);
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
static bool is_full(const struct master *master)
{
    const struct dispatch *dispatch = &master->dispatch;
    const struct config *config = master->config;
    uint64_t max = config->connections_max, fair = max / config->workers_processes;
    uint64_t all = dispatch->queue_length;

    if (max == 0)
        return false;
    for (uint32_t i = 0; i < master->workers.count; i++) {
        const struct worker_process *worker = &master->workers.worker[i];
        uint64_t load =
            worker->state == WORKER_NONE ? 0 : worker_process_load(worker, &master->segment);

        if (worker->state == WORKER_SERVING && load + dispatch->queue_length < fair)
            return false;
        all = load < max ? all + load : max;
    }
    return all >= max;
}

/*
 * The first turn finds a waiting connection; for the next ones nothing is closed, because maybe no
 * other one waits. If one does, this is called again.
 */
static void on_listener(evutil_socket_t listener, short what, void *argument)
{
    const struct dispatch_source *source = argument;
    struct master *master = source->master;

    (void)what;
    for (int i = 0; i < ACCEPTS_PER_ITERATION && master->dispatch.accepting; i++) {
        struct message_connection message;
        int fd;

        if (is_full(master)) {
            if (i == 0) { /* more connections stay in the accept queue */
                ask_to_shed(master, false);
                set_dispatch_accepting(&master->dispatch, false);
                retry_soon(&master->dispatch);
            }
            return;
        }
        fd = accept_one(listener, source->opening, &message);
        if (fd < 0) {
            accept_failed(master);
            return;
        }
        send_or_enqueue(master, NULL, &message, sizeof(message), fd);
    }
}

void dispatch_drain_listener(void *master, int fd, uint8_t opening)
{
    struct message_connection message;
    int client;

    while ((client = accept_one(fd, opening, &message)) >= 0)
        send_or_enqueue(master, NULL, &message, sizeof(message), client);
}

static void on_dispatch_retry(evutil_socket_t fd, short what, void *argument)
{
    struct master *master = argument;

    (void)fd, (void)what;
    dispatch_resume(master);
    if (master->dispatch.queue_length > 0)
        retry_soon(&master->dispatch);
}

void dispatch_flush(struct master *master)
{
    struct dispatch *dispatch = &master->dispatch;

    dispatch->flushing = true;
    dispatch_resume(master);
}

void dispatch_take_all(struct master *master)
{
    const struct listeners *listeners = master->listeners;

    dispatch_flush(master);
    for (uint32_t i = 0; listeners != NULL && i < listeners_count(listeners); i++)
        if (listeners_is_ours(listeners, i))
            dispatch_drain_listener(master, listeners_fd(listeners, i),
                                    listeners_opening(listeners, i));
}

void dispatch_stop_accepting(struct dispatch *dispatch)
{
    set_dispatch_accepting(dispatch, false);
    dispatch->stopped = true;
}

static void free_sources(struct dispatch *dispatch)
{
    for (uint32_t i = 0; i < dispatch->source_count; i++)
        event_free(dispatch->source[i].readable);
    free(dispatch->source);
    dispatch->source = NULL;
    dispatch->source_count = 0;
    dispatch->accepting = false;
}

static int make_sources(struct master *master)
{
    struct dispatch *dispatch = &master->dispatch;
    const struct listeners *listeners = master->listeners;
    uint32_t count = listeners_count(listeners);
    bool all = master->config->workers_dispatch == DISPATCH_MASTER;

    dispatch->source = calloc(count, sizeof(*dispatch->source));
    if (dispatch->source == NULL)
        return -1;
    for (uint32_t i = 0; i < count; i++) {
        struct dispatch_source *source = &dispatch->source[dispatch->source_count];
        int fd = listeners_fd(listeners, i);

        if (fd < 0 || (!all && !listeners_is_shared(listeners, i)))
            continue;
        source->master = master;
        source->opening = listeners_opening(listeners, i);
        source->readable = event_new(master->base, fd, EV_READ | EV_PERSIST, on_listener, source);
        if (source->readable == NULL)
            return -1;
        dispatch->source_count++;
    }
    return 0;
}

int dispatch_update_listeners(struct master *master)
{
    free_sources(&master->dispatch);
    if (make_sources(master) != 0)
        return -1;
    dispatch_resume(master);
    return 0;
}

int dispatch_init(struct master *master)
{
    struct dispatch *dispatch = &master->dispatch;

    dispatch->shed_wanted = 1;
    dispatch->descriptors.rlim_cur = RLIM_INFINITY;
    getrlimit(RLIMIT_NOFILE, &dispatch->descriptors);
    STAILQ_INIT(&dispatch->queue);
    dispatch->retry = event_new(master->base, -1, 0, on_dispatch_retry, master);
    return dispatch->retry != NULL && make_sources(master) == 0 ? 0 : -1;
}

void dispatch_free(struct dispatch *dispatch)
{
    struct queued_connection *queued;

    while ((queued = STAILQ_FIRST(&dispatch->queue)) != NULL) {
        STAILQ_REMOVE_HEAD(&dispatch->queue, link);
        close(queued->fd);
        free(queued);
    }
    free_sources(dispatch);
    loop_free_event(dispatch->retry);
}
