/*
 * The guard of a private server: what it removes, when, and what it keeps of its owner. The process
 * group of the server is simulated.
 */
#include "common/private_server_guard.h"

#include "common/instance.h"

#include "common/macros.h"
#include "tests/test.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_directory.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GROUP = 4711, OTHER_GROUP = 4712, NO_GROUP = -1, NEVER = INT_MAX, MS = 1000000 };

/* Shared with the guard, which simulates the group and reports what it sees. */
struct scene {
    int ends_after_ms;           /* the group ends by itself */
    int ends_after_kill_ms;      /* the time from SIGKILL to the end of the group */
    int waited_ms, killed_at_ms; /* killed_at_ms: -1: it was not killed */
    pid_t group;                 /* the last one that was checked or killed */
    bool was_early;              /* something was removed while the group ran */
    bool in_session, ignores_signals, output_is_null;
    char name[16];
    int descriptors;
};

static struct scene *scene;
static struct private_server_guard guard;
static char name[INSTANCE_NAME_MAX + 1], segment[INSTANCE_PATH_MAX];
static bool fails_to_make_sockets, fails_to_fork, is_guard;
static int interrupted_sends, interrupted_waits; /* calls that a signal interrupts */

int __wrap_socketpair(int domain, int type, int protocol, int fds[2])
{
    errno = EMFILE;
    return fails_to_make_sockets ? -1 : __real_socketpair(domain, type, protocol, fds);
}

/* The output of the owner is not /dev/null. */
static void set_output(void)
{
    int fd = open("/dev/zero", O_RDWR | O_CLOEXEC);

    dup2(fd, STDOUT_FILENO);
    dup2(fd, STDERR_FILENO);
}

pid_t __wrap_fork(void)
{
    pid_t pid = fails_to_fork ? -1 : __real_fork();

    is_guard = pid == 0;
    if (is_guard)
        set_output();
    if (pid < 0)
        errno = EAGAIN;
    return pid;
}

/* Otherwise a test that becomes the guard would end as if all had passed. */
void __wrap__exit(int status)
{
    __real__exit(is_guard ? status : 1);
}

static bool is_interrupted(int *calls)
{
    errno = EINTR;
    return *calls > 0 && (*calls)-- > 0;
}

ssize_t __wrap_send(int fd, const void *data, size_t length, int flags)
{
    return is_interrupted(&interrupted_sends) ? -1 : __real_send(fd, data, length, flags);
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    return is_interrupted(&interrupted_waits) ? -1 : __real_waitpid(pid, status, options);
}

static bool segment_exists(void)
{
    int fd = shm_open(segment, O_RDONLY | O_CLOEXEC, 0);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static bool directory_exists(void)
{
    return access(own_directory, F_OK) == 0;
}

/* True if the terminal's signals are ignored. */
static bool ignores_signals(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action;

    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        if (sigaction(signals[i], NULL, &action) != 0 || action.sa_handler != SIG_IGN)
            return false;
    return true;
}

static bool is_null_device(int fd)
{
    struct stat null, status;

    return stat("/dev/null", &null) == 0 && fstat(fd, &status) == 0 &&
           status.st_rdev == null.st_rdev;
}

static int count_descriptors(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

/* In the guard: what it keeps of its owner. */
static void report_process(void)
{
    scene->in_session = getsid(0) == getpid();
    scene->ignores_signals = ignores_signals();
    scene->output_is_null = is_null_device(STDOUT_FILENO) && is_null_device(STDERR_FILENO);
    scene->descriptors = count_descriptors();
    prctl(PR_GET_NAME, scene->name);
}

/* In the guard: checks or kills the group. */
int __wrap_kill(pid_t pid, int number)
{
    scene->group = -pid;
    scene->was_early |= !segment_exists() || !directory_exists();
    if (scene->waited_ms == 0)
        report_process();
    if (number == SIGKILL) {
        scene->killed_at_ms = scene->waited_ms;
        scene->ends_after_ms = scene->ends_after_kill_ms == NEVER
                                   ? NEVER
                                   : scene->waited_ms + scene->ends_after_kill_ms;
    }
    errno = ESRCH;
    return scene->waited_ms >= scene->ends_after_ms ? -1 : 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *left)
{
    (void)left;
    scene->waited_ms += (int)(time->tv_nsec / MS);
    return 0;
}

static int begin(void **state)
{
    int fd;

    (void)state;
    fails_to_make_sockets = fails_to_fork = false;
    interrupted_sends = interrupted_waits = 0;
    guard = (struct private_server_guard){.pid = 0};
    scene = mmap(NULL, sizeof(*scene), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (scene == MAP_FAILED)
        return -1;
    *scene = (struct scene){.group = NO_GROUP, .killed_at_ms = -1};
    own_directory_make();
    snprintf(name, sizeof(name), "%s", strrchr(own_directory, '/') + 1);
    if (instance_make_segment_name(name, "", segment, sizeof(segment)) != 0)
        return -1;
    fd = shm_open(segment, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    return fd >= 0 ? close(fd) : -1;
}

static int end(void **state)
{
    (void)state;
    shm_unlink(segment);
    munmap(scene, sizeof(*scene));
    return own_directory_remove();
}

const struct test_fixture test_fixture = {begin, end};

static void start(void)
{
    assert_int_equal(private_server_guard_start(&guard, own_directory, name), 0);
    assert_true(guard.pid > 0);
}

/* The guard sees what it sees when its owner is killed, and has ended. */
static void lose_owner(void)
{
    int status;

    close(guard.socket);
    assert_int_equal(waitpid(guard.pid, &status, 0), guard.pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void make_file(const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

    assert_true(fd >= 0);
    close(fd);
}

/* --- Removing --- */

TEST(directory_is_removed_with_its_contents)
{
    char path[128], target[128];

    snprintf(target, sizeof(target), "%s/kept", own_directory);
    assert_int_equal(mkdir(target, 0700), 0);
    snprintf(path, sizeof(path), "%s/kept/file", own_directory);
    make_file(path);
    snprintf(path, sizeof(path), "%s/server", own_directory);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/server/link", own_directory);
    assert_int_equal(symlink(target, path), 0);
    snprintf(path, sizeof(path), "%s/server/a", own_directory);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/server/a/file", own_directory);
    make_file(path);

    snprintf(path, sizeof(path), "%s/server", own_directory);
    private_server_remove(path);
    assert_int_not_equal(access(path, F_OK), 0);
    snprintf(path, sizeof(path), "%s/kept/file", own_directory);
    assert_int_equal(access(path, F_OK), 0); /* the target of the link */
}

TEST(death_of_the_owner_removes_everything)
{
    start();
    lose_owner();
    assert_false(segment_exists());
    assert_false(directory_exists());
    assert_int_equal(scene->group, NO_GROUP); /* no server was started */
}

TEST(owner_that_cleans_up_keeps_what_it_wants)
{
    int before = open_descriptors();
    pid_t pid;

    start();
    pid = guard.pid;
    private_server_guard_watch(&guard, GROUP);
    private_server_guard_end(&guard);
    assert_int_equal(guard.pid, 0);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), -1); /* it was waited for */
    assert_int_equal(open_descriptors(), before);
    assert_true(segment_exists());
    assert_true(directory_exists());
    assert_int_equal(scene->group, NO_GROUP);
    private_server_guard_end(&guard); /* there is none */
    assert_int_equal(open_descriptors(), before);
}

/* --- The server's process group --- */

TEST(server_has_30_seconds_and_2_after_its_kill)
{
    static const struct {
        int ends_after_ms, ends_after_kill_ms;
        pid_t watched[2]; /* the last one counts; 0: the server does not run */
        pid_t group;      /* the guard looked at it */
        int waited_ms, killed_at_ms;
    } cases[] = {
        {29990, 0, {GROUP, GROUP}, GROUP, 29990, -1},
        {0, 0, {GROUP, GROUP}, GROUP, 0, -1},
        {NEVER, 100, {GROUP, GROUP}, GROUP, 30100, 30000},
        {NEVER, NEVER, {GROUP, GROUP}, GROUP, 32000, 30000}, /* it waits for a disk */
        {0, 0, {GROUP, OTHER_GROUP}, OTHER_GROUP, 0, -1},
        {NEVER, NEVER, {GROUP, 0}, NO_GROUP, 0, -1},
    };

    for (size_t i = 0; i < ARRAY_LENGTH(cases); i++) {
        if (i > 0)
            assert_int_equal(begin(state), 0);
        scene->ends_after_ms = cases[i].ends_after_ms;
        scene->ends_after_kill_ms = cases[i].ends_after_kill_ms;
        start();
        private_server_guard_watch(&guard, cases[i].watched[0]);
        private_server_guard_watch(&guard, cases[i].watched[1]);
        lose_owner();
        assert_int_equal(scene->group, cases[i].group);
        assert_int_equal(scene->waited_ms, cases[i].waited_ms);
        assert_int_equal(scene->killed_at_ms, cases[i].killed_at_ms);
        assert_false(scene->was_early);
        assert_false(segment_exists());
        assert_false(directory_exists());
        if (i + 1 < ARRAY_LENGTH(cases))
            end(state);
    }
}

/* --- The process --- */

TEST(guard_keeps_nothing_of_its_owner)
{
    start();
    private_server_guard_watch(&guard, GROUP);
    lose_owner();
    assert_true(scene->in_session);
    assert_true(scene->ignores_signals);
    assert_true(scene->output_is_null);
    assert_int_equal(scene->descriptors, 3);
    assert_string_equal(scene->name, "guard");
}

TEST(start_leaves_one_descriptor_to_the_owner)
{
    int before = open_descriptors();

    start();
    assert_int_equal(open_descriptors(), before + 1);
    private_server_guard_end(&guard);
}

TEST(failed_start_leaves_nothing)
{
    int before = open_descriptors();

    fails_to_fork = true;
    assert_int_equal(private_server_guard_start(&guard, own_directory, name), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(guard.pid, 0);
    fails_to_fork = false;
    fails_to_make_sockets = true;
    assert_int_equal(private_server_guard_start(&guard, own_directory, name), -1);
    assert_int_equal(errno, EMFILE);
    assert_int_equal(guard.pid, 0);
    assert_int_equal(open_descriptors(), before);
    assert_true(directory_exists());
}

TEST(interrupted_calls_are_repeated)
{
    pid_t pid;

    start();
    interrupted_sends = 1;
    private_server_guard_watch(&guard, GROUP);
    assert_int_equal(interrupted_sends, 0);
    lose_owner();
    assert_int_equal(scene->group, GROUP);

    start();
    pid = guard.pid;
    interrupted_sends = interrupted_waits = 2;
    private_server_guard_end(&guard);
    assert_int_equal(interrupted_sends, 0);
    assert_int_equal(interrupted_waits, 0);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
}

/* Neither a signal nor an endless loop. */
TEST(dead_guard_does_no_harm)
{
    int status;

    start();
    assert_int_equal(sigqueue(guard.pid, SIGKILL, (union sigval){.sival_int = 0}), 0);
    assert_int_equal(waitpid(guard.pid, &status, 0), guard.pid);
    private_server_guard_watch(&guard, GROUP);
    private_server_guard_end(&guard);
    assert_int_equal(guard.pid, 0);
    assert_true(directory_exists());
}
