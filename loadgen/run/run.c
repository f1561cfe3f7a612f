#include "loadgen/run/internal.h"

#include "common/clock.h"
#include "common/macros.h"

#include "loadgen/base/interrupts.h"
#include "loadgen/base/resources.h"
#include "loadgen/engine/client_pool.h"
#include "loadgen/engine/hostile.h"
#include "loadgen/engine/request_log.h"
#include "loadgen/plan/arrivals.h"
#include "loadgen/run/server.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum {
    WHY_TEXT = 256,
    FRAME_MS = 100,                    /* of the live view */
    START_DELAY_NS = 10 * 1000 * 1000, /* the threads run before the first request is due */
    REACHED_MS = 500,     /* a run stops if all connections have failed for this long ... */
    REACHED_TRIES = 1000, /* ... and, with a limit of requests, for this many of them */
};

struct run {
    const struct plan *plan;
    struct request_plan *request_plan;
    const struct run_observer *observer; /* NULL: none */
    const struct engine_ops *engine;
    struct request_budget budget;
    struct client_pool *pool;
    struct hostile_clients *hostile; /* NULL: none */
    struct client_pool_settings settings;
    struct profile planned_connections;
    struct event_base *base;
    struct event *tick, *frame, *suspend, *deadline, *grace, *done, *interrupts;
    struct control *control;
    struct metrics_page *metrics_page; /* NULL: none */
    int done_fd, log_fd;
    bool stopping, interrupted, unreachable, connections_changed;
    uint64_t changes;
    char *first_url;
    const struct condition *aborted_by;
    struct progress progress;
    struct transcript transcript;
    struct series *series;
    struct server_check *check;
    uint64_t began_unix_ns;
    struct machine_cpu machine_before;
    struct tally sum, warmup, both; /* all threads, updated by add_up() */
};

static struct timeval timeval_of_ms(uint64_t ms)
{
    return (struct timeval){(time_t)(ms / 1000), (suseconds_t)(ms % 1000 * 1000)};
}

static uint64_t span_ns(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

static uint64_t elapsed_ns(const struct run *run)
{
    return span_ns(run->budget.begun_ns, clock_monotonic_ns());
}

/* ---- The end of a run ---- */

/* Begins no more requests and waits up to the grace time for responses. */
static void stop_run(struct run *run)
{
    struct timeval grace = timeval_of_ms(run->plan->grace_ms);

    if (run->stopping)
        return;
    run->stopping = true;
    request_budget_stop(&run->budget, clock_monotonic_ns());
    client_pool_wake(run->pool);
    events_add(run->grace, &grace);
}

/* The timer may fire early; requests are sent until the deadline. */
static void on_deadline(evutil_socket_t fd, short events, void *context)
{
    const struct timeval one_ms = {0, 1000};
    struct run *run = context;

    (void)fd;
    (void)events;
    if (clock_monotonic_ns() < run->budget.deadline_ns)
        events_add(run->deadline, &one_ms);
    else
        stop_run(run);
}

static void on_grace_over(evutil_socket_t fd, short events, void *context)
{
    const struct run *run = context;

    (void)fd;
    (void)events;
    client_pool_abort(run->pool);
}

static void on_interrupts(evutil_socket_t fd, short events, void *context)
{
    struct run *run = context;

    (void)fd;
    (void)events;
    for (uint64_t count = interrupts_take(); count > 0; count--) {
        if (run->interrupted)
            client_pool_abort(run->pool);
        else
            stop_run(run);
        run->interrupted = true;
    }
}

/* Wakes the other threads, because the budget may now be used up. */
static void on_thread_done(evutil_socket_t fd, short events, void *context)
{
    struct run *run = context;
    uint64_t ended = 0;

    (void)events;
    if (read(fd, &ended, sizeof(ended)) != (ssize_t)sizeof(ended))
        return;
    if (client_pool_count_ended(run->pool, (uint32_t)ended) == 0)
        event_base_loopbreak(run->base);
    else
        client_pool_wake(run->pool);
}

/* ---- Changes of the load ---- */

static double planned_rate(const struct run *run)
{
    return plan_is_open(run->plan) ? profile_at(&run->settings.rate, (double)elapsed_ns(run)) : 0;
}

/* Applies SETTINGS. Returns 0, or -1 with WHY. */
static int apply_settings(struct run *run, struct client_pool_settings *settings, char *why,
                          size_t size)
{
    if (run->stopping)
        return snprintf(why, size, "the run is already ending"), -1;
    if (settings->threads > settings->connections)
        return snprintf(why, size, "too many threads: %u with %u connections", settings->threads,
                        settings->connections),
               -1;
    if (client_pool_apply(run->pool, settings, why, size) != 0)
        return -1;
    run->settings = *settings;
    return 0;
}

static int follow_change(struct run *run, struct change change, char *why, size_t size)
{
    struct client_pool_settings settings = run->settings;
    double number;

    if (change.kind == CHANGE_LOAD)
        change.kind = plan_is_open(run->plan) ? CHANGE_RATE : CHANGE_CONNECTIONS;
    switch (change.kind) {
    case CHANGE_RATE:
        if (!plan_is_open(run->plan) || run->plan->replay_file != NULL)
            return snprintf(why, size, "no rate to change: start with --rate"), -1;
        settings.rate = profile_constant(change_apply(&change, planned_rate(run)));
        return apply_settings(run, &settings, why, size);
    case CHANGE_CONNECTIONS:
        number = change_apply(&change, run->settings.connections);
        if (number > PLAN_CONNECTIONS_MAX)
            return snprintf(why, size, "too many connections (1-%d)", PLAN_CONNECTIONS_MAX), -1;
        settings.connections = (uint32_t)number;
        if (settings.threads > settings.connections)
            settings.threads = settings.connections;
        run->connections_changed = true;
        return apply_settings(run, &settings, why, size);
    case CHANGE_THREADS:
        number = change_apply(&change, run->settings.threads);
        if (number > PLAN_THREADS_MAX)
            return snprintf(why, size, "too many threads (1-%d)", PLAN_THREADS_MAX), -1;
        settings.threads = (uint32_t)number;
        return apply_settings(run, &settings, why, size);
    case CHANGE_STOP:
    case CHANGE_LOAD:
        stop_run(run);
        break;
    }
    return 0;
}

/* CHANGE is NULL if a line was invalid: WHY. */
static void on_change(void *context, const struct change *change, const char *why)
{
    struct run *run = context;
    char rejection[WHY_TEXT] = "";
    bool accepted;

    if (change == NULL) {
        progress_report_change(&run->progress, false, why, 0, 0, 0);
        return;
    }
    accepted = follow_change(run, *change, rejection, sizeof(rejection)) == 0;
    run->changes += accepted;
    progress_report_change(&run->progress, accepted, rejection, planned_rate(run),
                           run->settings.connections, run->settings.threads);
}

/* ---- Every tick ---- */

static void add_up(struct run *run)
{
    client_pool_sum(run->pool, &run->sum, &run->warmup);
    tally_reset(&run->both);
    tally_add(&run->both, &run->sum);
    tally_add(&run->both, &run->warmup);
}

static uint64_t warmup_ns(const struct run *run)
{
    return run->plan->warmup_ms * NS_PER_MS;
}

static void end_second(struct run *run, uint64_t now_ns)
{
    const struct series_entry setting = {
        .rate = planned_rate(run),
        .connections = run->settings.connections,
        .threads = run->settings.threads,
        .warmup = run->series->before_ns < warmup_ns(run),
    };

    series_add(run->series, &run->both, now_ns, &setting);
}

/* Sets the number of connections from the profile, unless a change has overridden it. */
static void follow_profile(struct run *run, uint64_t now_ns)
{
    double planned = profile_at(&run->planned_connections, (double)now_ns);
    struct client_pool_settings settings = run->settings;
    char why[WHY_TEXT];

    settings.connections =
        planned >= run->settings.threads ? (uint32_t)planned : run->settings.threads;
    if (run->connections_changed || run->stopping ||
        settings.connections == run->settings.connections)
        return;
    if (apply_settings(run, &settings, why, sizeof(why)) != 0) {
        run->connections_changed = true;
        progress_report_change(&run->progress, false, why, 0, 0, 0);
    }
}

static void check_abort_conditions(struct run *run)
{
    uint64_t counted_ns = clock_monotonic_ns() - run->budget.counted_from_ns;

    for (size_t i = 0; i < run->plan->abort_on_count && run->aborted_by == NULL; i++)
        if (clock_monotonic_ns() > run->budget.counted_from_ns &&
            tally_meets_condition(&run->sum, &run->plan->abort_on[i], counted_ns)) {
            run->aborted_by = &run->plan->abort_on[i];
            stop_run(run);
        }
}

/*
 * Stops a run that cannot reach its server: each connection has failed, and would only fail again.
 * A server that ends later is measured on, for it may come back.
 */
static void check_reachable(struct run *run)
{
    const struct tally *all = &run->both;
    uint64_t failed = tally_errors(all) - tally_error(all, ERROR_KIND_CLOSED) -
                      tally_error(all, ERROR_KIND_LOCAL);

    if (run->stopping || elapsed_ns(run) < REACHED_MS * NS_PER_MS || failed == 0 ||
        ((run->plan->requests > 0 || run->plan->duration_ms == 0) && failed < REACHED_TRIES) ||
        failed < tally_get(all, TALLY_clients_used) || tally_get(all, TALLY_clients_up) > 0 ||
        tally_get(all, TALLY_connections_opened) > 0)
        return;
    run->unreachable = true;
    stop_run(run);
}

static struct progress_now now_of(const struct run *run)
{
    return (struct progress_now){
        .tally = &run->sum,
        .elapsed_ns = elapsed_ns(run),
        .setting = {planned_rate(run), run->settings.connections, run->settings.threads},
    };
}

static void arm_tick(struct run *run)
{
    uint64_t next_ns =
        series_next_sample_ns(warmup_ns(run), elapsed_ns(run), PROGRESS_TICK_MS * NS_PER_MS);
    uint64_t wait_us =
        span_ns(clock_monotonic_ns(), run->budget.begun_ns + next_ns + NS_PER_US - 1) / NS_PER_US;
    struct timeval wait = {(time_t)(wait_us / 1000000), (suseconds_t)(wait_us % 1000000)};

    events_add(run->tick, &wait);
}

static void on_tick(evutil_socket_t fd, short events, void *context)
{
    struct run *run = context;
    uint64_t now_ns = elapsed_ns(run);
    struct progress_now now;

    (void)fd;
    (void)events;
    add_up(run);
    now = now_of(run);
    if (series_second_is_over(run->series, warmup_ns(run), now_ns))
        end_second(run, now_ns);
    follow_profile(run, now_ns);
    check_abort_conditions(run);
    check_reachable(run);
    if (run->observer != NULL)
        run->observer->on_tick(run->observer->context, &run->both, now_ns);
    progress_tick(&run->progress, &now);
    arm_tick(run);
}

static void on_display_frame(evutil_socket_t fd, short events, void *context)
{
    struct run *run = context;
    struct progress_now now;

    (void)fd;
    (void)events;
    add_up(run);
    now = now_of(run);
    progress_draw(&run->progress, &now);
}

static void on_suspend(evutil_socket_t number, short events, void *context)
{
    struct run *run = context;

    (void)number;
    (void)events;
    progress_suspend(&run->progress);
}

/* ---- Set-up ---- */

static struct event *make_run_event(struct run *run, int fd, short events,
                                    event_callback_fn function)
{
    return event_new(run->base, fd, events, function, run);
}

/* Its timers must not fire early, as those of the coarse clock do. */
static struct event_base *make_run_base(void)
{
    struct event_config *config = event_config_new();
    struct event_base *base = NULL;

    if (config != NULL && event_config_set_flag(config, EVENT_BASE_FLAG_PRECISE_TIMER) == 0)
        base = event_base_new_with_config(config);
    if (config != NULL)
        event_config_free(config);
    return base;
}

static bool make_events(struct run *run)
{
    run->base = make_run_base();
    run->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    run->series = series_create();
    if (run->base == NULL || run->done_fd < 0 || run->series == NULL)
        return false;
    run->tick = make_run_event(run, -1, 0, on_tick);
    run->frame = make_run_event(run, -1, EV_PERSIST, on_display_frame);
    run->suspend = make_run_event(run, SIGTSTP, EV_SIGNAL | EV_PERSIST, on_suspend);
    run->deadline = make_run_event(run, -1, 0, on_deadline);
    run->grace = make_run_event(run, -1, 0, on_grace_over);
    run->done = make_run_event(run, run->done_fd, EV_READ | EV_PERSIST, on_thread_done);
    run->interrupts = make_run_event(run, interrupts_fd(), EV_READ | EV_PERSIST, on_interrupts);
    return run->tick != NULL && run->frame != NULL && run->suspend != NULL &&
           run->deadline != NULL && run->grace != NULL && run->done != NULL &&
           run->interrupts != NULL && event_add(run->done, NULL) == 0 &&
           event_add(run->interrupts, NULL) == 0;
}

static void start_control(struct run *run)
{
    bool keys = run->progress.kind == PROGRESS_LIVE && run->plan->control_fd != STDIN_FILENO &&
                run->plan->label == NULL; /* not in a series, whose runs must be equal */

    run->control = control_create(run->base, run->plan->control_fd, keys, on_change, run);
    if (run->control == NULL)
        progress_report_change(&run->progress, false, "cannot read changes from --control-fd", 0, 0,
                               0);
    else
        run->progress.keys = control_has_keys(run->control);
}

static bool make_pool(struct run *run)
{
    const struct client_pool_config config = {
        .engine = run->engine,
        .plan = run->plan,
        .request_plan = run->request_plan,
        .budget = &run->budget,
        .transcript = run->plan->verbose ? &run->transcript : NULL,
        .log_fd = run->log_fd,
        .done_fd = run->done_fd,
    };
    double connections = profile_at(&run->planned_connections, 0);

    run->settings = (struct client_pool_settings){
        .threads = run->plan->threads,
        .connections =
            connections > run->plan->threads ? (uint32_t)connections : run->plan->threads,
        .rate = profile_of_rate(run->plan),
    };
    request_budget_begin(&run->budget, run->plan->requests, run->plan->threads);
    run->pool = client_pool_create(&config, &run->settings);
    return run->pool != NULL;
}

static void begin_clocks(struct run *run)
{
    const struct timeval frame = timeval_of_ms(FRAME_MS);
    uint64_t total_ms = run->plan->warmup_ms + run->plan->duration_ms;
    struct timeval duration = timeval_of_ms(total_ms);

    run->budget.begun_ns = clock_monotonic_ns() + (plan_is_open(run->plan) ? START_DELAY_NS : 0);
    run->began_unix_ns = clock_wall_ns() + (plan_is_open(run->plan) ? START_DELAY_NS : 0);
    run->budget.counted_from_ns = run->budget.begun_ns + warmup_ns(run);
    arm_tick(run);
    if (run->progress.kind == PROGRESS_LIVE) {
        events_add(run->frame, &frame);
        events_add(run->suspend, NULL);
    }
    if (run->plan->duration_ms == 0)
        return;
    run->budget.deadline_ns = run->budget.begun_ns + total_ms * NS_PER_MS;
    events_add(run->deadline, &duration);
}

/* ---- The result ---- */

/*
 * When an open loop that ended with its last request, due at LAST_DUE_NS, would have had the next
 * one: N requests take N intervals, not N - 1.
 */
static uint64_t end_of_schedule(uint64_t last_due_ns, const struct run *run)
{
    uint64_t begun = tally_get(&run->both, TALLY_begun);
    uint64_t span = span_ns(run->budget.begun_ns, last_due_ns);

    return begun > 1 ? last_due_ns + span / (begun - 1) : last_due_ns;
}

/*
 * Requests of an open loop are due from its origin on, no matter when the threads started. A run
 * that reached its deadline or was stopped lasted until then: missing responses do not make it
 * shorter.
 */
static void fill_run_times(const struct run *run, const struct client_pool_totals *totals,
                           struct result *result)
{
    uint64_t from_ns = run->budget.counted_from_ns, last_ns = totals->last_end_ns;
    uint64_t end_ns = request_budget_end_ns(&run->budget);

    if (!plan_is_open(run->plan) && totals->first_begun_ns > from_ns)
        from_ns = totals->first_begun_ns;
    if (end_ns > clock_monotonic_ns())
        end_ns = plan_is_open(run->plan) ? end_of_schedule(totals->last_due_ns, run) : last_ns;
    result->elapsed_ns = span_ns(from_ns, last_ns > end_ns ? last_ns : end_ns);
    result->due_ns = span_ns(from_ns, end_ns);
    result->cpu_ns = totals->cpu_ns;
    result->waited_ns = totals->waited_ns;
    result->thread_ns = totals->thread_ns;
}

static void fill_result(struct run *run, struct result *result)
{
    struct client_pool_totals totals = client_pool_totals(run->pool);

    *result = (struct result){
        .plan = run->plan,
        .url = run->first_url,
        .requests = run->request_plan->count,
        .origins = request_plan_count_origins(run->request_plan),
        .skipped = run->request_plan->skipped,
        .engine = run->engine->name,
        .began_unix_ns = run->began_unix_ns,
        .connections = run->settings.connections,
        .threads = run->settings.threads,
        .changes = run->changes,
        .out_of_memory = client_pool_ran_out_of_memory(run->pool),
        .interrupted = run->interrupted,
        .unreachable = run->unreachable,
        .aborted_by = run->aborted_by,
        .log_error = totals.log_error,
    };
    fill_run_times(run, &totals, result);
    run->first_url = NULL;
    result->error_texts = totals.error_texts;
    result->negotiations = totals.negotiations;
}

/* Adds the last entry, which ends with the last request. */
static void end_series(struct run *run, struct result *result)
{
    uint64_t end_ns = warmup_ns(run) + result->elapsed_ns;

    if (end_ns > elapsed_ns(run))
        end_ns = elapsed_ns(run);
    if (end_ns > run->series->before_ns)
        end_second(run, end_ns);
    result->series = run->series;
    run->series = NULL;
}

/*
 * libcurl opens connections on demand: in an open loop its slots may share fewer connections. Those
 * that none was opened for do not count.
 */
static void count_shared_connections(const struct run *run, struct tally *tally)
{
    uint64_t up = tally_get(tally, TALLY_clients_up);
    uint64_t opened = tally_get(tally, TALLY_connections_opened);

    if (run->engine != &engine_curl || opened >= up)
        return;
    tally_count(tally, TALLY_clients_up, opened - up); /* less: counters wrap around */
    tally_count(tally, TALLY_clients_used, opened - up);
}

static void collect_result(struct run *run, struct result *result)
{
    double machine_busy = resources_machine_busy(run->machine_before);

    add_up(run);
    fill_result(run, result);
    result->machine_busy = machine_busy;
    end_series(run, result);
    tally_add(&result->tally, &run->sum);
    count_shared_connections(run, &result->tally);
    tally_add(&result->warmup, &run->warmup);
    if (!client_pool_sum_scenarios(run->pool, &result->scenarios))
        result->out_of_memory = true;
    server_check_end(run->check, tally_get(&run->both, TALLY_answered), &result->server);
}

static void tear_down(struct run *run)
{
    struct event *const events[] = {run->tick,  run->frame, run->suspend,   run->deadline,
                                    run->grace, run->done,  run->interrupts};

    if (run->pool != NULL)
        client_pool_destroy(run->pool);
    for (size_t i = 0; i < ARRAY_LENGTH(events); i++)
        if (events[i] != NULL)
            event_free(events[i]);
    control_destroy(run->control);
    metrics_page_free(run->metrics_page);
    if (run->base != NULL)
        event_base_free(run->base);
    if (run->done_fd >= 0)
        close(run->done_fd);
    if (run->log_fd >= 0)
        close(run->log_fd);
    series_free(run->series);
    free(run->first_url);
    free(run);
}

/* Waits for the time of --start-at, or for a signal, which then ends the run. */
static void wait_for_start(const struct run *run)
{
    struct pollfd signals = {.fd = interrupts_fd(), .events = POLLIN};
    uint64_t start_ns = run->plan->start_ns;

    if (plan_is_open(run->plan) && start_ns > START_DELAY_NS)
        start_ns -= START_DELAY_NS;
    for (uint64_t now_ns; (now_ns = clock_wall_ns()) < start_ns;) {
        uint64_t wait_ns = start_ns - now_ns < NS_PER_S ? start_ns - now_ns : NS_PER_S;
        const struct timespec wait = {(time_t)(wait_ns / NS_PER_S), (long)(wait_ns % NS_PER_S)};

        if (ppoll(&signals, 1, &wait, NULL) > 0)
            return;
    }
}

/* Returns 0 or an errno. */
static int start_clients(struct run *run)
{
    if (plan_hostile_clients(run->plan) > 0) {
        run->hostile = hostile_clients_start(run->request_plan);
        if (run->hostile == NULL)
            return errno;
    }
    return client_pool_start(run->pool);
}

/* Starts the threads and waits until all have ended. Returns 0 or an errno. */
static int execute_run(struct run *run, struct result *result)
{
    const struct progress_goal goal = {
        .requests = run->plan->scenario_file != NULL || run->plan->page_loads
                        ? 0 /* -n is of those */
                    : run->plan->requests != 0 ? run->plan->requests
                                               : request_plan_limit(run->request_plan),
        .duration_ns = run->plan->duration_ms == 0
                           ? 0
                           : (run->plan->warmup_ms + run->plan->duration_ms) * NS_PER_MS,
        .warmup_ns = warmup_ns(run),
    };
    struct hostile_count hostile[PLAN_HOSTILE_KINDS] = {0};
    struct progress_now now;
    int error;

    progress_begin(&run->progress, run->plan, &goal, stderr);
    start_control(run);
    wait_for_start(run);
    run->check = server_check_begin(run->request_plan);
    run->machine_before = resources_machine_cpu();
    begin_clocks(run);
    error = start_clients(run);
    if (error != 0) {
        request_budget_stop(&run->budget, clock_monotonic_ns());
        client_pool_abort(run->pool);
    }
    if (client_pool_running(run->pool) > 0)
        event_base_dispatch(run->base);
    client_pool_join(run->pool);
    hostile_clients_stop(run->hostile, hostile);
    control_destroy(run->control);
    run->control = NULL;
    collect_result(run, result);
    memcpy(result->hostile, hostile, sizeof(hostile));
    now = now_of(run);
    progress_end(&run->progress, &now);
    transcript_write(&run->transcript, stderr);
    return error;
}

static void write_metrics_page(void *context, FILE *out)
{
    struct run *run = context;
    struct progress_now now;

    add_up(run);
    now = now_of(run);
    metrics_page_put(out, &now);
}

/* Opens the log and the address of the metrics. Returns false with WHY. */
static bool open_records(struct run *run, char *why, size_t size)
{
    const struct plan *plan = run->plan;

    if (plan->log_file != NULL) {
        run->log_fd = request_log_open(plan->log_file);
        if (run->log_fd < 0) {
            snprintf(why, size, "--log %.200s: %s", plan->log_file, strerror(errno));
            return false;
        }
    }
    if (plan->metrics == NULL)
        return true;
    run->metrics_page =
        metrics_page_create(run->base, plan->metrics, write_metrics_page, run, why, size);
    return run->metrics_page != NULL;
}

int run_plan(const struct plan *plan, struct request_plan *request_plan,
             const struct run_observer *observer, struct result *result, char *why, size_t size)
{
    struct run *run = calloc(1, sizeof(*run));
    bool told = false; /* WHY says what failed */
    int error = 0;

    if (run == NULL || interrupts_begin() != 0) {
        free(run);
        snprintf(why, size, "out of memory or descriptors");
        return -1;
    }
    run->plan = plan;
    run->request_plan = request_plan;
    run->observer = observer;
    run->engine = plan->engine == PLAN_ENGINE_CURL ? &engine_curl
                  : plan->http == PLAN_HTTP_2      ? &engine_raw_http2
                                                   : &engine_raw;
    run->planned_connections = profile_of_connections(plan);
    run->first_url = strdup(request_plan->requests[request_plan->entries[0].request].target.text);
    run->done_fd = run->log_fd = -1;
    if (run->first_url == NULL || !make_events(run))
        error = errno != 0 ? errno : ENOMEM;
    else if (!open_records(run, why, size))
        told = true;
    else if (!make_pool(run))
        error = errno != 0 ? errno : ENOMEM;
    else
        error = execute_run(run, result);
    tear_down(run);
    interrupts_end();
    if (error != 0)
        snprintf(why, size, "cannot start %u client threads with %u connections: %s", plan->threads,
                 plan->connections, strerror(error));
    return error != 0 || told ? -1 : 0;
}
