/* Start, end and silence of a process of the master. */
#include "daemon/base/child.h"

#include "tests/test.h"
#include "tests/unit/wrapped.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static struct fixture {
    struct event_base *base;
    _Atomic int32_t shown_pid;
    _Atomic uint64_t deaths;
    struct child child;
    int command_fd;
    bool cleaned; /* in the child: AFTER_FORK has run */
    bool waits;
    int threads; /* that it starts, besides */
} fixture;

static void after_fork(void *context)
{
    child_free(&fixture.child); /* the master's end */
    fixture.cleaned = context == &fixture;
}

static void *wait_long(void *argument)
{
    pause();
    return argument;
}

/* Exits with 3 if AFTER_FORK came first; one that waits with 5 when the master's end closes. */
static int run(void *argument)
{
    struct pollfd master = {.fd = fixture.command_fd, .events = POLLIN};
    pthread_t thread;
    char byte;

    if (!fixture.waits)
        return argument == &fixture && fixture.cleaned ? 3 : 4;
    for (int i = 0; i < fixture.threads; i++)
        pthread_create(&thread, NULL, wait_long, NULL);
    return poll(&master, 1, -1) == 1 && read(master.fd, &byte, 1) == 0 ? 5 : 6;
}

static void on_message(void *owner, int kind, const void *data, size_t length, int fd)
{
    (void)owner, (void)kind, (void)data, (void)length, (void)fd;
}

static void on_fault(void *owner, const char *what)
{
    child_fault(owner, what);
}

static int start(void)
{
    const struct child_program program = {run, &fixture, after_fork, &fixture};
    const struct channel_owner owner = {.message = on_message,
                                        .closed = child_ignore_closed,
                                        .fault = on_fault,
                                        .owner = &fixture.child};

    return child_fork_with_channel(&fixture.child, &program, &fixture.command_fd, fixture.base,
                                   ROUTE_KEYS_REPORTS, &owner);
}

static int setup(void **state)
{
    (void)state;
    fixture = (struct fixture){.base = event_base_new(),
                               .child = {.name = "test process",
                                         .shown_pid = &fixture.shown_pid,
                                         .deaths = &fixture.deaths}};
    return fixture.base != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    child_stop(&fixture.child);
    event_base_free(fixture.base);
    return 0;
}

const struct test_fixture test_fixture = {setup, teardown};

static int interruptions; /* of waitpid() */

pid_t __wrap_waitpid(pid_t pid, int *status, int options)
{
    if (interruptions > 0) {
        interruptions--;
        errno = EINTR;
        return -1;
    }
    return __real_waitpid(pid, status, options);
}

static int wait_for_end(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

TEST(program_runs_after_the_clean_up)
{
    int status;

    assert_int_equal(start(), 0);
    assert_true(fixture.child.pid > 0);
    assert_int_equal(fixture.shown_pid, fixture.child.pid);
    assert_false(child_is_due(&fixture.child, UINT64_MAX));
    status = wait_for_end(fixture.child.pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 3);
    child_forget(&fixture.child);
    assert_int_equal(fixture.shown_pid, 0);
    assert_null(fixture.child.channel);
}

TEST(channel_closes_with_the_master)
{
    int status;

    fixture.waits = true;
    assert_int_equal(start(), 0);
    child_free(&fixture.child);
    status = wait_for_end(fixture.child.pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 5);
    child_forget(&fixture.child);
}

TEST(early_end_delays_the_next_start)
{
    struct child *child = &fixture.child;
    uint64_t retry;

    assert_int_equal(start(), 0);
    wait_for_end(child->pid);
    child->started_ns = clock_monotonic_ns(); /* however long the start took */
    child_count_end(child, "exited with status 3");
    child_forget(child);
    retry = child_retry_ns(child, child->started_ns);
    assert_true(retry >= child->started_ns + BACKOFF_FIRST_NS && retry != UINT64_MAX);
    assert_false(child_is_due(child, retry - 1));
    assert_true(child_is_due(child, retry));
    assert_int_equal(child_retry_ns(child, retry), UINT64_MAX);
}

TEST(late_end_delays_nothing)
{
    struct child *child = &fixture.child;

    assert_int_equal(start(), 0);
    wait_for_end(child->pid);
    child->started_ns -= BACKOFF_STEADY_NS;
    child_count_end(child, "was killed by signal 9");
    child_forget(child);
    assert_true(child_is_due(child, child->started_ns));
    assert_int_equal(child_retry_ns(child, child->started_ns), UINT64_MAX);
    assert_int_equal(fixture.deaths, 1);
}

TEST(failed_start_is_counted)
{
    struct rlimit before, none;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    assert_int_equal(start(), -1);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(fixture.child.pid, 0);
    assert_null(fixture.child.channel);
    assert_int_equal(fixture.child.backoff.failures, 1);
    assert_true(child_retry_ns(&fixture.child, 0) != UINT64_MAX);
}

TEST(stop_reaps_and_forgets_failures)
{
    pid_t pid;

    fixture.waits = true;
    assert_int_equal(start(), 0);
    pid = fixture.child.pid;
    fixture.child.backoff.failures = 2;
    interruptions = 2;
    child_stop(&fixture.child);
    assert_int_equal(interruptions, 0);
    assert_int_equal(waitpid(pid, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(fixture.shown_pid, 0);
    assert_int_equal(fixture.child.backoff.failures, 0);
    child_stop(&fixture.child); /* without a process */
}

TEST(only_silence_while_awake_kills)
{
    enum { TIMEOUT_MS = 1000 };
    const uint64_t heard = 5 * NS_PER_S, late = heard + TIMEOUT_MS * NS_PER_MS;
    int status;

    fixture.waits = true;
    assert_int_equal(start(), 0);
    assert_false(child_kill_silent(&fixture.child, heard, TIMEOUT_MS, 0, heard - 1));
    assert_false(child_kill_silent(&fixture.child, heard, TIMEOUT_MS, 0, late));
    assert_false(child_kill_silent(&fixture.child, heard, TIMEOUT_MS, heard + 1, late + 1));
    assert_false(child_kill_silent(&fixture.child, heard, 0, 0, late + 1));
    assert_true(child_kill_silent(&fixture.child, heard, TIMEOUT_MS, 0, late + 1));
    status = wait_for_end(fixture.child.pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    child_forget(&fixture.child);
    assert_false(child_kill_silent(&fixture.child, heard, TIMEOUT_MS, 0, late + 1));
}

TEST(more_threads_than_it_needs_kill)
{
    enum { THREADS = 70 };
    int status;

    fixture.waits = true;
    assert_int_equal(start(), 0);
    child_check_threads(&fixture.child);
    assert_int_equal(waitpid(fixture.child.pid, NULL, WNOHANG), 0);
    child_stop(&fixture.child);

    fixture.threads = THREADS;
    assert_int_equal(start(), 0);
    while (process_threads(fixture.child.pid) <= THREADS)
        continue;
    child_check_threads(&fixture.child);
    status = wait_for_end(fixture.child.pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGKILL);
    child_forget(&fixture.child);
    child_check_threads(&fixture.child);
}
