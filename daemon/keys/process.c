#include "daemon/keys/process.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/tls/context.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/*
 * More than the links of all threads of a large server. A process with so many unread messages
 * hangs.
 */
enum { QUEUED_BYTES_MAX = 1024 * 1024 };

static void publish_pid(const struct keys_process *process)
{
    atomic_store_explicit(&segment_master(process->segment)->keys_pid, process->pid,
                          memory_order_relaxed);
}

/* Messages of the process */

static void on_fault(void *owner, const char *what)
{
    const struct keys_process *process = owner;

    metric_add(segment_master(process->segment)->metrics, METRIC_protocol_errors, 1);
    event_log(LEVEL_ERROR, "the keys process (pid %d) %s: killing it", process->pid, what);
    kill(process->pid, SIGKILL);
}

static void on_report(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct keys_process *process = owner;
    const struct message_keys_client *faulty = data;

    (void)length, (void)fd;
    if (kind == MESSAGE_KEYS_FAULT)
        process->fault(process->context, faulty->worker, faulty->pid);
    else if (process->pinged_ns == 0)
        channel_fail(process->channel, "answered a ping that it was not sent");
    else
        process->pinged_ns = 0;
}

/* SIGCHLD follows, whose handler cleans up. */
static void ignore_closed(void *process)
{
    (void)process;
}

/* Start and end */

/* AFTER_FORK closes the channel in the child. Returns the child's pid, or -1 with errno. */
static pid_t fork_keys(struct keys_setup *setup, int command_fd, void (*after_fork)(void *context),
                       void *context)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0)
        return pid;
    after_fork(context);
    setup->command_fd = command_fd;
    exit(keys_run(setup));
}

static int start(struct keys_process *process, struct keys_setup *setup,
                 void (*after_fork)(void *context), void *context)
{
    const struct channel_owner owner = {.message = on_report,
                                        .closed = ignore_closed,
                                        .fault = on_fault,
                                        .owner = process,
                                        .queue_max = QUEUED_BYTES_MAX};
    int fds[2];

    if (channel_pair(fds) != 0)
        return -1;
    process->channel = channel_open(process->base, fds[0], ROUTE_KEYS_REPORTS, &owner);
    process->pid = process->channel != NULL ? fork_keys(setup, fds[1], after_fork, context) : -1;
    close(fds[1]);
    if (process->pid > 0)
        return 0;
    channel_close(process->channel);
    process->channel = NULL;
    process->pid = 0;
    return -1;
}

bool keys_process_start(struct keys_process *process, struct keys_setup *setup,
                        void (*after_fork)(void *context), void *context)
{
    uint64_t now = clock_monotonic_ns();

    if (process->pid != 0 || !backoff_over(&process->backoff, now))
        return false;
    process->pinged_ns = 0;
    if (start(process, setup, after_fork, context) != 0) {
        event_log(LEVEL_ERROR, "cannot start the keys process: %s", strerror(errno));
        backoff_count(&process->backoff, 0, now);
        return false;
    }
    process->started_ns = now;
    publish_pid(process);
    return true;
}

static void forget(struct keys_process *process)
{
    channel_close(process->channel);
    process->channel = NULL;
    process->pid = 0;
    publish_pid(process);
}

void keys_process_ended(struct keys_process *process, const char *how)
{
    uint64_t now = clock_monotonic_ns();

    forget(process);
    backoff_count(&process->backoff, now - process->started_ns, now);
    event_log(LEVEL_ERROR, "the keys process %s: starting another%s", how,
              process->backoff.failures > 1 ? " after a delay: it keeps failing" : "");
}

void keys_process_stop(struct keys_process *process)
{
    if (process->pid == 0)
        return;
    kill(process->pid, SIGKILL); /* it has nothing to finish */
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    forget(process);
    process->backoff = (struct backoff){0};
}

void keys_process_free(struct keys_process *process)
{
    channel_close(process->channel);
    process->channel = NULL;
}

/* Links */

/* Sends KIND with a copy of FD. Returns 0, or -1 with errno. */
static int send_copy(const struct keys_process *process, int kind, const void *data, size_t length,
                     int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy < 0)
        return -1;
    if (channel_send(process->channel, kind, data, length, copy, true) == 0)
        return 0;
    close(copy);
    return -1;
}

int keys_process_link(const struct keys_process *process, const struct tls_context *tls,
                      uint32_t worker, pid_t pid)
{
    const struct message_keys_set set = {tls_context_number(tls), tls_context_key_count(tls)};
    const struct message_keys_client client = {set.set, worker, pid};
    int fds[2];

    if (channel_pair(fds) != 0)
        return -1;
    if (send_copy(process, MESSAGE_KEYS_SET, &set, sizeof(set), tls_context_keys(tls)) == 0 &&
        channel_send(process->channel, MESSAGE_KEYS_CLIENT, &client, sizeof(client), fds[1],
                     true) == 0)
        return fds[0];
    close(fds[0]);
    close(fds[1]);
    return -1;
}

/* Hanging */

void keys_process_check(struct keys_process *process, uint64_t timeout_ms, uint64_t resumed_ns,
                        uint64_t now_ns)
{
    uint64_t since = process->pinged_ns > resumed_ns ? process->pinged_ns : resumed_ns;

    if (process->pid == 0 || timeout_ms == 0)
        return;
    if (process->pinged_ns == 0) {
        if (channel_send(process->channel, MESSAGE_KEYS_PING, NULL, 0, -1, false) == 0)
            process->pinged_ns = now_ns;
    } else if (now_ns > since && now_ns - since > timeout_ms * NS_PER_MS) {
        event_log(LEVEL_ERROR, "the keys process (pid %d) has not answered for %lu s: killing it",
                  process->pid, (unsigned long)((now_ns - since) / NS_PER_S));
        kill(process->pid, SIGKILL);
        process->pinged_ns = now_ns;
    }
}
