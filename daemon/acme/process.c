#include "daemon/acme/process.h"

#include "common/clock.h"
#include "common/segment_reader.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { QUEUED_BYTES_MAX = 64 * 1024, EVENTS_PER_SECOND = 20 };

static void set_pid(struct acme_process *process, pid_t pid)
{
    process->pid = pid;
    atomic_store_explicit(&segment_acme(process->segment)->pid, pid, memory_order_relaxed);
}

/* Messages of the process */

static void on_fault(void *owner, const char *what)
{
    const struct acme_process *process = owner;

    metric_add(segment_master(process->segment)->metrics, METRIC_protocol_errors, 1);
    event_log(LEVEL_ERROR, "the ACME process (pid %d) %s: killing it", process->pid, what);
    kill(process->pid, SIGKILL);
}

/* What the authority says is in the text: the logger escapes it. */
static void log_event(struct acme_process *process, const struct message_acme_event *event)
{
    if (process->events == 0)
        return;
    process->events--;
    event_log((enum level)event->level, "ACME: %s", event->text);
}

static void keep_plan(struct acme_process *process, const struct message_acme_plan *message)
{
    _Atomic uint64_t *metrics = segment_master(process->segment)->metrics;
    struct acme_plan *plan;

    if (message->name >= process->plan_count) {
        channel_fail(process->channel, "reported a name that it was not given");
        return;
    }
    if (message->attempted)
        metric_add(metrics, METRIC_certificate_attempts, 1);
    if (message->attempted && message->failures > 0)
        metric_add(metrics, METRIC_certificate_failures, 1);
    plan = &process->plan[message->name];
    plan->known = true;
    plan->failures = message->failures;
    plan->renewal_ended = message->renewal;
    plan->next_s = message->next_s;
    plan->refused_until_s = message->refused_until_s;
    memcpy(plan->error, message->error, sizeof(plan->error));
}

static void keep_key_change(struct acme_process *process,
                            const struct message_acme_key_changed *message)
{
    struct acme_key_change *change = &process->key_change;

    change->ended = message->change;
    memcpy(change->error, message->error, sizeof(change->error));
}

/* The workers answer the challenge from now on. Its name is that of the configuration. */
static void publish(struct acme_process *process, const struct message_acme_challenge *message)
{
    struct challenge_copy challenge = {.kind = (enum challenge_kind)message->kind};

    if (message->name >= process->plan_count) {
        channel_fail(process->channel, "sent the challenge of a name that it was not given");
        return;
    }
    snprintf(challenge.name, sizeof(challenge.name), "%s", process->plan[message->name].name);
    snprintf(challenge.token, sizeof(challenge.token), "%s", message->token);
    snprintf(challenge.thumbprint, sizeof(challenge.thumbprint), "%s", message->thumbprint);
    segment_store_challenge(process->segment, &challenge);
    channel_send(process->channel, MESSAGE_ACME_CHALLENGE_SET, NULL, 0, -1, false);
}

static void on_report(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct acme_process *process = owner;

    (void)length, (void)fd;
    process->heard_ns = clock_monotonic_ns();
    switch (kind) {
    case MESSAGE_ACME_EVENT:
        log_event(process, data);
        break;
    case MESSAGE_ACME_CHALLENGE:
        publish(process, data);
        break;
    case MESSAGE_ACME_PLAN:
        keep_plan(process, data);
        break;
    case MESSAGE_ACME_KEY_CHANGED:
        keep_key_change(process, data);
        break;
    case MESSAGE_ACME_CERTIFICATE:
        process->renewed(process->context);
        break;
    default:
        break; /* a sign of life */
    }
}

/* SIGCHLD follows, whose handler cleans up. */
static void ignore_closed(void *process)
{
    (void)process;
}

/* Start and end */

/* AFTER_FORK closes the channel in the child. Returns the child's pid, or -1 with errno. */
static pid_t fork_acme(struct acme_setup *setup, int command_fd, void (*after_fork)(void *context),
                       void *context)
{
    pid_t pid;

    fflush(NULL);
    pid = fork();
    if (pid != 0)
        return pid;
    after_fork(context);
    setup->command_fd = command_fd;
    _exit(acme_run(setup)); /* not exit(): a thread of libcurl may still resolve a name */
}

static int start(struct acme_process *process, struct acme_setup *setup,
                 void (*after_fork)(void *context), void *context)
{
    const struct channel_owner owner = {.message = on_report,
                                        .closed = ignore_closed,
                                        .fault = on_fault,
                                        .owner = process,
                                        .queue_max = QUEUED_BYTES_MAX};
    int fds[2];
    pid_t pid;

    process->key_change = (struct acme_key_change){0};
    free(process->plan); /* perhaps of other names */
    process->plan_count = setup->config->acme_names.count;
    process->plan = calloc(process->plan_count, sizeof(*process->plan));
    if (process->plan == NULL || channel_pair(fds) != 0)
        return -1;
    for (size_t i = 0; i < process->plan_count; i++)
        snprintf(process->plan[i].name, sizeof(process->plan[i].name), "%s",
                 setup->config->acme_names.item[i]);
    process->channel = channel_open(process->base, fds[0], ROUTE_ACME_REPORTS, &owner);
    pid = process->channel != NULL ? fork_acme(setup, fds[1], after_fork, context) : -1;
    close(fds[1]);
    if (pid > 0) {
        set_pid(process, pid);
        return 0;
    }
    channel_close(process->channel);
    process->channel = NULL;
    return -1;
}

void acme_process_start(struct acme_process *process, struct acme_setup *setup,
                        void (*after_fork)(void *context), void *context)
{
    uint64_t now = clock_monotonic_ns();

    if (process->pid != 0 || !backoff_over(&process->backoff, now))
        return;
    process->events = EVENTS_PER_SECOND;
    if (start(process, setup, after_fork, context) == 0) {
        process->started_ns = process->heard_ns = now;
        return;
    }
    event_log(LEVEL_ERROR, "cannot start the ACME process: %s", strerror(errno));
    backoff_count(&process->backoff, 0, now);
}

static void forget(struct acme_process *process)
{
    channel_close(process->channel);
    process->channel = NULL;
    set_pid(process, 0);
    segment_store_challenge(process->segment, &(struct challenge_copy){0});
}

bool acme_process_ended(struct acme_process *process, pid_t pid, const char *how)
{
    uint64_t now = clock_monotonic_ns();

    if (pid != process->pid)
        return false;
    channel_read_all(process->channel); /* its last events */
    forget(process);
    backoff_count(&process->backoff, now - process->started_ns, now);
    event_log(LEVEL_ERROR, "the ACME process (pid %d) %s: starting another%s", pid, how,
              process->backoff.failures > 1 ? " after a delay: it keeps failing" : "");
    return true;
}

void acme_process_stop(struct acme_process *process)
{
    if (process->pid == 0)
        return;
    kill(process->pid, SIGKILL);
    while (waitpid(process->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    forget(process);
    process->backoff = (struct backoff){0};
}

void acme_process_free(struct acme_process *process)
{
    channel_close(process->channel);
    process->channel = NULL;
    free(process->plan);
    process->plan = NULL;
    process->plan_count = 0;
}

uint32_t acme_process_renew(struct acme_process *process, uint32_t name)
{
    struct acme_plan *plan;
    struct message_acme_renew message;

    if (process->pid == 0 || name >= process->plan_count)
        return 0;
    plan = &process->plan[name];
    if (plan->renewal != plan->renewal_ended)
        return plan->renewal;
    message = (struct message_acme_renew){.name = name, .renewal = ++process->renewals};
    if (channel_send(process->channel, MESSAGE_ACME_RENEW, &message, sizeof(message), -1, false) !=
        0)
        return 0;
    plan->renewal = process->renewals;
    plan->renewal_ns = clock_monotonic_ns();
    return plan->renewal;
}

uint32_t acme_process_change_key(struct acme_process *process)
{
    struct acme_key_change *change = &process->key_change;
    struct message_acme_change_key message;

    if (process->pid == 0)
        return 0;
    if (change->number != change->ended)
        return change->number;
    message = (struct message_acme_change_key){.change = ++process->key_changes};
    if (channel_send(process->channel, MESSAGE_ACME_CHANGE_KEY, &message, sizeof(message), -1,
                     false) != 0)
        return 0;
    change->number = process->key_changes;
    change->since_ns = clock_monotonic_ns();
    return change->number;
}

/* Hanging */

void acme_process_check(struct acme_process *process, uint64_t timeout_ms, uint64_t resumed_ns,
                        uint64_t now_ns)
{
    uint64_t since = process->heard_ns > resumed_ns ? process->heard_ns : resumed_ns;

    process->events = EVENTS_PER_SECOND;
    if (process->pid == 0 || timeout_ms == 0 || now_ns <= since ||
        now_ns - since <= timeout_ms * NS_PER_MS)
        return;
    event_log(LEVEL_ERROR,
              "the ACME process (pid %d) has given no sign of life for %lu s: killing it",
              process->pid, (unsigned long)((now_ns - since) / NS_PER_S));
    kill(process->pid, SIGKILL);
    process->heard_ns = now_ns;
}
