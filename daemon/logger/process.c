#include "daemon/logger/process.h"

#include "common/clock.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"
#include "daemon/base/loop.h"
#include "daemon/logger/internal.h"

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
static bool send_log_file(const struct logger_process *process, uint32_t log)
{
    const struct message_log message = {log, process->number};
    int copy = fcntl(log_files_fd(process->files, log), F_DUPFD_CLOEXEC, 0);

    if (copy >= 0 && channel_send(process->child.channel, MESSAGE_LOG_FILE, &message,
                                  sizeof(message), copy, true) == 0)
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
    if (log_files_fd(process->files, log) >= 0 && !send_log_file(process, log))
        event_log(LEVEL_ERROR, "cannot pass a log to the logger: %s", strerror(errno));
    if (log_files_lack(process->files, log))
        retry_in_a_second(process);
}

/*
 * Log by log: first the files of hosts, because the logger begins when it has the access log. It
 * has carried out the request when it has the last one.
 */
void logger_process_send_files(struct logger_process *process, uint32_t number)
{
    process->number = number;
    if (process->child.channel == NULL)
        return;
    for (uint32_t log = LOG_KINDS; log < log_files_count(process->files); log++)
        send_or_retry(process, log);
    for (uint32_t log = 0; log < LOG_KINDS; log++)
        send_or_retry(process, log);
}

static void restore_log(struct logger_process *process, uint32_t log)
{
    char why[512];

    if (log_files_restore(process->files, log, why, sizeof(why)) == 0) {
        process->failing = false;
        if (process->child.channel != NULL)
            send_log_file(process, log);
        return;
    }
    if (!process->failing)
        event_log(LEVEL_ERROR, "%s; its lines %s", why,
                  log < LOG_KINDS ? "stay in memory" : "are lost meanwhile");
    process->failing = true;
    retry_in_a_second(process);
}

static void on_retry_of_logs(evutil_socket_t fd, short what, void *argument)
{
    struct logger_process *process = argument;

    (void)fd, (void)what;
    for (uint32_t log = 0; log < log_files_count(process->files); log++)
        if (log_files_lack(process->files, log))
            restore_log(process, log);
}

/* Messages of the logger */

static void on_fault_of_logger(void *owner, const char *what)
{
    const struct logger_process *process = owner;

    metric_add(segment_master(process->segment)->metrics, METRIC_protocol_errors, 1);
    child_fault(&process->child, what);
}

/* MESSAGE_LOG_LOST is the only kind. Each report answers a descriptor, so they cannot flood. */
static void on_report_of_logger(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct logger_process *process = owner;
    const struct message_log *lost = data;

    (void)kind, (void)length, (void)fd;
    if (channel_received(process->child.channel) > channel_sent(process->child.channel)) {
        channel_fail(process->child.channel, "lost more logs than it received");
        return;
    }
    if (lost->number != process->number || lost->log >= log_files_count(process->files))
        return; /* it has been opened again, or is none any more */
    log_files_lose(process->files, lost->log);
    retry_in_a_second(process);
}

/* Start and end */

static void send_finish(const struct logger_process *process)
{
    uint64_t now = clock_monotonic_ns();
    uint64_t wait_ns =
        process->stopping && process->stop_by_ns > now ? process->stop_by_ns - now : 0;
    const struct message_log_finish message = {.wait_ms = (uint32_t)(wait_ns / NS_PER_MS),
                                               .last = process->stopping};

    if (process->child.pid > 0 && channel_send(process->child.channel, MESSAGE_LOG_FINISH, &message,
                                               sizeof(message), -1, false) != 0)
        kill(process->child.pid, SIGKILL);
}

/* The child keeps the salvaged lines, which AFTER_FORK would free. */
struct logger_start {
    struct logger_process *process;
    void (*after_fork)(void *context); /* *PROCESS is not valid afterwards */
    void *context;
};

static void keep_salvage(void *context)
{
    const struct logger_start *start = context;

    *start->process->salvage = (struct salvage){0};
    start->after_fork(start->context);
}

static int fork_logger(struct logger_process *process, struct logger_setup *setup,
                       void (*after_fork)(void *context), void *context)
{
    const struct channel_owner owner = {.message = on_report_of_logger,
                                        .closed = child_ignore_closed,
                                        .fault = on_fault_of_logger,
                                        .owner = process,
                                        .queue_max = QUEUED_BYTES_MAX,
                                        .rate_max = CHANNEL_REPORTS_MAX};
    struct logger_start start = {process, after_fork, context};
    const struct child_program program = {logger_run, setup, keep_salvage, &start};
    struct salvage salvage = *process->salvage;

    setup->salvage = &salvage;
    setup->targets = &process->files->targets;
    return child_fork_with_channel(&process->child, &program, &setup->command_fd, process->base,
                                   ROUTE_LOG_REPORTS, &owner);
}

void logger_process_start(struct logger_process *process, struct logger_setup *setup,
                          void (*after_fork)(void *context), void *context)
{
    if (atomic_load(&segment_logger(process->segment)->salvaged) >= process->salvage->count)
        salvage_free(process->salvage);
    if (process->finished || !child_is_due(&process->child, clock_monotonic_ns()) ||
        fork_logger(process, setup, after_fork, context) != 0)
        return;
    events_echo(false);
    logger_process_send_files(process, process->number);
    if (process->stopping)
        send_finish(process);
}

void logger_process_ended(struct logger_process *process, const char *how, bool failed)
{
    events_echo(true); /* no logger writes the next event */
    process->finished = process->finished || (process->stopping && !failed);
    if (!process->finished && !process->restarting)
        child_count_end(&process->child, how);
    process->restarting = false;
    child_forget(&process->child);
}

/* A heartbeat from the future would never grow old, so it is none. */
void logger_process_check(const struct logger_process *process, uint64_t timeout_ms,
                          uint64_t resumed_ns, uint64_t now_ns)
{
    uint64_t beat =
        atomic_load_explicit(&segment_logger(process->segment)->heartbeat_ns, memory_order_acquire);

    if (beat < process->child.started_ns || beat > clock_monotonic_ns())
        beat = process->child.started_ns;
    child_kill_silent(&process->child, beat, timeout_ms, resumed_ns, now_ns);
}

void logger_process_restart(struct logger_process *process)
{
    process->restarting = process->child.pid > 0;
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
    if (process->child.pid > 0)
        kill(process->child.pid, SIGKILL);
}

uint64_t logger_process_unwritten(const struct logger_process *process)
{
    return access_log_unwritten(process->segment, process->salvage);
}

int logger_process_init(struct logger_process *process, struct event_base *base,
                        struct segment *segment, struct log_files *files, struct salvage *salvage)
{
    *process = (struct logger_process){
        .child = {.name = "logger",
                  .shown_pid = &segment_master(segment)->logger_pid,
                  .deaths = &segment_master(segment)->metrics[METRIC_processes_died]},
        .base = base,
        .segment = segment,
        .files = files,
        .salvage = salvage};
    process->retry = event_new(base, -1, 0, on_retry_of_logs, process);
    return process->retry != NULL ? 0 : -1;
}

void logger_process_free(struct logger_process *process)
{
    child_free(&process->child);
    loop_free_event(process->retry);
    process->retry = NULL;
}
