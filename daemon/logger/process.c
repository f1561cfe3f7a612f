#include "daemon/logger/process.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/logger/access_log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUEUED_BYTES_MAX = 64 * 1024 }; /* a logger with so many unread messages hangs */

/* Messages to the logger */

/* Returns false if the channel does not take it. */
static bool send_file(const struct logger_process *process, uint32_t log)
{
    const struct message_log message = {log, process->number};
    int copy = fcntl(log_files_fd(process->files, log), F_DUPFD_CLOEXEC, 0);

    if (copy >= 0 && channel_send(process->channel, MESSAGE_LOG_FILE, &message, sizeof(message),
                                  copy, true) == 0)
        return true;
    if (copy >= 0)
        close(copy);
    return false;
}

static void retry_in_a_second(const struct logger_process *process)
{
    static const struct timeval second = {.tv_sec = 1};

    event_add(process->retry, &second);
}

static void send_or_retry(const struct logger_process *process, uint32_t log)
{
    if (log_files_fd(process->files, log) >= 0 && !send_file(process, log))
        event_log(LEVEL_ERROR, "cannot pass a log to the logger: %s", strerror(errno));
    if (log_files_lack(process->files, log))
        retry_in_a_second(process);
}

/*
 * Log by log: first the files of hosts, because the logger begins when it has the access log. It has
 * carried out the request when it has the last one.
 */
void logger_process_send_files(struct logger_process *process, uint32_t number)
{
    process->number = number;
    if (process->channel == NULL)
        return;
    for (uint32_t log = LOG_KINDS; log < log_files_count(process->files); log++)
        send_or_retry(process, log);
    for (uint32_t log = 0; log < LOG_KINDS; log++)
        send_or_retry(process, log);
}

static void restore(struct logger_process *process, uint32_t log)
{
    char why[512];

    if (log_files_restore(process->files, log, why, sizeof(why)) == 0) {
        process->failing = false;
        if (process->channel != NULL)
            send_file(process, log);
        return;
    }
    if (!process->failing)
        event_log(LEVEL_ERROR, "%s; its lines %s", why,
                  log < LOG_KINDS ? "stay in memory" : "are lost meanwhile");
    process->failing = true;
    retry_in_a_second(process);
}

static void on_retry(evutil_socket_t fd, short what, void *argument)
{
    struct logger_process *process = argument;

    (void)fd, (void)what;
    for (uint32_t log = 0; log < log_files_count(process->files); log++)
        if (log_files_lack(process->files, log))
            restore(process, log);
}

/* Messages of the logger */

static void on_fault(void *owner, const char *what)
{
    const struct logger_process *process = owner;

    metric_add(segment_master(process->segment)->metrics, METRIC_protocol_errors, 1);
    event_log(LEVEL_ERROR, "the logger (pid %d) %s: killing it", process->pid, what);
    kill(process->pid, SIGKILL);
}

/* MESSAGE_LOG_LOST is the only kind. Each report answers a descriptor, so they cannot flood. */
static void on_report(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct logger_process *process = owner;
    const struct message_log *lost = data;

    (void)kind, (void)length, (void)fd;
    if (channel_received(process->channel) > channel_sent(process->channel)) {
        channel_fail(process->channel, "lost more logs than it received");
        return;
    }
    if (lost->number != process->number || lost->log >= log_files_count(process->files))
        return; /* it has been opened again, or is none any more */
    log_files_lose(process->files, lost->log);
    retry_in_a_second(process);
}

/* SIGCHLD follows, whose handler cleans up. */
static void ignore_closed(void *process)
{
    (void)process;
}

/* Start and end */

static void send_finish(const struct logger_process *process)
{
    uint64_t now = clock_monotonic_ns();
    uint64_t wait_ns =
        process->stopping && process->stop_by_ns > now ? process->stop_by_ns - now : 0;
    const struct message_log_finish message = {.wait_ms = (uint32_t)(wait_ns / NS_PER_MS),
                                               .last = process->stopping};

    if (process->pid > 0 && channel_send(process->channel, MESSAGE_LOG_FINISH, &message,
                                         sizeof(message), -1, false) != 0)
        kill(process->pid, SIGKILL);
}

/*
 * AFTER_FORK closes the channel in the child, and would close the journal; *PROCESS is not valid
 * afterwards. Returns the child's pid, or -1 with errno.
 */
static pid_t fork_logger(struct logger_process *process, struct logger_setup *setup, int command_fd,
                         void (*after_fork)(void *context), void *context)
{
    struct log_journal journal = process->journal;
    struct salvage salvage = *process->salvage;
    const struct log_targets *targets = &process->files->targets;
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0)
        return pid;
    process->journal = LOG_JOURNAL_NONE;
    *process->salvage = (struct salvage){0};
    after_fork(context);
    setup->journal = &journal;
    setup->salvage = &salvage;
    setup->targets = targets;
    setup->command_fd = command_fd;
    exit(logger_run(setup));
}

static int start(struct logger_process *process, struct logger_setup *setup,
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
    process->channel = channel_open(process->base, fds[0], ROUTE_LOG_REPORTS, &owner);
    process->pid =
        process->channel != NULL ? fork_logger(process, setup, fds[1], after_fork, context) : -1;
    close(fds[1]);
    if (process->pid > 0)
        return 0;
    channel_close(process->channel);
    process->channel = NULL;
    process->pid = 0;
    return -1;
}

static void publish_pid(const struct logger_process *process)
{
    atomic_store_explicit(&segment_master(process->segment)->logger_pid, process->pid,
                          memory_order_relaxed);
    events_echo(process->pid == 0);
}

static void free_salvage(const struct logger_process *process)
{
    if (process->salvage->words != NULL &&
        atomic_load(&process->journal.batch->salvaged) >= process->salvage->count)
        salvage_free(process->salvage);
}

void logger_process_start(struct logger_process *process, struct logger_setup *setup,
                          void (*after_fork)(void *context), void *context)
{
    uint64_t now = clock_monotonic_ns();

    free_salvage(process);
    if (process->pid != 0 || process->finished || !backoff_over(&process->backoff, now))
        return;
    if (start(process, setup, after_fork, context) != 0) {
        publish_pid(process);
        event_log(LEVEL_ERROR, "cannot start the logger: %s", strerror(errno));
        backoff_count(&process->backoff, 0, now);
        return;
    }
    process->started_ns = now;
    publish_pid(process);
    logger_process_send_files(process, process->number);
    if (process->stopping)
        send_finish(process);
}

void logger_process_ended(struct logger_process *process, const char *how, bool failed)
{
    uint64_t now = clock_monotonic_ns();

    channel_close(process->channel);
    process->channel = NULL;
    process->pid = 0;
    publish_pid(process);
    process->finished = process->finished || (process->stopping && !failed);
    if (process->finished || process->restarting) {
        process->restarting = false;
        return;
    }
    backoff_count(&process->backoff, now - process->started_ns, now);
    event_log(LEVEL_ERROR, "the logger %s: starting another%s", how,
              process->backoff.failures > 1 ? " after a delay: it keeps failing" : "");
}

void logger_process_restart(struct logger_process *process)
{
    process->restarting = process->pid > 0;
    send_finish(process);
}

void logger_process_stop(struct logger_process *process, uint32_t wait_ms)
{
    process->stopping = true;
    process->stop_by_ns = clock_monotonic_ns() + wait_ms * NS_PER_MS;
    send_finish(process);
}

void logger_process_give_up(struct logger_process *process)
{
    process->finished = true;
    if (process->pid > 0)
        kill(process->pid, SIGKILL);
}

uint64_t logger_process_unwritten(const struct logger_process *process)
{
    return access_log_unwritten(process->segment, &process->journal, process->salvage);
}

int logger_process_init(struct logger_process *process, struct event_base *base,
                        struct segment *segment, struct log_files *files, struct salvage *salvage)
{
    *process = (struct logger_process){.base = base,
                                       .segment = segment,
                                       .files = files,
                                       .salvage = salvage,
                                       .journal = LOG_JOURNAL_NONE};
    process->retry = event_new(base, -1, 0, on_retry, process);
    return process->retry != NULL ? log_journal_open(&process->journal) : -1;
}

void logger_process_free(struct logger_process *process)
{
    channel_close(process->channel);
    process->channel = NULL;
    loop_free_event(process->retry);
    process->retry = NULL;
    log_journal_close(&process->journal);
}
