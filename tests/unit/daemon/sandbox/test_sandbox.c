#include "daemon/sandbox/sandbox.h"

#include "common/macros.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* The directory that may be read, with the file "inside"; the file "outside" is beside it. */
static char home[64], readable[80], outside[80];

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

/* An operation in the sandbox. Returns 0 if it succeeded, or an errno. */
typedef int attempt(int directory);

/* Runs TRY in a sandboxed child. Returns the status of waitpid(). */
static int in_sandbox(attempt *try)
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        int directory = open(readable, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (directory < 0 || sandbox_restrict(&directory, 1) != 0)
            _exit(255);
        _exit(try(directory));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
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

static int write_inside(int directory)
{
    return result_of(openat(directory, "inside", O_WRONLY | O_CLOEXEC));
}

static int make_a_file(int directory)
{
    return result_of(openat(directory, "new", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
}

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

static int end_its_parent(int directory)
{
    (void)directory;
    return result_of(kill(getppid(), 0));
}

static int signal_its_parent(int directory)
{
    (void)directory;
    return result_of((int)syscall(SYS_tgkill, getppid(), getppid(), 0));
}

static int look_into_another(int directory)
{
    (void)directory;
    return result_of((int)ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
}

static int map_a_program(int directory)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    (void)directory;
    return page == MAP_FAILED ? errno : 0;
}

static int become_root(int directory)
{
    (void)directory;
    return result_of(setuid(0));
}

static int remove_a_file(int directory)
{
    return result_of(unlinkat(directory, "inside", 0));
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

static void operations_of_serving_succeed(void **state)
{
    static attempt *const attempts[] = {read_inside, make_a_thread, allocate_much};

    (void)state;
    for (size_t i = 0; i < ARRAY_LENGTH(attempts); i++) {
        int status = in_sandbox(attempts[i]);

        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

static void file_outside_is_denied(void **state)
{
    static attempt *const attempts[] = {open_outside, open_outside_by_dots, list_the_root};

    (void)state;
    if (!can(true, false))
        skip();
    for (size_t i = 0; i < ARRAY_LENGTH(attempts); i++) {
        int status = in_sandbox(attempts[i]);

        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), EACCES);
    }
}

static void unlisted_system_call_kills_the_process(void **state)
{
    static attempt *const attempts[] = {write_inside,      make_a_file,       make_a_socket,
                                        start_a_program,   make_a_process,    end_its_parent,
                                        signal_its_parent, look_into_another, map_a_program,
                                        become_root,       remove_a_file,     raise_its_limits};

    (void)state;
    if (!can(false, true))
        skip();
    for (size_t i = 0; i < ARRAY_LENGTH(attempts); i++) {
        int status = in_sandbox(attempts[i]);

        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGSYS)
            fail_msg("attempt %zu was not ended: status %#x", i, (unsigned)status);
        assert_false(WCOREDUMP(status));
    }
}

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

static void unlisted_call_in_a_thread_kills_the_process(void **state)
{
    int status;

    (void)state;
    if (!can(false, true))
        skip();
    status = in_sandbox(misbehave_on_a_thread);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSYS);
}

static void descriptors_not_kept_are_closed(void **state)
{
    int status;
    pid_t child;

    (void)state;
    child = fork();
    if (child == 0) {
        int high = fcntl(STDERR_FILENO, F_DUPFD, 200);
        int low = fcntl(STDERR_FILENO, F_DUPFD, 100), between = fcntl(STDERR_FILENO, F_DUPFD, 150);
        int keep[] = {high, -1, low, low};

        sandbox_close_others(keep, ARRAY_LENGTH(keep));
        _exit(fcntl(high, F_GETFD) >= 0 && fcntl(low, F_GETFD) >= 0 &&
                      fcntl(STDERR_FILENO, F_GETFD) >= 0 && fcntl(between, F_GETFD) < 0
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
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
static void entering_needs_no_memory(void **state)
{
    int status;
    pid_t child;

    (void)state;
    if (!can(true, true))
        skip();
    child = fork();
    if (child == 0) {
        int directory = open(readable, O_PATH | O_DIRECTORY | O_CLOEXEC);

        use_memory_up();
        if (directory < 0 || sandbox_restrict(&directory, 1) != 0)
            _exit(255);
        _exit(make_a_socket(directory));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSYS);
}

static int abort_itself(int directory)
{
    (void)directory;
    abort();
}

/* The filter was prepared by another process, with another PID. */
static void process_can_signal_itself(void **state)
{
    int status;

    (void)state;
    if (!can(false, true))
        skip();
    status = in_sandbox(abort_itself);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_of_serving_succeed),
        cmocka_unit_test(file_outside_is_denied),
        cmocka_unit_test(unlisted_system_call_kills_the_process),
        cmocka_unit_test(unlisted_call_in_a_thread_kills_the_process),
        cmocka_unit_test(entering_needs_no_memory),
        cmocka_unit_test(process_can_signal_itself),
        cmocka_unit_test(descriptors_not_kept_are_closed),
    };

    return cmocka_run_group_tests(tests, make_home, remove_home);
}
