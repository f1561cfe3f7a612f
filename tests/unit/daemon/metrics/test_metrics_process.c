/* The metrics process as the master sees it: its start, its signs of life, and its end. */
#include "common/clock.h"
#include "common/macros.h"
#include "daemon/metrics/metrics.h"
#include "tests/unit/event_output.h"
#include "tests/unit/open_descriptors.h"
#include "tests/unit/own_segment.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum { NO_PROCESS = INT32_MAX };

#define BEGIN_NS (1000 * NS_PER_S)

static struct segment segment;
static struct config config = {.metrics_hosts = "",
                               .metrics_realm = "",
                               .server_user = "",
                               .server_group = "",
                               .server_jail = JAIL_OFF};
static _Atomic int32_t shown_pid;
static _Atomic uint64_t deaths;
static struct metrics_process process;
static struct metrics_setup setup;
static bool no_sockets, no_fork;
static int interruptions; /* calls of waitpid() that a signal interrupts */

int __wrap_socketpair(int domain, int type, int protocol, int fds[2])
{
    errno = EMFILE;
    return no_sockets ? -1 : __real_socketpair(domain, type, protocol, fds);
}

pid_t __wrap_fork(void)
{
    errno = EAGAIN;
    return no_fork ? -1 : __real_fork();
}

/* Process 0 would be the group of the test. */
int __wrap_kill(pid_t pid, int number)
{
    assert_true(pid > 0);
    return __real_kill(pid, number);
}

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    if (interruptions == 0)
        return __real_waitpid(pid, status, options);
    interruptions--;
    errno = EINTR;
    return -1;
}

static int begin(void **state)
{
    (void)state;
    process = (struct metrics_process){
        .child = {.name = "metrics process", .shown_pid = &shown_pid, .deaths = &deaths},
        .fd = -1,
        .segment = &segment};
    shown_pid = 0;
    setup = (struct metrics_setup){.config = &config, .segment = &segment};
    no_sockets = no_fork = false;
    events_forget();
    return own_segment_create(&segment, (struct segment_plan){0});
}

static int end(void **state)
{
    (void)state;
    segment_destroy(&segment);
    return 0;
}

const struct test_fixture test_fixture = {begin, end};

static uint64_t failed_logins(void)
{
    return metric_get(segment_master(&segment)->metrics, METRIC_metrics_logins_failed);
}

/* A process that is not there. Returns its end of the socket. */
static int connect_process(void)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    process.child.pid = NO_PROCESS;
    process.fd = fds[0];
    return fds[1];
}

static void check(uint64_t now_ns)
{
    metrics_process_check(&process, 0, 0, now_ns);
}

/* Failed logins and signs of life */

/* The socket holds back the rest. */
TEST(flood_is_read_in_parts)
{
    uint8_t bytes[150];
    int fd = connect_process();

    memset(bytes, 1, sizeof(bytes));
    assert_int_equal(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
    check(BEGIN_NS);
    assert_int_equal(failed_logins(), 64);
    check(BEGIN_NS + 1);
    check(BEGIN_NS + 2);
    assert_int_equal(failed_logins(), sizeof(bytes));
    close(fd);
    metrics_process_free(&process);
}

TEST(failed_logins_are_logged_once_a_minute)
{
    uint64_t first_ns = BEGIN_NS + NS_PER_S;
    int fd = connect_process();

    check(BEGIN_NS);
    assert_int_equal(event_count(), 0);
    assert_int_equal(write(fd, "\5", 1), 1);
    check(BEGIN_NS);
    check(first_ns);
    assert_string_equal(last_event(), "failed logins on metrics.listen: 5");
    assert_int_equal(event_count(), 1);
    assert_int_equal(process.failures, 0);
    assert_int_equal(write(fd, "\1", 1), 1);
    check(first_ns + 1);
    check(first_ns + 60 * NS_PER_S - 1);
    assert_int_equal(event_count(), 1);
    process.child.pid = 0; /* also after its end */
    check(first_ns + 60 * NS_PER_S);
    assert_string_equal(last_event(), "failed logins on metrics.listen: 1");
    assert_int_equal(event_count(), 2);
    process.failures = 1;
    check(first_ns + 61 * NS_PER_S);
    assert_int_equal(event_count(), 2);
    close(fd);
    metrics_process_free(&process);
}

TEST(without_a_process_nothing_is_read)
{
    int fd = connect_process();

    process.child.pid = 0;
    assert_int_equal(write(fd, "\1", 1), 1);
    check(BEGIN_NS);
    assert_int_equal(failed_logins(), 0);
    assert_int_equal(process.child.heard_ns, 0);
    close(fd);
    metrics_process_free(&process);
}

/* A real process */

/* What the master does in each child. */
static void after_fork(void *context)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    metrics_process_free(context);
}

static pid_t start(void)
{
    metrics_process_start(&process, &setup, after_fork, &process);
    assert_true(process.child.pid > 0);
    return process.child.pid;
}

TEST(failed_start_leaves_nothing_open)
{
    int before = open_descriptors();

    no_sockets = true;
    metrics_process_start(&process, &setup, after_fork, &process);
    assert_string_equal(last_event(), "cannot start the metrics process: Too many open files");
    assert_int_equal(process.fd, -1);
    no_sockets = false;
    assert_int_equal(process.child.backoff.failures, 1);
    process.child.backoff.not_before_ns = UINT64_MAX;              /* however long this takes */
    metrics_process_start(&process, &setup, after_fork, &process); /* waits for its back-off */
    assert_int_equal(process.child.pid, 0);
    assert_int_equal(event_count(), 1);
    process.child.backoff = (struct backoff){0};
    no_fork = true;
    metrics_process_start(&process, &setup, after_fork, &process);
    assert_string_equal(last_event(),
                        "cannot start the metrics process: Resource temporarily unavailable");
    assert_int_equal(process.child.pid, 0);
    assert_int_equal(process.fd, -1);
    assert_int_equal(open_descriptors(), before);
}

/* A process that answers its last requests, and does not look at its socket. */
static pid_t start_one_that_stays(void)
{
    pid_t pid = fork();

    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    assert_true(pid > 0);
    return pid;
}

TEST(second_release_kills_the_first_process)
{
    pid_t first = start_one_that_stays(), second;

    process.leaving = first;
    second = start();
    interruptions = 2;
    metrics_process_release(&process);
    assert_int_equal(waitpid(first, NULL, WNOHANG), -1); /* killed and reaped */
    assert_int_equal(errno, ECHILD);
    assert_int_equal(process.leaving, second);
    metrics_process_kill(&process);
    assert_int_equal(process.leaving, 0);
    assert_int_equal(waitpid(second, NULL, WNOHANG), -1);
    metrics_process_kill(&process);
}
