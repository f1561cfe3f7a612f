#include "daemon/base/daemonize.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int caller = -1; /* the writing end of a pipe to the one who called */

/* Ends with status 0 when the child says that it serves, else with the child's own. */
static _Noreturn void await(pid_t child, int from_child)
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

int detach_begin(void)
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
        await(child, ends[0]);
    }
    close(ends[0]);
    setsid();
    caller = ends[1];
    return 0;
}

/* A terminal or a pipe must not be kept from its end; who gave a file wants it written. */
static void let_go_of_stream(int fd)
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

void detach_end_in_child(void)
{
    if (caller < 0)
        return;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        let_go_of_stream(fd);
    close(caller);
    caller = -1;
}

void detach_end(void)
{
    const char byte = 's';

    if (caller < 0)
        return;
    while (write(caller, &byte, 1) < 0 && errno == EINTR)
        continue;
    detach_end_in_child();
}
