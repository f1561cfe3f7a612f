#include "daemon/base/child.h"

#include "common/clock.h"
#include "common/segment.h"
#include "daemon/base/events.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void set_pid(struct child *child, pid_t pid)
{
    child->pid = pid;
    atomic_store_explicit(child->shown_pid, pid, memory_order_relaxed);
}

bool child_is_due(const struct child *child, uint64_t now_ns)
{
    return child->pid == 0 && backoff_over(&child->backoff, now_ns);
}

uint64_t child_retry_ns(const struct child *child, uint64_t now_ns)
{
    return child->pid != 0 || backoff_over(&child->backoff, now_ns) ? UINT64_MAX
                                                                    : child->backoff.not_before_ns;
}

/* Start */

static int fork_program(struct child *child, const struct child_program *program)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        program->after_fork(program->context);
        exit(program->run(program->setup));
    }
    if (pid < 0)
        return -1;
    set_pid(child, pid);
    child->started_ns = child->heard_ns = clock_monotonic_ns();
    return 0;
}

void child_report_failure(struct child *child)
{
    event_log(LEVEL_ERROR, "cannot start the %s: %s", child->name, strerror(errno));
    backoff_count(&child->backoff, 0, clock_monotonic_ns());
}

int child_fork(struct child *child, const struct child_program *program)
{
    int result = fork_program(child, program);

    if (result != 0)
        child_report_failure(child);
    return result;
}

int child_fork_with_channel(struct child *child, const struct child_program *program,
                            int *command_fd, struct event_base *base, enum message_route route,
                            const struct channel_owner *owner)
{
    int fds[2], result = -1;

    if (channel_pair(fds) != 0) {
        child_report_failure(child);
        return -1;
    }
    *command_fd = fds[1];
    child->channel = channel_open(base, fds[0], route, owner);
    if (child->channel != NULL)
        result = child_fork(child, program);
    else
        child_report_failure(child);
    close(fds[1]);
    if (result != 0)
        child_free(child);
    return result;
}

/* Faults */

void child_ignore_closed(void *owner)
{
    (void)owner;
}

void child_fault(const struct child *child, const char *what)
{
    event_log(LEVEL_ERROR, "the %s (pid %d) %s: killing it", child->name, child->pid, what);
    kill(child->pid, SIGKILL);
}

bool child_kill_silent(const struct child *child, uint64_t since_ns, uint64_t timeout_ms,
                       uint64_t resumed_ns, uint64_t now_ns)
{
    uint64_t since = since_ns > resumed_ns ? since_ns : resumed_ns;

    if (child->pid == 0 || timeout_ms == 0 || now_ns <= since ||
        now_ns - since <= timeout_ms * NS_PER_MS)
        return false;
    event_log(LEVEL_ERROR, "the %s (pid %d) has given no sign of life for %lu s: killing it",
              child->name, child->pid, (unsigned long)((now_ns - since) / NS_PER_S));
    kill(child->pid, SIGKILL);
    return true;
}

void child_check_threads(const struct child *child)
{
    enum { THREADS_MAX = 64 };
    uint64_t threads = child->pid != 0 ? process_threads(child->pid) : 0;

    if (threads <= THREADS_MAX)
        return;
    event_log(LEVEL_ERROR, "the %s (pid %d) has %lu threads, %d are possible: killing it",
              child->name, child->pid, (unsigned long)threads, THREADS_MAX);
    kill(child->pid, SIGKILL);
}

/* End */

void child_forget(struct child *child)
{
    child_free(child);
    set_pid(child, 0);
}

void child_count_end(struct child *child, const char *how)
{
    uint64_t now = clock_monotonic_ns();

    atomic_fetch_add_explicit(child->deaths, 1, memory_order_relaxed);
    backoff_count(&child->backoff, now - child->started_ns, now);
    event_log(LEVEL_ERROR, "the %s (pid %d) %s: starting another%s", child->name, child->pid, how,
              child->backoff.failures > 1 ? " after a delay: it keeps failing" : "");
}

void child_stop(struct child *child)
{
    if (child->pid == 0)
        return;
    kill(child->pid, SIGKILL);
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    child_forget(child);
    child->backoff = (struct backoff){0};
}

void child_free(struct child *child)
{
    channel_close(child->channel);
    child->channel = NULL;
}
