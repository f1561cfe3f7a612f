#include "daemon/master/upgrade.h"

#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/base/service.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct upgrade {
    struct server *server;
    struct shutdown *shutdown;
    char **argv;
    void (*failed)(void *context);
    void *context;
    pid_t pid; /* of the new master; 0: no upgrade in progress */
    int link;  /* to the new master; -1: none */
    struct event *readable, *deadline;
};

static void close_link(struct upgrade *upgrade)
{
    loop_free_event(upgrade->readable);
    upgrade->readable = NULL;
    if (upgrade->link >= 0)
        close(upgrade->link);
    upgrade->link = -1;
    event_del(upgrade->deadline);
}

/*
 * One byte: the new master serves and has taken over all names. End of file: it died, and SIGCHLD
 * has the status.
 */
static void on_link(evutil_socket_t fd, short what, void *argument)
{
    struct upgrade *upgrade = argument;
    char byte;

    (void)what;
    if (recv(fd, &byte, 1, MSG_DONTWAIT) == 1) {
        event_log(LEVEL_INFO, "the new master (pid %d) serves: this one shuts down", upgrade->pid);
        notify_send("MAINPID=%d", upgrade->pid);
        close_link(upgrade);
        shutdown_begin_graceful(upgrade->shutdown);
        return;
    }
    event_free(upgrade->readable);
    upgrade->readable = NULL;
    kill(upgrade->pid, SIGKILL);
}

static void on_deadline(evutil_socket_t fd, short what, void *argument)
{
    struct upgrade *upgrade = argument;

    (void)fd, (void)what;
    event_log(LEVEL_ERROR, "the new master (pid %d) did not serve within %d s: killing it",
              upgrade->pid, UPGRADE_S);
    kill(upgrade->pid, SIGKILL);
}

void upgrade_child_ended(struct upgrade *upgrade, pid_t pid, const char *how)
{
    if (pid != upgrade->pid)
        return;
    if (upgrade->link >= 0) {
        event_log(LEVEL_ERROR,
                  "upgrade failed: the new master (pid %d) %s before it served; "
                  "this one continues",
                  pid, how);
        segment_remove_new(upgrade->server->config->server_name);
        upgrade->failed(upgrade->context);
    }
    close_link(upgrade);
    upgrade->pid = 0;
}

/* In the child: executes the new master. */
static _Noreturn void execute(const struct upgrade *upgrade, int link)
{
    const struct server *server = upgrade->server;
    struct inherited_socket *sockets =
        calloc(listeners_count(server->listeners) + 1, sizeof(*sockets));
    sigset_t none;

    /* The service manager's watchdog then watches the new master. */
    unsetenv("WATCHDOG_PID");
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    if (sockets != NULL && inheritance_export(link, server->pid_file.lock_fd, sockets,
                                              listeners_export(server->listeners, sockets)) == 0)
        execvp(upgrade->argv[0], upgrade->argv);
    fprintf(stderr, "webserverd: cannot start %s: %s\n", upgrade->argv[0], strerror(errno));
    _exit(EXIT_FAILURE);
}

static int start(struct upgrade *upgrade)
{
    static const struct timeval limit = {.tv_sec = UPGRADE_S};
    int link[2];

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, link) != 0)
        return -1;
    fflush(NULL);
    upgrade->pid = fork();
    if (upgrade->pid == 0)
        execute(upgrade, link[1]);
    close(link[1]);
    upgrade->link = link[0];
    upgrade->readable =
        event_new(upgrade->server->base, link[0], EV_READ | EV_PERSIST, on_link, upgrade);
    if (upgrade->pid > 0 && upgrade->readable != NULL && event_add(upgrade->readable, NULL) == 0 &&
        event_add(upgrade->deadline, &limit) == 0)
        return 0;
    if (upgrade->pid > 0)
        kill(upgrade->pid, SIGKILL);
    close_link(upgrade);
    upgrade->pid = 0;
    return -1;
}

void upgrade_begin(struct upgrade *upgrade)
{
    if (upgrade->pid != 0 || shutdown_has_begun(upgrade->shutdown)) {
        event_log(LEVEL_WARN, "upgrade rejected: %s",
                  upgrade->pid != 0 ? "one is in progress" : "the server is stopping");
        return;
    }
    event_log(LEVEL_INFO, "upgrade: starting %s", upgrade->argv[0]);
    if (start(upgrade) != 0)
        event_log(LEVEL_ERROR, "upgrade failed: %s", strerror(errno));
}

struct upgrade *upgrade_new(struct server *server, struct shutdown *shutdown, char **argv,
                            void (*failed)(void *context), void *context)
{
    struct upgrade *upgrade = calloc(1, sizeof(*upgrade));

    if (upgrade == NULL)
        return NULL;
    *upgrade = (struct upgrade){.server = server,
                                .shutdown = shutdown,
                                .argv = argv,
                                .failed = failed,
                                .context = context,
                                .link = -1};
    upgrade->deadline = event_new(server->base, -1, 0, on_deadline, upgrade);
    if (upgrade->deadline == NULL) {
        free(upgrade);
        return NULL;
    }
    return upgrade;
}

void upgrade_free(struct upgrade *upgrade)
{
    if (upgrade == NULL)
        return;
    close_link(upgrade);
    event_free(upgrade->deadline);
    free(upgrade);
}
