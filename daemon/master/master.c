#include "daemon/master/master.h"
#include "daemon/master/address_limits.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/service.h"
#include "daemon/config/load.h"
#include "daemon/master/capacity.h"
#include "daemon/master/command.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/context.h"

#include <errno.h>
#include <fcntl.h>
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
static void announce(const struct server *server, bool in_background)
{
    const struct config *config = server->config;
    bool usual = strcmp(config->server_name, INSTANCE_DEFAULT_NAME) == 0;
    char *root = realpath(config->server_root, NULL);
    char which[INSTANCE_NAME_MAX + 8];

    snprintf(which, sizeof(which), "%s%s", usual ? "" : " -n ", usual ? "" : config->server_name);
    printf("webserverd %s serves ", WEBSERVERD_VERSION);
    escape_print(stdout, root != NULL ? root : config->server_root);
    printf(" on %s: %u worker%s, %u serving thread%s in each\n"
           "  watch it: wsconsole%s    stop it: %swsctl%s stop\n",
           server->segment.header.listening, config->workers_processes,
           plural(config->workers_processes), config->workers_threads,
           plural(config->workers_threads), which, in_background ? "" : "Ctrl-C, or ", which);
    fflush(stdout);
    free(root);
}

/*
 * Completes a binary upgrade: segment and control socket get the names of the old master's, which
 * may then shut down. On failure this master shuts down, and the old one continues.
 */
static int succeed(struct master *master)
{
    if (!master->inheritance.pending)
        return 0;
    if (control_socket_promote(master->control, master->server.config) != 0 ||
        segment_promote(&master->server.segment) != 0) {
        event_log(LEVEL_ERROR, "cannot take over from the old master: %s", strerror(errno));
        master->failed = true;
        lifecycle_report(&master->life, EVENT_takeover_failed);
        return -1;
    }
    pid_file_write(&master->server.pid_file);
    inheritance_report_ready(&master->inheritance);
    auxiliary_start_metrics(&master->auxiliary);
    certificates_start(&master->certificates);
    return 0;
}

/*
 * After an upgrade the service is ready already, and the service manager accepts no message of this
 * master until the old one has named it.
 */
static int report_serving(struct master *master)
{
    bool upgrade = master->inheritance.pending;

    if (master->announced)
        return 0;
    if (succeed(master) != 0)
        return -1;
    master->announced = true;
    announce(&master->server, master->options->detach);
    if (!upgrade)
        notify_send("READY=1\nSTATUS=serving on %s", master->server.segment.header.listening);
    daemonize_report_ready();
    return 0;
}

/* The actions of the life cycle */

/* Until an upgrade is complete, the listen sockets belong to the old master. */
static int begin_stop(struct master *master)
{
    certificates_stop(&master->certificates);
    inheritance_report_stop(&master->inheritance);
    if (!master->inheritance.pending && master->server.listeners != NULL)
        listeners_withdraw(master->server.listeners);
    return shutdown_begin(&master->shutdown);
}

static int retire(struct master *master)
{
    if (reload_is_waiting(master->reload))
        upgrade_pass_reload(master->upgrade);
    auxiliary_release_metrics(&master->auxiliary);
    certificates_stop(&master->certificates);
    return shutdown_retire(&master->shutdown);
}

#define ACTION(name, result)                                                                       \
    static int act_##name(void *context)                                                           \
    {                                                                                              \
        struct master *master = context;                                                           \
                                                                                                   \
        (void)master;                                                                              \
        return result;                                                                             \
    }

ACTION(impossible, 0)
ACTION(nothing, 0)
ACTION(await_old, 0)
ACTION(settle, 0)
ACTION(announce, report_serving(master))
ACTION(start_reload, reload_start(master->reload))
ACTION(queue_reload, reload_queue(master->reload))
ACTION(refuse_reload, reload_refuse(master->reload))
ACTION(commit_reload, reload_commit(master->reload))
ACTION(abandon_reload, reload_abandon(master->reload))
ACTION(start_upgrade, upgrade_start(master->upgrade))
ACTION(queue_upgrade, upgrade_queue(master->upgrade))
ACTION(refuse_upgrade, upgrade_refuse(master->upgrade))
ACTION(kill_successor, upgrade_kill(master->upgrade))
ACTION(abandon_upgrade, upgrade_abandon(master->upgrade))
ACTION(retire, retire(master))
ACTION(begin_stop, begin_stop(master))
ACTION(stop_both, upgrade_stop(master->upgrade) + begin_stop(master))
ACTION(hasten, shutdown_begin(&master->shutdown))
ACTION(finish, shutdown_finish(&master->shutdown))
ACTION(force, upgrade_force(master->upgrade) + shutdown_force(&master->shutdown))
ACTION(kill_workers, shutdown_kill_workers(&master->shutdown))
ACTION(flush, (summary_finish(master->summary), shutdown_flush(&master->shutdown)))
ACTION(end_metrics, shutdown_end_metrics(&master->shutdown))
ACTION(hasten_logger, shutdown_hasten_logger(&master->shutdown))
ACTION(kill_both, shutdown_kill_both(&master->shutdown))
ACTION(end, shutdown_end(&master->shutdown))

static life_function *const actions[LIFE_ACTIONS] = {
#define LIFE_ACTION(name, next, help) [ACTION_##name] = act_##name,
#include "daemon/master/lifecycle.def"
};

/* Reports what has changed in the processes, and starts what has waited for it. */
static void report_processes(struct master *master)
{
    struct lifecycle *life = &master->life;
    const struct workers *workers = &master->workers;

    if (workers_are_renewed(workers))
        lifecycle_report(life, EVENT_new_serve);
    lifecycle_report(life,
                     workers_are_replacing(workers) ? EVENT_old_workers : EVENT_no_old_workers);
    if (!master->failed && workers_are_settled(workers))
        lifecycle_report(life, EVENT_all_serve);
    if (workers_alive(workers) == 0 && !upgrade_must_end(master->upgrade))
        lifecycle_report(life, EVENT_all_gone);
    if (shutdown_is_flushed(&master->shutdown))
        lifecycle_report(life, EVENT_flushed);
    if (life->state == LIFE_serving)
        upgrade_start_waiting(master->upgrade);
    if (life->state == LIFE_serving || life->state == LIFE_starting)
        reload_start_waiting(master->reload);
}

/* The old master of an upgrade stops, and so must this one; or it passes a reload on. */
static void on_told(void *context, char what)
{
    struct master *master = context;

    if (what == INHERITANCE_RELOAD)
        reload_request_by_old_master(master->reload);
    else
        lifecycle_report(&master->life, what == INHERITANCE_FORCE ? EVENT_stop_again : EVENT_stop);
    report_processes(master);
}

void master_stop(struct master *master, enum life_event event)
{
    lifecycle_report(&master->life, master->stop_requested ? EVENT_stop_again : event);
    master->stop_requested = true;
    report_processes(master);
}

/* Callbacks of the supervisor, the reload and the upgrade */

static void on_change(void *context)
{
    struct master *master = context;

    report_processes(master);
    control_socket_check(master->control);
}

static void on_death(void *context, const struct worker_process *worker, const char *how)
{
    struct master *master = context;
    char text[128];

    if (worker->killed_for != NULL)
        snprintf(text, sizeof(text), "%s and %s", worker->killed_for, how);
    else
        snprintf(text, sizeof(text), "%s", how);
    post_mortem_record(&master->post_mortem, &master->server.segment, worker->slot, worker->pid,
                       text);
    reload_worker_died(master->reload, worker, text);
}

static void on_not_started(void *context, const char *why)
{
    const struct master *master = context;

    reload_worker_not_started(master->reload, why);
}

static void on_replaced(void *context)
{
    struct master *master = context;

    lifecycle_report(&master->life, EVENT_new_serve);
}

static void on_child_ended(void *context, pid_t pid, const char *how)
{
    struct master *master = context;

    if (!certificates_process_ended(&master->certificates, pid, how))
        upgrade_child_ended(master->upgrade, pid, how);
}

static void on_keys_fault(void *context, uint32_t worker, pid_t pid)
{
    const struct master *master = context;

    supervisor_report_fault(master->supervisor, worker, pid,
                            "sent the keys process an invalid request");
}

static void on_reload_committed(void *context, bool changed)
{
    struct master *master = context;
    char why[WHY];

    certificates_committed(&master->certificates, changed);
    summary_set_interval(master->summary, master->server.config->log_summary_interval);
    if (control_socket_set_access(master->control, master->server.config, why, sizeof(why)) != 0)
        event_log(LEVEL_ERROR, "%s", why);
}

static void on_upgrade_failed(void *context)
{
    const struct master *master = context;

    control_socket_remove_new(master->server.config);
}

/* What timers do earlier, unless there was no memory to set them. */
static void repeat_delayed_work(struct master *master)
{
    report_processes(master);
    control_socket_check(master->control);
    supervisor_reconcile(master->supervisor);
    if (master->announced)
        dispatch_resume(master->dispatch);
}

static void on_second(evutil_socket_t fd, short what, void *argument)
{
    struct master *master = argument;
    uint64_t now = clock_monotonic_ns();

    (void)fd, (void)what;
    atomic_store(&segment_master(&master->server.segment)->heartbeat_ns, now);
    metric_set(segment_master(&master->server.segment)->metrics, METRIC_accept_queue,
               listeners_waiting(master->server.listeners));
    statistics_store_sample(master->statistics, clock_wall_ns());
    if (server_rotate_tickets(&master->server, now))
        workers_send_tickets(&master->workers);
    address_limits_expire(&master->server.segment, now);
    handshake_failures_log(&master->tls_failures, &handshake_of_tls, &master->server.segment, now);
    handshake_failures_log(&master->proxy_failures, &handshake_of_proxy, &master->server.segment,
                           now);
    if (master->server.tls != NULL)
        tls_context_report_expired(master->server.tls, (int64_t)(clock_wall_ns() / NS_PER_S));
    repeat_delayed_work(master);
    notify_alive();
    watchdog_check(&master->watchdog, &master->server, &master->workers, &master->auxiliary, now);
    certificates_check(&master->certificates, master->watchdog.resumed_ns, now);
}

static void on_signal(evutil_socket_t number, short what, void *argument)
{
    struct master *master = argument;
    char why[WHY];

    (void)what;
    switch (number) {
    case SIGCHLD:
        supervisor_reap(master->supervisor);
        break;
    case SIGHUP:
        reload_request_by_signal(master->reload);
        break;
    case SIGUSR2:
        lifecycle_report(&master->life, EVENT_upgrade);
        break;
    case SIGUSR1:
        if (auxiliary_reopen_logs(&master->auxiliary, why, sizeof(why)) != 0)
            event_log(LEVEL_INFO, "logs reopened, by SIGUSR1");
        else
            event_log(LEVEL_ERROR, "logs not reopened: %s", why);
        break;
    default:
        master_stop(master, EVENT_stop);
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
    lifecycle_free(&master->life);
    reload_free(master->reload);
    certificates_free(&master->certificates);
    upgrade_free(master->upgrade);
    inheritance_free(&master->inheritance);
    control_socket_close(master->control, remove);
    supervisor_free(master->supervisor);
    auxiliary_free(&master->auxiliary);
    rebalance_free(master->rebalance);
    dispatch_free(master->dispatch);
    workers_free(&master->workers);
    listeners_close(master->server.listeners);
    salvage_free(&master->server.salvage);
    statistics_free(master->statistics);
    summary_free(master->summary);
    memory_watch_free(master->memory_watch);
    post_mortem_free(&master->post_mortem);
    for (size_t i = 0; i < SIGNALS_HANDLED; i++)
        loop_free_event(master->signal[i]);
    loop_free_event(master->second);
    if (master->server.base != NULL)
        event_base_free(master->server.base);
    master->server.base = NULL;
}

/*
 * The first call of each child. Without event_reinit(), freeing the event base would remove the
 * master's registrations from the shared epoll instance.
 */
static void after_fork(void *context)
{
    struct master *master = context;

    event_reinit(master->server.base);
    daemonize_release();
    free_parts(master, false);
}

/*
 * Removes the names that other processes see, then releases the lock. Signals are blocked
 * meanwhile.
 */
static void end(struct master *master)
{
    signals_block();
    events_attach(NULL, 0);
    if (!master->inheritance.pending) /* otherwise they still belong to the old master */
        listeners_unlink(master->server.listeners);
    master->inheritance.link = -1; /* left open until the exit: the old master kills at its end */
    reload_free_previous(master->reload);
    free_parts(master, true);
    server_release(&master->server);
}

/* Starting, step by step */

static int fail(const char *why)
{
    event_log(LEVEL_ERROR, "%s", why);
    return -1;
}

static void on_killed_server(void *context, const struct segment *segment)
{
    struct server *server = context;

    salvage_read(&server->salvage, segment, &server->logs);
}

/* Inherits the lock of the old master, or acquires a new one. */
static int acquire_lock(struct master *master, char *why, size_t size)
{
    struct inheritance *inheritance = &master->inheritance;
    struct server *server = &master->server;
    const struct pid_file_owner owner = {on_killed_server, server};

    if (!inheritance->pending)
        return pid_file_acquire(&server->pid_file, server->config, &owner, why, size);
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

    if (log_files_open(&server->logs, server->config, why, sizeof(why)) != 0 ||
        inheritance_read(&master->inheritance, why, sizeof(why)) != 0 ||
        acquire_lock(master, why, sizeof(why)) != 0)
        return fail(why);
    server_restore_tickets(server, master->inheritance.tickets);
    master->inheritance.tickets = -1;
    server->listeners = listeners_open(server->config, capacity_listen_sockets(server->config),
                                       &master->inheritance, why, sizeof(why));
    if (server->listeners == NULL || server_load_certificates(server, why, sizeof(why)) != 0 ||
        metrics_sockets_open(&server->metrics, server->config, &server->metrics,
                             &master->inheritance, why, sizeof(why)) != 0)
        return fail(why);
    beside = master->inheritance.pending;
    if (server_create_segment(server, beside, why, sizeof(why)) != 0)
        return fail(why);
    address_limits_restore(&server->segment, master->inheritance.limits);
    master->inheritance.limits = -1;
    server_publish_config(server);
    master->control = control_socket_open(server->config, beside, server->base, command_run, master,
                                          why, sizeof(why));
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
                                                   .not_started = on_not_started,
                                                   .replaced = on_replaced,
                                                   .child_ended = on_child_ended,
                                                   .after_fork = after_fork,
                                                   .context = master};
    const struct auxiliary_callbacks of_auxiliary = {
        .after_fork = after_fork, .keys_fault = on_keys_fault, .context = master};

    if (workers_init(&master->workers, &master->server) != 0)
        return -1;
    master->dispatch = dispatch_new(&master->server, &master->workers);
    master->rebalance = rebalance_new(&master->server, &master->workers, on_change, master);
    if (master->dispatch == NULL || master->rebalance == NULL ||
        auxiliary_init(&master->auxiliary, &master->server, &master->workers, &of_auxiliary) != 0)
        return -1;
    master->supervisor = supervisor_new(&master->server, &master->workers, master->dispatch,
                                        master->rebalance, &master->auxiliary, &callbacks);
    return master->supervisor != NULL ? 0 : -1;
}

static int make_reload(struct master *master)
{
    const struct reload_setup setup = {.server = &master->server,
                                       .workers = &master->workers,
                                       .supervisor = master->supervisor,
                                       .auxiliary = &master->auxiliary,
                                       .dispatch = master->dispatch,
                                       .life = &master->life,
                                       .options = master->options,
                                       .committed = on_reload_committed,
                                       .context = master};

    master->reload = reload_new(&setup);
    certificates_init(&master->certificates, &master->server, master->reload, after_fork, master);
    return master->reload != NULL ? 0 : -1;
}

static int make_parts(struct master *master)
{
    struct server *server = &master->server;
    char why[WHY];

    server->doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    master->statistics = statistics_new(&server->segment);
    master->summary = summary_new(server->base, &server->segment);
    if (pipe2(server->alive, O_NONBLOCK | O_CLOEXEC) != 0)
        return fail(strerror(errno));
    if (server->doorbell < 0 || master->statistics == NULL || master->summary == NULL ||
        make_supervisor(master) != 0)
        return fail("out of memory");
    master->shutdown = (struct shutdown){.server = server,
                                         .workers = &master->workers,
                                         .supervisor = master->supervisor,
                                         .auxiliary = &master->auxiliary,
                                         .dispatch = master->dispatch,
                                         .rebalance = master->rebalance,
                                         .life = &master->life};
    master->upgrade =
        upgrade_new(server, &master->life, master->options->argv, on_upgrade_failed, master);
    master->memory_watch = memory_watch_new(server, &master->workers);
    if (lifecycle_init(&master->life, server->base, actions, master) != 0 ||
        master->upgrade == NULL || master->memory_watch == NULL || make_reload(master) != 0)
        return fail("out of memory");
    if (host_table_assign(&server->hosts, &server->segment, server->config, why, sizeof(why)) !=
            0 ||
        host_table_assign_logs(&server->hosts, server->config, &server->logs.targets, why,
                               sizeof(why)) != 0)
        return fail(why);
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

    if (config->server_jail == JAIL_OFF)
        event_log(LEVEL_WARN, "workers run without a sandbox: [server] jail is off");
    else if (features.built && features.landlock == 0)
        event_log(LEVEL_WARN, "this kernel has no Landlock: workers can read files outside %s",
                  config->server_root);
    if (config->server_jail != JAIL_OFF && features.built && !features.seccomp)
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
    if (make_events(master) != 0 ||
        inheritance_watch(&master->inheritance, server->base, on_told, master) != 0)
        return fail("cannot handle signals");
    signals_unblock();
    events_attach(&server->segment, SEGMENT_RING_MASTER);
    segment_publish(&server->segment);
    summary_set_interval(master->summary, server->config->log_summary_interval);
    warn_of_sandbox(server->config);
    supervisor_reconcile(master->supervisor);
    if (!master->inheritance.pending) {
        auxiliary_start_metrics(&master->auxiliary);
        certificates_start(&master->certificates);
    }
    return 0;
}

int master_run(struct config *config, const struct options *options)
{
    struct master master = {.server = {.config = config,
                                       .segment = {.fd = -1},
                                       .pid_file = {.lock_fd = -1},
                                       .doorbell = -1,
                                       .alive = {-1, -1},
                                       .logs = LOG_FILES_NONE},
                            .inheritance = INHERITANCE_NONE,
                            .options = options};
    int status = EXIT_FAILURE;

    events_set_role(ROLE_MASTER);
    events_set_level((enum level)config->log_level);
    if (start(&master) == 0) {
        if (event_base_dispatch(master.server.base) != 0)
            fail("the event loop of the master failed");
        else if (!master.failed && !master.shutdown.lost_lines)
            status = EXIT_SUCCESS;
    }
    end(&master);
    config_free(master.server.config);
    free(master.server.config);
    return status;
}
