#include "daemon/base/daemonize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int parent_pipe = -1; /* the parent waits at its other end */

/* Exits with 0 once the child reports that it serves, else with the child's status. */
static _Noreturn void wait_for_ready(pid_t child, int from_child)
{
    int status = 0;
    ssize_t got;
    char byte;

    do
        got = read(from_child, &byte, 1);
    while (got < 0 && errno == EINTR);
    if (got == 1)
        _exit(EXIT_SUCCESS);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    _exit(WIFEXITED(status) && WEXITSTATUS(status) != 0 ? WEXITSTATUS(status) : EXIT_FAILURE);
}

int daemonize(void)
{
    int ends[2];
    pid_t child;

    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    child = fork();
    if (child < 0) {
        close(ends[0]);
        close(ends[1]);
        return -1;
    }
    if (child > 0) {
        close(ends[1]);
        wait_for_ready(child, ends[0]);
    }
    close(ends[0]);
    setsid();
    parent_pipe = ends[1];
    return 0;
}

/* Keeps regular files; an open terminal or pipe would keep its other end waiting. */
static void release_stream(int fd)
{
    struct stat status;
    int nothing;

    if (fstat(fd, &status) == 0 && S_ISREG(status.st_mode))
        return;
    nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (nothing < 0)
        return;
    dup2(nothing, fd);
    if (nothing != fd)
        close(nothing);
}

void daemonize_release(void)
{
    if (parent_pipe < 0)
        return;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        release_stream(fd);
    close(parent_pipe);
    parent_pipe = -1;
}

void daemonize_report_ready(void)
{
    const char byte = 's';

    if (parent_pipe < 0)
        return;
    while (write(parent_pipe, &byte, 1) < 0 && errno == EINTR)
        continue;
    daemonize_release();
}
