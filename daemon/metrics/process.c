#include "daemon/metrics/process.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_INTERVAL_NS (60 * NS_PER_S)

static void set_pid(struct metrics_process *process, pid_t pid)
{
    process->pid = pid;
    atomic_store_explicit(&segment_shared_header(process->segment)->metrics_pid, pid,
                          memory_order_relaxed);
}

/* Returns the child's pid, or -1 with errno. */
static pid_t fork_metrics(struct metrics_setup *setup, void (*after_fork)(void *context),
                          void *context)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0)
        return pid;
    after_fork(context);
    exit(metrics_run(setup));
}

void metrics_process_start(struct metrics_process *process, struct metrics_setup *setup,
                           void (*after_fork)(void *context), void *context)
{
    uint64_t now = clock_monotonic_ns();
    int fds[2] = {-1, -1};
    pid_t pid = -1;

    if (process->pid != 0 || !backoff_over(&process->backoff, now))
        return;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0) {
        setup->master_fd = fds[1];
        pid = fork_metrics(setup, after_fork, context);
        close(fds[1]);
    }
    if (pid > 0) {
        set_pid(process, pid);
        process->fd = fds[0];
        process->started_ns = process->heard_ns = now;
        return;
    }
    event_log(LEVEL_ERROR, "cannot start the metrics process: %s", strerror(errno));
    if (fds[0] >= 0)
        close(fds[0]);
    backoff_count(&process->backoff, 0, now);
}

void metrics_process_free(struct metrics_process *process)
{
    if (process->fd >= 0)
        close(process->fd);
    process->fd = -1;
}

void metrics_process_release(struct metrics_process *process)
{
    metrics_process_free(process);
    if (process->pid != 0) {
        metrics_process_kill(process); /* of two releases the first one */
        process->leaving = process->pid;
        set_pid(process, 0);
    }
    process->backoff = (struct backoff){0};
}

void metrics_process_kill(struct metrics_process *process)
{
    if (process->leaving == 0)
        return;
    kill(process->leaving, SIGKILL);
    while (waitpid(process->leaving, NULL, 0) < 0 && errno == EINTR)
        continue;
    process->leaving = 0;
}

/*
 * Each byte is a number of failed logins. Reads at most as much as a few seconds bring; a flood fills
 * only the socket.
 */
static bool hear(struct metrics_process *process)
{
    uint8_t bytes[64];
    ssize_t got = recv(process->fd, bytes, sizeof(bytes), 0);
    uint64_t failures = 0;

    for (ssize_t i = 0; i < got; i++)
        failures += bytes[i];
    process->failures += failures;
    metric_add(segment_master(process->segment)->metrics, METRIC_metrics_logins_failed, failures);
    return got > 0;
}

static void log_failures(struct metrics_process *process, uint64_t now_ns)
{
    if (process->failures == 0 ||
        (process->logged_ns != 0 && now_ns - process->logged_ns < LOG_INTERVAL_NS))
        return;
    event_log(LEVEL_WARN, "failed logins on metrics.listen: %" PRIu64, process->failures);
    process->failures = 0;
    process->logged_ns = now_ns;
}

void metrics_process_check(struct metrics_process *process, uint64_t timeout_ms,
                           uint64_t resumed_ns, uint64_t now_ns)
{
    uint64_t since = process->heard_ns > resumed_ns ? process->heard_ns : resumed_ns;
    uint64_t silent_s = now_ns > since ? (now_ns - since) / NS_PER_S : 0;

    log_failures(process, now_ns);
    if (process->pid == 0)
        return;
    if (hear(process)) {
        process->heard_ns = now_ns;
    } else if (timeout_ms > 0 && silent_s * 1000 > timeout_ms) {
        event_log(LEVEL_ERROR,
                  "the metrics process (pid %d) has given no sign of life for %lu s: killing it",
                  process->pid, (unsigned long)silent_s);
        kill(process->pid, SIGKILL);
        process->heard_ns = now_ns;
    }
}

bool metrics_process_ended(struct metrics_process *process, pid_t pid, const char *how)
{
    uint64_t now = clock_monotonic_ns();

    if (pid == process->leaving) {
        process->leaving = 0;
        return true;
    }
    if (pid != process->pid)
        return false;
    metrics_process_free(process);
    set_pid(process, 0);
    backoff_count(&process->backoff, now - process->started_ns, now);
    event_log(LEVEL_ERROR, "the metrics process (pid %d) %s: starting another%s", pid, how,
              process->backoff.failures > 1 ? " after a delay: it keeps failing" : "");
    return true;
}
