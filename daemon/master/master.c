#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/process_title.h"
#include "daemon/base/service.h"
#include "daemon/config/keys.h"
#include "daemon/config/load.h"
#include "daemon/sandbox/identity.h"
#include "daemon/sandbox/sandbox.h"
#include "daemon/tls/certificate_set.h"
#include "daemon/tls/tickets.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WHY = 512 };

/* What happens */

void master_changed(struct master *master)
{
    lifecycle_report_processes(master);
    certificates_settle(master);
    control_socket_check(master->control);
}

int master_resize(struct master *master, uint32_t workers, uint32_t threads, char *why, size_t size)
{
    if (capacity_prepare(master, workers, threads, why, size) != 0)
        return -1;
    master->config->workers_processes = workers;
    master->config->workers_threads = threads;
    supervisor_reconcile(master);
    return 0;
}

static void on_master_second(evutil_socket_t fd, short what, void *argument)
{
    struct master *master = argument;
    struct monitor *monitor = &master->monitor;
    struct segment *segment = &master->segment;
    uint64_t now = clock_monotonic_ns();

    (void)fd, (void)what;
    atomic_store(&segment_master(segment)->heartbeat_ns, now);
    metric_set(segment_master(segment)->metrics, METRIC_accept_queue,
               listeners_waiting(master->listeners));
    publish_processes(master);
    publish_sample(segment, monitor, clock_wall_ns());
    certificates_rotate_tickets(master, now);
    address_limits_expire(segment, now);
    handshake_failures_log(&monitor->tls_failures, &handshake_of_tls, segment, now);
    handshake_failures_log(&monitor->proxy_failures, &handshake_of_proxy, segment, now);
    if (master->certificates.set != NULL)
        certificate_set_report_expired(master->certificates.set,
                                       (int64_t)(clock_wall_ns() / NS_PER_S));
    /* Timers do this earlier, unless there was no memory to set them. */
    master_changed(master);
    supervisor_reconcile(master);
    if (master->life.announced)
        dispatch_resume(master);
    notify_alive();
    supervisor_check(master, now);
    certificates_check(master, now);
    roots_look(master);
    file_watch_look(master);
    upgrade_check(master, now);
}

static void on_signal(evutil_socket_t number, short what, void *argument)
{
    struct master *master = argument;
    uint32_t logs;
    char why[WHY];

    (void)what;
    switch (number) {
    case SIGCHLD:
        supervisor_reap(master);
        break;
    case SIGHUP:
        reload_request_by(master, "by SIGHUP");
        break;
    case SIGUSR2:
        upgrade_request(master);
        break;
    case SIGUSR1:
        if (auxiliary_reopen_logs(master, &logs, why, sizeof(why)) == 0)
            event_log(LEVEL_INFO, "logs reopened, by SIGUSR1");
        else
            event_log(LEVEL_ERROR, "logs not reopened: %s", why);
        break;
    default:
        lifecycle_stop(master, EVENT_stop);
        break;
    }
}

/* Ending */

/* Frees the resources that only the master has in memory. Also the first step of a child. */
static void free_parts(struct master *master, bool remove)
{
    lifecycle_free(&master->life);
    reload_free(&master->reload);
    certificates_free(&master->certificates);
    upgrade_free(&master->upgrade);
    root_watch_free(&master->root_watch);
    control_socket_close(master->control, remove);
    auxiliary_free(&master->auxiliary);
    rebalance_free(&master->rebalance);
    dispatch_free(&master->dispatch);
    workers_free(&master->workers);
    listeners_close(master->listeners);
    salvage_free(&master->auxiliary.salvage);
    summary_free(&master->monitor.summary);
    memory_watch_free(&master->monitor);
    json_decref(master->monitor.worker_deaths);
    for (size_t i = 0; i < SIGNALS_HANDLED; i++)
        loop_free_event(master->life.signal[i]);
    loop_free_event(master->monitor.second);
    if (master->base != NULL)
        event_base_free(master->base);
    master->base = NULL;
}

/*
 * Without event_reinit(), freeing the event base would remove the master's registrations from the
 * shared epoll instance.
 */
void master_after_fork(void *master)
{
    struct master *own = master;

    pid_file_after_fork(&own->pid_file);
    event_reinit(own->base);
    daemonize_release();
    free_parts(own, false);
}

/*
 * Removes the names that other processes see, then releases the lock. Signals are blocked
 * meanwhile.
 */
static void end_master(struct master *master)
{
    struct auxiliary *auxiliary = &master->auxiliary;

    signals_block();
    events_attach(NULL, 0);
    if (!master->upgrade.inheritance.pending) /* otherwise they still belong to the old master */
        listeners_unlink(master->listeners);
    /* Left open until the exit: the old master kills at its end. */
    master->upgrade.inheritance.link = -1;
    reload_free_previous(master);
    free_parts(master, true);
    segment_destroy(&master->segment);
    if (auxiliary->doorbell >= 0)
        close(auxiliary->doorbell);
    for (int i = 0; i < 2; i++)
        if (auxiliary->alive[i] >= 0)
            close(auxiliary->alive[i]);
    log_files_close(&auxiliary->logs);
    metrics_sockets_close(&auxiliary->metrics_sockets);
    host_table_free(&master->hosts);
    roots_close(&master->roots);
    roots_close(&master->reload.previous_roots);
    certificate_set_free(master->certificates.set);
    tls_tickets_free(master->certificates.tickets);
    if (master->certificates.process.program_fd >= 0)
        close(master->certificates.process.program_fd);
    pid_file_release(&master->pid_file);
    config_free(master->config);
    free(master->config);
}

/* Starting, step by step */

static int fail_start(const char *why)
{
    event_log(LEVEL_ERROR, "%s", why);
    return -1;
}

/* Inherits the lock of the old master, or acquires a new one. */
static int acquire_lock(struct master *master, char *why, size_t size)
{
    struct inheritance *inheritance = &master->upgrade.inheritance;
    struct auxiliary *auxiliary = &master->auxiliary;

    if (!inheritance->pending)
        return pid_file_acquire(&master->pid_file, master->config, &auxiliary->salvage,
                                &auxiliary->logs, why, size);
    if (pid_file_inherit(&master->pid_file, master->config, inheritance->lock_fd, why, size) != 0)
        return -1;
    inheritance->lock_fd = -1;
    return 0;
}

/* Lock, listen sockets, segment, control socket. From the lock on, signals are blocked. */
static int acquire_names(struct master *master)
{
    struct inheritance *inheritance = &master->upgrade.inheritance;
    struct metrics_sockets *metrics_sockets = &master->auxiliary.metrics_sockets;
    const struct config *config = master->config;
    char why[WHY];
    bool beside;

    if (log_files_open(&master->auxiliary.logs, config, why, sizeof(why)) != 0 ||
        inheritance_read(inheritance, why, sizeof(why)) != 0 ||
        acquire_lock(master, why, sizeof(why)) != 0)
        return fail_start(why);
    certificates_restore_tickets(&master->certificates, inheritance->tickets);
    inheritance->tickets = -1;
    master->listeners =
        listeners_open(config, capacity_listen_sockets(config), inheritance, why, sizeof(why));
    if (master->listeners == NULL || certificates_load(master, why, sizeof(why)) != 0 ||
        metrics_sockets_open(metrics_sockets, config, metrics_sockets, inheritance, why,
                             sizeof(why)) != 0)
        return fail_start(why);
    beside = inheritance->pending;
    if (publish_segment(master, beside, why, sizeof(why)) != 0)
        return fail_start(why);
    address_limits_restore(&master->segment, inheritance->limits);
    inheritance->limits = -1;
    publish_config(master);
    master->control =
        control_socket_open(config, beside, master->base, command_run, master, why, sizeof(why));
    if (master->control == NULL)
        return fail_start(why);
    if (!beside)
        pid_file_write(&master->pid_file);
    return 0;
}

static int make_parts(struct master *master)
{
    const struct config *config = master->config;
    char why[WHY];

    if (auxiliary_init(master) != 0)
        return fail_start(strerror(errno));
    certificates_init(master);
    if (lifecycle_init(master) != 0 || workers_init(master) != 0 || supervisor_init(master) != 0 ||
        dispatch_init(master) != 0 || rebalance_init(master) != 0 || summary_init(master) != 0 ||
        memory_watch_start(master) != 0)
        return fail_start("out of memory");
    if (host_table_assign(&master->hosts, &master->segment, config, why, sizeof(why)) != 0 ||
        host_table_assign_logs(&master->hosts, config, &master->auxiliary.logs.targets, why,
                               sizeof(why)) != 0 ||
        capacity_prepare(master, config->workers_processes, config->workers_threads, why,
                         sizeof(why)) != 0 ||
        roots_open(&master->roots, config, why, sizeof(why)) != 0)
        return fail_start(why);
    file_watch_begin(master);
    return root_watch_start(master) == 0 ? 0 : fail_start("out of memory");
}

static int make_master_events(struct master *master)
{
    static const struct timeval second = {.tv_sec = 1};
    struct event **signal = master->life.signal;

    for (size_t i = 0; i < SIGNALS_HANDLED; i++) {
        signal[i] = evsignal_new(master->base, signals_handled[i], on_signal, master);
        if (signal[i] == NULL || event_add(signal[i], NULL) != 0)
            return -1;
    }
    master->monitor.second = event_new(master->base, -1, EV_PERSIST, on_master_second, master);
    if (master->monitor.second == NULL)
        return -1;
    return event_add(master->monitor.second, &second);
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

static void log_note(void *unused, const char *note)
{
    (void)unused;
    event_log(LEVEL_INFO, "%s", note);
}

void master_log_notes(const struct master *master)
{
    config_notes(master->config, KEY_COUNT, listeners_are_activated(master->listeners), log_note,
                 NULL);
}

static int start_master(struct master *master)
{
    char why[WHY];

    /* After an upgrade the process already runs in the background. */
    if (master->options->detach && !inheritance_is_upgrade() && daemonize() != 0) {
        fprintf(stderr, "webserverd: cannot run in the background: %s\n", strerror(errno));
        return -1;
    }
    signals_ignore_in_master();
    capacity_raise_descriptors();
    if (sandbox_prepare() != 0) {
        event_log(LEVEL_ERROR, "cannot build the system call filter of the workers: %s",
                  strerror(errno));
        return -1;
    }
    if (identity_check_switch() != 0)
        return fail_start(
            geteuid() == 0
                ? "the other processes of root cannot change their user: allow it "
                  "(CapabilityBoundingSet=CAP_SETUID CAP_SETGID, SystemCallFilter=@setuid), or "
                  "start "
                  "the server as another user"
                : "the server has capabilities that its other processes cannot drop, as capset(2) "
                  "is filtered: allow it (SystemCallFilter=capset), or take the capabilities away "
                  "and serve on webserverd.socket");
    master->base = event_base_new();
    if (master->base == NULL)
        return fail_start("cannot create the event loop");
    if (acquire_names(master) != 0 || make_parts(master) != 0)
        return -1;
    if (predecessor_attach(master, why, sizeof(why)) != 0)
        return fail_start(why);
    if (make_master_events(master) != 0 || upgrade_watch_old_master(master) != 0)
        return fail_start("cannot handle signals");
    signals_unblock();
    events_attach(&master->segment, SEGMENT_RING_MASTER);
    segment_publish(&master->segment);
    monitor_begin(&master->monitor, &master->segment);
    summary_set_interval(master, master->config->log_summary_interval);
    warn_of_sandbox(master->config);
    master_log_notes(master);
    supervisor_reconcile(master);
    if (!master->upgrade.inheritance.pending) {
        auxiliary_start_metrics(master);
        certificates_start(master);
    }
    return 0;
}

int master_run(struct config *config, const struct options *options)
{
    static struct master master;
    int status = EXIT_FAILURE;

    master = (struct master){
        .options = options,
        .config = config,
        .segment = {.fd = -1},
        .pid_file = {.lock_fd = -1},
        .auxiliary = {.logs = LOG_FILES_NONE, .doorbell = -1, .alive = {-1, -1}},
        .reload = {.new_logs = LOG_FILES_NONE},
        .root_watch = {.inotify = -1},
        .certificates = {.process = {.program_fd = -1}},
        .upgrade = {.inheritance = INHERITANCE_NONE, .successor_link = -1, .report = -1},
    };
    events_set_role(ROLE_MASTER);
    events_set_json(config->log_error_format == ERROR_FORMAT_JSON);
    process_title_set_server(config->server_name);
    process_title_set_master();
    events_set_level((enum level)config->log_level);
    if (start_master(&master) == 0) {
        if (event_base_dispatch(master.base) != 0)
            fail_start("the event loop of the master failed");
        else if (!master.life.failed && !master.life.lost_lines)
            status = EXIT_SUCCESS;
    }
    end_master(&master);
    return status;
}
