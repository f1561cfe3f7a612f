/*
 * Preloaded into the programs of tests to delay their calls of the C library at random, as a busy machine
 * delays them. DELAYED_CALLS is "SEED PROBABILITY MS...": a call waits with this probability (1e-6) for
 * one of the durations, but all calls of a process together for no longer than MOST_MS.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_MS = 15000, DURATIONS_MAX = 4, MILLION = 1000000, MS_PER_S = 1000 };

static unsigned long seed, probability, durations_ms[DURATIONS_MAX];
static size_t duration_count; /* 0: no call is delayed */
static _Atomic long left_ms = MOST_MS;

/* ctest, whose environment the tests inherit, is not delayed itself. */
__attribute__((constructor)) static void begin(void)
{
    char *text = getenv("DELAYED_CALLS");

    if (text == NULL || strcmp(program_invocation_short_name, "ctest") == 0)
        return;
    seed = strtoul(text, &text, 10);
    probability = strtoul(text, &text, 10);
    while (*text != '\0' && duration_count < DURATIONS_MAX)
        durations_ms[duration_count++] = strtoul(text, &text, 10);
}

static unsigned long draw(unsigned long bound)
{
    static _Thread_local unsigned short state[3];
    static _Thread_local bool seeded;

    if (!seeded) {
        state[0] = (unsigned short)seed;
        state[1] = (unsigned short)getpid();
        state[2] = (unsigned short)gettid();
        seeded = true;
    }
    return (unsigned long)nrand48(state) % bound;
}

static void delay(void)
{
    struct timespec duration;
    int error = errno;
    long ms;

    if (duration_count == 0 || draw(MILLION) >= probability)
        return;
    ms = (long)durations_ms[draw(duration_count)];
    duration.tv_sec = ms / MS_PER_S;
    duration.tv_nsec = ms % MS_PER_S * MILLION;
    if (atomic_fetch_sub(&left_ms, ms) >= ms)
        nanosleep(&duration, NULL);
    errno = error;
}

/* Defines function NAME, which may wait and then calls that of the C library. */
#define CALL(type, name, parameters, arguments)                                                    \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*real) parameters;                                                             \
                                                                                                   \
        if (real == NULL)                                                                          \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                             \
        delay();                                                                                   \
        return real arguments;                                                                     \
    }

CALL(ssize_t, read, (int fd, void *buf, size_t nbytes), (fd, buf, nbytes))
CALL(ssize_t, write, (int fd, const void *buf, size_t n), (fd, buf, n))
CALL(ssize_t, recv, (int fd, void *buf, size_t n, int flags), (fd, buf, n, flags))
CALL(ssize_t, send, (int fd, const void *buf, size_t n, int flags), (fd, buf, n, flags))
CALL(ssize_t, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags))
CALL(ssize_t, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags))
CALL(int, accept4, (int fd, struct sockaddr *addr, socklen_t *addr_len, int flags),
     (fd, addr, addr_len, flags))
CALL(int, connect, (int fd, const struct sockaddr *addr, socklen_t len), (fd, addr, len))
CALL(int, close, (int fd), (fd))
CALL(int, poll, (struct pollfd * fds, nfds_t nfds, int timeout), (fds, nfds, timeout))
CALL(int, epoll_wait, (int epfd, struct epoll_event *events, int maxevents, int timeout),
     (epfd, events, maxevents, timeout))
CALL(int, epoll_pwait2,
     (int epfd, struct epoll_event *events, int maxevents, const struct timespec *timeout,
      const sigset_t *ss),
     (epfd, events, maxevents, timeout, ss))
CALL(int, epoll_ctl, (int epfd, int op, int fd, struct epoll_event *event), (epfd, op, fd, event))
CALL(int, clock_gettime, (clockid_t clock_id, struct timespec *tp), (clock_id, tp))
CALL(pid_t, fork, (void), ())
CALL(pid_t, waitpid, (pid_t pid, int *stat_loc, int options), (pid, stat_loc, options))
CALL(int, kill, (pid_t pid, int sig), (pid, sig))
CALL(int, rename, (const char *old, const char *new), (old, new))
CALL(int, unlink, (const char *name), (name))
