#include "daemon/master/master.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_writer.h"
#include "daemon/base/detach.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/notify.h"
#include "daemon/base/signals.h"
#include "daemon/config/load.h"
#include "daemon/config/print.h"
#include "daemon/content/cache.h"
#include "daemon/control/socket.h"
#include "daemon/logger/sink.h"
#include "daemon/master/capacity.h"
#include "daemon/master/dispatch.h"
#include "daemon/master/reload.h"
#include "daemon/master/shutdown.h"
#include "daemon/master/statistics.h"
#include "daemon/master/summary.h"
#include "daemon/master/supervisor.h"
#include "daemon/master/upgrade.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/transaction/rate_limit.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum { WHY = 512 };

/* The master's own events, beside its parts'. */
struct watch {
    struct master master; /* first */
    struct event *signal[SIGNALS_HANDLED];
    struct event *second;
};

static struct watch *watch_of(struct master *master)
{
    return CONTAINER_OF(master, struct watch, master);
}

/* What changes are told to */

static const char *plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

/* To whoever started it by hand: where it listens, and what to do next. */
static void announce(struct master *master)
{
    const struct config *config = master->config;
    bool usual = strcmp(config->server_name, INSTANCE_DEFAULT_NAME) == 0;
    char *root = realpath(config->server_root, NULL);
    char which[INSTANCE_NAME_MAX + 8];

    master->announced = true;
    snprintf(which, sizeof(which), "%s%s", usual ? "" : " -n ", usual ? "" : config->server_name);
    printf("webserverd %s serves %s on %s: %u worker%s, %u serving thread%s in each\n"
           "  watch it: wsconsole%s    stop it: Ctrl-C, or wsctl%s stop\n",
           WEBSERVERD_VERSION, root != NULL ? root : config->server_root,
           master->segment.header->listening, config->workers_processes,
           plural(config->workers_processes), config->workers_threads,
           plural(config->workers_threads), which, which);
    fflush(stdout);
    free(root);
}

/*
 * After an upgrade: what was made beside the master before takes its place, and then it may go.
 * Failing, we go: it waits for us or for our end.
 */
static int succeed(struct master *master)
{
    if (master->inheritance.link < 0)
        return 0;
    if (segment_promote(&master->segment) != 0 || control_promote(master->control) != 0) {
        event_log(LEVEL_ERROR, "cannot take the place of the master before: %s", strerror(errno));
        event_base_loopbreak(master->base);
        return -1;
    }
    runtime_write_pid(&master->runtime);
    inheritance_tell_ready(&master->inheritance);
    return 0;
}

/* All that was asked for serves, for the first time. */
static void all_serve(struct master *master)
{
    if (succeed(master) != 0)
        return;
    announce(master);
    notify_send("READY=1\nSTATUS=serving on %s", master->segment.header->listening);
    detach_end();
}

static void on_change(struct master *master)
{
    if (!master->announced && supervisor_settled(master->supervisor))
        all_serve(master);
    reload_go_on(master->reload);
    control_changed(master->control);
    stopping_go_on(master->stopping);
}

static void on_room(struct master *master)
{
    dispatch_resume(master->dispatch);
}

static void on_death(struct master *master, const struct worker_process *worker, const char *how)
{
    char text[128];

    snprintf(text, sizeof(text), "%s%s", worker->killed ? "hung and " : "", how);
    post_mortem_take(&master->post_mortem, &master->segment, worker->slot, worker->pid, text);
    reload_worker_died(master->reload, worker, text);
}

static void on_replaced(struct master *master)
{
    reload_commit(master->reload);
}

static void on_other_ended(struct master *master, pid_t pid, const char *how)
{
    upgrade_child_ended(master->upgrade, pid, how);
}

static void on_returned(struct master *master, const void *message, size_t length, int fd)
{
    dispatch_returned(master->dispatch, message, length, fd);
}

static void on_second(evutil_socket_t fd, short what, void *argument)
{
    struct master *master = argument;

    (void)fd, (void)what;
    atomic_store(&segment_master(&master->segment)->heartbeat_ns, clock_monotonic_ns());
    history_sample(master->history, clock_wall_ns());
    summary_tick(master->summary, master->config->log_summary_interval, clock_monotonic_ns());
    notify_alive();
    watchdog_look(&master->watchdog, master, clock_monotonic_ns());
}

static void on_signal(evutil_socket_t number, short what, void *argument)
{
    struct master *master = argument;

    (void)what;
    switch (number) {
    case SIGCHLD:
        supervisor_reap(master->supervisor);
        break;
    case SIGHUP:
        reload_by_signal(master->reload);
        break;
    case SIGUSR2:
        upgrade_begin(master->upgrade);
        break;
    case SIGUSR1:
        event_log(LEVEL_INFO, "logs reopened, by SIGUSR1");
        master_reopen_logs(master);
        break;
    default:
        stopping_begin(master->stopping);
        break;
    }
}

/* Letting go */

/* What the master alone has in its memory; a child does this first. */
static void free_parts(struct watch *watch, bool remove)
{
    struct master *master = &watch->master;

    stopping_free(master->stopping);
    reload_free(master->reload);
    upgrade_free(master->upgrade);
    inheritance_free(&master->inheritance);
    dispatch_free(master->dispatch);
    control_close_all(master->control, remove);
    supervisor_free(master->supervisor);
    listeners_close(master->listeners);
    history_free(master->history);
    summary_free(master->summary);
    post_mortem_free(&master->post_mortem);
    for (size_t i = 0; i < SIGNALS_HANDLED; i++)
        loop_free_event(watch->signal[i]);
    loop_free_event(watch->second);
    if (master->base != NULL)
        event_base_free(master->base);
    master->base = NULL;
}

static void forget(struct master *master)
{
    detach_end_in_child();
    free_parts(watch_of(master), false);
}

/* Starting, step by step */

static int fail(const char *why)
{
    event_log(LEVEL_ERROR, "%s", why);
    return -1;
}

static int make_segment(struct master *master)
{
    const struct config *config = master->config;
    char why[WHY], listening[256];
    const struct segment_plan plan = {.name = config->server_name,
                                      .socket_path = config->control_socket,
                                      .listening = listening,
                                      .max_workers = config->workers_max_processes,
                                      .max_threads = config->workers_max_threads,
                                      .cache_entries = cache_slots(config->cache_max_entries),
                                      .ring_bytes = config->log_ring,
                                      .beside = master->inheritance.link >= 0};
    struct segment_master *block;

    listeners_describe(master->listeners, listening, sizeof(listening));
    if (segment_create(&master->segment, &plan, why, sizeof(why)) != 0)
        return fail(why);
    rate_limit_prepare(&master->segment);
    block = segment_master(&master->segment);
    atomic_store(&block->heartbeat_ns, clock_monotonic_ns());
    atomic_store(&block->generation, 1);
    return 0;
}

static void store_config(struct master *master)
{
    char *text = NULL;
    size_t length;
    FILE *memory = open_memstream(&text, &length);

    if (memory == NULL)
        return;
    config_print(master->config, memory);
    fclose(memory);
    if (text != NULL)
        segment_store_config(&master->segment, text);
    free(text);
}

void master_publish_config(struct master *master)
{
    struct segment_master *block = segment_master(&master->segment);
    const struct config *config = master->config;
    char listening[sizeof(master->segment.header->listening)];

    atomic_store(&block->workers_wanted, config->workers_processes);
    atomic_store(&block->threads_wanted, config->workers_threads);
    atomic_store(&block->offload_min_wanted, config->workers_offload_threads.least);
    atomic_store(&block->offload_max_wanted, config->workers_offload_threads.most);
    atomic_store(&block->log_level, config->log_level);
    atomic_store(&block->dispatch_master, config->workers_dispatch == DISPATCH_MASTER);
    rate_limit_set(&master->segment, config->ratelimit_enabled,
                   config->ratelimit_requests_per_second, config->ratelimit_burst);
    listeners_describe(master->listeners, listening, sizeof(listening));
    segment_store_listening(&master->segment, listening);
    store_config(master);
}

uint32_t master_reopen_logs(struct master *master)
{
    struct segment_master *block = segment_master(&master->segment);
    uint32_t number = atomic_load(&block->logs_wanted) + 1;

    atomic_store(&block->logs_wanted, number);
    eventfd_write(master->doorbell, 1);
    return number;
}

/* The lock of the master before, or one of our own. */
static int take_lock(struct master *master, char *why, size_t size)
{
    struct inheritance *inheritance = &master->inheritance;

    if (inheritance->link < 0)
        return runtime_take(&master->runtime, master->config, why, size);
    if (runtime_inherit(&master->runtime, master->config, inheritance->lock_fd, why, size) != 0)
        return -1;
    inheritance->lock_fd = -1;
    return 0;
}

/* What is seen from outside: lock, lanes, segment, control socket. From the lock on, signals wait. */
static int take_place(struct master *master)
{
    const struct config *config = master->config;
    uint32_t lanes = config->workers_dispatch == DISPATCH_MASTER
                         ? 1
                         : config->workers_processes * config->workers_threads;
    char why[WHY];
    bool beside;

    if (log_sink_check(config, why, sizeof(why)) != 0 ||
        inheritance_take(&master->inheritance, why, sizeof(why)) != 0 ||
        take_lock(master, why, sizeof(why)) != 0)
        return fail(why);
    master->listeners = listeners_open(config, lanes, &master->inheritance, why, sizeof(why));
    if (master->listeners == NULL)
        return fail(why);
    beside = master->inheritance.link >= 0;
    if (make_segment(master) != 0)
        return -1;
    master_publish_config(master);
    master->control = control_open(master, beside, why, sizeof(why));
    if (master->control == NULL)
        return fail(why);
    if (!beside)
        runtime_write_pid(&master->runtime);
    return 0;
}

static int make_parts(struct master *master)
{
    static const struct supervisor_owner owner = {
        on_change, on_room, on_returned, on_death, on_replaced, on_other_ended, forget};
    char why[WHY];

    master->doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    master->history = history_new(&master->segment);
    master->summary = summary_new(&master->segment, clock_monotonic_ns());
    master->supervisor = supervisor_new(master, &owner);
    master->dispatch = dispatch_new(master);
    master->stopping = stopping_new(master);
    master->reload = reload_new(master);
    master->upgrade = upgrade_new(master);
    if (master->doorbell < 0 || master->history == NULL || master->summary == NULL ||
        master->supervisor == NULL || master->dispatch == NULL || master->stopping == NULL ||
        master->reload == NULL)
        return fail("out of memory");
    if (capacity_prepare(master, master->config->workers_processes, master->config->workers_threads,
                         why, sizeof(why)) != 0)
        return fail(why);
    return 0;
}

static int make_events(struct watch *watch)
{
    struct master *master = &watch->master;
    static const struct timeval second = {.tv_sec = 1};

    for (size_t i = 0; i < SIGNALS_HANDLED; i++) {
        watch->signal[i] = evsignal_new(master->base, signals_handled[i], on_signal, master);
        if (watch->signal[i] == NULL || event_add(watch->signal[i], NULL) != 0)
            return -1;
    }
    watch->second = event_new(master->base, -1, EV_PERSIST, on_second, master);
    if (watch->second == NULL)
        return -1;
    return event_add(watch->second, &second);
}

static void warn_of_sandbox(const struct config *config)
{
    struct sandbox_features features = sandbox_features();

    if (!config->server_jail)
        event_log(LEVEL_WARN, "workers run without a sandbox: [server] jail is off");
    else if (features.built && features.landlock == 0)
        event_log(LEVEL_WARN, "this kernel has no Landlock: a worker could read files outside %s",
                  config->server_root);
    if (config->server_jail && features.built && !features.seccomp)
        event_log(LEVEL_WARN, "this kernel cannot filter system calls: workers may make any");
}

static int prepare_sandbox(void)
{
    int failed = sandbox_prepare();

    if (failed != 0)
        event_log(LEVEL_ERROR, "cannot make the workers' filter of system calls: %s",
                  strerror(errno));
    return failed;
}

static int start(struct watch *watch)
{
    struct master *master = &watch->master;

    signals_ignore_in_master();
    runtime_raise_descriptors();
    if (prepare_sandbox() != 0)
        return -1;
    master->base = event_base_new();
    if (master->base == NULL)
        return fail("cannot make an event loop");
    if (take_place(master) != 0 || make_parts(master) != 0)
        return -1;
    if (make_events(watch) != 0)
        return fail("cannot watch for signals");
    signals_let_in();
    events_attach(&master->segment);
    segment_publish(&master->segment);
    warn_of_sandbox(master->config);
    supervisor_reconcile(master->supervisor);
    return 0;
}

/* Ending: what others see goes, then the lock; no signal comes in between. */
static void end(struct watch *watch)
{
    struct master *master = &watch->master;

    signals_hold();
    events_attach(NULL);
    if (master->inheritance.link < 0) /* else they still are of the master before */
        listeners_remove_names(master->listeners);
    free_parts(watch, true);
    segment_destroy(&master->segment);
    if (master->doorbell >= 0)
        close(master->doorbell);
    runtime_release(&master->runtime);
}

int master_run(struct config *config, const struct options *options)
{
    struct watch watch = {.master = {.config = config,
                                     .options = options,
                                     .runtime = {.lock_fd = -1},
                                     .inheritance = {.link = -1, .lock_fd = -1},
                                     .segment = {.fd = -1},
                                     .doorbell = -1}};
    int status = EXIT_FAILURE;

    events_set_role(ROLE_MASTER);
    events_set_level((enum level)config->log_level);
    if (start(&watch) == 0) {
        event_base_dispatch(watch.master.base);
        status = EXIT_SUCCESS;
    }
    end(&watch);
    config_free(watch.master.config);
    free(watch.master.config);
    return status;
}
