#include "daemon/sandbox/seccomp.h"

#include "common/macros.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sched.h>
#include <seccomp.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Names that this architecture lacks are skipped. */
static const char *const allowed[] = {
    /* connections */
    "accept4",
    "recvfrom",
    "recvmsg",
    "sendto",
    "sendmsg",
    "read",
    "write",
    "readv",
    "writev",
    "sendfile",
    "shutdown",
    "close",
    "getsockname",
    "getpeername",
    "getsockopt",
    "setsockopt",
    /* files, read only: Landlock and openat2 decide which */
    "openat2",
    "pread64",
    "preadv",
    "preadv2",
    "fstat",
    "newfstatat",
    "fstatat64",
    "statx",
    "lseek",
    "getdents64",
    "readlinkat",
    "fadvise64",
    "readahead",
    /* loops */
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
    "madvise",
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
};

/* A call that is allowed if (argument & mask) == value. */
struct restricted {
    const char *name;
    unsigned int argument;
    unsigned long mask, value;
};

static const struct restricted restricted[] = {
    /* no executable memory */
    {"mmap", 2, PROT_EXEC, 0},
    {"mprotect", 2, PROT_EXEC, 0},
    /* glibc opens files of its own: read only */
    {"openat", 2, O_ACCMODE, O_RDONLY},
    {"open", 1, O_ACCMODE, O_RDONLY},
    /* a thread, never a process */
    {"clone", 0, CLONE_THREAD, CLONE_THREAD},
    {"sched_setscheduler", 1, ~0UL, SCHED_OTHER},
    {"sched_setscheduler", 1, ~0UL, SCHED_BATCH},
    {"prctl", 0, ~0UL, PR_SET_NAME},
    {"prctl", 0, ~0UL, PR_SET_VMA},
    {"fcntl", 1, ~0UL, F_GETFL},
    {"fcntl", 1, ~0UL, F_SETFL},
    {"fcntl", 1, ~0UL, F_GETFD},
    {"fcntl", 1, ~0UL, F_SETFD},
    {"fcntl", 1, ~0UL, F_DUPFD_CLOEXEC},
    {"ioctl", 1, ~0UL, FIONREAD},
    {"ioctl", 1, ~0UL, SIOCOUTQ},
    {"ioctl", 1, ~0UL, FIONBIO},
    {"ioctl", 1, ~0UL, TCGETS},
};

bool seccomp_possible(void)
{
    return seccomp_api_get() >= 3;
}

static int allow(scmp_filter_ctx filter, const char *name)
{
    int call = seccomp_syscall_resolve_name(name);

    return call < 0 ? 0 : seccomp_rule_add_exact(filter, SCMP_ACT_ALLOW, call, 0);
}

static int allow_restricted(scmp_filter_ctx filter, const struct restricted *rule)
{
    const struct scmp_arg_cmp when =
        SCMP_CMP(rule->argument, SCMP_CMP_MASKED_EQ, rule->mask, rule->value);
    int call = seccomp_syscall_resolve_name(rule->name);

    return call < 0 ? 0 : seccomp_rule_add_exact_array(filter, SCMP_ACT_ALLOW, call, 1, &when);
}

/* Placeholder for the PID of the process that loads the filter; larger than any PID. */
enum { OWN_PID = 0x5e1f5e1f };

static int add_rules(scmp_filter_ctx filter)
{
    /* For abort() and raise(): signals to the process itself only. */
    int failed = seccomp_rule_add_exact(filter, SCMP_ACT_ALLOW, SCMP_SYS(tgkill), 1,
                                        SCMP_A0(SCMP_CMP_EQ, OWN_PID, 0));

    for (size_t i = 0; i < ARRAY_LENGTH(allowed) && failed == 0; i++)
        failed = allow(filter, allowed[i]);
    for (size_t i = 0; i < ARRAY_LENGTH(restricted) && failed == 0; i++)
        failed = allow_restricted(filter, &restricted[i]);
    /*
     * A filter cannot check the flags of clone3(), which are in memory; on ENOSYS glibc falls back
     * to clone().
     */
    return failed != 0
               ? failed
               : seccomp_rule_add_exact(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
}

/* The filter as a BPF program. A child inherits it and loads it without allocating. */
static struct sock_filter program[BPF_MAXINSNS];
static unsigned short program_length; /* 0: not prepared */

static int read_program(int fd)
{
    ssize_t got = pread(fd, program, sizeof(program), 0);
    size_t found = 0;

    if (got < 0)
        return -errno;
    for (size_t i = 0; i < (size_t)got / sizeof(program[0]); i++)
        found += program[i].k == OWN_PID;
    if (found != 1)
        return -EPROTO; /* the PID could not be filled in */
    program_length = (unsigned short)((size_t)got / sizeof(program[0]));
    return 0;
}

static int export_program(scmp_filter_ctx filter)
{
    int fd = memfd_create("filter", MFD_CLOEXEC);
    int failed;

    if (fd < 0)
        return -errno;
    failed = seccomp_export_bpf(filter, fd);
    if (failed == 0)
        failed = read_program(fd);
    close(fd);
    return failed;
}

int seccomp_prepare(void)
{
    /* SCMP_ACT_KILL would end only the thread and leave its connections open. */
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
    int failed;

    if (filter == NULL) {
        errno = ENOMEM;
        return -1;
    }
    /* Binary search over the system calls instead of a linear one. */
    failed = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (failed == 0)
        failed = add_rules(filter);
    if (failed == 0)
        failed = export_program(filter);
    seccomp_release(filter);
    errno = -failed;
    return failed == 0 ? 0 : -1;
}

int seccomp_enter(void)
{
    const struct sock_fprog filter = {program_length, program};

    for (size_t i = 0; i < program_length; i++)
        if (program[i].k == OWN_PID)
            program[i].k = (uint32_t)getpid();
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &filter);
}
