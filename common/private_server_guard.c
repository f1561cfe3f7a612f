#include "common/private_server_guard.h"

#include "common/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    POLL_MS = 10,
    STOP_MS = 30000, /* the server stops by itself when its parent dies */
    KILLED_MS = 2000,
    OPEN_MOST = 16, /* directories that nftw() keeps open */
};

/* A message instead of a process group: the owner has cleaned up. */
#define CLEANED_UP ((pid_t)-1)

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    remove(path);
    return 0;
}

void private_server_remove(const char *directory)
{
    nftw(directory, remove_one, OPEN_MOST, FTW_DEPTH | FTW_PHYS);
}

/* ---- The process ---- */

/* Whether GROUP ended within MS. */
static bool group_ends(pid_t group, int ms)
{
    const struct timespec pause = {0, POLL_MS * 1000000L};

    for (int waited = 0; waited < ms; waited += POLL_MS) {
        if (kill(-group, 0) != 0)
            return true;
        nanosleep(&pause, NULL);
    }
    return false;
}

static void end_group(pid_t group)
{
    if (group_ends(group, STOP_MS))
        return;
    kill(-group, SIGKILL);
    group_ends(group, KILLED_MS);
}

/*
 * It keeps no descriptor of the owner but its socket open: otherwise the reader of a pipe of the
 * owner, or another guard, would not see that the owner is dead.
 */
static void leave_owner(int in)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        signal(signals[i], SIG_IGN);
    setsid();
    prctl(PR_SET_NAME, "guard");
    dup2(in, STDIN_FILENO);
    close_range(STDERR_FILENO + 1, ~0U, 0);
    in = open("/dev/null", O_RDWR);
    dup2(in, STDOUT_FILENO);
    dup2(in, STDERR_FILENO);
    if (in > STDERR_FILENO)
        close(in);
}

static _Noreturn void run_guard(int in, const char *directory, const char *name)
{
    pid_t group = 0;

    leave_owner(in);
    while (recv(STDIN_FILENO, &group, sizeof(group), 0) > 0)
        if (group == CLEANED_UP)
            _exit(0);
    if (group > 0)
        end_group(group);
    instance_remove_segments(name, false);
    private_server_remove(directory);
    _exit(0);
}

/* ---- The owner ---- */

int private_server_guard_start(struct private_server_guard *guard, const char *directory,
                               const char *name)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    guard->pid = fork();
    if (guard->pid == 0)
        run_guard(ends[0], directory, name);
    close(ends[0]);
    guard->socket = ends[1];
    if (guard->pid > 0)
        return 0;
    guard->pid = 0;
    close(ends[1]);
    return -1;
}

void private_server_guard_watch(const struct private_server_guard *guard, pid_t group)
{
    while (send(guard->socket, &group, sizeof(group), MSG_NOSIGNAL) < 0 && errno == EINTR)
        ;
}

void private_server_guard_end(struct private_server_guard *guard)
{
    if (guard->pid == 0)
        return;
    private_server_guard_watch(guard, CLEANED_UP);
    close(guard->socket);
    while (waitpid(guard->pid, NULL, 0) < 0 && errno == EINTR)
        ;
    guard->pid = 0;
}
