#include "daemon/metrics/process.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_INTERVAL_NS (60 * NS_PER_S)

static int run(void *setup)
{
    return metrics_run(setup);
}

void metrics_process_start(struct metrics_process *process, struct metrics_setup *setup,
                           void (*after_fork)(void *context), void *context)
{
    const struct child_program program = {run, setup, after_fork, context};
    int fds[2];

    if (!child_is_due(&process->child, clock_monotonic_ns()))
        return;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0) {
        child_report_failure(&process->child);
        return;
    }
    setup->master_fd = fds[1];
    process->fd = fds[0];
    if (child_fork(&process->child, &program) != 0)
        metrics_process_free(process);
    close(fds[1]);
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
    if (process->child.pid != 0) {
        metrics_process_kill(process); /* of two releases the first one */
        process->leaving = process->child.pid;
        child_forget(&process->child);
    }
    process->child.backoff = (struct backoff){0};
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
    struct child *child = &process->child;

    log_failures(process, now_ns);
    if (child->pid == 0)
        return;
    if (hear(process) || child_kill_silent(child, child->heard_ns, timeout_ms, resumed_ns, now_ns))
        child->heard_ns = now_ns;
}

bool metrics_process_ended(struct metrics_process *process, pid_t pid, const char *how)
{
    if (pid == process->leaving) {
        process->leaving = 0;
        return true;
    }
    if (pid != process->child.pid)
        return false;
    metrics_process_free(process);
    child_count_end(&process->child, how);
    child_forget(&process->child);
    return true;
}
