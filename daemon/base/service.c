#include "daemon/base/service.h"

#include "common/clock.h"
#include "common/macros.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- Signals --- */

const int signals_handled[SIGNALS_HANDLED] = {SIGTERM, SIGINT,  SIGQUIT, SIGCHLD,
                                              SIGHUP,  SIGUSR1, SIGUSR2};

static void ignore_signals(const int *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        signal(numbers[i], SIG_IGN);
}

void signals_ignore_in_master(void)
{
    static const int numbers[] = {SIGPIPE};

    ignore_signals(numbers, ARRAY_LENGTH(numbers));
}

static void mask_handled(int how)
{
    sigset_t signals;

    sigemptyset(&signals);
    for (size_t i = 0; i < ARRAY_LENGTH(signals_handled); i++)
        sigaddset(&signals, signals_handled[i]);
    sigprocmask(how, &signals, NULL);
}

void signals_block(void)
{
    mask_handled(SIG_BLOCK);
}

void signals_unblock(void)
{
    mask_handled(SIG_UNBLOCK);
}

void signals_ignore_in_child(void)
{
    static const int numbers[] = {SIGPIPE, SIGHUP, SIGUSR1, SIGUSR2, SIGINT, SIGTERM, SIGQUIT};

    ignore_signals(numbers, ARRAY_LENGTH(numbers));
}

/* --- Background --- */

static int parent_pipe = -1; /* the parent waits at its other end */

/* Exits with 0 once the child reports that it is ready, else with the child's exit status. */
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

/*
 * Regular files stay open. An open terminal or pipe would keep the process at its other end
 * waiting.
 */
static bool stays_open(int fd)
{
    struct stat status;

    return parent_pipe < 0 || (fstat(fd, &status) == 0 && S_ISREG(status.st_mode));
}

/*
 * A pipe or terminal, if possible, as an open file of our own, which may be non-blocking: the flags
 * of an inherited one are those of other processes, too.
 */
static int open_again(int fd)
{
    struct stat status;
    char path[32];

    if (fstat(fd, &status) != 0 || (!S_ISFIFO(status.st_mode) && !S_ISCHR(status.st_mode)))
        return -1;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
}

int daemonize_duplicate_stream(int fd)
{
    int stream;

    if (!stays_open(fd))
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    stream = open_again(fd);
    return stream >= 0 ? stream : fcntl(fd, F_DUPFD_CLOEXEC, 0);
}

void daemonize_release(void)
{
    if (parent_pipe < 0)
        return;
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
        int nothing = stays_open(fd) ? -1 : open("/dev/null", O_RDWR | O_CLOEXEC);

        if (nothing < 0)
            continue;
        dup2(nothing, fd);
        if (nothing != fd)
            close(nothing);
    }
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

/* --- Notifications to a service manager --- */

/* Returns the length of the address, 0 if there is none. "@name" is an abstract socket. */
static socklen_t find_socket(struct sockaddr_un *address)
{
    const char *path = getenv("NOTIFY_SOCKET");
    size_t length = path != NULL ? strlen(path) : 0;

    if (length < 2 || length >= sizeof(address->sun_path) || (path[0] != '/' && path[0] != '@'))
        return 0;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(address->sun_path, path, length);
    if (path[0] == '@')
        address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}

void notify_send(const char *format, ...)
{
    struct sockaddr_un address;
    socklen_t length = find_socket(&address);
    char text[512];
    va_list arguments;
    int fd, used;

    if (length == 0)
        return;
    va_start(arguments, format);
    used = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return;
    if (used > 0 && (size_t)used < sizeof(text))
        sendto(fd, text, (size_t)used, MSG_NOSIGNAL, (struct sockaddr *)&address, length);
    close(fd);
}

void notify_reloading(void)
{
    notify_send("RELOADING=1\nMONOTONIC_USEC=%llu",
                (unsigned long long)(clock_monotonic_ns() / NS_PER_US));
}

void notify_alive(void)
{
    const char *pid = getenv("WATCHDOG_PID");

    if (getenv("WATCHDOG_USEC") != NULL && (pid == NULL || atoi(pid) == getpid()))
        notify_send("WATCHDOG=1");
}
