#include "loadgen/client_thread.h"

#include "common/clock.h"
#include "common/macros.h"

#include <errno.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

struct client_thread {
    alignas(CACHE_LINE) struct tally tally; /* no other thread's data on its lines */
    alignas(CACHE_LINE) struct supply_share share;
    struct client_thread_setup setup;
    struct event_base *base;
    struct event *abandoned;
    struct engine *engine;
    int abandon_fd;
    uint64_t begun_ns, cpu_ns;
    pthread_t id;
};

/* The clock of libevent is not asked for, and no other thread touches the base: it needs no lock.
 */
static struct event_base *make_base(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;

    if (config != NULL && event_config_set_flag(config, EVENT_BASE_FLAG_NOLOCK) == 0)
        base = event_base_new_with_config(config);
    if (config != NULL)
        event_config_free(config);
    return base;
}

static void on_abandoned(evutil_socket_t fd, short events, void *context)
{
    struct client_thread *thread = context;

    (void)fd;
    (void)events;
    thread->setup.engine->abandon(thread->engine);
    event_base_loopbreak(thread->base);
}

struct client_thread *client_thread_create(const struct client_thread_setup *setup)
{
    struct client_thread *thread = aligned_alloc(CACHE_LINE, sizeof(*thread));
    struct engine_place place;

    if (thread == NULL)
        return NULL;
    *thread = (struct client_thread){.setup = *setup};
    tally_reset(&thread->tally);
    supply_share_begin(&thread->share, setup->supply, setup->connections);
    thread->abandon_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread->base = make_base();
    if (thread->abandon_fd < 0 || thread->base == NULL)
        goto fail;
    place = (struct engine_place){setup->plan,    setup->target,  thread->base,
                                  &thread->share, &thread->tally, setup->connections};
    thread->engine = setup->engine->create(&place);
    thread->abandoned = event_new(thread->base, thread->abandon_fd, EV_READ, on_abandoned, thread);
    if (thread->engine == NULL || thread->abandoned == NULL ||
        event_add(thread->abandoned, NULL) != 0)
        goto fail;
    return thread;
fail:
    client_thread_destroy(thread);
    errno = errno != 0 ? errno : ENOMEM;
    return NULL;
}

static uint64_t thread_cpu_ns(void)
{
    struct rusage usage;

    getrusage(RUSAGE_THREAD, &usage);
    return (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * NS_PER_S +
           (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * NS_PER_US;
}

static void *run(void *context)
{
    struct client_thread *thread = context;
    uint64_t one = 1, cpu_before = thread_cpu_ns();

    thread->begun_ns = clock_monotonic_ns();
    thread->setup.engine->start(thread->engine);
    event_base_dispatch(thread->base);
    thread->cpu_ns = thread_cpu_ns() - cpu_before;
    while (write(thread->setup.done_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
    return NULL;
}

int client_thread_start(struct client_thread *thread)
{
    return pthread_create(&thread->id, NULL, run, thread);
}

void client_thread_abandon(struct client_thread *thread)
{
    uint64_t one = 1;

    while (write(thread->abandon_fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

void client_thread_join(struct client_thread *thread)
{
    pthread_join(thread->id, NULL);
}

const struct tally *client_thread_tally(const struct client_thread *thread)
{
    return &thread->tally;
}

struct client_thread_account client_thread_account(const struct client_thread *thread)
{
    uint64_t last_end_ns = thread->setup.engine->last_end_ns(thread->engine);

    return (struct client_thread_account){
        .begun_ns = thread->begun_ns,
        .last_end_ns = last_end_ns != 0 ? last_end_ns : thread->begun_ns,
        .cpu_ns = thread->cpu_ns,
        .other_error = thread->setup.engine->other_error(thread->engine),
    };
}

void client_thread_destroy(struct client_thread *thread)
{
    if (thread->engine != NULL)
        thread->setup.engine->destroy(thread->engine);
    if (thread->abandoned != NULL)
        event_free(thread->abandoned);
    if (thread->base != NULL)
        event_base_free(thread->base);
    if (thread->abandon_fd >= 0)
        close(thread->abandon_fd);
    free(thread);
}
