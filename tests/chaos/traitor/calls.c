/* Attacks by system calls: what the sandbox forbids, and what it must make fail. */
#include "traitor.h"

#include "common/macros.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATH(text) (long)(uintptr_t)(text)

/* Each of these must end the process. */
static const struct {
    const char *name;
    long number, argument[4];
} forbidden[] = {
    {"socket", SYS_socket, {AF_INET, SOCK_STREAM}},
    {"UNIX socket", SYS_socket, {AF_UNIX, SOCK_STREAM}},
    {"connect", SYS_connect, {0}},
    {"bind", SYS_bind, {0}},
    {"listen", SYS_listen, {0}},
    {"fork", SYS_clone, {SIGCHLD}},
    {"execve", SYS_execve, {PATH("/bin/sh")}},
    {"ptrace", SYS_ptrace, {0}},
    {"kill", SYS_kill, {-1, 0}},
    {"tgkill of the master", SYS_tgkill, {1, 1, 0}},
    {"pidfd_open", SYS_pidfd_open, {1}},
    {"process_vm_writev", SYS_process_vm_writev, {1}},
    {"memfd_create", SYS_memfd_create, {PATH("traitor")}},
    {"ftruncate", SYS_ftruncate, {STDERR_FILENO}},
    {"fallocate", SYS_fallocate, {STDERR_FILENO, 0, 0, 4096}},
    {"unlinkat", SYS_unlinkat, {AT_FDCWD, PATH("/tmp/traitor")}},
    {"renameat2", SYS_renameat2, {AT_FDCWD, PATH("/tmp/a"), AT_FDCWD, PATH("/tmp/b")}},
    {"chmod", SYS_fchmodat, {AT_FDCWD, PATH("/tmp/traitor"), 0777}},
    {"mkdirat", SYS_mkdirat, {AT_FDCWD, PATH("/tmp/traitor"), 0777}},
    {"flock", SYS_flock, {0}},
    {"setuid", SYS_setuid, {0}},
    {"capset", SYS_capset, {0}},
    {"prctl", SYS_prctl, {4 /* PR_SET_DUMPABLE */, 1}},
    {"seccomp", SYS_seccomp, {0}},
    {"bpf", SYS_bpf, {0}},
    {"userfaultfd", SYS_userfaultfd, {0}},
    {"io_uring_setup", SYS_io_uring_setup, {1}},
    {"mount", SYS_mount, {0}},
    {"unshare", SYS_unshare, {CLONE_NEWUSER}},
    {"keyctl", SYS_keyctl, {0}},
    {"setrlimit", SYS_prlimit64, {0}},
    {"sched_setscheduler", SYS_sched_setscheduler, {1, SCHED_BATCH}},
    {"pages of the segment", SYS_madvise, {0, 4096, MADV_REMOVE}},
    {"other pages of a file", SYS_remap_file_pages, {0, 4096, 0, 1}},
    {"executable memory", SYS_mmap, {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS}},
};

const char *attack_forbidden_call(const struct traitor *traitor, struct chance *chance)
{
    size_t i = chance_below(chance, ARRAY_LENGTH(forbidden));
    const long *argument = forbidden[i].argument;

    (void)traitor;
    syscall(forbidden[i].number, argument[0], argument[1], argument[2], argument[3], 0, 0);
    return forbidden[i].name;
}

/* openat2(), because openat() for writing ends the process. */
static bool can_open(int directory, const char *path, uint64_t flags)
{
    struct open_how how = {.flags = flags, .mode = (flags & O_CREAT) != 0 ? 0600 : 0};
    long fd = syscall(SYS_openat2, directory, path, &how, sizeof(how));

    if (fd < 0 && errno == ENOSYS)
        fd = syscall(SYS_openat, directory, path, O_RDONLY);
    if (fd >= 0)
        close((int)fd);
    return fd >= 0;
}

const char *attack_refused_call(const struct traitor *traitor, struct chance *chance)
{
    int root = traitor->context->sites.site[0].root.fd;

    (void)chance;
    if (can_open(root, "new", O_WRONLY | O_CREAT) || can_open(root, "new", O_RDONLY | O_CREAT))
        return "a file was created";
    if (can_open(root, "f0", O_RDWR) || can_open(root, "f0", O_RDONLY | O_TRUNC))
        return "a file was opened for writing";
    if (can_open(AT_FDCWD, "/etc/passwd", O_RDONLY))
        return "a file outside the root was opened";
    if (can_open(AT_FDCWD, "/proc/self/mem", O_RDWR) ||
        can_open(AT_FDCWD, "/proc/self/maps", O_RDONLY))
        return "/proc was opened";
    return NULL;
}

/*
 * The doorbell stands for all descriptors whose state other processes share: listen sockets,
 * channels, connections that have moved. Each call must end the process.
 */
static const struct {
    const char *name;
    long number, argument[3]; /* after the descriptor */
} shared[] = {
    {"a filter on a socket", SYS_setsockopt, {SOL_SOCKET, SO_ATTACH_FILTER}},
    {"choice of the listen socket", SYS_setsockopt, {SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF}},
    {"TTL of a socket", SYS_setsockopt, {IPPROTO_IP, IP_TTL}},
    {"a blocking descriptor", SYS_fcntl, {F_SETFL, 0}},
    {"a blocking descriptor", SYS_ioctl, {FIONBIO}},
    {"shutdown of a listen socket", SYS_shutdown, {SHUT_RD}},
    {"connection by sendto", SYS_sendto, {0, 0, MSG_FASTOPEN}},
    {"connection by sendmsg", SYS_sendmsg, {0, MSG_FASTOPEN}},
};

const char *attack_shared_descriptor(const struct traitor *traitor, struct chance *chance)
{
    size_t i = chance_below(chance, ARRAY_LENGTH(shared));
    const long *argument = shared[i].argument;

    syscall(shared[i].number, traitor->doorbell, argument[0], argument[1], argument[2], 0, 0);
    return shared[i].name;
}
