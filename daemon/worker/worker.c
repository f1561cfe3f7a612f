#include "daemon/worker/worker.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/process_title.h"
#include "daemon/base/service.h"
#include "daemon/connection/connection_queue.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/transport.h"
#include "daemon/content/cache.h"
#include "daemon/http/logins.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/certificate_set.h"
#include "daemon/tls/context.h"
#include "daemon/tls/tickets.h"
#include "daemon/transaction/accounting.h"
#include "daemon/transaction/admission.h"
#include "daemon/transaction/shortage.h"
#include "daemon/worker/internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLOSE_UNUSED_NS (60 * NS_PER_S)

enum { CACHE_DESCRIPTORS_MAX = 1024 };

/* The context, which all threads share */

uint32_t worker_cache_descriptors(const struct rlimit *limit)
{
    rlim_t share = limit->rlim_cur / 4;

    return share < CACHE_DESCRIPTORS_MAX ? (uint32_t)share : CACHE_DESCRIPTORS_MAX;
}

static const struct cache_policy *cache_policy_of(uint64_t policy)
{
    return policy == POLICY_LRU ? &cache_policy_lru : &cache_policy_sieve;
}

static int make_cache(struct worker_context *context)
{
    const struct config *config = context->config;
    const struct cache_limits limits = {config->cache_size, context->cache_descriptors};

    if (!config->cache_enabled)
        return 0;
    context->cache = cache_new(&limits, cache_policy_of(config->cache_policy), resource_destroy,
                               context->segment, context->worker_slot);
    return context->cache != NULL ? 0 : -1;
}

int worker_context_open(struct worker_context *context, const struct config *config,
                        const int *roots)
{
    struct rlimit limit;

    context->config = config;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) /* getrlimit() fails in the sandbox */
        context->cache_descriptors = worker_cache_descriptors(&limit);
    return sites_open(&context->sites, config, roots);
}

int worker_context_fill(struct worker_context *context, struct segment_worker *block)
{
    const struct config *config = context->config;
    const struct config_range offload_threads = config->workers_model == MODEL_EVENTS
                                                    ? config->workers_offload_threads
                                                    : (struct config_range){0, 0};

    context->mime = mime_table_new(config->mime_extensions, config->mime_types, config->mime_count);
    if (context->mime == NULL || sites_fill(&context->sites, context->mime) != 0 ||
        make_cache(context) != 0)
        return -1;
    for (uint32_t i = 0; context->host_places != NULL && i < context->sites.count; i++)
        context->sites.site[i].host = (uint16_t)context->host_places[i].entry;
    context->offload = offload_start(config->workers_offload_queue, offload_threads.min,
                                     offload_threads.max, block);
    context->client_limit = client_limit_new(context->segment, context->worker_slot);
    context->rate_guard = rate_guard_new(context->segment);
    context->logins = logins_new(config->limits_failed_logins);
    return context->offload != NULL && context->client_limit != NULL &&
                   context->rate_guard != NULL && context->logins != NULL
               ? 0
               : -1;
}

void worker_context_close(struct worker_context *context)
{
    if (context->offload != NULL)
        offload_stop(context->offload);
    cache_free(context->cache);
    client_limit_free(context->client_limit);
    rate_guard_free(context->rate_guard);
    logins_free(context->logins);
    sites_close(&context->sites);
    mime_table_free(context->mime);
}

/* Threads */

static uint32_t threads_alive(const struct worker *worker)
{
    return worker->count + worker->ending;
}

/* It ends before the others when the worker stops. */
static uint32_t acceptors_alive(const struct worker *worker)
{
    return worker->queue != NULL && worker->slot_taken[0];
}

static void publish_thread_count(struct worker *worker)
{
    uint32_t acceptors = acceptors_alive(worker);

    atomic_store_explicit(&worker->block->threads_actual, threads_alive(worker) - acceptors,
                          memory_order_relaxed);
    atomic_store_explicit(&worker->block->acceptors, acceptors, memory_order_relaxed);
}

/*
 * Reports a resize to the master when no thread is exiting and the first connections have followed.
 */
static void report_resize(struct worker *worker)
{
    struct message_threads_running report = {worker->starts_by_connection ? worker->limit
                                                                          : worker->count};

    publish_thread_count(worker);
    if (!worker->resized || worker->ending > 0 || worker->leaving || worker->stopping ||
        balancer_is_moving(worker))
        return;
    worker->resized = false;
    channel_send(worker->commands, MESSAGE_THREADS_RUNNING, &report, sizeof(report), -1, false);
}

void worker_report_given(struct worker *worker)
{
    if (!balancer_gives_away(&worker->balancer))
        channel_send(worker->connections, MESSAGE_GIVEN, NULL, 0, -1, false);
}

/* The thread gets a copy of its link, because another thread may have its number later. */
static void pass_keys_link(const struct worker *worker, uint32_t number)
{
    int link = worker->keys_links[number];
    int copy = link >= 0 && number < worker->count ? fcntl(link, F_DUPFD_CLOEXEC, 0) : -1;

    if (copy >= 0)
        thread_set_keys_link(worker->threads[number], worker->keys_set, copy);
}

static void set_keys_link(struct worker *worker, const struct message_keys_link *message, int fd)
{
    uint32_t number = message->thread;

    if (number >= worker->capacity || fd < 0) {
        if (fd >= 0)
            close(fd);
        return;
    }
    if (worker->keys_links[number] >= 0)
        close(worker->keys_links[number]);
    worker->keys_links[number] = fd;
    worker->keys_set = message->set;
    pass_keys_link(worker, number);
}

/*
 * Connections that are open, or in their handshake, keep what they have begun with. Nothing changes
 * without memory.
 */
static void set_certificates(struct worker *worker, const struct message_certificates *message,
                             int fd)
{
    struct tls_context *tls =
        fd < 0 ? NULL : tls_context_new(message, fd, worker->context.config, worker->tickets);
    const struct message_certificates_done report = {message->number, tls != NULL};

    if (fd >= 0)
        close(fd);
    else
        event_log(LEVEL_ERROR, "cannot use the certificates: no descriptor is left for their file");
    if (tls != NULL) {
        tls_context_free(worker->context.tls);
        worker->context.tls = tls;
        for (uint32_t i = 0; i < worker->count; i++)
            thread_set_certificates(worker->threads[i], tls);
    }
    channel_send(worker->commands, MESSAGE_CERTIFICATES_DONE, &report, sizeof(report), -1, false);
}

/* In the model thread, threads end in any order. */
static uint32_t next_slot(const struct worker *worker, enum thread_role role)
{
    uint32_t slot = worker->count;

    if (role == THREAD_OF_CONNECTION)
        for (slot = 1; slot < worker->capacity && worker->slot_taken[slot]; slot++)
            continue;
    return slot;
}

/* In the model thread, connections come faster than the reason changes. */
static void report_failed_start(const struct worker *worker, uint32_t number)
{
    const struct worker_context *context = &worker->context;

    if (!shortage_lasts(context, SHORTAGE_THREADS))
        event_log(LEVEL_ERROR, "cannot start serving thread %u: %s", number, strerror(errno));
    if (worker->starts_by_connection && worker->count > 0)
        shortage_note(context, SHORTAGE_THREADS, clock_monotonic_ns(), 1);
}

static bool start_serving_thread(struct worker *worker, enum thread_role role)
{
    uint32_t number = next_slot(worker, role);
    uint32_t slot = worker->context.worker_slot * worker->capacity + number;
    struct serving_thread *thread =
        number < worker->capacity ? thread_new(&worker->context, slot, role, worker->queue) : NULL;

    if (thread == NULL || thread_start(thread) != 0) {
        report_failed_start(worker, number);
        if (thread != NULL)
            thread_free(thread, false);
        return false;
    }
    mailbox_set_limit(&thread->loop.mailbox, worker->mailbox_limit);
    worker->slot_taken[number] = true;
    worker->threads[threads_alive(worker)] = worker->threads[worker->count]; /* an ending one */
    worker->threads[worker->count++] = thread;
    pass_keys_link(worker, worker->count - 1);
    return true;
}

static void end_surplus_threads(struct worker *worker, uint32_t keep, enum thread_mode mode)
{
    while (worker->count > keep) {
        thread_set_mode(worker->threads[--worker->count], mode);
        worker->ending++;
    }
}

/* Balances the threads, and comes back when the next look is due. */
static void balance(struct worker *worker)
{
    if (worker->count == 0 || worker->ending > 0 || worker->queue != NULL)
        return;
    loop_start_timer(worker->balance, balancer_look(worker));
}

static enum thread_role next_role(const struct worker *worker)
{
    if (worker->queue == NULL)
        return THREAD_OF_EVENTS;
    return worker->count == 0 ? THREAD_ACCEPTOR : THREAD_OF_POOL;
}

/*
 * In the model thread: starts threads for connections that have none. Only slots below the limit
 * have memory, and the acceptor has the first.
 */
static void start_for_queue(struct worker *worker)
{
    uint32_t waiting;

    if (!worker->starts_by_connection || worker->leaving)
        return;
    waiting = connection_queue_await(worker->queue, &worker->waiter);
    while (waiting > 0 && threads_alive(worker) - acceptors_alive(worker) + 1 < worker->limit) {
        connection_queue_promise(worker->queue, 1);
        if (!start_serving_thread(worker, THREAD_OF_CONNECTION)) {
            connection_queue_promise(worker->queue, -1);
            break;
        }
        metric_add(worker->block->metrics, METRIC_threads_started, 1);
        waiting--;
    }
    if (worker->stopping)
        end_surplus_threads(worker, 0, worker->end_mode);
    publish_thread_count(worker);
}

static void set_threads(struct worker *worker, const struct message_threads *message)
{
    uint32_t wanted = worker->starts_by_connection ? 1 : message->count, before = worker->count;

    worker->limit = message->count;
    if (!worker->starts_by_connection)
        end_surplus_threads(worker, wanted, THREAD_MOVING);
    while (worker->count < wanted && worker->count < worker->capacity &&
           start_serving_thread(worker, next_role(worker)))
        continue;
    if (worker->count == 0)
        _exit(EXIT_FAILURE); /* the master starts a replacement, with back-off */
    worker_listeners_assign(worker);
    if (before != 0 && before != worker->count)
        event_log(LEVEL_INFO, "worker %u: serving threads changed from %u to %u",
                  worker->context.worker_slot, before - (worker->queue != NULL),
                  worker->count - (worker->queue != NULL));
    balancer_resized(&worker->balancer, before, worker->count);
    balance(worker);
    start_for_queue(worker);
    worker->resized = true;
    report_resize(worker);
}

static void deliver_queue_woken(struct mailbox_item *item, void *receiver)
{
    struct worker *worker = receiver;

    (void)item;
    connection_queue_woken(worker->queue, &worker->waiter);
    start_for_queue(worker);
}

/* The end */

static void end_if_done(struct worker *worker)
{
    if (!worker->leaving && !worker->stopping)
        return;
    if (worker->queue != NULL && worker->leaving)
        worker_return_queue(worker);
    if (threads_alive(worker) == 0 && channel_backlog(worker->connections) == 0)
        event_base_loopbreak(worker->base);
}

/* On the command channel: the other one may be full of connections that the master cannot pass on. */
void worker_mode_received(struct mailbox_item *item, void *receiver)
{
    struct worker *worker = receiver;

    (void)item;
    if (--worker->modes_on_way == 0)
        channel_send(worker->commands, MESSAGE_LEFT, NULL, 0, -1, false);
}

/*
 * During a resize, and when threads are balanced, connections, some with an unsent response, are in
 * transit from one thread to another; so all threads may exit only after these have arrived.
 */
void worker_end_threads(struct worker *worker)
{
    if (worker->ending == 0 && worker->balancer.gives == 0) {
        worker->modes_on_way += worker->end_mode == THREAD_DRAINING ? worker->count : 0;
        end_surplus_threads(worker, 0, worker->end_mode);
    }
    publish_thread_count(worker);
    end_if_done(worker);
}

static bool worker_is_ending(const struct worker *worker)
{
    return worker->leaving || worker->stopping;
}

/*
 * A thread that exits because of a resize keeps its mode, in which it hands over its connections.
 */
static void set_modes(struct worker *worker, enum thread_mode mode)
{
    uint32_t count = worker_is_ending(worker) ? threads_alive(worker) : worker->count;

    for (uint32_t i = 0; i < count; i++)
        thread_set_mode(worker->threads[i], mode);
}

/*
 * THREAD_DRAINING returns connections to the master; the other modes finish them. May be called
 * again with another mode.
 */
static void begin_end(struct worker *worker, enum thread_mode mode)
{
    if (worker_is_ending(worker) && worker->end_mode == mode)
        return;
    if (worker_is_ending(worker))
        set_modes(worker, mode);
    if (mode == THREAD_DRAINING)
        worker->leaving = true;
    else
        worker->stopping = true;
    worker->end_mode = mode;
    if (worker->queue != NULL && worker->leaving)
        worker_return_queue(worker); /* a thread may take what the master cannot, before its mode */
    worker_listeners_drop_all(worker);
    worker_end_threads(worker);
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

/* Commands about the caches */

struct broadcast {
    struct worker *worker;
    uint64_t number, affected;
    uint32_t outstanding; /* items not returned yet */
};

struct sweep_item {
    struct mailbox_item item;
    struct broadcast *broadcast;
};

static uint64_t change_cache(struct cache *cache, const struct message_command *message)
{
    switch ((enum worker_command)message->what) {
    case COMMAND_CACHE_FLUSH:
        return cache_flush(cache);
    case COMMAND_CACHE_PURGE:
        return cache_purge(cache, message->path);
    case COMMAND_CACHE_SIZE:
        return cache_resize(cache, message->value);
    case COMMAND_CACHE_POLICY:
        cache_set_policy(cache, cache_policy_of(message->value));
        break;
    }
    return 0;
}

static void report_done(struct worker *worker, uint64_t number, uint64_t affected)
{
    const struct message_command_done message = {number, affected};

    channel_send(worker->commands, MESSAGE_COMMAND_DONE, &message, sizeof(message), -1, false);
}

static void deliver_swept(struct mailbox_item *item, void *receiver)
{
    struct sweep_item *sweep = CONTAINER_OF(item, struct sweep_item, item);
    struct broadcast *broadcast = sweep->broadcast;

    (void)receiver;
    free(sweep);
    if (--broadcast->outstanding > 0)
        return;
    report_done(broadcast->worker, broadcast->number, broadcast->affected);
    free(broadcast);
}

/* On the serving thread. */
static void deliver_sweep_item(struct mailbox_item *item, void *receiver)
{
    const struct broadcast *broadcast = CONTAINER_OF(item, struct sweep_item, item)->broadcast;

    thread_sweep(receiver);
    mailbox_post(&broadcast->worker->mailbox, item, deliver_swept);
}

static void post_sweep(struct broadcast *broadcast, struct mailbox *to)
{
    struct sweep_item *item = calloc(1, sizeof(*item));

    if (item == NULL)
        return;
    item->broadcast = broadcast;
    broadcast->outstanding++;
    mailbox_post(to, &item->item, deliver_sweep_item);
}

void worker_command_caches(struct worker *worker, const struct message_command *message)
{
    struct cache *cache = worker->context.cache;
    uint64_t affected = cache != NULL ? change_cache(cache, message) : 0;
    struct broadcast *broadcast = calloc(1, sizeof(*broadcast));

    if (broadcast != NULL) {
        broadcast->worker = worker;
        broadcast->number = message->number;
        broadcast->affected = affected;
        for (uint32_t i = 0; i < worker->count; i++)
            post_sweep(broadcast, &worker->threads[i]->loop.mailbox);
    }
    if (broadcast != NULL && broadcast->outstanding > 0)
        return;
    free(broadcast);
    report_done(worker, message->number, affected);
}

/* Messages */

static void on_master_fault(void *argument, const char *what)
{
    (void)argument;
    event_log(LEVEL_ERROR, "the master %s: exiting", what);
    _exit(EXIT_FAILURE);
}

static void set_queue(struct worker *worker, const struct message_queue *queue)
{
    if (worker->queue != NULL) {
        connection_queue_set(worker->queue, queue->order, queue->full, queue->places);
        return;
    }
    worker->mailbox_limit = queue->places;
    for (uint32_t i = 0; i < worker->count; i++)
        mailbox_set_limit(&worker->threads[i]->loop.mailbox, queue->places);
}

static void run_command(struct worker *worker, int kind, const void *data, int fd)
{
    const struct message_offload *offload = data;
    const struct message_balance *message = data;
    const struct message_listen_socket *socket = data;
    const struct message_shed *to_shed = data;
    const struct message_memory *memory = data;
    const struct message_queue *queue = data;

    switch (kind) {
    case MESSAGE_THREADS:
        set_threads(worker, data);
        break;
    case MESSAGE_OFFLOAD:
        if (worker->queue == NULL)
            offload_resize(worker->context.offload, offload->min, offload->max);
        break;
    case MESSAGE_LISTEN_SOCKET_ADD:
        if (fd >= 0 && worker_listeners_add(worker, socket, fd))
            event_active(worker->assign, EV_TIMEOUT, 0);
        else
            channel_send(worker->commands, MESSAGE_LISTEN_SOCKET_LOST, socket, sizeof(*socket), -1,
                         false);
        break;
    case MESSAGE_LISTEN_SOCKET_DROP:
        worker_listeners_drop(worker, socket->id);
        event_active(worker->assign, EV_TIMEOUT, 0);
        break;
    case MESSAGE_SHED:
        worker_shed(worker, to_shed->descriptors ? SHORTAGE_DESCRIPTORS : SHORTAGE_CONNECTIONS,
                    to_shed->connections);
        break;
    case MESSAGE_MEMORY:
        worker_set_memory(worker, memory);
        break;
    case MESSAGE_COMMAND:
        worker_command_caches(worker, data);
        break;
    case MESSAGE_BALANCE:
        balancer_switch(&worker->balancer, message->on != 0);
        balance(worker);
        break;
    case MESSAGE_TICKET_KEYS:
        if (worker->tickets != NULL)
            tls_tickets_import(worker->tickets, data);
        break;
    case MESSAGE_CERTIFICATES:
        set_certificates(worker, data, fd);
        break;
    case MESSAGE_QUEUE:
        set_queue(worker, queue);
        break;
    case MESSAGE_GIVE:
        if (worker->queue == NULL)
            balancer_give_away(worker, data);
        worker_report_given(worker);
        break;
    default:
        assert(false && "not a message of the command channel");
    }
}

static void on_command_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct worker *worker = owner;

    (void)length;
    /* Handshakes under way need the link even when the worker leaves. */
    if (kind == MESSAGE_KEYS_LINK)
        set_keys_link(worker, data, fd);
    /* MESSAGE_LEAVE and MESSAGE_FINISH use the other channel and may overtake commands. */
    else if (!worker->leaving && !worker->stopping)
        run_command(worker, kind, data, fd);
    else if (fd >= 0)
        close(fd);
}

static void on_connection_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct worker *worker = owner;

    (void)length; /* message_fault() has checked the length in the message */
    if (kind == MESSAGE_LEAVE)
        begin_end(worker, THREAD_DRAINING);
    else if (kind == MESSAGE_STOP)
        set_modes(worker, THREAD_CLOSING);
    else if (kind == MESSAGE_FINISH)
        begin_end(worker, THREAD_STOPPING);
    else if (kind == MESSAGE_RETIRE)
        begin_end(worker, THREAD_RETIRING);
    else
        worker_receive_connection(worker, data, fd);
}

static void on_connections_drained(void *owner)
{
    end_if_done(owner);
}

/* Mailbox items */

static void deliver_sweep_all(struct mailbox_item *item, void *receiver)
{
    struct worker *worker = receiver;

    (void)item;
    atomic_store(&worker->shortages.sweep_posted, false);
    worker_sweep_evicted(worker);
}

void worker_thread_ended(struct mailbox_item *item, void *receiver)
{
    struct serving_thread *thread = CONTAINER_OF(item, struct serving_thread, ended);
    struct worker *worker = receiver;
    uint32_t at = 0;

    while (worker->threads[at] != thread)
        at++;
    if (at < worker->count) { /* without an order, in the model thread */
        worker->threads[at] = worker->threads[--worker->count];
        worker->threads[at = worker->count] = thread;
        worker->ending++;
    }
    if (!thread_finish(thread)) { /* its last items come before this one */
        mailbox_post(&worker->mailbox, item, worker_thread_ended);
        return;
    }
    worker->threads[at] = worker->threads[worker->count + --worker->ending];
    worker->slot_taken[thread->slot % worker->capacity] = false;
    thread_free(thread, true);
    balance(worker);
    start_for_queue(worker);
    report_resize(worker);
    if (worker->leaving || worker->stopping)
        worker_end_threads(worker);
}

static void on_main_mail(evutil_socket_t fd, short what, void *argument)
{
    struct worker *worker = argument;

    (void)fd, (void)what;
    mailbox_deliver(&worker->mailbox, worker);
    end_if_done(worker);
}

static uint64_t cpu_ns(const struct rusage *usage)
{
    return (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * NS_PER_S +
           (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * NS_PER_US;
}

/* Adds what the process has used since the last call; its slot counts that of all its workers. */
static void publish_usage(struct worker *worker)
{
    _Atomic uint64_t *metrics = worker->block->metrics;
    struct rusage before = worker->usage, *now = &worker->usage;

    if (getrusage(RUSAGE_SELF, now) != 0)
        return;
    metric_add(metrics, METRIC_cpu_time, cpu_ns(now) - cpu_ns(&before));
    metric_add(metrics, METRIC_switches_voluntary, (uint64_t)(now->ru_nvcsw - before.ru_nvcsw));
    metric_add(metrics, METRIC_switches_involuntary, (uint64_t)(now->ru_nivcsw - before.ru_nivcsw));
}

static void on_heartbeat(evutil_socket_t fd, short what, void *argument)
{
    struct worker *worker = argument;
    uint64_t now = clock_monotonic_ns();

    (void)fd, (void)what;
    atomic_store_explicit(&worker->block->heartbeat_ns, now, memory_order_relaxed);
    atomic_store_explicit(&worker->block->answer,
                          atomic_load_explicit(&segment_master(worker->context.segment)->question,
                                               memory_order_relaxed),
                          memory_order_relaxed);
    if (worker->context.cache != NULL && now - worker->closed_unused_ns >= CLOSE_UNUSED_NS) {
        worker->closed_unused_ns = now;
        cache_close_unused(worker->context.cache);
    }
    worker_shed(worker, SHORTAGE_CONNECTIONS, admission_excess(&worker->context));
    publish_usage(worker);
    if (worker->queue != NULL)
        connection_queue_publish(worker->queue, now);
    worker_listeners_assign(worker); /* again, after a shortage of descriptors */
    worker_retry_arrival(worker);
    if (!event_pending(worker->balance, EV_TIMEOUT, NULL)) /* after a shortage of memory */
        balance(worker);
    start_for_queue(worker); /* again, after a thread could not start */
    worker_relieve(worker);
    shortages_expire(&worker->context, now);
    offload_refill(worker->context.offload, now);
}

static void on_arrival_retry(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    worker_retry_arrival(argument);
}

static void on_relief_due(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    worker_relieve(argument);
}

static void on_balance_due(evutil_socket_t fd, short what, void *argument)
{
    struct worker *worker = argument;

    (void)fd, (void)what;
    balance(worker);
    report_resize(worker);
}

/*
 * After the messages that have arrived: each changes the ranks of many rows, whose sockets would move
 * to other threads by duplicates, faster than busy threads close the previous ones.
 */
static void on_listeners_changed(evutil_socket_t fd, short what, void *argument)
{
    (void)fd, (void)what;
    worker_listeners_assign(argument);
}

/* Start */

static int open_worker_channels(struct worker *worker, const struct worker_setup *setup)
{
    const struct channel_owner commands = {.message = on_command_message,
                                           .closed = on_master_gone,
                                           .fault = on_master_fault,
                                           .owner = worker};
    const struct channel_owner connections = {.message = on_connection_message,
                                              .closed = on_master_gone,
                                              .drained = on_connections_drained,
                                              .ready = worker_ready_for_connection,
                                              .no_descriptor = worker_no_descriptor_for_connection,
                                              .fault = on_master_fault,
                                              .owner = worker};

    worker->commands = channel_open(worker->base, setup->command_fd, ROUTE_COMMANDS, &commands);
    worker->connections =
        channel_open(worker->base, setup->connection_fd, ROUTE_DISPATCH, &connections);
    return worker->commands != NULL && worker->connections != NULL ? 0 : -1;
}

static int make_worker_events(struct worker *worker)
{
    static const struct timeval second = {.tv_sec = 1};

    worker->mail = event_new(worker->base, worker->mailbox.eventfd, EV_READ | EV_PERSIST,
                             on_main_mail, worker);
    worker->heartbeat = event_new(worker->base, -1, EV_PERSIST, on_heartbeat, worker);
    worker->retry = event_new(worker->base, -1, 0, on_arrival_retry, worker);
    worker->balance = event_new(worker->base, -1, 0, on_balance_due, worker);
    worker->relief = event_new(worker->base, -1, 0, on_relief_due, worker);
    worker->assign = event_new(worker->base, -1, 0, on_listeners_changed, worker);
    if (worker->mail == NULL || worker->heartbeat == NULL || worker->retry == NULL ||
        worker->balance == NULL || worker->relief == NULL || worker->assign == NULL)
        return -1;
    on_heartbeat(-1, 0, worker);
    return event_add(worker->mail, NULL) == 0 && event_add(worker->heartbeat, &second) == 0 ? 0
                                                                                            : -1;
}

/*
 * Must run before this process starts its first thread, because the sandbox requires a
 * single-threaded process.
 */
static int enter_sandbox(const struct sites *sites, const struct worker_setup *setup)
{
    const struct files_root *root = &sites->site[0].root;
    int *roots = calloc(sites->count, sizeof(*roots)), failed;
    struct message_certificates message;
    const int keep[] = {
        setup->command_fd,
        setup->connection_fd,
        setup->doorbell,
        setup->alive_fd,
        root->descriptors,
        setup->certificates != NULL ? certificate_set_file(setup->certificates, &message) : -1};
    const struct sandbox_setup sandbox = {
        .role = SANDBOX_WORKER,
        .config = setup->config,
        .roots = roots,
        .root_count = sites->count,
        .link_root = root->link_root,
        .link_root_count = root->link_root_count,
        .keep = keep,
        .keep_count = ARRAY_LENGTH(keep),
    };

    if (roots == NULL)
        return -1;
    for (uint32_t i = 0; i < sites->count; i++)
        roots[i] = sites->site[i].root.fd;
    failed = sandbox_enter(&sandbox);
    free(roots);
    return failed;
}

/* The bytes of certificates may come from a process that was taken over, so they are parsed here. */
static int use_first_certificates(struct worker *worker, const struct worker_setup *setup)
{
    struct message_certificates message;
    int file;

    worker->tickets = setup->tickets;
    if (setup->certificates == NULL)
        return 0;
    file = certificate_set_file(setup->certificates, &message);
    worker->context.tls = tls_context_new(&message, file, setup->config, setup->tickets);
    close(file);
    if (worker->context.tls != NULL)
        return 0;
    errno = 0; /* tls_context_new() has logged why */
    return -1;
}

static int make_queue(struct worker *worker)
{
    const struct config *config = worker->context.config;

    atomic_store_explicit(&worker->block->model, config->workers_model, memory_order_relaxed);
    if (config->workers_model == MODEL_EVENTS)
        return 0;
    worker->starts_by_connection = config->workers_model == MODEL_THREAD;
    queue_waiter_init(&worker->waiter, &worker->mailbox, deliver_queue_woken);
    worker->queue = connection_queue_new(
        config, worker->block,
        segment_queue_waits_of(worker->context.segment, worker->context.worker_slot));
    return worker->queue != NULL ? 0 : -1;
}

static int set_up_worker(struct worker *worker, const struct worker_setup *setup)
{
    worker->block = segment_worker(setup->segment, setup->slot);
    worker->mailbox.eventfd = -1;
    if (segment_restrict_worker(setup->segment, setup->slot) != 0 ||
        worker_context_open(&worker->context, setup->config, setup->roots) != 0 ||
        enter_sandbox(&worker->context.sites, setup) != 0)
        return -1;
    if (setup->slot == 0) /* one warning, not one by each worker */
        sites_warn_of_roots(&worker->context.sites);
    worker->capacity = segment_threads_per_worker(setup->segment);
    worker->threads = calloc(worker->capacity, sizeof(struct serving_thread *));
    worker->slot_taken = calloc(worker->capacity, sizeof(*worker->slot_taken));
    worker->keys_links = malloc(worker->capacity * sizeof(*worker->keys_links));
    for (uint32_t i = 0; worker->keys_links != NULL && i < worker->capacity; i++)
        worker->keys_links[i] = -1;
    worker->base = event_base_new();
    if (worker->threads == NULL || worker->slot_taken == NULL || worker->keys_links == NULL ||
        worker->base == NULL || mailbox_open(&worker->mailbox, 0, NULL) != 0)
        return -1;
    worker->context.segment = setup->segment;
    worker->context.tls_covers = transport_tls_covers;
    if (use_first_certificates(worker, setup) != 0)
        return -1;
    worker->context.worker_slot = setup->slot;
    worker->context.host_places = setup->host_places;
    worker->shortages.deliver_sweep = deliver_sweep_all;
    worker->context.shortages = &worker->shortages;
    worker->mailbox_limit = setup->config->workers_connection_queue;
    worker->balancer.worker_slot = setup->slot;
    worker->balancer.on = setup->config->workers_balance_connections;
    worker->context.main = &worker->mailbox;
    worker->context.doorbell = setup->doorbell;
    if (worker_context_fill(&worker->context, worker->block) != 0 || make_queue(worker) != 0 ||
        make_worker_events(worker) != 0)
        return -1;
    return open_worker_channels(worker, setup);
}

/* Call after all threads have ended, so that nothing refers to cache entries. */
static void tear_down_worker(struct worker *worker)
{
    worker_context_close(&worker->context);
    loop_free_event(worker->mail);
    loop_free_event(worker->heartbeat);
    loop_free_event(worker->retry);
    loop_free_event(worker->relief);
    loop_free_event(worker->balance);
    loop_free_event(worker->assign);
    channel_close(worker->commands);
    channel_close(worker->connections);
    if (worker->mailbox.eventfd >= 0)
        mailbox_close(&worker->mailbox);
    if (worker->base != NULL)
        event_base_free(worker->base);
    free(worker->listeners);
    free(worker->threads);
    free(worker->slot_taken);
    connection_queue_free(worker->queue);
    for (uint32_t i = 0; worker->keys_links != NULL && i < worker->capacity; i++)
        if (worker->keys_links[i] >= 0)
            close(worker->keys_links[i]);
    free(worker->keys_links);
    tls_context_free(worker->context.tls);
    free(worker->spare);
    free(worker);
}

int worker_run(const struct worker_setup *setup)
{
    struct worker *worker = calloc(1, sizeof(*worker));
    int status;

    events_set_role(ROLE_WORKER);
    process_title_set_child("worker %u", setup->slot);
    events_attach(setup->segment, SEGMENT_RING_WORKERS + setup->slot);
    signals_ignore_in_child();
    if (worker == NULL)
        return EXIT_FAILURE;
    if (set_up_worker(worker, setup) != 0) {
        if (errno != 0)
            event_log(LEVEL_ERROR, "cannot start a worker: %s", strerror(errno));
        tear_down_worker(worker);
        return EXIT_FAILURE;
    }
    status = event_base_dispatch(worker->base) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    if (status != EXIT_SUCCESS)
        event_log(LEVEL_ERROR, "the event loop of a worker failed");
    shortages_expire(&worker->context, UINT64_MAX);
    tear_down_worker(worker);
    return status;
}
