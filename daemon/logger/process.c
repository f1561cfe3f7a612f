#include "daemon/logger/process.h"

#include "common/clock.h"
#include "daemon/base/events.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void publish(struct segment *segment, pid_t pid)
{
    atomic_store_explicit(&segment_logger(segment)->pid, pid, memory_order_relaxed);
}

/* FDS[1] is the child's end. Returns the child's pid, or -1 with errno. */
static pid_t fork_logger(struct logger_setup *setup, const int fds[2],
                         void (*after_fork)(void *context), void *context)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0)
        return pid;
    close(fds[0]);
    after_fork(context);
    setup->command_fd = fds[1];
    exit(logger_run(setup));
}

void logger_process_start(struct logger_process *process, struct logger_setup *setup,
                          void (*after_fork)(void *context), void *context)
{
    uint64_t now = clock_monotonic_ns();
    int fds[2];

    if (process->pid != 0 || process->stopped || !backoff_over(&process->backoff, now))
        return;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0) {
        backoff_count(&process->backoff, 0, now);
        return;
    }
    process->pid = fork_logger(setup, fds, after_fork, context);
    close(fds[1]);
    if (process->pid > 0) {
        process->fd = fds[0];
        process->started_ns = now;
        publish(setup->segment, process->pid);
        return;
    }
    event_log(LEVEL_ERROR, "cannot start the logger: %s", strerror(errno));
    close(fds[0]);
    process->pid = 0;
    backoff_count(&process->backoff, 0, now);
}

void logger_process_ended(struct logger_process *process, struct segment *segment, const char *how)
{
    uint64_t now = clock_monotonic_ns();

    close(process->fd);
    process->fd = -1;
    process->pid = 0;
    publish(segment, 0);
    if (process->stopped || process->restarting) {
        process->restarting = false;
        return;
    }
    backoff_count(&process->backoff, now - process->started_ns, now);
    event_log(LEVEL_ERROR, "the logger %s: starting another%s", how,
              process->backoff.failures > 1 ? " after a delay: it keeps failing" : "");
}

static void send_stop(struct logger_process *process)
{
    if (process->pid > 0 && send(process->fd, "s", 1, MSG_NOSIGNAL) != 1)
        kill(process->pid, SIGKILL);
}

void logger_process_restart(struct logger_process *process)
{
    process->restarting = process->pid > 0;
    send_stop(process);
}

void logger_process_stop(struct logger_process *process)
{
    process->stopped = true;
    send_stop(process);
}
