#include "daemon/master/internal.h"

#include "common/clock.h"
#include "common/escape.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/memory_file.h"
#include "daemon/base/service.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Longer than the metrics process of the old master takes for its last responses. */
enum { METRICS_WAIT_S = 6 };

enum { REPORT_BYTES = 2048 };

/* The old master's side */

uint64_t upgrade_request(struct master *master)
{
    struct upgrade *upgrade = &master->upgrade;

    upgrade->refusal = NULL;
    upgrade->requested++;
    if (getpid() == 1) {
        upgrade->refusal = "the server is process 1, with which the container ends: start another "
                           "container instead";
        event_log(LEVEL_WARN, "upgrade rejected: %s", upgrade->refusal);
    } else {
        lifecycle_report(master, EVENT_upgrade);
    }
    return upgrade->refusal == NULL ? upgrade->requested : 0;
}

bool upgrade_is_done(const struct master *master, uint64_t number)
{
    return master->upgrade.done >= number || lifecycle_is_stopping(master);
}

/* FAILURE NULL: the successor serves. */
static void end_upgrade(struct upgrade *upgrade, const char *failure)
{
    if (upgrade->report >= 0)
        close(upgrade->report);
    upgrade->report = -1;
    free(upgrade->failure);
    upgrade->failure = failure != NULL ? strdup(failure) : NULL;
    upgrade->done = upgrade->requested;
}

static void close_successor_link(struct upgrade *upgrade)
{
    loop_free_event(upgrade->link_readable);
    upgrade->link_readable = NULL;
    if (upgrade->successor_link >= 0)
        close(upgrade->successor_link);
    upgrade->successor_link = -1;
}

/* The new master has: this one still logs the responses that it finishes. */
static void reopen_logs(struct master *master)
{
    uint32_t number;
    char why[512];

    if (auxiliary_reopen_logs(master, &number, why, sizeof(why)) != 0)
        event_log(LEVEL_ERROR, "logs not reopened with the new master: %s", why);
}

static void on_successor_link(evutil_socket_t fd, short what, void *argument)
{
    struct master *master = argument;
    struct upgrade *upgrade = &master->upgrade;
    char byte;

    (void)what;
    if (recv(fd, &byte, 1, MSG_DONTWAIT) != 1) {
        /* End of file: the new master has died or is about to end, and SIGCHLD has the status. */
        event_free(upgrade->link_readable);
        upgrade->link_readable = NULL;
        if (!upgrade->successor_serves && upgrade->successor_pid > 0)
            kill(upgrade->successor_pid, SIGKILL);
    } else if (byte == INHERITANCE_STOP) {
        lifecycle_report(master, EVENT_successor_stops);
    } else if (byte == INHERITANCE_REOPEN) {
        reopen_logs(master);
    } else {
        if (!upgrade->stop_sent) {
            event_log(LEVEL_INFO, "the new master (pid %d) serves: this one shuts down",
                      upgrade->successor_pid);
            notify_send("MAINPID=%d", upgrade->successor_pid);
        }
        upgrade->successor_serves = true;
        summary_finish(master); /* later requests are in the totals of the new master */
        end_upgrade(upgrade, NULL);
        lifecycle_report(master, EVENT_successor_serves);
    }
}

static void tell_successor(const struct upgrade *upgrade, char what)
{
    if (upgrade->successor_link >= 0)
        send(upgrade->successor_link, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void upgrade_stop(struct master *master)
{
    event_log(LEVEL_INFO, "upgrade ended by a stop: the new master (pid %d) stops, too",
              master->upgrade.successor_pid);
    tell_successor(&master->upgrade, INHERITANCE_STOP);
    master->upgrade.stop_sent = true;
}

void upgrade_force(const struct master *master)
{
    if (master->upgrade.stop_sent)
        tell_successor(&master->upgrade, INHERITANCE_FORCE);
}

void upgrade_pass_reload(const struct master *master)
{
    event_log(LEVEL_INFO, "the reload that waits is passed on to the new master");
    tell_successor(&master->upgrade, INHERITANCE_RELOAD);
}

bool upgrade_must_end(const struct master *master)
{
    return master->upgrade.stop_sent && master->upgrade.successor_pid != 0;
}

int act_kill_successor(struct master *master)
{
    event_log(LEVEL_ERROR, "the new master (pid %d) did not serve within %d s: killing it",
              master->upgrade.successor_pid, UPGRADE_S);
    kill(master->upgrade.successor_pid, SIGKILL);
    return 0;
}

/* Reads what the new master has reported, without the line end. */
static void read_new_report(const struct upgrade *upgrade, char *text, size_t size)
{
    ssize_t length = upgrade->report >= 0 ? pread(upgrade->report, text, size - 1, 0) : 0;

    while (length > 0 && text[length - 1] == '\n')
        length--;
    text[length > 0 ? length : 0] = '\0';
}

int act_abandon_upgrade(struct master *master)
{
    char report[REPORT_BYTES], failure[REPORT_BYTES + 256];

    read_new_report(&master->upgrade, report, sizeof(report));
    event_log(LEVEL_ERROR, "upgrade failed: the new master %s before it served; this one continues",
              master->upgrade.successor_end);
    if (report[0] != '\0')
        event_log(LEVEL_ERROR, "upgrade failed: %.*s", (int)strcspn(report, "\n"), report);
    snprintf(failure, sizeof(failure),
             "the new master %s before it served; the old one continues%s%s",
             master->upgrade.successor_end, report[0] != '\0' ? "\n" : "", report);
    end_upgrade(&master->upgrade, failure);
    return 0;
}

void upgrade_child_ended(struct master *master, pid_t pid, const char *how)
{
    struct upgrade *upgrade = &master->upgrade;

    if (pid != upgrade->successor_pid)
        return;
    snprintf(upgrade->successor_end, sizeof(upgrade->successor_end), "(pid %d) %s", pid, how);
    if (!upgrade->successor_serves) {
        instance_remove_segments(master->config->server_name, true);
        control_socket_remove_new(master->config);
    }
    close_successor_link(upgrade);
    upgrade->successor_pid = 0;
    lifecycle_report(master, EVENT_successor_ended);
}

/* In the child: where the new master reports errors. */
static void pass_report(const struct upgrade *upgrade)
{
    char number[16];

    snprintf(number, sizeof(number), "%d", upgrade->report);
    if (upgrade->report >= 0 && fcntl(upgrade->report, F_SETFD, 0) == 0)
        setenv(EVENTS_REPORT_VARIABLE, number, 1);
}

/* In the child: executes the new master. */
static _Noreturn void execute_successor(const struct master *master, int link)
{
    const struct listeners *listeners = master->listeners;
    char **argv = master->options->argv;
    struct inheritance legacy = {.link = link,
                                 .lock_fd = master->pid_file.lock_fd,
                                 .tickets = certificates_save_tickets(&master->certificates),
                                 .limits = address_limits_save(&master->segment)};
    sigset_t none;
    char why[512];

    /* The service manager's watchdog then watches the new master. */
    unsetenv("WATCHDOG_PID");
    pass_report(&master->upgrade);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    legacy.socket = calloc(listeners_count(listeners) + CONFIG_LIST_MAX, sizeof(*legacy.socket));
    if (legacy.socket != NULL) {
        legacy.count = listeners_export(listeners, legacy.socket);
        legacy.count += metrics_sockets_export(&master->auxiliary.metrics_sockets,
                                               legacy.socket + legacy.count);
        if (inheritance_export(&legacy) == 0)
            execvp(argv[0], argv);
    }
    snprintf(why, sizeof(why), "cannot start %.400s: %s", argv[0], strerror(errno));
    escape_report("webserverd", why);
    if (master->upgrade.report >= 0)
        (void)!write(master->upgrade.report, why, strlen(why));
    _exit(EXIT_FAILURE);
}

static int start_successor(struct master *master)
{
    struct upgrade *upgrade = &master->upgrade;
    int link[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link) != 0)
        return -1;
    fflush(NULL);
    upgrade->report = memory_file_open("upgrade report");
    upgrade->successor_serves = upgrade->stop_sent = false;
    upgrade->successor_pid = fork();
    if (upgrade->successor_pid == 0)
        execute_successor(master, link[1]);
    close(link[1]);
    upgrade->successor_link = link[0];
    upgrade->link_readable =
        event_new(master->base, link[0], EV_READ | EV_PERSIST, on_successor_link, master);
    if (upgrade->successor_pid > 0 && upgrade->link_readable != NULL &&
        event_add(upgrade->link_readable, NULL) == 0)
        return 0;
    if (upgrade->successor_pid > 0)
        kill(upgrade->successor_pid, SIGKILL);
    close_successor_link(upgrade);
    upgrade->successor_pid = 0;
    return -1;
}

int act_start_upgrade(struct master *master)
{
    master->upgrade.queued = false;
    event_log(LEVEL_INFO, "upgrade: starting %s", master->options->argv[0]);
    if (start_successor(master) != 0) {
        const char *why = strerror(errno);

        event_log(LEVEL_ERROR, "upgrade failed: %s", why);
        end_upgrade(&master->upgrade, why);
        return -1;
    }
    lifecycle_set_deadline(master, UPGRADE_S * 1000);
    return 0;
}

int act_queue_upgrade(struct master *master)
{
    if (!master->upgrade.queued)
        event_log(LEVEL_INFO, "upgrade: waiting until all workers serve");
    master->upgrade.queued = true;
    return 0;
}

int act_refuse_upgrade(struct master *master)
{
    master->upgrade.refusal =
        lifecycle_is_stopping(master) ? "the server is stopping" : "one is in progress";
    event_log(LEVEL_WARN, "upgrade rejected: %s", master->upgrade.refusal);
    return 0;
}

void upgrade_start_waiting(struct master *master)
{
    if (master->upgrade.queued)
        lifecycle_report(master, EVENT_upgrade);
}

void upgrade_pass_metrics(const struct master *master)
{
    if (master->life.retired && master->auxiliary.metrics.leaving == 0 &&
        master->upgrade.metrics_due_ns == 0)
        tell_successor(&master->upgrade, INHERITANCE_METRICS);
}

/* The new master's side */

/* The old master answers no request for metrics any more. */
static void start_metrics(struct master *master)
{
    master->upgrade.metrics_due_ns = 0;
    predecessor_count(master);
    if (lifecycle_is_stopping(master))
        upgrade_pass_metrics(master);
    else
        auxiliary_start_metrics(master);
}

/* A release whose segment has no EARLIER does not report INHERITANCE_METRICS. */
static void await_old_metrics(struct master *master)
{
    struct upgrade *upgrade = &master->upgrade;

    if (segment_count(&upgrade->predecessor.reader.map, SEGMENT_EARLIER) > 0)
        upgrade->metrics_due_ns = clock_monotonic_ns() + METRICS_WAIT_S * NS_PER_S;
    else
        start_metrics(master);
}

void upgrade_check(struct master *master, uint64_t now_ns)
{
    if (master->upgrade.metrics_due_ns != 0 && now_ns >= master->upgrade.metrics_due_ns)
        start_metrics(master);
    predecessor_check(master);
}

/* Segment and control socket get the names of the old master's, which may then shut down. */
int upgrade_take_over(struct master *master)
{
    struct inheritance *inheritance = &master->upgrade.inheritance;

    if (!inheritance->pending)
        return 0;
    if (control_socket_promote(master->control, master->config) != 0 ||
        segment_promote(&master->segment) != 0) {
        event_log(LEVEL_ERROR, "cannot take over from the old master: %s", strerror(errno));
        master->life.failed = true;
        lifecycle_report(master, EVENT_takeover_failed);
        return -1;
    }
    pid_file_write(&master->pid_file);
    predecessor_count(master);
    summary_begin(master);
    await_old_metrics(master);
    events_end_report();
    inheritance_report_ready(inheritance);
    certificates_start(master);
    return 0;
}

static void close_old_master_link(struct upgrade *upgrade)
{
    loop_free_event(upgrade->inheritance_readable);
    upgrade->inheritance_readable = NULL;
    if (upgrade->inheritance.link >= 0)
        close(upgrade->inheritance.link);
    upgrade->inheritance.link = -1;
}

/* The old master stops, and so must this one; or it passes a reload on. */
static void on_old_master_link(evutil_socket_t fd, short what, void *argument)
{
    struct master *master = argument;
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);

    (void)what;
    if (got != 1) {
        if (got == 0 || errno != EAGAIN) {
            close_old_master_link(&master->upgrade);
            if (master->upgrade.metrics_due_ns != 0)
                start_metrics(master);
            predecessor_check(master);
        }
        lifecycle_report_processes(master);
        return;
    }
    if (byte == INHERITANCE_RELOAD)
        reload_request_by(master, "requested from the old master");
    else if (byte == INHERITANCE_METRICS && master->upgrade.metrics_due_ns != 0)
        start_metrics(master);
    else if (byte != INHERITANCE_METRICS)
        lifecycle_report(master, byte == INHERITANCE_FORCE ? EVENT_stop_again : EVENT_stop);
    lifecycle_report_processes(master);
}

int upgrade_watch_old_master(struct master *master)
{
    struct upgrade *upgrade = &master->upgrade;

    if (upgrade->inheritance.link < 0)
        return 0;
    upgrade->inheritance_readable = event_new(master->base, upgrade->inheritance.link,
                                              EV_READ | EV_PERSIST, on_old_master_link, master);
    return upgrade->inheritance_readable != NULL ? event_add(upgrade->inheritance_readable, NULL)
                                                 : -1;
}

void upgrade_free(struct upgrade *upgrade)
{
    if (upgrade->report >= 0)
        close(upgrade->report);
    free(upgrade->failure);
    close_successor_link(upgrade);
    close_old_master_link(upgrade);
    predecessor_free(&upgrade->predecessor);
    inheritance_free(&upgrade->inheritance);
}
