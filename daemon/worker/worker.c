#include "daemon/worker/worker.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/channel.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/messages.h"
#include "daemon/base/signals.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/content/cache.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/worker/broadcast.h"
#include "daemon/worker/context.h"
#include "daemon/worker/listeners.h"
#include "daemon/worker/thread.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLOSE_UNUSED_NS (60 * NS_PER_S)

struct worker {
    struct worker_context context;
    struct segment_worker *block;
    struct event_base *base;
    struct event *mail, *heartbeat, *retry;
    uint64_t closed_unused_ns;              /* when the cache last closed unused descriptors */
    struct mailbox mailbox;                 /* of the main thread */
    struct channel *commands, *connections; /* to the master */

    struct serving_thread **threads; /* threads[0 .. count) */
    uint32_t count, capacity;
    uint32_t ending; /* threads that are exiting */

    struct worker_listeners listeners;
    struct arrival *deferred;  /* rejected by all mailboxes; reading is paused until one has room */
    bool leaving;              /* returns connections to the master */
    bool stopping;             /* finishes its connections */
    enum thread_mode end_mode; /* of its threads, if leaving or stopping */
};

/* Threads */

static uint32_t threads_alive(const struct worker *worker)
{
    return worker->count + worker->ending;
}

static void publish_threads(struct worker *worker)
{
    atomic_store_explicit(&worker->block->threads_actual, threads_alive(worker),
                          memory_order_relaxed);
}

/* Reports to the master when no thread is exiting. */
static void report_threads(struct worker *worker)
{
    struct message_threads_running report = {worker->count};

    publish_threads(worker);
    if (worker->ending == 0 && !worker->leaving && !worker->stopping)
        channel_send(worker->commands, MESSAGE_THREADS_RUNNING, &report, sizeof(report), -1, false);
}

static struct serving_thread *least_loaded(const struct worker *worker)
{
    struct serving_thread *best = NULL;
    uint64_t best_load = UINT64_MAX;

    for (uint32_t i = 0; i < worker->count; i++) {
        uint64_t load = thread_load(worker->threads[i]);

        if (load < best_load) {
            best = worker->threads[i];
            best_load = load;
        }
    }
    return best;
}

static bool start_thread(struct worker *worker, uint32_t slot)
{
    struct serving_thread *thread = thread_new(&worker->context, slot);

    if (thread == NULL || thread_start(thread) != 0) {
        event_log(LEVEL_ERROR, "cannot start serving thread %u: %s", worker->count,
                  strerror(errno));
        if (thread != NULL)
            thread_free(thread, false);
        return false;
    }
    worker->threads[worker->count++] = thread;
    return true;
}

static void end_threads(struct worker *worker, uint32_t keep, enum thread_mode mode)
{
    while (worker->count > keep) {
        struct serving_thread *thread = worker->threads[--worker->count];

        thread_leave(thread, mode);
        worker->ending++;
    }
}

static void assign_listeners(struct worker *worker)
{
    worker_listeners_assign(&worker->listeners, worker->threads, worker->count);
}

static void set_threads(struct worker *worker, const struct message_threads *wanted)
{
    uint32_t before = worker->count;

    end_threads(worker, wanted->count, THREAD_MOVING);
    while (worker->count < wanted->count && worker->count < worker->capacity &&
           start_thread(worker, wanted->slot[worker->count]))
        continue;
    if (worker->count == 0)
        _exit(EXIT_FAILURE); /* the master starts a replacement, with back-off */
    assign_listeners(worker);
    if (before != 0 && before != worker->count)
        event_log(LEVEL_INFO, "worker slot %u: serving threads changed from %u to %u",
                  worker->context.worker_slot, before, worker->count);
    report_threads(worker);
}

/* Connections */

static bool offer_to_threads(struct worker *worker, struct arrival *arrival)
{
    struct serving_thread *best = least_loaded(worker);

    if (best != NULL && mailbox_offer(&best->loop.mailbox, &arrival->item, ITEM_ARRIVAL))
        return true;
    for (uint32_t i = 0; i < worker->count; i++)
        if (mailbox_offer(&worker->threads[i]->loop.mailbox, &arrival->item, ITEM_ARRIVAL))
            return true;
    return false;
}

static void return_arrival(struct worker *worker, struct arrival *arrival)
{
    _Alignas(struct message_connection) char
        buffer[sizeof(struct message_connection) + PASSED_BYTES_MAX];
    struct message_connection *message = (struct message_connection *)buffer;
    size_t length = sizeof(*message) + arrival->length;

    if (arrival->length > PASSED_BYTES_MAX) { /* too large for a message */
        close(arrival->fd);
        free(arrival);
        return;
    }
    message->requests = arrival->requests;
    message->length = arrival->length;
    message->admitted = arrival->admitted;
    memcpy(message->address, arrival->address, sizeof(message->address));
    memcpy(message->bytes, arrival->bytes, arrival->length);
    if (channel_send(worker->connections, MESSAGE_CONNECTION, message, length, arrival->fd, true) !=
        0) {
        event_log(LEVEL_ERROR, "cannot return a connection to the master: %s", strerror(errno));
        close(arrival->fd);
    }
    free(arrival);
}

static void defer_arrival(struct worker *worker, struct arrival *arrival)
{
    static const struct timeval soon = {.tv_usec = 2000};

    worker->deferred = arrival;
    channel_set_reading(worker->connections, false);
    event_add(worker->retry, &soon);
}

static void place_arrival(struct worker *worker, struct arrival *arrival)
{
    if (worker->leaving) {
        connection_count_received(&worker->context);
        return_arrival(worker, arrival);
    } else if (!offer_to_threads(worker, arrival)) {
        defer_arrival(worker, arrival);
    }
}

static void on_retry(evutil_socket_t fd, short what, void *argument)
{
    struct worker *worker = argument;
    struct arrival *arrival = worker->deferred;

    (void)fd, (void)what;
    worker->deferred = NULL;
    channel_set_reading(worker->connections, true);
    place_arrival(worker, arrival);
}

static void receive_connection(struct worker *worker, const struct message_connection *message,
                               int fd)
{
    struct arrival *arrival = fd >= 0 ? malloc(sizeof(*arrival) + message->length) : NULL;

    if (arrival == NULL) { /* the channel has logged why there is no descriptor */
        connection_count_received(&worker->context);
        if (fd >= 0)
            close(fd);
        return;
    }
    arrival->fd = fd;
    arrival->requests = message->requests;
    arrival->length = message->length;
    arrival->admitted = message->admitted != 0;
    memcpy(arrival->address, message->address, sizeof(arrival->address));
    memcpy(arrival->bytes, message->bytes, message->length);
    place_arrival(worker, arrival);
}

/*
 * Passes a connection that a thread has handed over to a sibling or, by the master, to another
 * worker.
 */
static void pass_on(struct worker *worker, struct connection *connection)
{
    struct serving_thread *sibling = least_loaded(worker);
    struct arrival *arrival;

    if (sibling != NULL) {
        mailbox_post(&sibling->loop.mailbox, &connection->item, ITEM_CONNECTION);
        return;
    }
    arrival = connection_to_arrival(connection, &worker->context);
    if (arrival != NULL)
        return_arrival(worker, arrival);
}

/* The end */

static void end_if_done(struct worker *worker)
{
    if ((worker->leaving || worker->stopping) && threads_alive(worker) == 0 &&
        channel_backlog(worker->connections) == 0)
        event_base_loopbreak(worker->base);
}

/*
 * During a resize connections, some with an unsent response, are in transit from an exiting thread
 * to a sibling; so the siblings may exit only after all of these have arrived.
 */
static void end_all_threads(struct worker *worker)
{
    if (worker->ending == 0)
        end_threads(worker, 0, worker->end_mode);
    publish_threads(worker);
    end_if_done(worker);
}

/* THREAD_DRAINING returns connections to the master; the other modes finish them. */
static void begin_end(struct worker *worker, enum thread_mode mode)
{
    if (mode == THREAD_DRAINING)
        worker->leaving = true;
    else
        worker->stopping = true;
    worker->end_mode = mode;
    worker_listeners_drop_all(&worker->listeners);
    end_all_threads(worker);
}

/*
 * Exits immediately: no process could stop this worker, and a new master needs its listen sockets.
 */
static void on_master_gone(void *argument)
{
    (void)argument;
    event_log(LEVEL_WARN, "the master has died: exiting");
    _exit(EXIT_FAILURE);
}

/* Messages and mailbox items */

static void on_command(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct worker *worker = owner;
    const struct message_offload *offload = data;
    const struct message_listen_socket *socket = data;

    (void)length;
    /* MESSAGE_LEAVE and MESSAGE_STOP use the other channel and may overtake commands. */
    if (worker->leaving || worker->stopping) {
        if (fd >= 0)
            close(fd);
        return;
    }
    switch ((enum message_kind)kind) {
    case MESSAGE_THREADS:
        set_threads(worker, data);
        return;
    case MESSAGE_OFFLOAD:
        offload_resize(worker->context.offload, offload->min, offload->max);
        return;
    case MESSAGE_LISTEN_SOCKET_ADD:
        if (fd >= 0 && worker_listeners_add(&worker->listeners, socket, fd))
            assign_listeners(worker);
        else
            channel_send(worker->commands, MESSAGE_LISTEN_SOCKET_LOST, socket, sizeof(*socket), -1,
                         false);
        return;
    case MESSAGE_LISTEN_SOCKET_DROP:
        worker_listeners_drop(&worker->listeners, socket->id, worker->threads, worker->count);
        assign_listeners(worker);
        return;
    case MESSAGE_COMMAND:
        broadcast_begin(&worker->context, worker->threads, worker->count, data, worker->commands);
        return;
    case MESSAGE_LEAVE:
    case MESSAGE_STOP:
    case MESSAGE_RETIRE:
    case MESSAGE_THREADS_RUNNING:
    case MESSAGE_LISTEN_SOCKET_LOST:
    case MESSAGE_COMMAND_DONE:
    case MESSAGE_CONNECTION:
        break;
    }
    assert(!"not a message of the command channel");
}

static void on_connection(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct worker *worker = owner;

    (void)length; /* the message contains its own length */
    if (kind == MESSAGE_LEAVE)
        begin_end(worker, THREAD_DRAINING);
    else if (kind == MESSAGE_STOP)
        begin_end(worker, THREAD_STOPPING);
    else if (kind == MESSAGE_RETIRE)
        begin_end(worker, THREAD_RETIRING);
    else
        receive_connection(worker, data, fd);
}

static void on_drained(void *owner)
{
    end_if_done(owner);
}

static void handle_item(struct worker *worker, struct mailbox_item *item)
{
    switch ((enum main_item)item->kind) {
    case ITEM_HANDED_OVER:
        pass_on(worker, CONTAINER_OF(item, struct connection, item));
        break;
    case ITEM_SWEPT:
        broadcast_swept(CONTAINER_OF(item, struct sweep_item, item), worker->commands);
        break;
    case ITEM_THREAD_ENDED:
        thread_free(CONTAINER_OF(item, struct serving_thread, ended), true);
        worker->ending--;
        report_threads(worker);
        if (worker->leaving || worker->stopping)
            end_all_threads(worker);
        break;
    }
}

static void on_mail(evutil_socket_t fd, short what, void *argument)
{
    struct worker *worker = argument;
    struct mailbox_item *item = mailbox_take(&worker->mailbox);

    (void)fd, (void)what;
    while (item != NULL) {
        struct mailbox_item *next = item->next;

        handle_item(worker, item);
        item = next;
    }
    end_if_done(worker);
}

/* The worker's heartbeat is that of its slowest thread. */
static uint64_t oldest_beat_ns(const struct worker *worker)
{
    uint64_t oldest = clock_monotonic_ns();

    for (uint32_t i = 0; i < worker->count; i++) {
        uint64_t beat = thread_beat_ns(worker->threads[i]);

        oldest = beat < oldest ? beat : oldest;
    }
    return oldest;
}

static void on_heartbeat(evutil_socket_t fd, short what, void *argument)
{
    struct worker *worker = argument;
    uint64_t now = clock_monotonic_ns();

    (void)fd, (void)what;
    atomic_store_explicit(&worker->block->heartbeat_ns, oldest_beat_ns(worker),
                          memory_order_relaxed);
    if (worker->context.cache != NULL && now - worker->closed_unused_ns >= CLOSE_UNUSED_NS) {
        worker->closed_unused_ns = now;
        cache_close_unused(worker->context.cache);
    }
    assign_listeners(worker); /* again, after a shortage of descriptors */
    offload_refill(worker->context.offload, now);
}

/* Start */

static int open_channels(struct worker *worker, const struct worker_setup *setup)
{
    const struct channel_owner commands = {on_command, on_master_gone, NULL, worker};
    const struct channel_owner connections = {on_connection, on_master_gone, on_drained, worker};

    worker->commands = channel_open(worker->base, setup->command_fd, &commands);
    worker->connections = channel_open(worker->base, setup->connection_fd, &connections);
    return worker->commands != NULL && worker->connections != NULL ? 0 : -1;
}

static int make_events(struct worker *worker)
{
    static const struct timeval second = {.tv_sec = 1};

    worker->mail =
        event_new(worker->base, worker->mailbox.eventfd, EV_READ | EV_PERSIST, on_mail, worker);
    worker->heartbeat = event_new(worker->base, -1, EV_PERSIST, on_heartbeat, worker);
    worker->retry = event_new(worker->base, -1, 0, on_retry, worker);
    if (worker->mail == NULL || worker->heartbeat == NULL || worker->retry == NULL)
        return -1;
    on_heartbeat(-1, 0, worker);
    return event_add(worker->mail, NULL) == 0 && event_add(worker->heartbeat, &second) == 0 ? 0
                                                                                            : -1;
}

/*
 * Must run before this process starts its first thread, because the sandbox requires a
 * single-threaded process.
 */
static int enter_sandbox(const struct files_root *root, const struct worker_setup *setup)
{
    const int keep[] = {setup->command_fd, setup->connection_fd, setup->doorbell, setup->lock_fd,
                        setup->segment->fd};
    const struct sandbox_setup sandbox = {
        .config = setup->config,
        .root = root->fd,
        .link_root = root->link_root,
        .link_root_count = root->link_root_count,
        .keep = keep,
        .keep_count = ARRAY_LENGTH(keep),
    };

    return sandbox_enter(&sandbox);
}

static int set_up(struct worker *worker, const struct worker_setup *setup)
{
    worker->block = segment_worker(setup->segment, setup->slot);
    worker->mailbox.eventfd = -1;
    if (worker_context_open(&worker->context, setup->config) != 0 ||
        enter_sandbox(&worker->context.root, setup) != 0)
        return -1;
    worker->capacity = segment_count(setup->segment, SEGMENT_THREADS);
    worker->threads = calloc(worker->capacity, sizeof(struct serving_thread *));
    worker->base = event_base_new();
    if (worker->threads == NULL || worker->base == NULL ||
        mailbox_open(&worker->mailbox, UINT32_MAX) != 0)
        return -1;
    worker->context.segment = setup->segment;
    worker->context.worker_slot = setup->slot;
    worker->context.main = &worker->mailbox;
    worker->context.doorbell = setup->doorbell;
    if (worker_context_fill(&worker->context, worker->block) != 0 || make_events(worker) != 0)
        return -1;
    return open_channels(worker, setup);
}

/* Call after all threads have ended, so that nothing refers to cache entries. */
static void tear_down(struct worker *worker)
{
    worker_context_close(&worker->context);
    loop_free_event(worker->mail);
    loop_free_event(worker->heartbeat);
    loop_free_event(worker->retry);
    channel_close(worker->commands);
    channel_close(worker->connections);
    if (worker->mailbox.eventfd >= 0)
        mailbox_close(&worker->mailbox);
    if (worker->base != NULL)
        event_base_free(worker->base);
    free(worker->listeners.item);
    free(worker->threads);
    free(worker);
}

int worker_run(const struct worker_setup *setup)
{
    struct worker *worker = calloc(1, sizeof(*worker));

    events_set_role(ROLE_WORKER);
    signals_ignore_in_child();
    if (worker == NULL)
        return EXIT_FAILURE;
    if (set_up(worker, setup) != 0) {
        event_log(LEVEL_ERROR, "cannot start a worker: %s", strerror(errno));
        tear_down(worker);
        return EXIT_FAILURE;
    }
    event_base_dispatch(worker->base);
    tear_down(worker);
    return EXIT_SUCCESS;
}
