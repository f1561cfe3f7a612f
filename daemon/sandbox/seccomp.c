#include "daemon/sandbox/seccomp.h"

#include "daemon/base/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Profiles */

/* True if (argument & mask) == value; so an omitted one is always true. */
struct call_condition {
    unsigned int argument;
    uint64_t mask, value;
};

/* A system call that is allowed if both conditions are true. They are for different arguments. */
struct restricted_call {
    const char *name; /* NULL ends a list */
    struct call_condition when[2];
};

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

/*
 * What every process of the daemon needs for memory, threads, event loop and time. Names that this
 * architecture lacks are skipped. openat2() is missing here and in the profiles: see add_filter_rules().
 */
static const char *const common_calls[] = {
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

static const struct restricted_call common_restricted[] = {
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
    "connect",  "getsockname", "getpeername", "getsockopt", "setsockopt", "sendmmsg",
    "uname",    "access",      "faccessat",   "faccessat2", "pread64",    "getdents64",
    "readlink", "readlinkat",  "flock",       "fsync",      "ftruncate",  "fallocate",
    "rename",   "renameat",    "renameat2",   "unlink",     "unlinkat",   NULL,
};

/* What creates and writes a file, besides reading. */
#define NOT_WRITING (NOT_READING & ~(unsigned int)(O_WRONLY | O_RDWR | O_CREAT | O_EXCL | O_TRUNC))

enum { NETLINK_ADDRESS_BYTES = 12 }; /* those of the Internet have 16 and 28 */
enum { SOCKET_TYPE_MASK = 0xf };

static const struct restricted_call acme_restricted[] = {
    {"socket", {{0, INT_MASK, AF_INET}}},
    {"socket", {{0, INT_MASK, AF_INET6}}},
    {"socketpair", {{1, SOCKET_TYPE_MASK, SOCK_STREAM}}}, /* cannot be connected elsewhere */
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
    [SANDBOX_PARSER] = {"process that reads keys", keys_calls, keys_restricted,
                        .writes_files = true},
    [SANDBOX_ACME] = {"ACME process", acme_calls, acme_restricted, .writes_files = true,
                      .connects = true},
};

/* Filters */

bool seccomp_possible(void)
{
    return seccomp_api_get() >= 3;
}

static int allow_restricted(scmp_filter_ctx filter, const struct restricted_call *rule)
{
    const struct call_condition *when = &rule->when[0], *and = &rule->when[1];
    const struct scmp_arg_cmp both[] = {
        SCMP_CMP(when->argument, SCMP_CMP_MASKED_EQ, when->mask, when->value),
        SCMP_CMP(and->argument, SCMP_CMP_MASKED_EQ, and->mask, and->value),
    };
    unsigned int count = and->mask != 0 ? 2 : 1;
    int call = seccomp_syscall_resolve_name(rule->name);

    return call < 0 ? 0 : seccomp_rule_add_exact_array(filter, SCMP_ACT_ALLOW, call, count, both);
}

static int allow_all(scmp_filter_ctx filter, const char *const *calls,
                     const struct restricted_call *restricted)
{
    int failed = 0;

    for (; *calls != NULL && failed == 0; calls++) {
        int call = seccomp_syscall_resolve_name(*calls);

        if (call >= 0)
            failed = seccomp_rule_add_exact(filter, SCMP_ACT_ALLOW, call, 0);
    }
    for (; restricted->name != NULL && failed == 0; restricted++)
        failed = allow_restricted(filter, restricted);
    return failed;
}

/* Placeholder for the PID of the process that loads the filter; larger than any PID. */
enum { OWN_PID = 0x5e1f5e1f };

/*
 * A filter cannot check flags that are in memory. On ENOSYS glibc falls back from clone3() to
 * clone(), and files_open() from openat2() to openat(), whose flags are arguments. mremap() could
 * extend a mapping of the segment over the pages of others; without it realloc() copies.
 */
static int add_filter_rules(scmp_filter_ctx filter, const struct sandbox_profile *profile,
                            bool allow_openat2)
{
    const uint32_t missing = SCMP_ACT_ERRNO(ENOSYS);
    /* For abort() and raise(): signals to the process itself only. */
    int failed = seccomp_rule_add_exact(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                                        SCMP_A0(SCMP_CMP_EQ, OWN_PID, 0));

    if (failed == 0)
        failed = allow_all(filter, common_calls, common_restricted);
    if (failed == 0)
        failed = allow_all(filter, profile->calls, profile->restricted);
    if (failed == 0 && profile->connects) /* the resolver looks for nscd */
        failed = seccomp_rule_add_exact(filter, SCMP_ACT_ERRNO(EACCES), SCMP_SYS(socket), 1,
                                        SCMP_A0(SCMP_CMP_MASKED_EQ, INT_MASK, AF_UNIX));
    if (failed == 0)
        failed = seccomp_rule_add_exact(filter, missing, SCMP_SYS(clone3), 0);
    if (failed == 0)
        failed = seccomp_rule_add_exact(filter, missing, SCMP_SYS(mremap), 0);
    if (failed == 0)
        failed = seccomp_rule_add_exact(filter, allow_openat2 ? SCMP_ACT_ALLOW : missing,
                                        SCMP_SYS(openat2), 0);
    return failed;
}

/* A filter as a BPF program. A child inherits it and loads it without allocating. */
struct program {
    struct sock_filter code[BPF_MAXINSNS];
    unsigned short length; /* 0: not prepared */
};

static struct program programs[SANDBOX_ROLES];

static int read_program(int fd, struct program *program)
{
    ssize_t got = pread(fd, program->code, sizeof(program->code), 0);
    size_t found = 0, length;

    if (got < 0)
        return -errno;
    length = (size_t)got / sizeof(program->code[0]);
    for (size_t i = 0; i < length; i++)
        found += program->code[i].k == OWN_PID;
    if (found != 1)
        return -EPROTO; /* the PID could not be filled in */
    program->length = (unsigned short)length;
    return 0;
}

static int export_program(scmp_filter_ctx filter, struct program *program)
{
    int fd = memory_file_open("filter");
    int failed;

    if (fd < 0)
        return -errno;
    failed = seccomp_export_bpf(filter, fd);
    if (failed == 0)
        failed = read_program(fd, program);
    close(fd);
    return failed;
}

/* SCMP_ACT_KILL would end only the thread and leave its connections open. */
int seccomp_prepare(enum sandbox_role role, bool allow_openat2)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    int failed;

    if (filter == NULL) {
        errno = ENOMEM;
        return -1;
    }
    failed = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    if (failed == 0) /* binary search over the system calls instead of a linear one */
        failed = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (failed == 0)
        failed = add_filter_rules(filter, &sandbox_profiles[role], allow_openat2);
    if (failed == 0)
        failed = export_program(filter, &programs[role]);
    seccomp_release(filter);
    errno = -failed;
    return failed == 0 ? 0 : -1;
}

int seccomp_enter(enum sandbox_role role)
{
    struct program *program = &programs[role];
    const struct sock_fprog filter = {program->length, program->code};

    for (size_t i = 0; i < program->length; i++)
        if (program->code[i].k == OWN_PID)
            program->code[i].k = (uint32_t)getpid();
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
}
