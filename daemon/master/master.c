#include "daemon/master/master.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/service.h"
#include "daemon/config/load.h"
#include "daemon/logger/sink.h"
#include "daemon/master/capacity.h"
#include "daemon/sandbox/sandbox.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

enum { WHY = 512 };

/* The server serves */

static const char *plural(uint32_t count)
{
    return count == 1 ? "" : "s";
}

/* Prints on the terminal where the server listens, and how to watch and stop it. */
static void announce(const struct server *server)
{
    const struct config *config = server->config;
    bool usual = strcmp(config->server_name, INSTANCE_DEFAULT_NAME) == 0;
    char *root = realpath(config->server_root, NULL);
    char which[INSTANCE_NAME_MAX + 8];

    snprintf(which, sizeof(which), "%s%s", usual ? "" : " -n ", usual ? "" : config->server_name);
    printf("webserverd %s serves %s on %s: %u worker%s, %u serving thread%s in each\n"
           "  watch it: wsconsole%s    stop it: Ctrl-C, or wsctl%s stop\n",
           WEBSERVERD_VERSION, root != NULL ? root : config->server_root,
           server->segment.header->listening, config->workers_processes,
           plural(config->workers_processes), config->workers_threads,
           plural(config->workers_threads), which, which);
    fflush(stdout);
    free(root);
}

/*
 * Completes a binary upgrade: segment and control socket get the names of the old master's, which
 * may then shut down. On failure this master exits, and the old one continues.
 */
static int succeed(struct master *master)
{
    if (master->inheritance.link < 0)
        return 0;
    if (segment_promote(&master->server.segment) != 0 ||
        master->operations->promote(master->control) != 0) {
        event_log(LEVEL_ERROR, "cannot take over from the old master: %s", strerror(errno));
        event_base_loopbreak(master->server.base);
        return -1;
    }
    pid_file_write(&master->server.pid_file);
    inheritance_report_ready(&master->inheritance);
    return 0;
}

static void report_serving(struct master *master)
{
    if (succeed(master) != 0)
        return;
    master->announced = true;
    announce(&master->server);
    notify_send("READY=1\nSTATUS=serving on %s", master->server.segment.header->listening);
    daemonize_report_ready();
}

/* Callbacks of the supervisor, the reload and the upgrade */

static void on_change(void *context)
{
    struct master *master = context;

    if (!master->announced && workers_are_settled(&master->workers))
        report_serving(master);
    reload_advance(master->reload);
    master->operations->changed(master->control);
    shutdown_advance(master->shutdown);
}

static void on_death(void *context, const struct worker_process *worker, const char *how)
{
    struct master *master = context;
    char text[128];

    snprintf(text, sizeof(text), "%s%s", worker->killed ? "hung and " : "", how);
    post_mortem_record(&master->post_mortem, &master->server.segment, worker->slot, worker->pid,
                       text);
    reload_worker_died(master->reload, worker, text);
}

static void on_replaced(void *context)
{
    struct master *master = context;

    reload_commit(master->reload);
}

static void on_child_ended(void *context, pid_t pid, const char *how)
{
    struct master *master = context;

    upgrade_child_ended(master->upgrade, pid, how);
}

static void on_reload_committed(void *context)
{
    const struct master *master = context;
    char why[WHY];

    if (master->operations->set_access(master->control, master->server.config, why, sizeof(why)) !=
        0)
        event_log(LEVEL_ERROR, "%s", why);
}

static void on_upgrade_failed(void *context)
{
    const struct master *master = context;

    master->operations->remove_new(master->server.config);
}

static void on_second(evutil_socket_t fd, short what, void *argument)
{
    struct master *master = argument;
    uint64_t now = clock_monotonic_ns();

    (void)fd, (void)what;
    atomic_store(&segment_master(&master->server.segment)->heartbeat_ns, now);
    statistics_store_sample(master->statistics, clock_wall_ns());
    statistics_log_summary(master->statistics, master->server.config->log_summary_interval, now);
    notify_alive();
    watchdog_check(&master->watchdog, &master->server, &master->workers, master->supervisor, now);
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
        reload_request_by_signal(master->reload);
        break;
    case SIGUSR2:
        upgrade_begin(master->upgrade);
        break;
    case SIGUSR1:
        event_log(LEVEL_INFO, "logs reopened, by SIGUSR1");
        server_reopen_logs(&master->server);
        break;
    default:
        shutdown_begin(master->shutdown);
        break;
    }
}

int master_resize(struct master *master, uint32_t workers, uint32_t threads, char *why, size_t size)
{
    struct server *server = &master->server;

    if (capacity_prepare(server, workers, threads, why, size) != 0)
        return -1;
    server->config->workers_processes = workers;
    server->config->workers_threads = threads;
    supervisor_reconcile(master->supervisor);
    return 0;
}

/* Ending */

/* Frees the resources that only the master has in memory. Also the first step of a child. */
static void free_parts(struct master *master, bool remove)
{
    shutdown_free(master->shutdown);
    reload_free(master->reload);
    upgrade_free(master->upgrade);
    inheritance_free(&master->inheritance);
    master->operations->close(master->control, remove);
    supervisor_free(master->supervisor);
    dispatch_free(master->dispatch);
    workers_free(&master->workers);
    listeners_close(master->server.listeners);
    statistics_free(master->statistics);
    post_mortem_free(&master->post_mortem);
    for (size_t i = 0; i < SIGNALS_HANDLED; i++)
        loop_free_event(master->signal[i]);
    loop_free_event(master->second);
    if (master->server.base != NULL)
        event_base_free(master->server.base);
    master->server.base = NULL;
}

static void after_fork(void *context)
{
    daemonize_release();
    free_parts(context, false);
}

/*
 * Removes the names that other processes see, then releases the lock. Signals are blocked
 * meanwhile.
 */
static void end(struct master *master)
{
    signals_block();
    events_attach(NULL);
    if (master->inheritance.link < 0) /* otherwise they still belong to the old master */
        listeners_unlink(master->server.listeners);
    free_parts(master, true);
    server_release(&master->server);
}

/* Starting, step by step */

static int fail(const char *why)
{
    event_log(LEVEL_ERROR, "%s", why);
    return -1;
}

/* Inherits the lock of the old master, or acquires a new one. */
static int acquire_lock(struct master *master, char *why, size_t size)
{
    struct inheritance *inheritance = &master->inheritance;
    struct server *server = &master->server;

    if (inheritance->link < 0)
        return pid_file_acquire(&server->pid_file, server->config, why, size);
    if (pid_file_inherit(&server->pid_file, server->config, inheritance->lock_fd, why, size) != 0)
        return -1;
    inheritance->lock_fd = -1;
    return 0;
}

/* Lock, listen sockets, segment, control socket. From the lock on, signals are blocked. */
static int acquire_names(struct master *master)
{
    struct server *server = &master->server;
    char why[WHY];
    bool beside;

    if (log_sink_check(server->config, why, sizeof(why)) != 0 ||
        inheritance_read(&master->inheritance, why, sizeof(why)) != 0 ||
        acquire_lock(master, why, sizeof(why)) != 0)
        return fail(why);
    server->listeners = listeners_open(server->config, capacity_listen_sockets(server->config),
                                       &master->inheritance, why, sizeof(why));
    if (server->listeners == NULL)
        return fail(why);
    beside = master->inheritance.link >= 0;
    if (server_create_segment(server, beside, why, sizeof(why)) != 0)
        return fail(why);
    server_publish_config(server);
    master->control = master->operations->open(master, beside, why, sizeof(why));
    if (master->control == NULL)
        return fail(why);
    if (!beside)
        pid_file_write(&server->pid_file);
    return 0;
}

static int make_supervisor(struct master *master)
{
    const struct supervisor_callbacks callbacks = {.changed = on_change,
                                                   .died = on_death,
                                                   .replaced = on_replaced,
                                                   .child_ended = on_child_ended,
                                                   .after_fork = after_fork,
                                                   .context = master};

    if (workers_init(&master->workers, &master->server) != 0)
        return -1;
    master->dispatch = dispatch_new(&master->server, &master->workers);
    if (master->dispatch == NULL)
        return -1;
    master->supervisor =
        supervisor_new(&master->server, &master->workers, master->dispatch, &callbacks);
    return master->supervisor != NULL ? 0 : -1;
}

static int make_reload(struct master *master)
{
    const struct reload_setup setup = {.server = &master->server,
                                       .workers = &master->workers,
                                       .supervisor = master->supervisor,
                                       .dispatch = master->dispatch,
                                       .shutdown = master->shutdown,
                                       .options = master->options,
                                       .committed = on_reload_committed,
                                       .context = master};

    master->reload = reload_new(&setup);
    return master->reload != NULL ? 0 : -1;
}

static int make_parts(struct master *master)
{
    struct server *server = &master->server;
    char why[WHY];

    server->doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    master->statistics = statistics_new(&server->segment, clock_monotonic_ns());
    if (server->doorbell < 0 || master->statistics == NULL || make_supervisor(master) != 0)
        return fail("out of memory");
    master->shutdown = shutdown_new(server, &master->workers, master->supervisor, master->dispatch);
    master->upgrade =
        upgrade_new(server, master->shutdown, master->options->argv, on_upgrade_failed, master);
    if (master->shutdown == NULL || master->upgrade == NULL || make_reload(master) != 0)
        return fail("out of memory");
    if (capacity_prepare(server, server->config->workers_processes, server->config->workers_threads,
                         why, sizeof(why)) != 0)
        return fail(why);
    return 0;
}

static int make_events(struct master *master)
{
    static const struct timeval second = {.tv_sec = 1};
    struct event_base *base = master->server.base;

    for (size_t i = 0; i < SIGNALS_HANDLED; i++) {
        master->signal[i] = evsignal_new(base, signals_handled[i], on_signal, master);
        if (master->signal[i] == NULL || event_add(master->signal[i], NULL) != 0)
            return -1;
    }
    master->second = event_new(base, -1, EV_PERSIST, on_second, master);
    if (master->second == NULL)
        return -1;
    return event_add(master->second, &second);
}

static void warn_of_sandbox(const struct config *config)
{
    struct sandbox_features features = sandbox_features();

    if (!config->server_jail)
        event_log(LEVEL_WARN, "workers run without a sandbox: [server] jail is off");
    else if (features.built && features.landlock == 0)
        event_log(LEVEL_WARN, "this kernel has no Landlock: workers can read files outside %s",
                  config->server_root);
    if (config->server_jail && features.built && !features.seccomp)
        event_log(LEVEL_WARN,
                  "this kernel has no seccomp filters: workers can make any system call");
}

static int start(struct master *master)
{
    struct server *server = &master->server;

    signals_ignore_in_master();
    capacity_raise_descriptors();
    if (sandbox_prepare() != 0) {
        event_log(LEVEL_ERROR, "cannot build the system call filter of the workers: %s",
                  strerror(errno));
        return -1;
    }
    server->base = event_base_new();
    if (server->base == NULL)
        return fail("cannot create the event loop");
    if (acquire_names(master) != 0 || make_parts(master) != 0)
        return -1;
    if (make_events(master) != 0)
        return fail("cannot handle signals");
    signals_unblock();
    events_attach(&server->segment);
    segment_publish(&server->segment);
    warn_of_sandbox(server->config);
    supervisor_reconcile(master->supervisor);
    return 0;
}

int master_run(struct config *config, const struct options *options,
               const struct control_operations *operations)
{
    struct master master = {.server = {.config = config,
                                       .segment = {.fd = -1},
                                       .pid_file = {.lock_fd = -1},
                                       .doorbell = -1},
                            .inheritance = {.link = -1, .lock_fd = -1},
                            .options = options,
                            .operations = operations};
    int status = EXIT_FAILURE;

    events_set_role(ROLE_MASTER);
    events_set_level((enum level)config->log_level);
    if (start(&master) == 0) {
        event_base_dispatch(master.server.base);
        status = EXIT_SUCCESS;
    }
    end(&master);
    config_free(master.server.config);
    free(master.server.config);
    return status;
}
