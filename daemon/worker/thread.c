#include "daemon/worker/thread.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/memory_file.h"
#include "daemon/base/mutex.h"
#include "daemon/config/hosts.h"
#include "daemon/connection/connection_queue.h"
#include "daemon/connection/lifecycle.h"
#include "daemon/connection/listen_socket.h"
#include "daemon/connection/opening.h"
#include "daemon/connection/timeouts.h"
#include "daemon/content/thread_cache.h"
#include "daemon/http1/connection.h"
#include "daemon/http2/connection.h"
#include "daemon/tls/context.h"
#include "daemon/tls/signer.h"
#include "daemon/transaction/accounting.h"
#include "daemon/transaction/shortage.h"
#include "daemon/worker/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * The age limit of a directory check is this fraction of [cache] revalidate, and so hardly adds to
 * it.
 */
enum { DIRECTORY_CHECKS_PER_REVALIDATE = 64 };

uint64_t thread_load(const struct serving_thread *thread)
{
    const struct event_loop *loop = &thread->loop;

    return metric_get(loop->context.metrics, METRIC_connections_open) +
           mailbox_waiting(&loop->mailbox) + thread_in_transit(thread);
}

uint32_t thread_in_transit(const struct serving_thread *thread)
{
    return thread->passed - atomic_load_explicit(&thread->taken, memory_order_acquire);
}

uint64_t thread_cpu_ns(const struct serving_thread *thread)
{
    struct timespec used;
    clockid_t clock;

    if (pthread_getcpuclockid(thread->id, &clock) != 0 || clock_gettime(clock, &used) != 0)
        return 0;
    return (uint64_t)used.tv_sec * NS_PER_S + (uint64_t)used.tv_nsec;
}

/* The connection queue */

static bool has_connections(const struct event_loop *loop)
{
    return metric_get(loop->context.metrics, METRIC_connections_open) > 0;
}

static bool takes_from_queue(const struct event_loop *loop)
{
    return loop->queue != NULL && !loop->acceptor;
}

/* A thread that moves or drains its connections takes no others. */
static bool may_take(const struct serving_thread *thread)
{
    const struct event_loop *loop = &thread->loop;

    return takes_from_queue(loop) && !(thread->single && thread->has_taken) &&
           loop->mode != THREAD_MOVING && loop->mode != THREAD_DRAINING && !has_connections(loop) &&
           loop->context.jobs_out == 0 && loop->context.first_waiting == NULL;
}

/* Takes a connection and serves what has arrived of it. Returns false if none waits. */
static bool serve_next(struct serving_thread *thread)
{
    struct event_loop *loop = &thread->loop;
    struct mailbox_item *item;

    if (!may_take(thread))
        return false;
    loop_enter(loop);
    item = connection_queue_take(loop->queue, thread->single ? NULL : &loop->waiter,
                                 loop->context.loop_now_ns);
    thread->has_taken = true; /* or another thread has taken what this one was started for */
    if (item != NULL)
        item->deliver(item, loop);
    return item != NULL;
}

/* A thread looks into the queue after each delivery, so only an acceptor has something to do. */
static void deliver_woken(struct mailbox_item *item, void *receiver)
{
    struct event_loop *loop = receiver;

    (void)item;
    connection_queue_woken(loop->queue, &loop->waiter);
    if (loop->acceptor)
        listen_sockets_unblock(loop);
}

/* False if it exits when no connection is left. */
static bool stays(const struct event_loop *loop)
{
    return loop->mode == THREAD_SERVING || loop->mode == THREAD_CLOSING;
}

/* The mailbox */

static struct serving_thread *thread_of(struct event_loop *loop)
{
    return CONTAINER_OF(loop, struct serving_thread, loop);
}

static void deliver_connection(struct mailbox_item *item, void *receiver)
{
    struct event_loop *loop = receiver;

    connection_adopt(loop, CONTAINER_OF(item, struct connection, item));
    atomic_fetch_add_explicit(&thread_of(loop)->taken, 1, memory_order_release);
}

void thread_deliver_connection(struct mailbox_item *item, void *receiver)
{
    connection_adopt(receiver, CONTAINER_OF(item, struct connection, item));
}

void thread_pass(struct serving_thread *thread, struct connection *connection)
{
    thread->passed++;
    mailbox_post(&thread->loop.mailbox, &connection->item, deliver_connection);
}

static void deliver_mode(struct mailbox_item *item, void *receiver)
{
    struct event_loop *loop = receiver;
    struct serving_thread *thread = thread_of(loop);
    struct transaction_context *context = &loop->context;
    enum thread_mode mode = (enum thread_mode)(item - thread->mode);

    loop->mode = mode;
    thread->mode_since_ns = context->loop_now_ns;
    context->closing_connections =
        mode == THREAD_CLOSING || mode == THREAD_STOPPING || mode == THREAD_RETIRING;
    context->closing_secure = mode == THREAD_DRAINING;
    segment_activity_state(context->activity, THREAD_STATE_LEAVING, context->loop_now_ns);
    if (mode != THREAD_CLOSING)
        listen_sockets_drop(loop);
    if (loop->acceptor && mode != THREAD_CLOSING)
        connection_queue_close(loop->queue);
    connections_apply_mode(loop);
    if (mode == THREAD_DRAINING)
        mailbox_post(context->worker->main, item, worker_mode_received);
}

void thread_set_mode(struct serving_thread *thread, enum thread_mode mode)
{
    mailbox_post(&thread->loop.mailbox, &thread->mode[mode], deliver_mode);
}

void thread_sweep(struct event_loop *loop)
{
    if (loop->context.thread_cache != NULL)
        thread_cache_sweep(loop->context.thread_cache);
    if (loop->context.negative_cache != NULL)
        negative_cache_clear(loop->context.negative_cache);
}

static void deliver_sweep(struct mailbox_item *item, void *receiver)
{
    struct event_loop *loop = receiver;

    (void)item;
    atomic_store(&thread_of(loop)->sweep_posted, false);
    if (loop->context.thread_cache != NULL)
        thread_cache_sweep(loop->context.thread_cache);
}

void thread_sweep_evicted(struct serving_thread *thread)
{
    if (!atomic_exchange(&thread->sweep_posted, true))
        mailbox_post(&thread->loop.mailbox, &thread->sweep, deliver_sweep);
}

enum { KEYS_SET_SHIFT = 32 };

static int link_descriptor(uint64_t link)
{
    return (int)(uint32_t)link - 1;
}

static void deliver_keys_link(struct mailbox_item *item, void *receiver)
{
    struct event_loop *loop = receiver;
    uint64_t link = atomic_exchange(&thread_of(loop)->keys_link, 0);

    (void)item;
    signer_connect(loop->signer, (uint32_t)(link >> KEYS_SET_SHIFT), link_descriptor(link));
}

void thread_set_keys_link(struct serving_thread *thread, uint32_t set, int fd)
{
    uint64_t unused;

    if (thread->loop.signer == NULL) {
        close(fd);
        return;
    }
    unused =
        atomic_exchange(&thread->keys_link, (uint64_t)set << KEYS_SET_SHIFT | ((uint32_t)fd + 1));
    if (unused != 0)
        close(link_descriptor(unused));
    else
        mailbox_post(&thread->loop.mailbox, &thread->link, deliver_keys_link);
}

static void deliver_certificates(struct mailbox_item *item, void *receiver)
{
    struct event_loop *loop = receiver;

    (void)item;
    tls_context_free(loop->tls);
    loop->tls = atomic_exchange(&thread_of(loop)->tls, NULL);
}

void thread_set_certificates(struct serving_thread *thread, struct tls_context *tls)
{
    struct tls_context *unused = atomic_exchange(&thread->tls, tls_context_hold(tls));

    if (unused != NULL)
        tls_context_free(unused);
    else
        mailbox_post(&thread->loop.mailbox, &thread->certificates, deliver_certificates);
}

static void on_thread_mail(evutil_socket_t fd, short what, void *argument)
{
    struct serving_thread *thread = argument;

    (void)fd, (void)what;
    loop_enter(&thread->loop);
    mailbox_deliver(&thread->loop.mailbox, &thread->loop);
}

/*
 * The scheduling policy. If there are more serving threads than cores, each incoming request would
 * preempt another thread in the middle of a request, with one wake-up per request. With SCHED_BATCH
 * (sched(7)) a thread waits until the running one blocks, and then finds several requests.
 */

static uint32_t count_threads_of_workers(const struct segment *segment)
{
    uint32_t threads = 0;

    for (uint32_t i = 0; i < segment_count(segment, SEGMENT_WORKERS); i++) {
        const struct segment_worker *block = segment_worker(segment, i);

        if (segment_worker_reserved(segment, i))
            threads += atomic_load_explicit(&block->threads_actual, memory_order_relaxed) +
                       atomic_load_explicit(&block->acceptors, memory_order_relaxed);
    }
    return threads;
}

/* Number of cores that this thread may run on; 0 if unknown. */
static uint32_t count_cores(void)
{
    cpu_set_t cores;

    return sched_getaffinity(0, sizeof(cores), &cores) == 0 ? (uint32_t)CPU_COUNT(&cores) : 0;
}

static void update_scheduling_policy(struct serving_thread *thread)
{
    static const struct sched_param none = {0};
    uint32_t threads = count_threads_of_workers(thread->loop.context.worker->segment), cores;
    bool batch;

    if (threads == thread->threads_of_workers)
        return;
    thread->threads_of_workers = threads;
    cores = count_cores();
    batch = cores > 0 && threads > cores;
    if (batch != thread->batch &&
        sched_setscheduler(0, batch ? SCHED_BATCH : SCHED_OTHER, &none) == 0)
        thread->batch = batch;
}

/* Timers */

/* Only a stop closes connections that make progress. */
static void close_after_drain_timeout(struct serving_thread *thread)
{
    struct event_loop *loop = &thread->loop;
    uint64_t drain_ns = loop->context.worker->config->workers_drain_timeout * NS_PER_MS;

    if (loop->context.loop_now_ns < thread->mode_since_ns + drain_ns)
        return;
    connections_close(loop, loop->mode != THREAD_STOPPING);
    if (loop->mode == THREAD_STOPPING)
        accounting_drop(&loop->context);
}

static void answer_master(const struct serving_thread *thread)
{
    const struct segment *segment = thread->loop.context.worker->segment;

    atomic_store_explicit(
        &segment_thread(segment, thread->slot)->answer,
        atomic_load_explicit(&segment_master(segment)->question, memory_order_relaxed),
        memory_order_relaxed);
}

static void on_tick(evutil_socket_t fd, short what, void *argument)
{
    struct serving_thread *thread = argument;
    struct event_loop *loop = &thread->loop;
    struct transaction_context *context = &loop->context;

    (void)fd, (void)what;
    loop_enter(loop);
    context->wall_offset_ns = clock_wall_ns() - clock_monotonic_ns();
    answer_master(thread);
    update_scheduling_policy(thread);
    timeouts_expire(loop);
    if (loop->signer != NULL)
        signer_expire(loop->signer, context->loop_now_ns,
                      context->worker->config->connections_header_timeout * NS_PER_MS);
    if (loop->log_full)
        connections_retry_log(loop);
    listen_sockets_retry(loop);
    accounting_check_dropping(context);
    if (memory_left(context->worker) != MEMORY_ENOUGH)
        shortage_note(context->worker, SHORTAGE_MEMORY, context->loop_now_ns, 0);
    metric_set(context->metrics, METRIC_connections_active, connections_count_active(loop));
    metric_set(context->metrics, METRIC_connections_stalled, connections_count_stalled(loop));
    directory_check_expire(&context->directory, context->loop_now_ns);
    if (context->thread_cache != NULL)
        thread_cache_sweep(context->thread_cache);
    if (stays(loop))
        listen_sockets_resume(loop);
    else
        close_after_drain_timeout(thread);
}

static void on_log_retry(evutil_socket_t fd, short what, void *argument)
{
    struct event_loop *loop = argument;

    (void)fd, (void)what;
    loop_enter(loop);
    connections_retry_log(loop);
}

static void on_listen_retry(evutil_socket_t fd, short what, void *argument)
{
    struct event_loop *loop = argument;

    (void)fd, (void)what;
    loop_enter(loop);
    listen_sockets_retry(loop);
}

/* The loop */

/* True if it takes no further connection from the queue. */
static bool leaves_queue(const struct serving_thread *thread)
{
    const struct event_loop *loop = &thread->loop;

    if (!takes_from_queue(loop))
        return !stays(loop);
    if (thread->single)
        return thread->has_taken || !stays(loop);
    if (loop->mode == THREAD_MOVING || loop->mode == THREAD_DRAINING)
        return true;
    return !stays(loop) && connection_queue_has_ended(loop->queue);
}

static bool is_finished(const struct serving_thread *thread)
{
    const struct event_loop *loop = &thread->loop;

    return leaves_queue(thread) && loop->context.jobs_out == 0 && !loop->shed_pending &&
           !has_connections(loop) && loop->context.first_waiting == NULL;
}

/* What a thread with one connection waits for. */
static enum thread_state state_of_connection(const struct event_loop *loop)
{
    if (!TAILQ_EMPTY(&loop->connections[DEADLINE_SEND]))
        return THREAD_STATE_WRITE;
    if (!TAILQ_EMPTY(&loop->connections[DEADLINE_HEADER]) ||
        !TAILQ_EMPTY(&loop->connections[DEADLINE_BODY]) ||
        !TAILQ_EMPTY(&loop->connections[DEADLINE_LINGER]))
        return THREAD_STATE_READ;
    return THREAD_STATE_KEEPALIVE;
}

static enum thread_state state_between_requests(const struct event_loop *loop)
{
    if (loop->mode != THREAD_SERVING)
        return THREAD_STATE_LEAVING;
    if (loop->log_full)
        return THREAD_STATE_LOG;
    if (loop->acceptor)
        return listen_sockets_are_blocked(loop) ? THREAD_STATE_BLOCKED : THREAD_STATE_ACCEPT;
    if (has_connections(loop))
        return loop->queue != NULL ? state_of_connection(loop) : THREAD_STATE_KEEPALIVE;
    return loop->queue != NULL ? THREAD_STATE_QUEUE : THREAD_STATE_IDLE;
}

static void end_iteration(struct serving_thread *thread)
{
    struct event_loop *loop = &thread->loop;
    const struct transaction_context *context = &loop->context;

    if (context->thread_cache != NULL && cache_wants_sweep(context->worker->cache, &thread->swept))
        thread_cache_sweep(context->thread_cache);
    if (UNLIKELY(context->first_waiting != NULL))
        loop_wait_for_log(loop);
    segment_activity_state(context->activity, state_between_requests(loop), context->loop_now_ns);
}

/* The connections of this thread are lost; the master starts another worker. */
static _Noreturn void end_worker(void)
{
    event_log(LEVEL_ERROR, "the event loop of a serving thread failed: the worker ends");
    _exit(EXIT_FAILURE);
}

static void *serve_in_thread(void *argument)
{
    struct serving_thread *thread = argument;
    struct event_loop *loop = &thread->loop;
    struct transaction_context *context = &loop->context;

    pthread_setname_np(pthread_self(), "serving");
    atomic_store_explicit(&context->activity->tid, gettid(), memory_order_relaxed);
    mutex_publish_waits(segment_thread(context->worker->segment, thread->slot));
    loop_enter(loop);
    while (!is_finished(thread)) {
        bool wait;

        loop_serve_ahead(loop);
        wait = !serve_next(thread) && !is_finished(thread);
        end_iteration(thread);
        context->loop_now_ns = 0;
        if (event_base_loop(loop->base, EVLOOP_ONCE | (wait ? 0 : EVLOOP_NONBLOCK)) != 0)
            end_worker();
    }
    listen_sockets_drop(loop);
    if (loop->queue != NULL)
        connection_queue_leave(loop->queue, &loop->waiter);
    segment_activity_clear(context->activity, clock_monotonic_ns());
    metric_set(context->metrics, METRIC_connections_stalled, 0);
    mailbox_post(context->worker->main, &thread->ended, worker_thread_ended);
    return NULL;
}

/* Creation and end, on the main thread */

/* Three for an event base: epoll and the pipe of its signals. Without them libevent calls exit(). */
static bool descriptors_are_left(void)
{
    int pipe[2], third;

    if (pipe2(pipe, O_CLOEXEC) != 0)
        return false;
    third = fcntl(pipe[0], F_DUPFD_CLOEXEC, 0);
    close(pipe[0]);
    close(pipe[1]);
    if (third >= 0)
        close(third);
    return third >= 0;
}

static struct event_base *new_event_base(void)
{
    struct event_config *config = descriptors_are_left() ? event_config_new() : NULL;
    struct event_base *base;

    if (config == NULL)
        return NULL;
    /* Only the new thread uses the base; others use the mailbox. */
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK);
    base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

static int make_thread_events(struct serving_thread *thread)
{
    static const struct timeval second = {.tv_sec = 1};
    struct event_loop *loop = &thread->loop;

    loop->base = new_event_base();
    if (loop->base == NULL)
        return -1;
    thread->mail =
        event_new(loop->base, loop->mailbox.eventfd, EV_READ | EV_PERSIST, on_thread_mail, thread);
    thread->tick = event_new(loop->base, -1, EV_PERSIST, on_tick, thread);
    loop->log_retry = event_new(loop->base, -1, 0, on_log_retry, loop);
    loop->listen_retry = event_new(loop->base, -1, 0, on_listen_retry, loop);
    if (tls_context_is_remote(loop->tls))
        loop->signer = signer_new(loop->base, handshake_resume);
    if (thread->mail == NULL || thread->tick == NULL || loop->log_retry == NULL ||
        loop->listen_retry == NULL || (loop->signer == NULL && tls_context_is_remote(loop->tls)))
        return -1;
    return event_add(thread->mail, NULL) != 0 || event_add(thread->tick, &second) != 0 ? -1 : 0;
}

/*
 * Initialises the thread's block in the segment, in which its previous owner may have left
 * anything.
 */
static void init_slot(struct serving_thread *thread)
{
    struct transaction_context *context = &thread->loop.context;
    const struct segment *segment = context->worker->segment;
    struct segment_thread *block = segment_thread(segment, thread->slot);

    context->activity = &block->activity;
    context->metrics = block->metrics;
    context->latency = segment_latency_of(segment, thread->slot);
    if (context->worker->host_places != NULL) {
        context->host_counts = segment_host_counts_of(segment, thread->slot);
        host_counts_claim(context->host_counts, context->worker->host_places,
                          context->worker->sites.count);
    }
    if (config_hosts_log_any(context->worker->config))
        context->ring = &thread->ring;
    thread->ring = segment_ring(segment, thread->slot);
    log_ring_resume(&thread->ring, LOG_RECORD_WORDS_MAX);
    /* A thread of one connection need not find out again that the logger takes nothing. */
    context->log_dropping = shortage_lasts(context->worker, SHORTAGE_LOG) &&
                            !log_ring_has_room(&thread->ring, thread->ring.capacity / 2);
    metric_set(context->metrics, METRIC_connections_open, 0);
    metric_set(context->metrics, METRIC_connections_active, 0);
    metric_set(context->metrics, METRIC_connections_stalled, 0);
    metric_set(context->metrics, METRIC_connections_busy, 0);
    metric_set(context->metrics, METRIC_tls_open, 0);
    metric_set(context->metrics, METRIC_http2_open, 0);
    metric_set(context->metrics, METRIC_http2_streams, 0);
    metric_set(context->metrics, METRIC_listen_sockets, 0);
    segment_activity_work(context->activity, THREAD_STATE_STARTING, clock_monotonic_ns(), "", 0);
}

static int make_caches(struct transaction_context *context, uint32_t slot)
{
    const struct worker_context *worker = context->worker;
    uint64_t revalidate_ns = worker->config->cache_revalidate * NS_PER_MS;

    directory_check_init(&context->directory, revalidate_ns / DIRECTORY_CHECKS_PER_REVALIDATE);
    if (worker->cache == NULL)
        return 0;
    context->thread_cache =
        thread_cache_new(worker->cache, segment_hits_of(worker->segment, slot), context->metrics);
    if (context->thread_cache == NULL)
        return -1;
    if (revalidate_ns == 0)
        return 0;
    context->negative_cache = negative_cache_new(revalidate_ns);
    return context->negative_cache != NULL ? 0 : -1;
}

/* It needs little of its buffers, as long as it has one connection. */
struct serving_thread *thread_new(const struct worker_context *worker, uint32_t slot,
                                  enum thread_role role, struct connection_queue *queue)
{
    struct serving_thread *thread = memory_map_zeros(sizeof(*thread));
    struct event_loop *loop;

    if (thread == NULL)
        return NULL;
    loop = &thread->loop;
    thread->slot = slot;
    atomic_init(&thread->keys_link, 0);
    atomic_init(&thread->tls, NULL);
    loop->tls = tls_context_hold(worker->tls);
    loop->protocol = &http1_protocol;
    if (config_speaks_http2(worker->config))
        loop->http2 = &http2_protocol;
    loop->queue = queue;
    loop->acceptor = role == THREAD_ACCEPTOR;
    loop->context.unavailable = loop->acceptor;
    thread->single = role == THREAD_OF_CONNECTION;
    queue_waiter_init(&loop->waiter, &loop->mailbox, deliver_woken);
    loop->mailbox.eventfd = -1;
    loop->pass_connection = worker_pass_connection;
    loop->pass_shed_request = worker_pass_shed_request;
    for (int i = 0; i < DEADLINE_COUNT; i++)
        TAILQ_INIT(&loop->connections[i]);
    loop->context.worker = worker;
    loop->context.mailbox = &loop->mailbox;
    loop->context.accept_encoding.preference = PREFER_IDENTITY; /* what an empty value means */
    loop->context.prefixes.server =
        header_rules_value(&worker->sites.site[0].headers, NULL, "Server");
    loop->context.wall_offset_ns = clock_wall_ns() - clock_monotonic_ns();
    init_slot(thread);
    loop->space = memory_map_zeros(sizeof(*loop->space));
    if (loop->space != NULL && make_caches(&loop->context, slot) == 0 &&
        mailbox_open(&loop->mailbox, worker->config->workers_connection_queue,
                     &loop->context.metrics[METRIC_connections_queued]) == 0 &&
        make_thread_events(thread) == 0)
        return thread;
    thread_free(thread, false);
    return NULL;
}

/* The main thread handles signals, so the new thread starts with all blocked. */
int thread_start(struct serving_thread *thread)
{
    struct cache *cache = thread->loop.context.worker->cache;
    sigset_t all, before;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&thread->id, NULL, serve_in_thread, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0 && cache != NULL)
        cache_add_reader(cache, thread->slot);
    errno = failed;
    return failed == 0 ? 0 : -1;
}

bool thread_finish(struct serving_thread *thread)
{
    struct mailbox *mailbox = &thread->loop.mailbox;

    if (!thread->joined)
        pthread_join(thread->id, NULL);
    thread->joined = true;
    if (!thread->single || mailbox_is_empty(mailbox))
        return true; /* other threads get no item after the order to end */
    mailbox_deliver(mailbox, &thread->loop);
    return false;
}

void thread_free(struct serving_thread *thread, bool started)
{
    struct event_loop *loop = &thread->loop;
    struct cache *cache = loop->context.worker->cache;

    if (started) {
        thread_finish(thread);
        if (cache != NULL)
            cache_remove_reader(cache, thread->slot);
    }
    thread_cache_free(loop->context.thread_cache);
    negative_cache_free(loop->context.negative_cache);
    directory_check_close(&loop->context.directory);
    loop_free_event(thread->mail);
    loop_free_event(thread->tick);
    loop_free_event(loop->log_retry);
    loop_free_event(loop->listen_retry);
    signer_free(loop->signer);
    if (atomic_load(&thread->keys_link) != 0)
        close(link_descriptor(atomic_load(&thread->keys_link)));
    tls_context_free(loop->tls);
    tls_context_free(atomic_load(&thread->tls));
    if (loop->base != NULL)
        event_base_free(loop->base);
    if (loop->mailbox.eventfd >= 0)
        mailbox_close(&loop->mailbox);
    if (loop->space != NULL)
        munmap(loop->space, sizeof(*loop->space));
    munmap(thread, sizeof(*thread));
}
