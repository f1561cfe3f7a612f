#include "loadgen/engine/client_pool.h"

#include "common/clock.h"
#include "common/macros.h"

#include "loadgen/base/resources.h"
#include "loadgen/engine/page_load.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

/* Commands of the main thread; the client thread takes them when it is woken. */
struct mailbox {
    pthread_mutex_t lock; /* guards the rest; no other lock is taken inside */
    bool has_settings, draining, aborted;
    struct driver_settings settings;
};

struct client_thread {
    alignas(CACHE_LINE) struct tally tally; /* no other thread's data on these cache lines */
    alignas(CACHE_LINE) struct tally warmup;
    alignas(CACHE_LINE) struct budget_share share;
    struct event_base *base;
    struct event *woken;
    struct driver *driver;
    struct mailbox mailbox;
    struct scenario_tally *scenario_tally; /* NULL: no scenarios */
    struct error_texts error_texts;
    struct negotiations negotiations;
    _Atomic bool out_of_memory;
    struct request_log *log; /* NULL: none */
    int log_error;
    int wake_fd, done_fd;
    uint64_t begun_ns, ended_ns, cpu_ns, waited_ns;
    pthread_t id;
};

struct client_pool {
    struct client_pool_config config;
    struct client_pool_settings settings;
    struct client_thread *thread[PLAN_THREADS_MAX]; /* draining ones included */
    uint32_t made, started;
    uint32_t active[PLAN_THREADS_MAX]; /* numbers of the threads that are not draining */
    uint32_t running;
};

/* ---- One thread: on itself ---- */

static struct mailbox take_commands(struct client_thread *thread)
{
    struct mailbox taken;
    uint64_t count;
    ssize_t ignored = read(thread->wake_fd, &count, sizeof(count));

    (void)ignored;
    pthread_mutex_lock(&thread->mailbox.lock);
    taken.has_settings = thread->mailbox.has_settings;
    taken.draining = thread->mailbox.draining;
    taken.aborted = thread->mailbox.aborted;
    taken.settings = thread->mailbox.settings;
    thread->mailbox.has_settings = thread->mailbox.aborted = false;
    pthread_mutex_unlock(&thread->mailbox.lock);
    return taken;
}

static void on_woken(evutil_socket_t fd, short events, void *context)
{
    struct client_thread *thread = context;
    struct mailbox commands = take_commands(thread);

    (void)fd;
    (void)events;
    if (commands.draining)
        thread->share.closed = true;
    if (commands.has_settings && !driver_apply(thread->driver, &commands.settings))
        atomic_store_explicit(&thread->out_of_memory, true, memory_order_relaxed);
    if (commands.aborted)
        driver_abort(thread->driver);
    driver_check_end(thread->driver);
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

static void *run_thread(void *context)
{
    struct client_thread *thread = context;
    uint64_t cpu_before = thread_cpu_ns(), waited_before = resources_thread_wait_ns();

    thread->begun_ns = clock_monotonic_ns();
    driver_start(thread->driver);
    event_base_dispatch(thread->base);
    driver_finish(thread->driver);
    thread->log_error = request_log_end(thread->log);
    thread->log = NULL;
    thread->ended_ns = clock_monotonic_ns();
    thread->cpu_ns = thread_cpu_ns() - cpu_before;
    thread->waited_ns = resources_thread_wait_ns() - waited_before;
    add_one(thread->done_fd);
    return NULL;
}

/* ---- One thread: on the main thread ---- */

/*
 * No lock: only the thread itself uses its base. The timers of an open loop and of think times must
 * not fire early, as those of the coarse clock do.
 */
static struct event_base *make_base(const struct plan *plan)
{
    bool precise = plan_is_open(plan) || plan->think_max_ms > 0 || plan->think_recorded ||
                   plan->scenario_file != NULL;
    int flags = EVENT_BASE_FLAG_NOLOCK | (precise ? EVENT_BASE_FLAG_PRECISE_TIMER : 0);
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;

    if (config != NULL && event_config_set_flag(config, flags) == 0)
        base = event_base_new_with_config(config);
    if (config != NULL)
        event_config_free(config);
    return base;
}

static void destroy_thread(struct client_thread *thread)
{
    if (thread->driver != NULL)
        driver_destroy(thread->driver);
    if (thread->woken != NULL)
        event_free(thread->woken);
    if (thread->base != NULL)
        event_base_free(thread->base);
    if (thread->wake_fd >= 0)
        close(thread->wake_fd);
    pthread_mutex_destroy(&thread->mailbox.lock);
    scenario_tally_free(thread->scenario_tally);
    request_log_end(thread->log);
    free(thread);
}

static bool set_up_thread(struct client_thread *thread, const struct client_pool_config *config,
                          uint32_t index, bool late, const struct driver_settings *settings)
{
    struct driver_config driver_config = {
        .engine = config->engine,
        .plan = config->plan,
        .request_plan = config->request_plan,
        .share = &thread->share,
        .tally = &thread->tally,
        .warmup = &thread->warmup,
        .error_texts = &thread->error_texts,
        .negotiations = &thread->negotiations,
        .thread_index = index,
        .late = late,
        .transcript = index == 0 ? config->transcript : NULL,
    };

    thread->done_fd = config->done_fd;
    thread->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    thread->base = make_base(config->plan);
    if (thread->wake_fd < 0 || thread->base == NULL)
        return false;
    driver_config.base = thread->base;
    if (config->request_plan->scenarios.count > 0 || config->plan->page_loads) {
        thread->scenario_tally = config->plan->page_loads
                                     ? page_tally_create(config->request_plan)
                                     : scenario_tally_create(&config->request_plan->scenarios);
        driver_config.scenario_tally = thread->scenario_tally;
        if (thread->scenario_tally == NULL)
            return false;
    }
    if (config->log_fd >= 0) {
        thread->log = driver_config.log = request_log_create(config->log_fd);
        if (thread->log == NULL)
            return false;
    }
    thread->driver = driver_create(&driver_config, settings);
    thread->woken =
        event_new(thread->base, thread->wake_fd, EV_READ | EV_PERSIST, on_woken, thread);
    return thread->driver != NULL && thread->woken != NULL && event_add(thread->woken, NULL) == 0;
}

/* LATE: the run has already started. Returns NULL with errno set. */
static struct client_thread *create_thread(const struct client_pool_config *config, uint32_t index,
                                           bool late, const struct driver_settings *settings)
{
    struct client_thread *thread = aligned_alloc(CACHE_LINE, sizeof(*thread));

    if (thread == NULL)
        return NULL;
    *thread = (struct client_thread){.wake_fd = -1};
    pthread_mutex_init(&thread->mailbox.lock, NULL);
    tally_reset(&thread->tally);
    tally_reset(&thread->warmup);
    budget_share_begin(
        &thread->share, config->budget,
        late || plan_is_open(config->plan) ? 0 : settings->slots / config->plan->streams);
    if (set_up_thread(thread, config, index, late, settings))
        return thread;
    destroy_thread(thread);
    errno = errno != 0 ? errno : ENOMEM;
    return NULL;
}

/* Merges COMMANDS into the mailbox and wakes the thread. */
static void send_commands(struct client_thread *thread, const struct mailbox *commands)
{
    struct mailbox *mailbox = &thread->mailbox;

    pthread_mutex_lock(&mailbox->lock);
    if (commands->has_settings)
        mailbox->settings = commands->settings;
    mailbox->has_settings |= commands->has_settings;
    mailbox->draining |= commands->draining;
    mailbox->aborted |= commands->aborted;
    pthread_mutex_unlock(&mailbox->lock);
    add_one(thread->wake_fd);
}

/* ---- The pool ---- */

/* The share of active thread PLACE; the first threads get one of the remaining connections each. */
static struct driver_settings settings_of(const struct plan *plan,
                                          const struct client_pool_settings *settings,
                                          uint32_t place)
{
    return (struct driver_settings){
        .slots = plan_slots(plan, settings->connections / settings->threads +
                                      (place < settings->connections % settings->threads ? 1 : 0)),
        .threads = settings->threads,
        .rate = settings->rate,
    };
}

static bool add_thread(struct client_pool *pool, const struct client_pool_settings *settings,
                       uint32_t place, bool late)
{
    const struct driver_settings its_settings = settings_of(pool->config.plan, settings, place);
    struct client_thread *thread = create_thread(&pool->config, pool->made, late, &its_settings);

    if (thread == NULL)
        return false;
    pool->active[place] = pool->made;
    pool->thread[pool->made++] = thread;
    return true;
}

struct client_pool *client_pool_create(const struct client_pool_config *config,
                                       const struct client_pool_settings *settings)
{
    struct client_pool *pool = calloc(1, sizeof(*pool));

    if (pool == NULL)
        return NULL;
    pool->config = *config;
    pool->settings = *settings;
    for (uint32_t i = 0; i < settings->threads; i++)
        if (!add_thread(pool, settings, i, false)) {
            int error = errno;

            client_pool_destroy(pool);
            errno = error;
            return NULL;
        }
    return pool;
}

/* Client threads start with all signals blocked: the main thread handles signals. */
int client_pool_start(struct client_pool *pool)
{
    sigset_t all, before;
    int error = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (error == 0 && pool->started < pool->made) {
        struct client_thread *thread = pool->thread[pool->started];

        error = pthread_create(&thread->id, NULL, run_thread, thread);
        if (error == 0) {
            pool->started++;
            pool->running++;
        }
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int fail_pool(char *why, size_t size, const char *text)
{
    snprintf(why, size, "%s", text);
    return -1;
}

/* Creates and starts the missing threads. On failure the pool is as before. */
static int add_threads(struct client_pool *pool, const struct client_pool_settings *settings,
                       char *why, size_t size)
{
    uint32_t place = pool->settings.threads;
    int error = 0;

    for (; place < settings->threads && error == 0; place++) {
        if (pool->made == PLAN_THREADS_MAX)
            return fail_pool(why, size, "no more threads: this run has started 1024, the maximum");
        if (!add_thread(pool, settings, place, true))
            error = errno;
    }
    if (error == 0)
        error = client_pool_start(pool);
    if (error == 0)
        return 0;
    while (pool->made > pool->started)
        destroy_thread(pool->thread[--pool->made]);
    snprintf(why, size, "cannot start more threads: %s", strerror(error));
    return -1;
}

int client_pool_apply(struct client_pool *pool, const struct client_pool_settings *settings,
                      char *why, size_t size)
{
    if (settings->threads != pool->settings.threads && pool->config.plan->replay_file != NULL)
        return fail_pool(why, size,
                         "a replay cannot change its threads: its requests are assigned");
    if (resources_reserve_descriptors(plan_sockets(pool->config.plan, settings->connections),
                                      settings->threads, why, size) != 0)
        return -1;
    if (settings->threads > pool->settings.threads && add_threads(pool, settings, why, size) != 0)
        return -1;
    for (uint32_t place = settings->threads; place < pool->settings.threads; place++)
        send_commands(pool->thread[pool->active[place]], &(struct mailbox){.draining = true});
    for (uint32_t place = 0; place < settings->threads; place++)
        send_commands(
            pool->thread[pool->active[place]],
            &(struct mailbox){.has_settings = true,
                              .settings = settings_of(pool->config.plan, settings, place)});
    pool->settings = *settings;
    return 0;
}

uint32_t client_pool_count_ended(struct client_pool *pool, uint32_t count)
{
    pool->running -= count;
    return pool->running;
}

uint32_t client_pool_running(const struct client_pool *pool)
{
    return pool->running;
}

void client_pool_wake(struct client_pool *pool)
{
    for (uint32_t i = 0; i < pool->started; i++)
        add_one(pool->thread[i]->wake_fd);
}

void client_pool_abort(struct client_pool *pool)
{
    for (uint32_t i = 0; i < pool->started; i++)
        send_commands(pool->thread[i], &(struct mailbox){.aborted = true});
}

void client_pool_join(struct client_pool *pool)
{
    for (uint32_t i = 0; i < pool->started; i++)
        pthread_join(pool->thread[i]->id, NULL);
}

/* ---- Results ---- */

void client_pool_sum(const struct client_pool *pool, struct tally *sum, struct tally *warmup)
{
    tally_reset(sum);
    if (warmup != NULL)
        tally_reset(warmup);
    for (uint32_t i = 0; i < pool->made; i++) {
        tally_add(sum, &pool->thread[i]->tally);
        if (warmup != NULL)
            tally_add(warmup, &pool->thread[i]->warmup);
    }
}

struct client_pool_totals client_pool_totals(const struct client_pool *pool)
{
    struct client_pool_totals totals = {.first_begun_ns = UINT64_MAX};

    for (uint32_t i = 0; i < pool->started; i++) {
        const struct client_thread *thread = pool->thread[i];
        uint64_t last_end_ns = driver_last_end_ns(thread->driver);

        last_end_ns = last_end_ns != 0 ? last_end_ns : thread->begun_ns;
        if (thread->begun_ns < totals.first_begun_ns)
            totals.first_begun_ns = thread->begun_ns;
        if (driver_last_due_ns(thread->driver) > totals.last_due_ns)
            totals.last_due_ns = driver_last_due_ns(thread->driver);
        if (last_end_ns > totals.last_end_ns)
            totals.last_end_ns = last_end_ns;
        totals.cpu_ns += thread->cpu_ns;
        totals.waited_ns += thread->waited_ns;
        totals.thread_ns += thread->ended_ns - thread->begun_ns;
        if (totals.log_error == 0)
            totals.log_error = thread->log_error;
        error_texts_add(&totals.error_texts, &thread->error_texts);
        negotiations_add(&totals.negotiations, &thread->negotiations);
    }
    return totals;
}

bool client_pool_sum_scenarios(const struct client_pool *pool, struct scenario_tally **sum)
{
    for (uint32_t i = 0; i < pool->made; i++)
        if (pool->thread[i]->scenario_tally != NULL &&
            !scenario_tally_add(sum, pool->thread[i]->scenario_tally))
            return false;
    return true;
}

bool client_pool_ran_out_of_memory(const struct client_pool *pool)
{
    for (uint32_t i = 0; i < pool->made; i++)
        if (atomic_load_explicit(&pool->thread[i]->out_of_memory, memory_order_relaxed))
            return true;
    return false;
}

void client_pool_destroy(struct client_pool *pool)
{
    for (uint32_t i = 0; i < pool->made; i++)
        destroy_thread(pool->thread[i]);
    free(pool);
}
