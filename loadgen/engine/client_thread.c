#include "loadgen/engine/client_thread.h"

#include "common/clock.h"
#include "common/macros.h"

#include "loadgen/base/processor_time.h"

#include <errno.h>
#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* What others want of the thread; it takes them when it is woken. */
struct mail {
    pthread_mutex_t lock; /* guards the rest; nothing else is locked inside */
    bool has_orders, dismissed, abandoned;
    struct driver_orders orders;
};

struct client_thread {
    alignas(CACHE_LINE) struct tally tally; /* no other thread's data on its lines */
    alignas(CACHE_LINE) struct tally warmup;
    alignas(CACHE_LINE) struct supply_share share;
    struct client_thread_setup setup;
    struct event_base *base;
    struct event *woken;
    struct driver *driver;
    struct mail mail;
    _Atomic bool fell_short;
    int wake_fd;
    uint64_t begun_ns, ended_ns, cpu_ns, waited_ns;
    pthread_t id;
};

/*
 * The clock of libevent is not asked for, and no other thread touches the base: it needs no lock. An
 * open loop wants timers that are finer than a millisecond.
 */
static struct event_base *make_base(const struct plan *plan)
{
    int flags = EVENT_BASE_FLAG_NOLOCK | (plan_is_open(plan) ? EVENT_BASE_FLAG_PRECISE_TIMER : 0);
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;

    if (config != NULL && event_config_set_flag(config, flags) == 0)
        base = event_base_new_with_config(config);
    if (config != NULL)
        event_config_free(config);
    return base;
}

/* What was asked for since the last time. */
static struct mail take_mail(struct client_thread *thread)
{
    struct mail taken;
    uint64_t count;
    ssize_t ignored = read(thread->wake_fd, &count, sizeof(count));

    (void)ignored;
    pthread_mutex_lock(&thread->mail.lock);
    taken.has_orders = thread->mail.has_orders;
    taken.dismissed = thread->mail.dismissed;
    taken.abandoned = thread->mail.abandoned;
    taken.orders = thread->mail.orders;
    thread->mail.has_orders = thread->mail.abandoned = false;
    pthread_mutex_unlock(&thread->mail.lock);
    return taken;
}

static void on_woken(evutil_socket_t fd, short events, void *context)
{
    struct client_thread *thread = context;
    struct mail mail = take_mail(thread);

    (void)fd;
    (void)events;
    if (mail.dismissed)
        thread->share.closed = true;
    if (mail.has_orders && !driver_order(thread->driver, &mail.orders))
        atomic_store_explicit(&thread->fell_short, true, memory_order_relaxed);
    if (mail.abandoned)
        driver_abandon(thread->driver);
    driver_look(thread->driver);
}

static bool set_up(struct client_thread *thread, const struct driver_orders *orders)
{
    const struct client_thread_setup *setup = &thread->setup;
    struct driver_place place = {setup->engine,   setup->plan,
                                 setup->work,     NULL,
                                 &thread->share,  &thread->tally,
                                 &thread->warmup, setup->index,
                                 setup->late,     setup->index == 0 ? setup->conversation : NULL};

    thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread->base = make_base(setup->plan);
    if (thread->wake_fd < 0 || thread->base == NULL)
        return false;
    place.base = thread->base;
    thread->driver = driver_create(&place, orders);
    thread->woken =
        event_new(thread->base, thread->wake_fd, EV_READ | EV_PERSIST, on_woken, thread);
    return thread->driver != NULL && thread->woken != NULL && event_add(thread->woken, NULL) == 0;
}

struct client_thread *client_thread_create(const struct client_thread_setup *setup,
                                           const struct driver_orders *orders)
{
    struct client_thread *thread = aligned_alloc(CACHE_LINE, sizeof(*thread));

    if (thread == NULL)
        return NULL;
    *thread = (struct client_thread){.setup = *setup};
    pthread_mutex_init(&thread->mail.lock, NULL);
    tally_reset(&thread->tally);
    tally_reset(&thread->warmup);
    supply_share_begin(&thread->share, setup->supply,
                       setup->late || plan_is_open(setup->plan) ? 0 : orders->connections);
    if (set_up(thread, orders))
        return thread;
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

static void add_one(int fd)
{
    uint64_t one = 1;

    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
        continue;
}

static void *run(void *context)
{
    struct client_thread *thread = context;
    uint64_t cpu_before = thread_cpu_ns(), waited_before = processor_wait_of_thread();

    thread->begun_ns = clock_monotonic_ns();
    driver_start(thread->driver);
    event_base_dispatch(thread->base);
    driver_finish(thread->driver);
    thread->ended_ns = clock_monotonic_ns();
    thread->cpu_ns = thread_cpu_ns() - cpu_before;
    thread->waited_ns = processor_wait_of_thread() - waited_before;
    add_one(thread->setup.done_fd);
    return NULL;
}

int client_thread_start(struct client_thread *thread)
{
    return pthread_create(&thread->id, NULL, run, thread);
}

void client_thread_order(struct client_thread *thread, const struct driver_orders *orders)
{
    pthread_mutex_lock(&thread->mail.lock);
    thread->mail.orders = *orders;
    thread->mail.has_orders = true;
    pthread_mutex_unlock(&thread->mail.lock);
    add_one(thread->wake_fd);
}

void client_thread_dismiss(struct client_thread *thread)
{
    pthread_mutex_lock(&thread->mail.lock);
    thread->mail.dismissed = true;
    pthread_mutex_unlock(&thread->mail.lock);
    add_one(thread->wake_fd);
}

void client_thread_wake(struct client_thread *thread)
{
    add_one(thread->wake_fd);
}

void client_thread_abandon(struct client_thread *thread)
{
    pthread_mutex_lock(&thread->mail.lock);
    thread->mail.abandoned = true;
    pthread_mutex_unlock(&thread->mail.lock);
    add_one(thread->wake_fd);
}

void client_thread_join(struct client_thread *thread)
{
    pthread_join(thread->id, NULL);
}

const struct tally *client_thread_tally(const struct client_thread *thread)
{
    return &thread->tally;
}

const struct tally *client_thread_warmup(const struct client_thread *thread)
{
    return &thread->warmup;
}

bool client_thread_fell_short(const struct client_thread *thread)
{
    return atomic_load_explicit(&thread->fell_short, memory_order_relaxed);
}

struct client_thread_account client_thread_account(const struct client_thread *thread)
{
    uint64_t last_end_ns = driver_last_end_ns(thread->driver);

    return (struct client_thread_account){
        .begun_ns = thread->begun_ns,
        .ended_ns = thread->ended_ns,
        .last_end_ns = last_end_ns != 0 ? last_end_ns : thread->begun_ns,
        .cpu_ns = thread->cpu_ns,
        .waited_ns = thread->waited_ns,
        .error_texts = driver_error_texts(thread->driver),
    };
}

void client_thread_destroy(struct client_thread *thread)
{
    if (thread->driver != NULL)
        driver_destroy(thread->driver);
    if (thread->woken != NULL)
        event_free(thread->woken);
    if (thread->base != NULL)
        event_base_free(thread->base);
    if (thread->wake_fd >= 0)
        close(thread->wake_fd);
    pthread_mutex_destroy(&thread->mail.lock);
    free(thread);
}
