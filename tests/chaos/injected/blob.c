#include "blob.h"

#include <asm/unistd.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>

/*
 * injected.py has the process enter here twice: for mmap(), after which it takes the process back at
 * the breakpoint, and for clone(), after which the new thread goes on with its order on its stack.
 */
__asm__(".globl _start\n"
        "_start: syscall\n"
        "test %rax, %rax\n"
        "jz 1f\n"
        "int3\n"
        "1: pop %rdi\n"
        "and $-16, %rsp\n"
        "call blob_main\n"
        "ud2\n");

static long call(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#define ADDRESS(pointer) ((long)(uintptr_t)(pointer))

static uint64_t now_ns(void)
{
    struct timespec now = {0};

    call(__NR_clock_gettime, CLOCK_MONOTONIC, ADDRESS(&now), 0, 0, 0, 0);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void pause_ns(long nanoseconds)
{
    struct timespec length = {nanoseconds / 1000000000, nanoseconds % 1000000000};

    call(__NR_nanosleep, ADDRESS(&length), 0, 0, 0, 0, 0);
}

static uint64_t next_random(uint64_t *state)
{
    uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

static void report_breach(struct blob_order *order, enum blob_breach breach, long detail)
{
    order->detail = detail;
    order->breach = breach;
}

/* What must fail, and does no harm to the process. */

static void try_paths(struct blob_order *order)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC};

    for (uint64_t i = 0; i < order->path_count; i++) {
        long path = ADDRESS(order->path[i]);
        long fd = call(__NR_openat2, AT_FDCWD, path, ADDRESS(&how), sizeof(how), 0, 0);

        if (fd < 0)
            fd = call(__NR_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0, 0, 0);
        if (fd < 0)
            continue;
        report_breach(order, BREACH_OPENED, (long)i);
        return;
    }
}

static void try_descriptors(struct blob_order *order)
{
    for (long fd = 0; fd < 1024; fd++) {
        struct stat status;

        status.st_ino = status.st_mode = 0;
        if (call(__NR_fstat, fd, ADDRESS(&status), 0, 0, 0, 0) == 0 &&
            status.st_ino == order->segment_inode && S_ISREG(status.st_mode)) {
            report_breach(order, BREACH_SEGMENT, fd);
            return;
        }
    }
}

/* The items are mappings of the segment: an old size of 0 makes another one of the same pages. */
static void try_mremap(struct blob_order *order)
{
    for (uint64_t i = 0; i < order->item_count; i++) {
        long at = (long)order->item[i].at, length = (long)order->item[i].value;
        long more = call(__NR_mremap, at, length, length + 4096, MREMAP_MAYMOVE, 0, 0);
        long copy = call(__NR_mremap, at, 0, length, MREMAP_MAYMOVE, 0, 0);

        if (more < 0 && copy < 0)
            continue;
        report_breach(order, BREACH_MREMAP, more);
        return;
    }
}

/* By which the control socket could be reached. */
static void try_unix_socket(struct blob_order *order)
{
    long fd = call(__NR_socket, AF_UNIX, SOCK_STREAM, 0, 0, 0, 0);

    if (fd >= 0)
        report_breach(order, BREACH_SOCKET, fd);
}

static void attack_open(struct blob_order *order)
{
    if (order->seed != 0)
        try_unix_socket(order);
    if (order->breach == 0)
        try_paths(order);
    if (order->breach == 0)
        try_descriptors(order);
    if (order->breach == 0)
        try_mremap(order);
    order->done++;
}

/* What must end the process. PID stands for another process of the server. */

enum { PID = -1000 };

static const struct {
    long number, argument[5];
} forbidden[] = {
    {__NR_kill, {PID, SIGKILL}},
    {__NR_tkill, {PID, SIGKILL}},
    {__NR_tgkill, {PID, PID, SIGKILL}},
    {__NR_rt_sigqueueinfo, {PID, SIGKILL}},
    {__NR_ptrace, {16 /* PTRACE_ATTACH */, PID}},
    {__NR_process_vm_readv, {PID}},
    {__NR_process_vm_writev, {PID}},
    {__NR_process_madvise, {PID}},
    {__NR_pidfd_open, {PID}},
    {__NR_pidfd_getfd, {0}},
    {__NR_pidfd_send_signal, {0}},
    {__NR_prlimit64, {PID, 7}},
    {__NR_sched_setaffinity, {PID}},
    {__NR_setpriority, {0, PID, 19}},
    {__NR_kcmp, {PID, PID}},
    {__NR_execve, {0}},
    {__NR_execveat, {0}},
    {__NR_fork, {0}},
    {__NR_vfork, {0}},
    {__NR_clone, {SIGCHLD}},
    {__NR_mmap, {0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1}},
    {__NR_mprotect, {0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC}},
    {__NR_pkey_mprotect, {0, 4096, PROT_READ | PROT_EXEC, -1}},
    {__NR_remap_file_pages, {0}},
    {__NR_memfd_create, {0}},
    {__NR_shmget, {1, 4096, 0600}},
    {__NR_userfaultfd, {0}},
    {__NR_io_uring_setup, {1}},
    {__NR_bpf, {0}},
    {__NR_perf_event_open, {0, PID}},
    {__NR_socket, {AF_PACKET, SOCK_RAW}},
    {__NR_socket, {AF_VSOCK, SOCK_STREAM}},
    {__NR_bind, {3, 0, 110}},
    {__NR_listen, {3, 16}},
    {__NR_shutdown, {3, SHUT_RDWR}},
    {__NR_prctl, {4 /* PR_SET_DUMPABLE */, 1}},
    {__NR_prctl, {0x59616d61 /* PR_SET_PTRACER */, PID}},
    {__NR_setuid, {0}},
    {__NR_unshare, {CLONE_NEWUSER}},
    {__NR_setns, {0}},
    {__NR_mount, {0}},
    {__NR_chmod, {0}},
    {__NR_link, {0}},
    {__NR_symlink, {0}},
    {__NR_mkdir, {0}},
    {__NR_mknod, {0}},
    {__NR_open_by_handle_at, {0}},
    {__NR_keyctl, {0}},
    {__NR_seccomp, {0}},
};

static void attack_forbidden(struct blob_order *order)
{
    uint64_t i = order->seed % (sizeof(forbidden) / sizeof(forbidden[0]));
    long argument[5];

    for (size_t k = 0; k < 5; k++)
        argument[k] = forbidden[i].argument[k] == PID
                          ? (long)order->pid[order->seed / 64 % order->pid_count]
                          : forbidden[i].argument[k];
    call(forbidden[i].number, argument[0], argument[1], argument[2], argument[3], argument[4], 0);
    report_breach(order, BREACH_CALL, forbidden[i].number);
}

/* Shared memory */

static void attack_store(struct blob_order *order)
{
    do {
        for (uint64_t i = 0; i < order->item_count; i++)
            *(volatile uint64_t *)order->item[i].at = order->item[i].value;
        order->done++;
        pause_ns(100 * 1000);
    } while (now_ns() < order->end_ns);
}

static void attack_scribble(struct blob_order *order)
{
    uint64_t state = order->seed;

    while (order->item_count > 0 && now_ns() < order->end_ns) {
        for (int i = 0; i < 256; i++) {
            uint64_t item = next_random(&state) % order->item_count;
            uint64_t word = next_random(&state) % (order->item[item].value / 8);
            uint64_t value = next_random(&state);

            ((volatile uint64_t *)order->item[item].at)[word] = value >> (value % 2 * 63 & value);
        }
        order->done++;
        pause_ns(100 * 1000);
    }
}

/* Writes a ring of log_ring.h, whose capacity is VALUE words, without regard for its consumer. */
static void append_record(const struct blob_order *order, uint64_t ring, uint64_t capacity)
{
    volatile uint64_t *claimed = (uint64_t *)ring, *head = claimed + 1, *word = claimed + 8;
    uint64_t count = order->bytes_length / 8, at = *head;

    *claimed = at + count;
    for (uint64_t i = 0; i < count; i++)
        word[(at + i) % capacity] = ((const uint64_t *)order->bytes)[i];
    *head = at + count;
}

static void attack_append(struct blob_order *order)
{
    while (now_ns() < order->end_ns)
        for (uint64_t i = 0; i < order->item_count; i++) {
            append_record(order, order->item[i].at, order->item[i].value);
            order->done++;
        }
}

/* Messages */

static bool send_packets(struct blob_order *order)
{
    bool sent = false;

    for (uint64_t k = 0; k < order->fd_count; k++)
        for (uint64_t i = 0; i < order->item_count; i++) {
            long packet = ADDRESS(order->bytes + order->item[i].at);
            long result = call(__NR_sendto, (long)order->fd[k], packet, (long)order->item[i].value,
                               MSG_DONTWAIT | MSG_NOSIGNAL, 0, 0);

            sent = sent || result >= 0;
            order->done += result >= 0;
        }
    return sent;
}

/* A signature with the number SEED: a message of the keys process is a kind, a number and bytes. */
static void count_answers(struct blob_order *order)
{
    enum { HEAD_BYTES = 16 };
    uint64_t answer[512];

    answer[1] = 0;
    for (uint64_t k = 0; k < order->fd_count; k++)
        while (call(__NR_recvfrom, (long)order->fd[k], ADDRESS(answer), sizeof(answer),
                    MSG_DONTWAIT, 0, 0) > HEAD_BYTES)
            order->answers += answer[1] == order->seed;
}

static void attack_send(struct blob_order *order)
{
    for (uint64_t round = 0; now_ns() < order->end_ns; round++) {
        bool sent = (order->rounds == 0 || round < order->rounds) && send_packets(order);

        if (order->rounds > 0)
            count_answers(order);
        if (!sent)
            pause_ns(1000 * 1000);
    }
}

/* Resources */

static void attack_threads(struct blob_order *order)
{
    enum { MANY = 3000, STACK_BYTES = 4096 };
    const long flags =
        CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    long stacks = call(__NR_mmap, 0, MANY * STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (int i = 0; i < MANY; i++) {
        long result;

        __asm__ volatile("syscall\n"
                         "test %%rax, %%rax\n"
                         "jnz 2f\n"
                         "1: push $0\n"
                         "push $1000\n"
                         "mov %%rsp, %%rdi\n"
                         "xor %%esi, %%esi\n"
                         "mov $35, %%eax\n" /* nanosleep() */
                         "syscall\n"
                         "jmp 1b\n"
                         "2:"
                         : "=a"(result)
                         : "a"(__NR_clone), "D"(flags), "S"(stacks + (i + 1) * STACK_BYTES), "d"(0)
                         : "rcx", "r11", "memory");
        if (result < 0)
            break;
        order->done++;
    }
    while (now_ns() < order->end_ns)
        pause_ns(1000 * 1000);
}

/* A file of the ACME process: the first SEED bytes. */
static void attack_save(struct blob_order *order)
{
    long fd = call(__NR_openat, AT_FDCWD, ADDRESS(order->path[0]), O_WRONLY | O_CREAT | O_TRUNC,
                   0600, 0, 0);
    long written = call(__NR_write, fd, ADDRESS(order->bytes), (long)order->seed, 0, 0, 0);

    call(__NR_close, fd, 0, 0, 0, 0, 0);
    order->answers = written > 0;
    send_packets(order);
}

static void run_attack(struct blob_order *order)
{
    switch (order->attack) {
    case BLOB_OPEN:
        attack_open(order);
        break;
    case BLOB_FORBIDDEN:
        attack_forbidden(order);
        break;
    case BLOB_STORE:
        attack_store(order);
        break;
    case BLOB_SCRIBBLE:
        attack_scribble(order);
        break;
    case BLOB_SEND:
        attack_send(order);
        break;
    case BLOB_THREADS:
        attack_threads(order);
        break;
    case BLOB_APPEND:
        attack_append(order);
        break;
    default:
        attack_save(order);
    }
}

/* The signals of the process are for its own threads. */
void blob_main(struct blob_order *order);
void blob_main(struct blob_order *order)
{
    uint64_t all = UINT64_MAX;

    call(__NR_rt_sigprocmask, SIG_BLOCK, ADDRESS(&all), 0, sizeof(all), 0, 0);
    run_attack(order);
    order->ended = 1;
    for (;;)
        pause_ns(1000 * 1000 * 1000);
}
