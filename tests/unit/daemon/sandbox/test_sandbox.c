#include "daemon/sandbox/sandbox.h"

#include "common/macros.h"
#include "daemon/sandbox/seccomp.h"
#include "tests/test.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The directory that may be read, with the file "inside"; the file "outside" is beside it. */
static char home[64], readable[80], outside[80];

/* A system call upon the parent, whose pid takes the place of PARENT. */
#define PARENT INT64_MIN

struct call_on_another {
    const char *name;
    long number;
    int64_t argument[4];
};

static void write_file(const char *path)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    fputs("text", file);
    fclose(file);
}

static int make_home(void **state)
{
    char inside[96];

    (void)state;
    snprintf(home, sizeof(home), "/tmp/sandbox-test-XXXXXX");
    if (mkdtemp(home) == NULL)
        return -1;
    snprintf(readable, sizeof(readable), "%s/readable", home);
    snprintf(outside, sizeof(outside), "%s/outside", home);
    snprintf(inside, sizeof(inside), "%s/inside", readable);
    if (mkdir(readable, 0755) != 0)
        return -1;
    write_file(inside);
    write_file(outside);
    return sandbox_prepare();
}

static int remove_home(void **state)
{
    char inside[96];

    (void)state;
    snprintf(inside, sizeof(inside), "%s/inside", readable);
    unlink(inside);
    unlink(outside);
    rmdir(readable);
    return rmdir(home);
}

const struct test_fixture test_group_fixture = {make_home, remove_home};

/* An operation in the sandbox. Returns 0 if it succeeded, or an errno. */
typedef int attempt(int directory);

/* Runs TRY in a child that may read PATH. Returns the status of waitpid(). */
static int in_sandbox_of(enum sandbox_role role, const char *path, attempt *try)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        int directory = open(path, O_PATH | O_CLOEXEC);

        if (directory < 0 || sandbox_restrict(role, &directory, 1, -1) != 0)
            _exit(255);
        _exit(try(directory));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static int in_sandbox(attempt *try)
{
    return in_sandbox_of(SANDBOX_WORKER, readable, try);
}

static bool is_killed(int status)
{
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS;
}

static int result_of(int value)
{
    return value >= 0 ? 0 : errno;
}

/* Allowed */

static int read_inside(int directory)
{
    char text[8];
    int fd = openat(directory, "inside", O_RDONLY | O_CLOEXEC);

    return fd < 0 ? errno : read(fd, text, sizeof(text)) == 4 ? 0 : EIO;
}

static void *count_up(void *counter)
{
    ++*(int *)counter;
    return NULL;
}

static int make_a_thread(int directory)
{
    pthread_t thread;
    int counter = 0, failed;

    (void)directory;
    failed = pthread_create(&thread, NULL, count_up, &counter);
    if (failed == 0)
        failed = pthread_join(thread, NULL);
    return failed != 0 ? failed : counter == 1 ? 0 : EIO;
}

static int allocate_much(int directory)
{
    char *bytes = malloc(64 << 20);

    (void)directory;
    if (bytes == NULL)
        return ENOMEM;
    bytes[1 << 20] = 1;
    free(bytes);
    return result_of(eventfd(0, EFD_CLOEXEC));
}

/* Denied by Landlock: an errno */

static int open_outside(int directory)
{
    (void)directory;
    return result_of(open(outside, O_RDONLY | O_CLOEXEC));
}

static int open_outside_by_dots(int directory)
{
    return result_of(openat(directory, "../outside", O_RDONLY | O_CLOEXEC));
}

static int list_the_root(int directory)
{
    (void)directory;
    return result_of(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
}

/* Killed by seccomp */

static int make_a_socket(int directory)
{
    (void)directory;
    return result_of(socket(AF_INET, SOCK_STREAM, 0));
}

static int start_a_program(int directory)
{
    char *const words[] = {"true", NULL};

    (void)directory;
    return result_of(execv("/bin/true", words));
}

static int make_a_process(int directory)
{
    (void)directory;
    return result_of(fork());
}

static int map_a_program(int directory)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)directory;
    return page == MAP_FAILED ? errno : 0;
}

static int make_memory_executable(int directory)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)directory;
    return page == MAP_FAILED ? EIO : result_of(mprotect(page, 4096, PROT_READ | PROT_EXEC));
}

static int become_root(int directory)
{
    (void)directory;
    return result_of(setuid(0));
}

static int raise_its_limits(int directory)
{
    const struct rlimit limit = {1 << 20, 1 << 20};

    (void)directory;
    return result_of(setrlimit(RLIMIT_CORE, &limit));
}

static bool can(bool landlock, bool seccomp)
{
    struct sandbox_features features = sandbox_features();

    return features.built && (!landlock || features.landlock > 0) && (!seccomp || features.seccomp);
}

TEST(operations_of_serving_succeed)
{
    static attempt *const attempts[] = {read_inside, make_a_thread, allocate_much};

    for (size_t i = 0; i < ARRAY_LENGTH(attempts); i++) {
        int status = in_sandbox(attempts[i]);

        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

TEST(file_outside_is_denied)
{
    static attempt *const attempts[] = {open_outside, open_outside_by_dots, list_the_root};

    if (!can(true, false))
        skip();
    for (size_t i = 0; i < ARRAY_LENGTH(attempts); i++) {
        int status = in_sandbox(attempts[i]);

        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EACCES);
    }
}

TEST(unlisted_system_call_kills_the_process)
{
    static attempt *const attempts[] = {make_a_socket,   start_a_program,        make_a_process,
                                        map_a_program,   make_memory_executable, become_root,
                                        raise_its_limits};

    if (!can(false, true))
        skip();
    for (size_t i = 0; i < ARRAY_LENGTH(attempts); i++) {
        int status = in_sandbox(attempts[i]);

        if (!is_killed(status))
            fail_msg("attempt %zu was not ended: status %#x", i, (unsigned)status);
        assert_false(WCOREDUMP(status));
    }
}

/* What can end, stop, trace, read, slow down or signal another process of the same user. */
static const struct call_on_another calls_on_another[] = {
    {"kill", SYS_kill, {PARENT}},
    {"kill of all", SYS_kill, {-1}},
    {"tkill", SYS_tkill, {PARENT}},
    {"tgkill", SYS_tgkill, {PARENT, PARENT}},
    {"rt_sigqueueinfo", SYS_rt_sigqueueinfo, {PARENT}},
    {"rt_tgsigqueueinfo", SYS_rt_tgsigqueueinfo, {PARENT, PARENT}},
    {"pidfd_open", SYS_pidfd_open, {PARENT}},
    {"pidfd_send_signal", SYS_pidfd_send_signal, {3}},
    {"pidfd_getfd", SYS_pidfd_getfd, {3}},
    {"attach", SYS_ptrace, {PTRACE_ATTACH, PARENT}},
    {"seize", SYS_ptrace, {PTRACE_SEIZE, PARENT}},
    {"process_vm_readv", SYS_process_vm_readv, {PARENT}},
    {"process_vm_writev", SYS_process_vm_writev, {PARENT}},
    {"process_madvise", SYS_process_madvise, {3}},
    {"kcmp", SYS_kcmp, {PARENT, PARENT}},
    {"prlimit64", SYS_prlimit64, {PARENT, RLIMIT_NOFILE}},
    {"setpriority", SYS_setpriority, {PRIO_PROCESS, PARENT, 19}},
    {"ioprio_set", SYS_ioprio_set, {1, PARENT}},
    {"sched_setaffinity", SYS_sched_setaffinity, {PARENT}},
    {"sched_setparam", SYS_sched_setparam, {PARENT}},
    {"sched_setattr", SYS_sched_setattr, {PARENT}},
    {"sched_setscheduler", SYS_sched_setscheduler, {PARENT, SCHED_IDLE}},
    {"migrate_pages", SYS_migrate_pages, {PARENT}},
    {"move_pages", SYS_move_pages, {PARENT}},
    {"perf_event_open", SYS_perf_event_open, {0, PARENT, -1, -1}},
    {"get_robust_list", SYS_get_robust_list, {PARENT}},
    {"timer_create", SYS_timer_create, {CLOCK_MONOTONIC}},
    {"setpgid", SYS_setpgid, {PARENT}},
    {"setsid", SYS_setsid, {0}},
    {"F_SETOWN", SYS_fcntl, {0, F_SETOWN, PARENT}},
    {"F_SETOWN_EX", SYS_fcntl, {0, F_SETOWN_EX}},
    {"F_SETSIG", SYS_fcntl, {0, F_SETSIG, SIGKILL}},
    {"F_NOTIFY", SYS_fcntl, {0, F_NOTIFY}},
    {"FIOSETOWN", SYS_ioctl, {0, FIOSETOWN}},
    {"SIOCSPGRP", SYS_ioctl, {0, SIOCSPGRP}},
    {"TIOCSPGRP", SYS_ioctl, {0, TIOCSPGRP}},
    {"TIOCSTI", SYS_ioctl, {0, TIOCSTI}},
    {"io_uring_setup", SYS_io_uring_setup, {1}},
};

static const struct call_on_another *next_call;

static int call_on_parent(int directory)
{
    long argument[4];

    (void)directory;
    for (size_t i = 0; i < ARRAY_LENGTH(argument); i++)
        argument[i] = (long)(next_call->argument[i] == PARENT ? getppid() : next_call->argument[i]);
    return result_of(
        (int)syscall(next_call->number, argument[0], argument[1], argument[2], argument[3]));
}

TEST(no_process_can_act_on_another)
{
    if (!can(false, true))
        skip();
    for (int role = 0; role < SANDBOX_ROLES; role++)
        for (size_t i = 0; i < ARRAY_LENGTH(calls_on_another); i++) {
            int status;

            next_call = &calls_on_another[i];
            status = in_sandbox_of((enum sandbox_role)role, readable, call_on_parent);
            if (!is_killed(status))
                fail_msg("a %s can call %s: status %#x", sandbox_profiles[role].name,
                         next_call->name, (unsigned)status);
        }
}

/* The system call number that the next attempt makes, with arguments that do not matter. */
static long number_to_call;

static int call_number(int directory)
{
    return result_of((int)syscall(number_to_call, directory, "inside", 0, 0, 0));
}

TEST(system_call_that_changes_files_kills_the_process)
{
    static const long numbers[] = {
        SYS_ftruncate,
        SYS_fallocate,
        SYS_fchmod,
        SYS_fchmodat,
        SYS_fchown,
        SYS_fchownat,
        SYS_linkat,
        SYS_symlinkat,
        SYS_renameat2,
        SYS_mkdirat,
        SYS_unlinkat,
        SYS_mknodat,
        SYS_utimensat,
        SYS_fsetxattr,
        SYS_fremovexattr,
        SYS_pwrite64,
        SYS_pwritev2,
        SYS_splice,
        SYS_copy_file_range,
        SYS_memfd_create,
        SYS_mount,
        SYS_io_uring_setup,
        SYS_open_by_handle_at,
        SYS_pkey_mprotect,
        SYS_process_vm_readv,
        SYS_bpf,
        SYS_userfaultfd,
        SYS_setns,
        SYS_unshare,
    };

    if (!can(false, true))
        skip();
    for (size_t i = 0; i < ARRAY_LENGTH(numbers); i++) {
        int status;

        number_to_call = numbers[i];
        status = in_sandbox(call_number);
        if (!is_killed(status))
            fail_msg("system call %ld does not end the process: status %#x", numbers[i],
                     (unsigned)status);
    }
}

/* A call with harmless arguments and one with harmful ones; both on a new pair of sockets. */
static const struct arguments {
    const char *name;
    long number, harmless[4], harmful[4];
} shared_calls[] = {
    {"shutdown", SYS_shutdown, {SHUT_WR}, {SHUT_RD}},
    {"shutdown", SYS_shutdown, {SHUT_WR}, {SHUT_RDWR}},
    {"F_SETFL", SYS_fcntl, {F_SETFL, O_NONBLOCK}, {F_SETFL, 0}},
    {"setsockopt", SYS_setsockopt, {IPPROTO_TCP, TCP_NOTSENT_LOWAT}, {IPPROTO_TCP, TCP_NODELAY}},
    {"setsockopt",
     SYS_setsockopt,
     {IPPROTO_TCP, TCP_NOTSENT_LOWAT},
     {SOL_SOCKET, SO_ATTACH_FILTER}},
    {"FIONBIO", SYS_ioctl, {FIONREAD}, {FIONBIO}},
    {"sendto", SYS_sendto, {0, 0, MSG_NOSIGNAL}, {0, 0, MSG_FASTOPEN}},
    {"sendmsg", SYS_sendmsg, {0, 0}, {0, MSG_FASTOPEN}},
};

static int open_socket = -1;
static void *shared_page;
static const struct arguments *arguments;
static const long *chosen_arguments;

static int call_on_a_socket(int directory)
{
    (void)directory;
    syscall(arguments->number, open_socket, chosen_arguments[0], chosen_arguments[1],
            chosen_arguments[2], chosen_arguments[3], 0);
    return 0;
}

TEST(call_that_harms_other_holders_of_a_socket_kills_the_process)
{
    int pair[2];

    if (!can(false, true))
        skip();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    open_socket = pair[0];
    for (size_t i = 0; i < ARRAY_LENGTH(shared_calls); i++) {
        int harmless, harmful;

        arguments = &shared_calls[i];
        chosen_arguments = arguments->harmless;
        harmless = in_sandbox(call_on_a_socket);
        chosen_arguments = arguments->harmful;
        harmful = in_sandbox(call_on_a_socket);
        if (!WIFEXITED(harmless) || !is_killed(harmful))
            fail_msg("%s: status %#x, then %#x", arguments->name, (unsigned)harmless,
                     (unsigned)harmful);
    }
    close(pair[0]);
    close(pair[1]);
}

static int free_a_shared_page(int directory)
{
    (void)directory;
    return result_of(madvise(shared_page, 4096, MADV_REMOVE));
}

TEST(freeing_shared_memory_kills_the_process)
{
    int status;

    if (!can(false, true))
        skip();
    shared_page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared_page, MAP_FAILED);
    status = in_sandbox(free_a_shared_page);
    munmap(shared_page, 4096);
    assert_true(is_killed(status));
}

/* The flags of the next attempt to open a file. */
static int flags_to_open;

static int open_with_flags(int directory)
{
    return result_of(openat(directory, "inside", flags_to_open, 0600));
}

TEST(opening_a_file_for_more_than_reading_kills_the_process)
{
    static const int flags[] = {O_WRONLY,  O_RDWR,   O_CREAT | O_RDWR,
                                O_CREAT,   O_TRUNC,  O_APPEND,
                                O_TMPFILE, O_DIRECT, O_CREAT | O_EXCL | O_CLOEXEC};

    if (!can(false, true))
        skip();
    for (size_t i = 0; i < ARRAY_LENGTH(flags); i++) {
        int status;

        flags_to_open = flags[i];
        status = in_sandbox(open_with_flags);
        if (!is_killed(status))
            fail_msg("openat() with flags %#x does not end the process: status %#x",
                     (unsigned)flags[i], (unsigned)status);
    }
}

static int open_by_openat2(int directory)
{
    struct open_how how = {.flags = O_RDONLY | O_CLOEXEC, .resolve = RESOLVE_BENEATH};

    return result_of((int)syscall(SYS_openat2, directory, "inside", &how, sizeof(how)));
}

/* As on a kernel whose Landlock does not control all flags. */
TEST(openat2_is_missing_where_its_flags_are_not_controlled)
{
    int status;

    if (!can(false, true))
        skip();
    assert_int_equal(seccomp_prepare(SANDBOX_WORKER, false), 0);
    status = in_sandbox(open_by_openat2);
    assert_int_equal(sandbox_prepare(), 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), ENOSYS);
}

/* Standard error, for one, may be a file. */
static int open_file = -1;

static int append_to_open_file(int directory)
{
    (void)directory;
    return result_of((int)write(open_file, "text", 4));
}

TEST(open_file_cannot_grow)
{
    int status;

    if (!can(false, false))
        skip();
    open_file = open(outside, O_WRONLY | O_APPEND | O_CLOEXEC);
    assert_true(open_file >= 0);
    status = in_sandbox(append_to_open_file);
    close(open_file);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), EFBIG);
}

/* The files in /proc of a process that is not dumpable belong to root. */
TEST(other_processes_of_its_user_cannot_read_its_memory)
{
    int pair[2], status, directory = open(readable, O_PATH | O_DIRECTORY | O_CLOEXEC);
    struct stat files;
    char path[32], byte;
    pid_t child;

    if (!can(false, false))
        skip();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    child = fork();
    if (child == 0) {
        close(pair[0]);
        if ((geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) ||
            prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0 ||
            sandbox_restrict(SANDBOX_WORKER, &directory, 1, -1) != 0 || write(pair[1], "", 1) != 1)
            _exit(1);
        _exit((int)read(pair[1], &byte, 1));
    }
    close(pair[1]);
    snprintf(path, sizeof(path), "/proc/%d/mem", (int)child);
    assert_int_equal(read(pair[0], &byte, 1), 1);
    assert_int_equal(stat(path, &files), 0);
    close(pair[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(files.st_uid, 0);
    close(directory);
}

#ifdef __x86_64__

/* A system call of the 32-bit architecture: getpid(). */
static void *call_as_i386(void *unused)
{
    long result = 20;

    __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return unused;
}

static int call_as_i386_on_a_thread(int directory)
{
    pthread_t thread;

    (void)directory;
    if (pthread_create(&thread, NULL, call_as_i386, NULL) != 0)
        return EAGAIN;
    return pthread_join(thread, NULL);
}

TEST(foreign_system_call_kills_the_process)
{
    int status;

    if (!can(false, true))
        skip();
    status = in_sandbox(call_as_i386_on_a_thread);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV)
        skip(); /* a kernel without 32-bit programs */
    assert_true(is_killed(status));
}

#endif

/* An unlisted call in a thread other than the main thread kills the whole process. */
static void *kill_from_a_thread(void *unused)
{
    socket(AF_INET, SOCK_STREAM, 0);
    return unused;
}

static int misbehave_on_a_thread(int directory)
{
    pthread_t thread;

    (void)directory;
    if (pthread_create(&thread, NULL, kill_from_a_thread, NULL) != 0)
        return EAGAIN;
    return pthread_join(thread, NULL);
}

TEST(unlisted_call_in_a_thread_kills_the_process)
{
    int status;

    if (!can(false, true))
        skip();
    status = in_sandbox(misbehave_on_a_thread);
    assert_true(is_killed(status));
}

/*
 * Other kernels: runs STEP in a child in which system call CALL fails with ERROR, always or WHEN.
 */
static void expect_success_if_call_fails(int (*step)(void), int call, int error,
                                         const struct scmp_arg_cmp *when)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

        if (filter == NULL ||
            seccomp_rule_add_array(filter, SCMP_ACT_ERRNO((uint32_t)error), call, when != NULL,
                                   when) != 0 ||
            seccomp_load(filter) != 0)
            _exit(2);
        _exit(step());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int prepare(void)
{
    return sandbox_prepare() == 0 ? 0 : 1;
}

/* Linux 6.3 to 6.5 with sysctl vm.memfd_noexec = 2; and before 6.3, which do not know the flag. */
TEST(filter_is_built_whatever_memory_files_the_kernel_allows)
{
    enum { NOEXEC_SEAL = 8 };
    const struct scmp_arg_cmp without = SCMP_CMP(1, SCMP_CMP_MASKED_EQ, NOEXEC_SEAL, 0),
                              with = SCMP_CMP(1, SCMP_CMP_MASKED_EQ, NOEXEC_SEAL, NOEXEC_SEAL);

    expect_success_if_call_fails(prepare, SCMP_SYS(memfd_create), EACCES, &without);
    expect_success_if_call_fails(prepare, SCMP_SYS(memfd_create), EINVAL, &with);
}

static int count_open(void)
{
    int count = 0;

    for (int fd = 0; fd < 128; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST(preparing_a_filter_leaves_no_descriptor_open)
{
    int before = count_open();

    if (!can(false, true))
        skip();
    assert_int_equal(seccomp_prepare(SANDBOX_WORKER, true), 0);
    assert_int_equal(count_open(), before);
}

/* Allocates all memory below RLIMIT_AS, in ever smaller pieces. */
static void use_memory_up(void)
{
    const struct rlimit little = {64 << 20, 64 << 20};

    setrlimit(RLIMIT_AS, &little);
    for (size_t piece = 1 << 20; piece > 0; piece /= 2)
        while (malloc(piece) != NULL)
            continue;
}

/* A worker may replace one that died for lack of memory, so entering must not allocate. */
TEST(entering_needs_no_memory)
{
    int status;
    pid_t child;

    if (!can(true, true))
        skip();
    child = fork();
    if (child == 0) {
        int directory = open(readable, O_PATH | O_DIRECTORY | O_CLOEXEC);

        use_memory_up();
        if (directory < 0 || sandbox_restrict(SANDBOX_WORKER, &directory, 1, -1) != 0)
            _exit(255);
        _exit(make_a_socket(directory));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(is_killed(status));
}

static int abort_itself(int directory)
{
    (void)directory;
    abort();
}

/* The filter was prepared by another process, with another PID. */
TEST(process_can_signal_itself)
{
    int status;

    if (!can(false, true))
        skip();
    status = in_sandbox(abort_itself);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

/* --- The ACME process --- */

static int read_outside(int path)
{
    (void)path;
    return result_of(open(outside, O_RDONLY | O_CLOEXEC));
}

static int read_inside_by_path(int path)
{
    char inside[96];

    (void)path;
    snprintf(inside, sizeof(inside), "%s/inside", readable);
    return result_of(open(inside, O_RDONLY | O_CLOEXEC));
}

/* Such as /etc/resolv.conf, but not a key beside it. */
TEST(single_file_may_be_read)
{
    if (!can(true, false))
        skip();
    assert_int_equal(in_sandbox_of(SANDBOX_ACME, outside, read_outside), 0);
    assert_int_equal(WEXITSTATUS(in_sandbox_of(SANDBOX_ACME, outside, read_inside_by_path)),
                     EACCES);
}

static int make_a_unix_socket(int path)
{
    (void)path;
    return result_of(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

static int make_a_stream_pair(int path)
{
    int pair[2];

    (void)path;
    return result_of(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair));
}

/* One of these can be connected to another address. */
static int make_a_datagram_pair(int path)
{
    int pair[2];

    (void)path;
    return result_of(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair));
}

static int make_an_internet_socket(int path)
{
    (void)path;
    return result_of(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
}

TEST(acme_process_connects_to_no_local_service)
{
    int status;

    if (!can(false, true))
        skip();
    assert_int_equal(in_sandbox_of(SANDBOX_ACME, readable, make_an_internet_socket), 0);
    assert_int_equal(in_sandbox_of(SANDBOX_ACME, readable, make_a_stream_pair), 0);
    assert_int_equal(WEXITSTATUS(in_sandbox_of(SANDBOX_ACME, readable, make_a_unix_socket)),
                     EACCES);
    status = in_sandbox_of(SANDBOX_ACME, readable, make_a_datagram_pair);
    assert_true(is_killed(status));
    status = in_sandbox_of(SANDBOX_WORKER, readable, make_a_unix_socket);
    assert_true(is_killed(status));
}

/* --- The environment --- */

/* Returns whether only the ACME process has the proxy, and nobody the secret. */
static bool enter_with_secrets(enum sandbox_role role)
{
    static char secret[] = "SECRET=swordfish", proxy[] = "https_proxy=http://u:p@proxy",
                zone[] = "TZ=UTC";
    const struct config config = {.server_user = "", .server_group = "", .server_jail = JAIL_OFF};
    const struct sandbox_setup setup = {.role = role, .config = &config};

    putenv(secret);
    putenv(proxy);
    putenv(zone);
    return sandbox_enter(&setup) == 0 && getenv("SECRET") == NULL && secret[0] == '\0' &&
           secret[sizeof(secret) - 2] == '\0' && getenv("TZ") != NULL && getenv("PATH") == NULL &&
           (getenv("https_proxy") != NULL) == (role == SANDBOX_ACME) &&
           (proxy[0] != '\0') == (role == SANDBOX_ACME);
}

TEST(environment_of_the_master_is_overwritten)
{
    for (int role = 0; role < SANDBOX_ROLES; role++) {
        int status;
        pid_t child = fork();

        if (child == 0)
            _exit(enter_with_secrets((enum sandbox_role)role) ? 0 : 1);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
    }
}
