#include "daemon/master/upgrade.h"

#include "common/escape.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/service.h"
#include "daemon/master/address_limits.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct upgrade {
    struct server *server;
    struct lifecycle *life;
    char **argv;
    void (*failed)(void *context);
    void *context;
    pid_t pid; /* of the new master; 0: no upgrade in progress */
    int link;  /* to the new master; -1: none */
    struct event *readable;
    bool waiting;  /* for the end of a reload */
    bool serves;   /* the new master */
    bool told;     /* to stop */
    char end[128]; /* of the new master, for the error log */
};

static void close_link(struct upgrade *upgrade)
{
    loop_free_event(upgrade->readable);
    upgrade->readable = NULL;
    if (upgrade->link >= 0)
        close(upgrade->link);
    upgrade->link = -1;
}

/* End of file: the new master has died or is about to end, and SIGCHLD has the status. */
static void on_end_of_link(struct upgrade *upgrade)
{
    event_free(upgrade->readable);
    upgrade->readable = NULL;
    if (!upgrade->serves && upgrade->pid > 0)
        kill(upgrade->pid, SIGKILL);
}

static void on_link(evutil_socket_t fd, short what, void *argument)
{
    struct upgrade *upgrade = argument;
    char byte;

    (void)what;
    if (recv(fd, &byte, 1, MSG_DONTWAIT) != 1) {
        on_end_of_link(upgrade);
    } else if (byte == INHERITANCE_STOP) {
        lifecycle_report(upgrade->life, EVENT_successor_stops);
    } else {
        if (!upgrade->told) {
            event_log(LEVEL_INFO, "the new master (pid %d) serves: this one shuts down",
                      upgrade->pid);
            notify_send("MAINPID=%d", upgrade->pid);
        }
        upgrade->serves = true;
        lifecycle_report(upgrade->life, EVENT_successor_serves);
    }
}

static void tell(const struct upgrade *upgrade, char what)
{
    if (upgrade->link >= 0)
        send(upgrade->link, &what, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int upgrade_stop(struct upgrade *upgrade)
{
    event_log(LEVEL_INFO, "upgrade ended by a stop: the new master (pid %d) stops, too",
              upgrade->pid);
    tell(upgrade, INHERITANCE_STOP);
    upgrade->told = true;
    return 0;
}

int upgrade_force(const struct upgrade *upgrade)
{
    if (upgrade->told)
        tell(upgrade, INHERITANCE_FORCE);
    return 0;
}

void upgrade_pass_reload(const struct upgrade *upgrade)
{
    event_log(LEVEL_INFO, "the reload that waits is passed on to the new master");
    tell(upgrade, INHERITANCE_RELOAD);
}

bool upgrade_must_end(const struct upgrade *upgrade)
{
    return upgrade->told && upgrade->pid != 0;
}

pid_t upgrade_pid(const struct upgrade *upgrade)
{
    return upgrade->pid;
}

int upgrade_kill(const struct upgrade *upgrade)
{
    event_log(LEVEL_ERROR, "the new master (pid %d) did not serve within %d s: killing it",
              upgrade->pid, UPGRADE_S);
    kill(upgrade->pid, SIGKILL);
    return 0;
}

int upgrade_abandon(const struct upgrade *upgrade)
{
    event_log(LEVEL_ERROR, "upgrade failed: the new master %s before it served; this one continues",
              upgrade->end);
    return 0;
}

void upgrade_child_ended(struct upgrade *upgrade, pid_t pid, const char *how)
{
    if (pid != upgrade->pid)
        return;
    snprintf(upgrade->end, sizeof(upgrade->end), "(pid %d) %s", pid, how);
    if (!upgrade->serves) {
        segment_remove_new(upgrade->server->config->server_name);
        upgrade->failed(upgrade->context);
    }
    close_link(upgrade);
    upgrade->pid = 0;
    lifecycle_report(upgrade->life, EVENT_successor_ended);
}

/* In the child: executes the new master. */
static _Noreturn void execute(const struct upgrade *upgrade, int link)
{
    const struct server *server = upgrade->server;
    struct inheritance legacy = {.link = link,
                                 .lock_fd = server->pid_file.lock_fd,
                                 .tickets = server_save_tickets(server),
                                 .limits = address_limits_save(&server->segment)};
    sigset_t none;
    char why[512];

    /* The service manager's watchdog then watches the new master. */
    unsetenv("WATCHDOG_PID");
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    legacy.socket =
        calloc(listeners_count(server->listeners) + CONFIG_LIST_MAX, sizeof(*legacy.socket));
    if (legacy.socket != NULL) {
        legacy.count = listeners_export(server->listeners, legacy.socket);
        legacy.count += metrics_sockets_export(&server->metrics, legacy.socket + legacy.count);
        if (inheritance_export(&legacy) == 0)
            execvp(upgrade->argv[0], upgrade->argv);
    }
    snprintf(why, sizeof(why), "cannot start %.400s: %s", upgrade->argv[0], strerror(errno));
    escape_report("webserverd", why);
    _exit(EXIT_FAILURE);
}

static int start(struct upgrade *upgrade)
{
    int link[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link) != 0)
        return -1;
    fflush(NULL);
    upgrade->serves = upgrade->told = false;
    upgrade->pid = fork();
    if (upgrade->pid == 0)
        execute(upgrade, link[1]);
    close(link[1]);
    upgrade->link = link[0];
    upgrade->readable =
        event_new(upgrade->server->base, link[0], EV_READ | EV_PERSIST, on_link, upgrade);
    if (upgrade->pid > 0 && upgrade->readable != NULL && event_add(upgrade->readable, NULL) == 0)
        return 0;
    if (upgrade->pid > 0)
        kill(upgrade->pid, SIGKILL);
    close_link(upgrade);
    upgrade->pid = 0;
    return -1;
}

int upgrade_start(struct upgrade *upgrade)
{
    upgrade->waiting = false;
    event_log(LEVEL_INFO, "upgrade: starting %s", upgrade->argv[0]);
    if (start(upgrade) != 0) {
        event_log(LEVEL_ERROR, "upgrade failed: %s", strerror(errno));
        return -1;
    }
    lifecycle_set_deadline(upgrade->life, UPGRADE_S * 1000);
    return 0;
}

int upgrade_queue(struct upgrade *upgrade)
{
    if (!upgrade->waiting)
        event_log(LEVEL_INFO, "upgrade: waiting until all workers serve");
    upgrade->waiting = true;
    return 0;
}

int upgrade_refuse(const struct upgrade *upgrade)
{
    event_log(LEVEL_WARN, "upgrade rejected: %s",
              lifecycle_is_stopping(upgrade->life) ? "the server is stopping"
                                                   : "one is in progress");
    return 0;
}

void upgrade_start_waiting(struct upgrade *upgrade)
{
    if (upgrade->waiting)
        lifecycle_report(upgrade->life, EVENT_upgrade);
}

struct upgrade *upgrade_new(struct server *server, struct lifecycle *life, char **argv,
                            void (*failed)(void *context), void *context)
{
    struct upgrade *upgrade = calloc(1, sizeof(*upgrade));

    if (upgrade == NULL)
        return NULL;
    *upgrade = (struct upgrade){.server = server,
                                .life = life,
                                .argv = argv,
                                .failed = failed,
                                .context = context,
                                .link = -1};
    return upgrade;
}

void upgrade_free(struct upgrade *upgrade)
{
    if (upgrade == NULL)
        return;
    close_link(upgrade);
    free(upgrade);
}
