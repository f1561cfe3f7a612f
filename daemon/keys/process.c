#include "daemon/keys/process.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/tls/context.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/*
 * More than the links of all threads of a large server. A process with so many unread messages
 * hangs.
 */
enum { QUEUED_BYTES_MAX = 1024 * 1024 };

/* Messages of the process */

static void on_fault(void *owner, const char *what)
{
    const struct keys_process *process = owner;

    metric_add(segment_master(process->segment)->metrics, METRIC_protocol_errors, 1);
    child_fault(&process->child, what);
}

static void on_report(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct keys_process *process = owner;
    const struct message_keys_client *faulty = data;

    (void)length, (void)fd;
    if (kind == MESSAGE_KEYS_FAULT)
        process->fault(process->context, faulty->worker, faulty->pid);
    else if (process->pinged_ns == 0)
        channel_fail(process->child.channel, "answered a ping that it was not sent");
    else
        process->pinged_ns = 0;
}

/* Start and end */

static int run(void *setup)
{
    return keys_run(setup);
}

bool keys_process_start(struct keys_process *process, struct keys_setup *setup,
                        void (*after_fork)(void *context), void *context)
{
    const struct channel_owner owner = {.message = on_report,
                                        .closed = child_ignore_closed,
                                        .fault = on_fault,
                                        .owner = process,
                                        .queue_max = QUEUED_BYTES_MAX};
    const struct child_program program = {run, setup, after_fork, context};

    if (!child_is_due(&process->child, clock_monotonic_ns()))
        return false;
    process->pinged_ns = 0;
    return child_fork_with_channel(&process->child, &program, &setup->command_fd, process->base,
                                   ROUTE_KEYS_REPORTS, &owner) == 0;
}

void keys_process_ended(struct keys_process *process, const char *how)
{
    child_count_end(&process->child, how);
    child_forget(&process->child);
}

/* Links */

/* Sends KIND with a copy of FD. Returns 0, or -1 with errno. */
static int send_copy(const struct keys_process *process, int kind, const void *data, size_t length,
                     int fd)
{
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

    if (copy < 0)
        return -1;
    if (channel_send(process->child.channel, kind, data, length, copy, true) == 0)
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
        channel_send(process->child.channel, MESSAGE_KEYS_CLIENT, &client, sizeof(client), fds[1],
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
    if (process->child.pid == 0 || timeout_ms == 0)
        return;
    if (process->pinged_ns == 0) {
        if (channel_send(process->child.channel, MESSAGE_KEYS_PING, NULL, 0, -1, false) == 0)
            process->pinged_ns = now_ns;
    } else if (child_kill_silent(&process->child, process->pinged_ns, timeout_ms, resumed_ns,
                                 now_ns)) {
        process->pinged_ns = now_ns;
    }
}
