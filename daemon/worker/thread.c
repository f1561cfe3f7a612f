#include "daemon/worker/thread.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/connection/connection.h"
#include "daemon/connection/crowding.h"
#include "daemon/connection/expiry.h"
#include "daemon/connection/listen_socket.h"
#include "daemon/connection/loop.h"
#include "daemon/content/negative_cache.h"
#include "daemon/http1/connection.h"
#include "daemon/http1/response_writer.h"
#include "daemon/transaction/loading.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A folder that is kept open for this part of the time that a file is believed hardly adds to it. */
enum { DIRECTORY_CHECKS_PER_REVALIDATE = 64 };

uint64_t thread_load(const struct serving_thread *thread)
{
    return metric_get(thread->metrics, METRIC_connections_open) + mailbox_waiting(&thread->mailbox);
}

uint64_t thread_beat_ns(const struct serving_thread *thread)
{
    return atomic_load_explicit(&thread->beat_ns, memory_order_relaxed);
}

/* The mailbox */

static void change_mode(struct serving_thread *thread, enum thread_mode mode)
{
    thread->mode = mode;
    thread->mode_since_ns = thread->turn_ns;
    segment_activity_state(thread->activity, THREAD_STATE_LEAVING, thread->turn_ns);
    lanes_drop_all(thread);
    connections_obey_mode(thread);
}

static void handle_item(struct serving_thread *thread, struct mailbox_item *item)
{
    switch ((enum thread_item)item->kind) {
    case ITEM_CONNECTION:
        connection_adopt(thread, CONTAINER_OF(item, struct connection, item));
        return;
    case ITEM_ARRIVAL:
        connection_adopt_arrival(thread, CONTAINER_OF(item, struct arrival, item));
        return;
    case ITEM_LOADED:
        serving_resume(loading_back(CONTAINER_OF(item, struct load_job, job.item)));
        return;
    case ITEM_WARMED:
        serving_resume(sending_warmed(CONTAINER_OF(item, struct warm_job, job.item)));
        return;
    case ITEM_SWEEP:
        if (thread->thread_cache != NULL)
            thread_cache_sweep(thread->thread_cache);
        if (thread->negative_cache != NULL)
            negative_cache_clear(thread->negative_cache);
        mailbox_post(thread->site->main, item, ITEM_SWEPT);
        return;
    case ITEM_LANE_ADD:
        lane_take(thread, item);
        return;
    case ITEM_LANE_DROP:
        lane_drop(item);
        return;
    case ITEM_LEAVE:
        change_mode(thread, thread->leaving);
        return;
    }
}

static void on_mail(evutil_socket_t fd, short what, void *argument)
{
    struct serving_thread *thread = argument;
    struct mailbox_item *item;

    (void)fd, (void)what;
    turn_enter(thread);
    item = mailbox_take(&thread->mailbox);
    while (item != NULL) {
        struct mailbox_item *next = item->next;

        handle_item(thread, item);
        item = next;
    }
}

/* Once a second */

static void close_all(struct serving_thread *thread)
{
    for (int i = 0; i < DEADLINE_COUNT; i++) {
        struct connection *connection = TAILQ_FIRST(&thread->connections[i]);

        while (connection != NULL) {
            struct connection *next = TAILQ_NEXT(connection, link);

            if (!connection->job_out)
                connection_close(connection);
            connection = next;
        }
    }
}

static void on_tick(evutil_socket_t fd, short what, void *argument)
{
    struct serving_thread *thread = argument;
    uint64_t drain_ns = thread->site->config->workers_drain_timeout * NS_PER_MS;

    (void)fd, (void)what;
    turn_enter(thread);
    thread->wall_offset_ns = clock_wall_ns() - clock_monotonic_ns();
    atomic_store_explicit(&thread->beat_ns, thread->turn_ns, memory_order_relaxed);
    crowding_look(thread);
    expiry_sweep(thread);
    directory_check_expire(&thread->directory, thread->turn_ns);
    if (thread->thread_cache != NULL)
        thread_cache_sweep(thread->thread_cache);
    if (thread->mode == THREAD_SERVING)
        lanes_resume(thread);
    else if (thread->turn_ns >= thread->mode_since_ns + drain_ns)
        close_all(thread);
}

static void on_log_retry(evutil_socket_t fd, short what, void *argument)
{
    struct serving_thread *thread = argument;

    (void)fd, (void)what;
    turn_enter(thread);
    serving_unblock(thread);
}

static void on_lane_retry(evutil_socket_t fd, short what, void *argument)
{
    struct serving_thread *thread = argument;

    (void)fd, (void)what;
    turn_enter(thread);
    lanes_look_again(thread);
}

/* The loop */

static bool has_connections(const struct serving_thread *thread)
{
    return metric_get(thread->metrics, METRIC_connections_open) > 0;
}

static bool is_finished(const struct serving_thread *thread)
{
    return thread->mode != THREAD_SERVING && thread->jobs_out == 0 && !has_connections(thread);
}

static void end_turn(struct serving_thread *thread)
{
    if (thread->thread_cache != NULL && cache_wants_sweep(thread->site->cache, &thread->swept))
        thread_cache_sweep(thread->thread_cache);
    if (thread->mode == THREAD_SERVING)
        segment_activity_state(thread->activity,
                               thread->log_full          ? THREAD_STATE_LOG
                               : has_connections(thread) ? THREAD_STATE_KEEPALIVE
                                                         : THREAD_STATE_IDLE,
                               thread->turn_ns);
    else
        segment_activity_state(thread->activity, THREAD_STATE_LEAVING, thread->turn_ns);
}

static void *thread_main(void *argument)
{
    struct serving_thread *thread = argument;

    pthread_setname_np(pthread_self(), "serving");
    atomic_store_explicit(&thread->activity->tid, gettid(), memory_order_relaxed);
    turn_enter(thread);
    while (!is_finished(thread)) {
        serving_catch_up(thread);
        end_turn(thread);
        thread->turn_ns = 0;
        if (event_base_loop(thread->base, EVLOOP_ONCE) != 0)
            break;
    }
    lanes_drop_all(thread);
    segment_activity_clear(thread->activity, clock_monotonic_ns());
    mailbox_post(thread->site->main, &thread->ended, ITEM_THREAD_ENDED);
    return NULL;
}

/* Making and ending, by the main thread */

static struct event_base *base_new(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base;

    if (config == NULL)
        return NULL;
    event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK); /* the mailbox is the only way in */
    base = event_base_new_with_config(config);
    event_config_free(config);
    return base;
}

static int make_events(struct serving_thread *thread)
{
    static const struct timeval second = {.tv_sec = 1};

    thread->base = base_new();
    if (thread->base == NULL)
        return -1;
    thread->mail =
        event_new(thread->base, thread->mailbox.eventfd, EV_READ | EV_PERSIST, on_mail, thread);
    thread->tick = event_new(thread->base, -1, EV_PERSIST, on_tick, thread);
    thread->log_retry = event_new(thread->base, -1, 0, on_log_retry, thread);
    thread->lane_retry = event_new(thread->base, -1, 0, on_lane_retry, thread);
    if (thread->mail == NULL || thread->tick == NULL || thread->log_retry == NULL ||
        thread->lane_retry == NULL)
        return -1;
    return event_add(thread->mail, NULL) != 0 || event_add(thread->tick, &second) != 0 ? -1 : 0;
}

/* Its block in the segment may have had another tenant: what that left in the gauges goes. */
static void take_slot(struct serving_thread *thread)
{
    const struct segment *segment = thread->site->segment;
    struct segment_thread *block = segment_thread(segment, thread->slot);

    thread->activity = &block->activity;
    thread->metrics = block->metrics;
    thread->latency = segment_latency_of(segment, thread->slot);
    if (strcmp(thread->site->config->log_access, "off") != 0)
        thread->ring = segment_ring(segment, thread->slot);
    metric_set(thread->metrics, METRIC_connections_open, 0);
    metric_set(thread->metrics, METRIC_connections_busy, 0);
    metric_set(thread->metrics, METRIC_listen_sockets, 0);
    segment_activity_work(thread->activity, THREAD_STATE_STARTING, clock_monotonic_ns(), "", 0);
}

struct serving_thread *thread_new(const struct site *site, uint32_t index, uint32_t slot)
{
    struct serving_thread *thread = calloc(1, sizeof(*thread));

    if (thread == NULL)
        return NULL;
    thread->site = site;
    thread->index = index;
    thread->slot = slot;
    thread->accepted.preference = PREFER_IDENTITY; /* what an empty line means */
    thread->prefixes.server = header_rules_server(site->source.headers);
    thread->wall_offset_ns = clock_wall_ns() - clock_monotonic_ns();
    thread->mailbox.eventfd = -1;
    directory_check_init(&thread->directory, site->config->cache_revalidate * NS_PER_MS /
                                                 DIRECTORY_CHECKS_PER_REVALIDATE);
    atomic_init(&thread->beat_ns, clock_monotonic_ns());
    for (int i = 0; i < DEADLINE_COUNT; i++)
        TAILQ_INIT(&thread->connections[i]);
    take_slot(thread);
    if (mailbox_open(&thread->mailbox, site->config->workers_connection_queue) != 0)
        goto failed;
    if (make_events(thread) != 0)
        goto failed;
    if (site->cache != NULL) {
        thread->thread_cache = thread_cache_new(site->cache, site->config->cache_max_entries,
                                                segment_hits_of(site->segment, slot));
        if (thread->thread_cache == NULL)
            goto failed;
    }
    if (site->cache != NULL && site->config->cache_revalidate > 0) {
        thread->negative_cache = negative_cache_new(site->config->cache_revalidate * NS_PER_MS);
        if (thread->negative_cache == NULL)
            goto failed;
    }
    return thread;

failed:
    thread_free(thread, false);
    return NULL;
}

/* Signals are the main thread's business: a serving thread is born with all of them blocked. */
int thread_start(struct serving_thread *thread)
{
    sigset_t all, before;
    int failed;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&thread->id, NULL, thread_main, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed == 0 && thread->site->cache != NULL)
        cache_add_reader(thread->site->cache, thread->slot);
    errno = failed;
    return failed == 0 ? 0 : -1;
}

void thread_free(struct serving_thread *thread, bool started)
{
    if (started) {
        pthread_join(thread->id, NULL);
        if (thread->site->cache != NULL)
            cache_remove_reader(thread->site->cache, thread->slot);
    }
    thread_cache_free(thread->thread_cache);
    negative_cache_free(thread->negative_cache);
    directory_check_close(&thread->directory);
    loop_free_event(thread->mail);
    loop_free_event(thread->tick);
    loop_free_event(thread->log_retry);
    loop_free_event(thread->lane_retry);
    if (thread->base != NULL)
        event_base_free(thread->base);
    if (thread->mailbox.eventfd >= 0)
        mailbox_close(&thread->mailbox);
    free(thread);
}

void thread_tell_leave(struct serving_thread *thread, enum thread_mode mode)
{
    thread->leaving = mode;
    mailbox_post(&thread->mailbox, &thread->leave, ITEM_LEAVE);
}
