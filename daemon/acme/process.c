#include "daemon/acme/process.h"

#include "common/clock.h"
#include "common/segment_reader.h"
#include "common/segment_writer.h"
#include "daemon/base/events.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { QUEUED_BYTES_MAX = 64 * 1024, EVENTS_PER_SECOND = 20 };

/* Messages of the process */

static void on_fault(void *owner, const char *what)
{
    const struct acme_process *process = owner;

    metric_add(segment_master(process->segment)->metrics, METRIC_protocol_errors, 1);
    child_fault(&process->child, what);
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
        channel_fail(process->child.channel, "reported a name that it was not given");
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
        channel_fail(process->child.channel, "sent the challenge of a name that it was not given");
        return;
    }
    snprintf(challenge.name, sizeof(challenge.name), "%s", process->plan[message->name].name);
    snprintf(challenge.token, sizeof(challenge.token), "%s", message->token);
    snprintf(challenge.thumbprint, sizeof(challenge.thumbprint), "%s", message->thumbprint);
    segment_store_challenge(process->segment, &challenge);
    channel_send(process->child.channel, MESSAGE_ACME_CHALLENGE_SET, NULL, 0, -1, false);
}

static void on_report(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct acme_process *process = owner;

    (void)length, (void)fd;
    process->child.heard_ns = clock_monotonic_ns();
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

/* Start and end */

/* _exit(), not exit(): a thread of libcurl may still resolve a name. */
static int run(void *setup)
{
    _exit(acme_run(setup));
}

/* Plans for the names of the configuration, which are perhaps others. Returns 0, or -1. */
static int forget_plans(struct acme_process *process, const struct config_names *names)
{
    process->key_change = (struct acme_key_change){0};
    free(process->plan);
    process->plan_count = 0;
    process->plan = calloc(names->count, sizeof(*process->plan));
    if (process->plan == NULL)
        return -1;
    process->plan_count = names->count;
    for (size_t i = 0; i < names->count; i++)
        snprintf(process->plan[i].name, sizeof(process->plan[i].name), "%s", names->item[i]);
    return 0;
}

void acme_process_start(struct acme_process *process, struct acme_setup *setup,
                        void (*after_fork)(void *context), void *context)
{
    const struct channel_owner owner = {.message = on_report,
                                        .closed = child_ignore_closed,
                                        .fault = on_fault,
                                        .owner = process,
                                        .queue_max = QUEUED_BYTES_MAX};
    const struct child_program program = {run, setup, after_fork, context};

    if (!child_is_due(&process->child, clock_monotonic_ns()))
        return;
    process->events = EVENTS_PER_SECOND;
    if (forget_plans(process, &setup->config->acme_names) != 0)
        child_report_failure(&process->child);
    else
        child_fork_with_channel(&process->child, &program, &setup->command_fd, process->base,
                                ROUTE_ACME_REPORTS, &owner);
}

bool acme_process_ended(struct acme_process *process, pid_t pid, const char *how)
{
    if (pid != process->child.pid)
        return false;
    channel_read_all(process->child.channel); /* its last events */
    child_count_end(&process->child, how);
    child_forget(&process->child);
    segment_store_challenge(process->segment, &(struct challenge_copy){0});
    return true;
}

void acme_process_stop(struct acme_process *process)
{
    if (process->child.pid == 0)
        return;
    child_stop(&process->child);
    segment_store_challenge(process->segment, &(struct challenge_copy){0});
}

void acme_process_free(struct acme_process *process)
{
    child_free(&process->child);
    free(process->plan);
    process->plan = NULL;
    process->plan_count = 0;
}

uint32_t acme_process_renew(struct acme_process *process, uint32_t name)
{
    struct acme_plan *plan;
    struct message_acme_renew message;

    if (process->child.pid == 0 || name >= process->plan_count)
        return 0;
    plan = &process->plan[name];
    if (plan->renewal != plan->renewal_ended)
        return plan->renewal;
    message = (struct message_acme_renew){.name = name, .renewal = ++process->renewals};
    if (channel_send(process->child.channel, MESSAGE_ACME_RENEW, &message, sizeof(message), -1,
                     false) != 0)
        return 0;
    plan->renewal = process->renewals;
    plan->renewal_ns = clock_monotonic_ns();
    return plan->renewal;
}

uint32_t acme_process_change_key(struct acme_process *process)
{
    struct acme_key_change *change = &process->key_change;
    struct message_acme_change_key message;

    if (process->child.pid == 0)
        return 0;
    if (change->number != change->ended)
        return change->number;
    message = (struct message_acme_change_key){.change = ++process->key_changes};
    if (channel_send(process->child.channel, MESSAGE_ACME_CHANGE_KEY, &message, sizeof(message), -1,
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
    struct child *child = &process->child;

    process->events = EVENTS_PER_SECOND;
    if (child_kill_silent(child, child->heard_ns, timeout_ms, resumed_ns, now_ns))
        child->heard_ns = now_ns;
}
