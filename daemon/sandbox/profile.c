#include "daemon/sandbox/profile.h"

#include <fcntl.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>

/* The kernel takes an int from the lower half of an argument. */
#define INT_MASK UINT32_MAX

/*
 * All other flags, such as O_CREAT, O_TRUNC, O_APPEND and O_TMPFILE, change files. O_TMPFILE
 * contains O_DIRECTORY, but it is more.
 */
#define NOT_READING                                                                                \
    (INT_MASK & ~(unsigned int)(O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW | O_DIRECTORY |     \
                                O_PATH | O_NOATIME | O_NOCTTY | O_LARGEFILE))

/* Of Linux 6.13; the headers of Debian 12 lack them. */
enum { ADVICE_GUARD_INSTALL = 102, ADVICE_GUARD_REMOVE = 103 };

const char *const sandbox_common_calls[] = {
    /* descriptors */
    "read",
    "write",
    "readv",
    "writev",
    "recvfrom",
    "recvmsg",
    "close",
    "fstat",
    "newfstatat",
    "fstatat64",
    "statx",
    "lseek",
    /* event loop */
    "epoll_create1",
    "pipe2",
    "epoll_ctl",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "eventfd2",
    "poll",
    "ppoll",
    "timerfd_create",
    "timerfd_settime",
    "restart_syscall",
    /* threads */
    "futex",
    "set_robust_list",
    "rseq",
    "sched_yield",
    "sched_getaffinity",
    "gettid",
    "getpid",
    "rt_sigprocmask",
    "rt_sigaction",
    "rt_sigreturn",
    "sigaltstack",
    "exit",
    "exit_group",
    "membarrier",
    /* memory */
    "brk",
    "munmap",
    "mremap",
    /* time, and what glibc calls occasionally */
    "clock_gettime",
    "clock_getres",
    "clock_nanosleep",
    "nanosleep",
    "gettimeofday",
    "getrandom",
    "sysinfo",
    "getrusage",
    "getuid",
    "geteuid",
    "getgid",
    "getegid",
    NULL,
};

const struct restricted_call sandbox_common_restricted[] = {
    /* no executable memory */
    {"mmap", {{2, PROT_EXEC, 0}}},
    {"mprotect", {{2, PROT_EXEC, 0}}},
    {"openat", {{2, NOT_READING, 0}}},
    {"open", {{1, NOT_READING, 0}}},
    /* a thread, never a process */
    {"clone", {{0, CLONE_THREAD, CLONE_THREAD}}},
    {"prctl", {{0, INT_MASK, PR_SET_NAME}}},
    {"prctl", {{0, INT_MASK, PR_SET_VMA}}},
    {"fcntl", {{1, INT_MASK, F_GETFL}}},
    {"fcntl", {{1, INT_MASK, F_GETFD}}},
    {"fcntl", {{1, INT_MASK, F_SETFD}}},
    {"fcntl", {{1, INT_MASK, F_DUPFD_CLOEXEC}}},
    {"ioctl", {{1, INT_MASK, TCGETS}}},
    /* MSG_FASTOPEN would connect a closed socket */
    {"sendto", {{3, MSG_FASTOPEN, 0}}},
    {"sendmsg", {{2, MSG_FASTOPEN, 0}}},
    {"shutdown", {{1, INT_MASK, SHUT_WR}}}, /* the others would end a listen socket */
    /* what glibc advises; MADV_REMOVE would free pages of the segment, which are reserved */
    {"madvise", {{2, INT_MASK, MADV_DONTNEED}}},
    {"madvise", {{2, INT_MASK, MADV_FREE}}},
    {"madvise", {{2, INT_MASK, MADV_HUGEPAGE}}},
    {"madvise", {{2, INT_MASK, MADV_NOHUGEPAGE}}},
    {"madvise", {{2, INT_MASK, ADVICE_GUARD_INSTALL}}},
    {"madvise", {{2, INT_MASK, ADVICE_GUARD_REMOVE}}},
    {NULL, {{0}}},
};

static const char *const worker_calls[] = {
    /* connections */
    "accept4",
    "sendfile",
    "getsockname",
    "getpeername",
    "getsockopt",
    /* files, read only: Landlock decides which */
    "pread64",
    "preadv",
    "preadv2",
    "getdents64",
    "readlinkat",
    "fadvise64",
    "readahead",
    NULL,
};

/*
 * Other processes hold the same listen sockets, channels and doorbell, and connections that have
 * moved. So a worker may not make them blocking, and may not change options for others.
 */
static const struct restricted_call worker_restricted[] = {
    {"fcntl", {{1, INT_MASK, F_SETFL}, {2, O_NONBLOCK, O_NONBLOCK}}},
    {"setsockopt", {{1, INT_MASK, IPPROTO_TCP}, {2, INT_MASK, TCP_NOTSENT_LOWAT}}},
    {"sched_setscheduler", {{0, INT_MASK, 0}, {1, INT_MASK, SCHED_OTHER}}},
    {"sched_setscheduler", {{0, INT_MASK, 0}, {1, INT_MASK, SCHED_BATCH}}},
    {"ioctl", {{1, INT_MASK, FIONREAD}}},
    {"ioctl", {{1, INT_MASK, SIOCOUTQ}}},
    {NULL, {{0}}},
};

/* Its log files are open already; a partial batch is cut off. */
static const char *const logger_calls[] = {
    "ftruncate",
    NULL,
};

static const struct restricted_call logger_restricted[] = {
    {NULL, {{0}}},
};

/* It reads the keys from files in memory. */
static const char *const keys_calls[] = {
    "pread64",
    NULL,
};

static const struct restricted_call keys_restricted[] = {
    {NULL, {{0}}},
};

/* It serves from the segment. The master holds the same listen sockets. */
static const char *const metrics_calls[] = {
    "accept4",
    NULL,
};

static const struct restricted_call metrics_restricted[] = {
    {NULL, {{0}}},
};

/* It connects to the authority by libcurl and glibc's resolver, and writes below one directory. */
static const char *const acme_calls[] = {
    "connect",    "getsockname", "getpeername", "getsockopt", "setsockopt",
    "sendmmsg",   "socketpair",  "uname",       "access",     "faccessat",
    "faccessat2", "pread64",     "getdents64",  "readlink",   "readlinkat",
    "flock",      "fsync",       "ftruncate",   "fallocate",  "rename",
    "renameat",   "renameat2",   "unlink",      "unlinkat",   NULL,
};

/* What creates and writes a file, besides reading. */
#define NOT_WRITING (NOT_READING & ~(unsigned int)(O_WRONLY | O_RDWR | O_CREAT | O_EXCL | O_TRUNC))

enum { NETLINK_ADDRESS_BYTES = 12 }; /* those of the Internet have 16 and 28 */

static const struct restricted_call acme_restricted[] = {
    {"socket", {{0, INT_MASK, AF_INET}}},
    {"socket", {{0, INT_MASK, AF_INET6}}},
    {"socket", {{0, INT_MASK, AF_UNIX}}}, /* the resolver looks for nscd */
    {"socket", {{0, INT_MASK, AF_NETLINK}}},
    {"bind", {{2, INT_MASK, NETLINK_ADDRESS_BYTES}}}, /* the resolver lists the interfaces */
    {"mmap",
     {{2, PROT_WRITE, 0}}}, /* the resolver loads its modules, whose code is never writable */
    {"openat", {{2, NOT_WRITING, 0}}},
    {"open", {{1, NOT_WRITING, 0}}},
    {"fcntl", {{1, INT_MASK, F_SETFL}}},
    {"ioctl", {{1, INT_MASK, FIONREAD}}},
    {"ioctl", {{1, INT_MASK, FIONBIO}}},
    {NULL, {{0}}},
};

const struct sandbox_profile sandbox_profiles[SANDBOX_ROLES] = {
    [SANDBOX_WORKER] = {"worker", worker_calls, worker_restricted, .writes_files = false},
    [SANDBOX_LOGGER] = {"logger", logger_calls, logger_restricted, .writes_files = true},
    [SANDBOX_KEYS] = {"keys process", keys_calls, keys_restricted, .writes_files = false},
    [SANDBOX_METRICS] = {"metrics process", metrics_calls, metrics_restricted,
                         .writes_files = false},
    [SANDBOX_ACME] = {"ACME process", acme_calls, acme_restricted, .writes_files = true,
                      .connects = true},
};
