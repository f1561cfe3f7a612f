/*
 * Preloaded into a server to make system calls fail once at each place (FAILING_PLACES, see
 * failing_places.h), with an error that depends on the place. Contains the calls of the C library
 * that webserverd, libevent and OpenSSL make; calls within the C library itself do not fail.
 */
#include "common/macros.h"
#include "failing_places.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { DEPTH = 6 }; /* of the call stacks that are places */

/* Sets errno, reports and returns true if the call must fail. */
static bool fails(const char *name, const int *errors, size_t count)
{
    int error;

    if (!failing_is_new_place(DEPTH))
        return false;
    error = errors[atomic_load(&failing_places->failed) % count];
    dprintf(STDERR_FILENO, "failing: %s in %d: %s\n", name, getpid(), strerrorname_np(error));
    errno = error;
    return true;
}

/* Pipes and eventfds within a process do not fail. */
static bool is_file(int fd)
{
    static int (*real)(int fd, struct stat *found);
    struct stat found;

    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "fstat");
    return real(fd, &found) == 0 && S_ISREG(found.st_mode);
}

/* Defines function NAME, which returns FAILURE with one of the errors, or calls the C library. */
#define CALL_IF(condition, type, failure, name, parameters, arguments, ...)                        \
    type name parameters                                                                           \
    {                                                                                              \
        static type(*real) parameters;                                                             \
        static const int errors[] = {__VA_ARGS__};                                                 \
                                                                                                   \
        if ((condition) && fails(#name, errors, ARRAY_LENGTH(errors)))                             \
            return failure;                                                                        \
        if (real == NULL)                                                                          \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                             \
        return real arguments;                                                                     \
    }

#define CALL(...) CALL_IF(true, __VA_ARGS__)

/* The same for functions with one variable argument. */
#define CALL_WITH_MORE(name, parameters, last, arguments, ...)                                     \
    int name parameters                                                                            \
    {                                                                                              \
        static int(*real) parameters;                                                              \
        static const int errors[] = {__VA_ARGS__};                                                 \
        unsigned long more;                                                                        \
        va_list list;                                                                              \
                                                                                                   \
        va_start(list, last);                                                                      \
        more = va_arg(list, unsigned long);                                                        \
        va_end(list);                                                                              \
        if (fails(#name, errors, ARRAY_LENGTH(errors)))                                            \
            return -1;                                                                             \
        if (real == NULL)                                                                          \
            *(void **)&real = dlsym(RTLD_NEXT, #name);                                             \
        return real arguments;                                                                     \
    }

/*
 * NOLINTBEGIN(clang-diagnostic-reserved-identifier,readability-inconsistent-declaration-parameter-name):
 * the C library names these functions
 */
ssize_t __read_chk(int fd, void *to, size_t size, size_t room);
ssize_t __pread_chk(int fd, void *to, size_t size, off_t at, size_t room);

/* Descriptors */
CALL_WITH_MORE(open, (const char *path, int flags, ...), flags, (path, flags, more), EMFILE, EIO,
               ENOMEM, EINTR)
CALL_WITH_MORE(openat, (int at, const char *path, int flags, ...), flags, (at, path, flags, more),
               EMFILE, EIO, ENOMEM, EINTR)
CALL_WITH_MORE(fcntl, (int fd, int command, ...), command, (fd, command, more), EMFILE, ENOMEM)
CALL(int, -1, socket, (int domain, int type, int protocol), (domain, type, protocol), EMFILE,
     ENOMEM)
CALL(int, -1, socketpair, (int domain, int type, int protocol, int fds[2]),
     (domain, type, protocol, fds), EMFILE, ENOMEM)
CALL(int, -1, pipe2, (int fds[2], int flags), (fds, flags), EMFILE, ENOMEM)
CALL(int, -1, eventfd, (unsigned count, int flags), (count, flags), EMFILE, ENOMEM)
CALL(int, -1, epoll_create1, (int flags), (flags), EMFILE, ENOMEM)
CALL(int, -1, timerfd_create, (int clock, int flags), (clock, flags), EMFILE, ENOMEM)
CALL(int, -1, shm_open, (const char *name, int flags, mode_t mode), (name, flags, mode), EMFILE,
     ENOMEM)
CALL(DIR *, NULL, fdopendir, (int fd), (fd), ENOMEM)
CALL(FILE *, NULL, fopen, (const char *path, const char *mode), (path, mode), EMFILE, EIO, ENOMEM)
CALL(FILE *, NULL, fdopen, (int fd, const char *mode), (fd, mode), ENOMEM)
CALL(int, -1, dup2, (int from, int to), (from, to), EMFILE, EINTR)

/* Input and output */
CALL_IF(is_file(fd), ssize_t, -1, read, (int fd, void *to, size_t size), (fd, to, size), EIO,
        ENOMEM)
CALL_IF(is_file(fd), ssize_t, -1, __read_chk, (int fd, void *to, size_t size, size_t room),
        (fd, to, size, room), EIO, ENOMEM)
CALL(ssize_t, -1, pread, (int fd, void *to, size_t size, off_t at), (fd, to, size, at), EIO, EINTR,
     ENOMEM)
CALL(ssize_t, -1, __pread_chk, (int fd, void *to, size_t size, off_t at, size_t room),
     (fd, to, size, at, room), EIO, EINTR, ENOMEM)
CALL(ssize_t, -1, preadv2, (int fd, const struct iovec *to, int count, off_t at, int flags),
     (fd, to, count, at, flags), EIO, EINTR, ENOMEM)
CALL_IF(is_file(fd), ssize_t, -1, write, (int fd, const void *from, size_t size), (fd, from, size),
        EIO, ENOSPC)
CALL(ssize_t, -1, pwrite, (int fd, const void *from, size_t size, off_t at), (fd, from, size, at),
     EIO, EINTR, ENOMEM)
CALL(ssize_t, -1, writev, (int fd, const struct iovec *from, int count), (fd, from, count), EIO,
     EINTR, ENOMEM)
CALL(ssize_t, -1, readv, (int fd, const struct iovec *to, int count), (fd, to, count), EIO, EINTR,
     ENOMEM)
CALL(ssize_t, -1, sendfile, (int to, int from, off_t *at, size_t size), (to, from, at, size), EIO,
     EINTR, ENOMEM)
CALL(ssize_t, -1, recv, (int fd, void *to, size_t size, int flags), (fd, to, size, flags), EIO,
     EINTR, ENOMEM)
CALL(ssize_t, -1, send, (int fd, const void *from, size_t size, int flags), (fd, from, size, flags),
     EIO, EINTR, ENOMEM)
CALL(ssize_t, -1, recvmsg, (int fd, struct msghdr *message, int flags), (fd, message, flags), EIO,
     EINTR, ENOMEM)
CALL(ssize_t, -1, sendmsg, (int fd, const struct msghdr *message, int flags), (fd, message, flags),
     EIO, EINTR, ENOMEM)
CALL(int, -1, accept4, (int fd, struct sockaddr *from, socklen_t *size, int flags),
     (fd, from, size, flags), EMFILE, ECONNABORTED, ENOMEM, EINTR)
CALL(int, -1, bind, (int fd, const struct sockaddr *address, socklen_t size), (fd, address, size),
     ENOMEM, EIO)
CALL(int, -1, connect, (int fd, const struct sockaddr *address, socklen_t size),
     (fd, address, size), ENOMEM, EIO)
CALL(int, -1, listen, (int fd, int backlog), (fd, backlog), ENOMEM)
CALL(int, -1, setsockopt, (int fd, int level, int name, const void *value, socklen_t size),
     (fd, level, name, value, size), ENOMEM)
CALL(int, -1, getsockname, (int fd, struct sockaddr *address, socklen_t *size), (fd, address, size),
     ENOMEM)
CALL(int, -1, epoll_ctl, (int fd, int operation, int of, struct epoll_event *event),
     (fd, operation, of, event), ENOMEM)
CALL(int, -1, epoll_wait, (int fd, struct epoll_event *events, int most, int ms),
     (fd, events, most, ms), EINTR)
CALL(int, -1, timerfd_settime,
     (int fd, int flags, const struct itimerspec *next, struct itimerspec *before),
     (fd, flags, next, before), ENOMEM)

/* Files */
CALL(int, -1, fstat, (int fd, struct stat *found), (fd, found), EIO, ENOMEM)
CALL(int, -1, stat, (const char *path, struct stat *found), (path, found), EIO, ENOMEM)
CALL(int, -1, lstat, (const char *path, struct stat *found), (path, found), EIO, ENOMEM)
CALL(int, -1, fstatat, (int at, const char *path, struct stat *found, int flags),
     (at, path, found, flags), EIO, ENOMEM)
CALL(int, -1, fstatvfs, (int fd, struct statvfs *found), (fd, found), EIO)
CALL(int, -1, ftruncate, (int fd, off_t size), (fd, size), EIO, EINTR)
CALL(int, -1, mkdir, (const char *path, mode_t mode), (path, mode), EIO, ENOMEM)
CALL(int, -1, chmod, (const char *path, mode_t mode), (path, mode), EIO, ENOMEM)
CALL(int, -1, fchmod, (int fd, mode_t mode), (fd, mode), EIO, ENOMEM)
CALL(int, -1, rename, (const char *from, const char *to), (from, to), EIO, ENOMEM)
CALL(int, -1, flock, (int fd, int operation), (fd, operation), ENOMEM, EINTR)
CALL(char *, NULL, realpath, (const char *path, char *to), (path, to), EIO, ENOMEM)

/* Memory, processes and threads */
CALL(void *, MAP_FAILED, mmap,
     (void *at, size_t size, int protection, int flags, int fd, off_t offset),
     (at, size, protection, flags, fd, offset), ENOMEM)
CALL(pid_t, -1, fork, (void), (), EAGAIN, ENOMEM)
CALL(pid_t, -1, waitpid, (pid_t pid, int *status, int flags), (pid, status, flags), EINTR)
CALL(int, errno, posix_fallocate, (int fd, off_t at, off_t size), (fd, at, size), ENOSPC, EINTR,
     ENOMEM)
CALL(int, errno, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *argument),
     (thread, attributes, start, argument), EAGAIN)

/* openat2, memfd_create, pidfd_open, and those of Landlock, which have no function in the C library. */
long syscall(long number, ...)
{
    static long (*real)(long number, ...);
    static const int errors[] = {EMFILE, ENOMEM, EIO};
    long argument[6];
    va_list list;

    va_start(list, number);
    for (size_t i = 0; i < ARRAY_LENGTH(argument); i++)
        argument[i] = va_arg(list, long);
    va_end(list);
    if (fails("syscall", errors, ARRAY_LENGTH(errors)))
        return -1;
    if (real == NULL)
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    return real(number, argument[0], argument[1], argument[2], argument[3], argument[4],
                argument[5]);
}

/* NOLINTEND(clang-diagnostic-reserved-identifier,readability-inconsistent-declaration-parameter-name) */
