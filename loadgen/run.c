#include "loadgen/run.h"

#include "common/clock.h"
#include "common/macros.h"

#include "loadgen/client_thread.h"
#include "loadgen/progress.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const int stop_signals[] = {SIGINT, SIGTERM, SIGHUP};

enum { STOP_SIGNALS = ARRAY_LENGTH(stop_signals) };

struct run {
    const struct plan *plan;
    const struct target *target;
    const struct engine_ops *engine;
    struct supply supply;
    struct client_thread **threads;
    uint32_t thread_count; /* made */
    uint32_t running;      /* started and not ended */
    struct event_base *base;
    struct event *tick, *deadline, *grace, *done, *on_signal[STOP_SIGNALS];
    int done_fd;
    uint64_t begun_ns;
    bool interrupted;
    struct progress progress;
    struct tally sum; /* of all threads, as of the last tick */
};

static struct timeval timeval_of_ms(uint64_t ms)
{
    return (struct timeval){(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
}

/* ---- What ends a run ---- */

static void abandon_all(struct run *run)
{
    for (uint32_t i = 0; i < run->thread_count; i++)
        client_thread_abandon(run->threads[i]);
}

/* No new request; the answers under way get the time of grace. */
static void stop(struct run *run)
{
    struct timeval grace = timeval_of_ms(run->plan->grace_ms);

    supply_stop(&run->supply);
    event_add(run->grace, &grace);
}

static void on_deadline(evutil_socket_t fd, short events, void *context)
{
    (void)fd;
    (void)events;
    stop(context);
}

static void on_grace_over(evutil_socket_t fd, short events, void *context)
{
    (void)fd;
    (void)events;
    abandon_all(context);
}

static void on_signal(evutil_socket_t number, short events, void *context)
{
    struct run *run = context;

    (void)number;
    (void)events;
    if (run->interrupted)
        abandon_all(run);
    else
        stop(run);
    run->interrupted = true;
}

static void on_thread_done(evutil_socket_t fd, short events, void *context)
{
    struct run *run = context;
    uint64_t ended = 0;

    (void)events;
    if (read(fd, &ended, sizeof(ended)) == (ssize_t)sizeof(ended))
        run->running -= (uint32_t)ended;
    if (run->running == 0)
        event_base_loopbreak(run->base);
}

static void add_up(struct run *run, struct tally *sum)
{
    tally_reset(sum);
    for (uint32_t i = 0; i < run->thread_count; i++)
        tally_add(sum, client_thread_tally(run->threads[i]));
}

static void on_tick(evutil_socket_t fd, short events, void *context)
{
    struct run *run = context;

    (void)fd;
    (void)events;
    add_up(run, &run->sum);
    progress_tick(&run->progress, &run->sum, clock_monotonic_ns() - run->begun_ns);
}

/* ---- Setting up ---- */

static struct event *make_event(struct run *run, int fd, short events, event_callback_fn function)
{
    return event_new(run->base, fd, events, function, run);
}

static bool make_events(struct run *run)
{
    bool good = true;

    run->base = event_base_new();
    run->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (run->base == NULL || run->done_fd < 0)
        return false;
    run->tick = make_event(run, -1, EV_PERSIST, on_tick);
    run->deadline = make_event(run, -1, 0, on_deadline);
    run->grace = make_event(run, -1, 0, on_grace_over);
    run->done = make_event(run, run->done_fd, EV_READ | EV_PERSIST, on_thread_done);
    for (size_t i = 0; i < STOP_SIGNALS; i++) {
        run->on_signal[i] = make_event(run, stop_signals[i], EV_SIGNAL | EV_PERSIST, on_signal);
        good = good && run->on_signal[i] != NULL && event_add(run->on_signal[i], NULL) == 0;
    }
    return good && run->tick != NULL && run->deadline != NULL && run->grace != NULL &&
           run->done != NULL && event_add(run->done, NULL) == 0;
}

/* Connections of thread INDEX: the even share, and one of what is left over. */
static uint32_t connections_of(const struct plan *plan, uint32_t index)
{
    return plan->connections / plan->threads + (index < plan->connections % plan->threads ? 1 : 0);
}

static bool make_threads(struct run *run)
{
    struct client_thread_setup setup = {
        .engine = run->engine,
        .plan = run->plan,
        .target = run->target,
        .supply = &run->supply,
        .done_fd = run->done_fd,
    };

    supply_begin(&run->supply, run->plan->requests, 0, run->plan->threads);
    run->threads = calloc(run->plan->threads, sizeof(struct client_thread *));
    if (run->threads == NULL)
        return false;
    for (; run->thread_count < run->plan->threads; run->thread_count++) {
        setup.connections = connections_of(run->plan, run->thread_count);
        run->threads[run->thread_count] = client_thread_create(&setup);
        if (run->threads[run->thread_count] == NULL)
            return false;
    }
    return true;
}

static void begin_clocks(struct run *run)
{
    const struct timeval tick = timeval_of_ms(PROGRESS_TICK_MS);
    struct timeval duration = timeval_of_ms(run->plan->duration_ms);

    run->begun_ns = clock_monotonic_ns();
    event_add(run->tick, &tick);
    if (run->plan->duration_ms == 0)
        return;
    run->supply.deadline_ns = run->begun_ns + run->plan->duration_ms * NS_PER_MS;
    event_add(run->deadline, &duration);
}

/* Signals go to the main thread: the client threads start with all of them blocked. */
static int start_threads(struct run *run)
{
    sigset_t all, before;
    int error = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    while (error == 0 && run->running < run->thread_count) {
        error = client_thread_start(run->threads[run->running]);
        if (error == 0)
            run->running++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

/* ---- What comes of it ---- */

static void account(struct run *run, struct result *result)
{
    uint64_t first_ns = UINT64_MAX, last_ns = 0;

    *result = (struct result){
        .plan = run->plan,
        .url = run->target->text,
        .engine = run->engine->name,
        .interrupted = run->interrupted,
    };
    add_up(run, &result->tally);
    for (uint32_t i = 0; i < run->thread_count; i++) {
        struct client_thread_account of_thread = client_thread_account(run->threads[i]);

        first_ns = of_thread.begun_ns < first_ns ? of_thread.begun_ns : first_ns;
        last_ns = of_thread.last_end_ns > last_ns ? of_thread.last_end_ns : last_ns;
        result->cpu_ns += of_thread.cpu_ns;
        if (result->other_error[0] == '\0')
            snprintf(result->other_error, sizeof(result->other_error), "%s", of_thread.other_error);
    }
    result->elapsed_ns = last_ns - first_ns;
}

static void free_event(struct event *event)
{
    if (event != NULL)
        event_free(event);
}

static void tear_down(struct run *run)
{
    for (uint32_t i = 0; i < run->thread_count; i++)
        client_thread_destroy(run->threads[i]);
    free(run->threads);
    free_event(run->tick);
    free_event(run->deadline);
    free_event(run->grace);
    free_event(run->done);
    for (size_t i = 0; i < STOP_SIGNALS; i++)
        free_event(run->on_signal[i]);
    if (run->base != NULL)
        event_base_free(run->base);
    if (run->done_fd >= 0)
        close(run->done_fd);
    free(run);
}

/* Runs the main loop until the last client thread is done. */
static void watch_threads(struct run *run)
{
    uint32_t started = run->running;

    if (run->running > 0)
        event_base_dispatch(run->base);
    for (uint32_t i = 0; i < started; i++)
        client_thread_join(run->threads[i]);
}

int run(const struct plan *plan, const struct target *target, struct result *result, char *why,
        size_t size)
{
    struct run *run = calloc(1, sizeof(*run));
    int error = 0;

    if (run == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    *run = (struct run){.plan = plan, .target = target, .engine = &engine_curl, .done_fd = -1};
    if (!make_events(run) || !make_threads(run))
        error = errno != 0 ? errno : ENOMEM;
    if (error == 0) {
        progress_begin(&run->progress, plan, stderr);
        begin_clocks(run);
        error = start_threads(run);
        if (error != 0) {
            supply_stop(&run->supply);
            abandon_all(run);
        }
        watch_threads(run);
        progress_end(&run->progress);
        account(run, result);
    }
    tear_down(run);
    if (error != 0)
        snprintf(why, size, "cannot start %u client threads with %u connections: %s", plan->threads,
                 plan->connections, strerror(error));
    return error != 0 ? -1 : 0;
}
