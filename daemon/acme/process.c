#include "daemon/acme/process.h"

#include "common/clock.h"
#include "common/macros.h"
#include "common/segment_reader.h"
#include "common/segment_writer.h"
#include "daemon/base/directory.h"
#include "daemon/base/events.h"
#include "daemon/base/process_title.h"
#include "daemon/sandbox/identity.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { QUEUED_BYTES_MAX = 64 * 1024, EVENTS_PER_SECOND = 20 };

/* The state directory */

int acme_find_identity(const struct config *config, struct identity *identity, char *why,
                       size_t size)
{
    const char *user = config_acme_user(config);
    bool own = user[0] != '\0';
    struct identity_fault fault;

    if (identity_find(own ? user : config->server_user, own ? "" : config->server_group, geteuid(),
                      identity, &fault) != 0) {
        snprintf(why, size, "[%s] %s: %s", own ? "acme" : "server", fault.group ? "group" : "user",
                 fault.text);
        return -1;
    }
    if (!identity->changes) {
        identity->uid = geteuid();
        identity->gid = getegid();
    }
    return 0;
}

/*
 * Gives the file NAME to IDENTITY if it is one of user OLD. Returns NULL, or why not: a link could
 * be to a file that OLD may not change.
 */
static const char *take_over_file(int directory, const char *name, uid_t old,
                                  const struct identity *identity)
{
    int fd = directory_open_entry(directory, name, O_PATH, 0);
    struct stat status;
    const char *fault = NULL;

    if (fd < 0 || fstat(fd, &status) != 0)
        fault = strerror(errno);
    else if (!S_ISREG(status.st_mode))
        fault = S_ISLNK(status.st_mode) ? "a symbolic link" : "not a regular file";
    else if (status.st_nlink > 1)
        fault = "a hard link";
    else if (status.st_uid != old)
        fault = status.st_uid == identity->uid ? NULL : "a file of another user";
    else if (fchownat(fd, "", identity->uid, identity->gid, AT_EMPTY_PATH) != 0)
        fault = strerror(errno);
    if (fd >= 0)
        close(fd);
    return fault;
}

/* Gives the files in the directory FD, which has belonged to user OLD, to IDENTITY. */
static void take_over_files(int fd, uid_t old, const struct identity *identity)
{
    enum { REPORTED = 20 };
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *directory = copy >= 0 ? fdopendir(copy) : NULL;
    const struct dirent *entry;
    uint32_t left = 0;

    if (directory == NULL) {
        event_log(LEVEL_ERROR, "[acme] state_dir: cannot read it: %s", strerror(errno));
        return;
    }
    while ((entry = readdir(directory)) != NULL) {
        const char *name = entry->d_name, *fault;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        fault = take_over_file(fd, name, old, identity);
        if (fault != NULL && ++left <= REPORTED)
            event_log(LEVEL_WARN, "[acme] state_dir: %.200s keeps its owner: %s", name, fault);
    }
    closedir(directory);
    if (left > REPORTED)
        event_log(LEVEL_WARN, "[acme] state_dir: %u more keep their owner", left - REPORTED);
}

/* Each process has locked a file in it. Another directory was perhaps configured by mistake. */
static bool is_state_directory(int fd)
{
    struct stat status;

    return fstatat(fd, "lock", &status, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * The directory must be the user's alone, because keys are in it. Its owner before is that of
 * another configuration or version: he keeps nothing but descriptors. Returns 0, or -1 with errno.
 */
static int take_state_directory(int fd, const struct identity *identity)
{
    struct stat status;

    if (fstat(fd, &status) != 0)
        return -1;
    if ((status.st_mode & 07777) != 0700 && fchmod(fd, 0700) != 0)
        return -1;
    if (status.st_uid == identity->uid)
        return 0;
    if (fchown(fd, identity->uid, identity->gid) != 0)
        return -1;
    if (!is_state_directory(fd))
        return 0;
    event_log(LEVEL_INFO, "[acme] state_dir: it and the files of user %u now belong to user %u",
              status.st_uid, identity->uid);
    take_over_files(fd, status.st_uid, identity);
    return 0;
}

int acme_open_state(const struct config *config, char *why, size_t size)
{
    struct identity identity;
    char cause[PATH_MAX + 512];
    int fd;

    if (acme_find_identity(config, &identity, why, size) != 0)
        return -1;
    fd = directory_open(config->acme_state_dir, true, cause, sizeof(cause));
    if (fd >= 0 && take_state_directory(fd, &identity) == 0)
        return fd;
    if (fd >= 0) {
        snprintf(cause, sizeof(cause), "%s: %s", config->acme_state_dir, strerror(errno));
        close(fd);
    }
    snprintf(why, size, "[acme] state_dir: %s", cause);
    return -1;
}

/* Messages of the process */

static void on_acme_fault(void *owner, const char *what)
{
    const struct acme_process *process = owner;

    metric_add(segment_master(process->segment)->metrics, METRIC_protocol_errors, 1);
    child_fault(&process->child, what);
}

/* What the authority says is in the text: the logger escapes it. */
static void log_acme_event(struct acme_process *process, const struct message_acme_event *event)
{
    if (process->events_left == 0)
        return;
    process->events_left--;
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

/* Writes name PART of certificate NUMBER. Returns false if there is none. */
static bool copy_name(const struct acme_process *process, uint32_t number, uint32_t part,
                      char name[ACME_NAME_MAX + 1])
{
    const char *names = number < process->plan_count ? process->plan[number].names : "";
    struct span next;

    while ((next = config_acme_next_name(&names)).length > 0 && part > 0)
        part--;
    snprintf(name, ACME_NAME_MAX + 1, "%.*s", (int)next.length, next.start);
    return next.length > 0;
}

/* Programs of the administrator */

static void report_record(const struct acme_process *process, bool good, const char *why)
{
    struct message_acme_record_done done = {.good = good};

    snprintf(done.error, sizeof(done.error), "%s", good ? "" : why);
    if (process->child.channel != NULL)
        channel_send(process->child.channel, MESSAGE_ACME_RECORD_DONE, &done, sizeof(done), -1,
                     false);
}

/* NAMES, separated by commas, in TEXT. */
static void list_names(const char *names, char *text, size_t size)
{
    snprintf(text, size, "%s", names);
    for (; *text != '\0'; text++)
        *text = *text == ' ' ? ',' : *text;
}

/* With the variables of certbot's hooks. */
static void start_dns_hook(struct acme_process *process, const struct message_acme_record *message)
{
    char name[ACME_NAME_MAX + 1], all[HOOK_OUTPUT_BYTES], remaining[16], why[512];
    struct acme_hook_call call = {.config = process->config,
                                  .key = "dns_hook",
                                  .program = process->config->acme_dns_hook,
                                  .argument = message->remove ? "cleanup" : "auth",
                                  .variable = {"CERTBOT_DOMAIN", "CERTBOT_VALIDATION",
                                               "CERTBOT_REMAINING_CHALLENGES",
                                               "CERTBOT_ALL_DOMAINS", "CERTBOT_AUTH_OUTPUT"},
                                  .count = message->remove ? 5 : 4};

    if (process->config->acme_dns_hook[0] == '\0' || process->dns_hook.pid != 0 ||
        !copy_name(process, message->name, message->part, name)) {
        channel_fail(process->child.channel, "requested a DNS record that it cannot need");
        return;
    }
    list_names(process->plan[message->name].names, all, sizeof(all));
    snprintf(remaining, sizeof(remaining), "%u", message->remaining);
    call.value[0] = strncmp(name, "*.", 2) == 0 ? name + 2 : name;
    call.value[1] = message->value;
    call.value[2] = remaining;
    call.value[3] = all;
    call.value[4] = process->dns_output;
    if (acme_hook_start(&process->dns_hook, &call, why, sizeof(why)) != 0)
        report_record(process, false, why);
}

void acme_process_deploy(struct acme_process *process, const struct config *config)
{
    char file[ACME_NAME_MAX + 1], path[PATH_MAX], why[512];
    struct acme_hook_call call = {.config = config,
                                  .key = "deploy_hook",
                                  .program = config->acme_deploy_hook,
                                  .argument = "deploy",
                                  .variable = {"RENEWED_DOMAINS", "RENEWED_FILE"},
                                  .count = 2};

    for (size_t i = 0; i < process->plan_count && process->deploy_hook.pid == 0; i++) {
        struct acme_plan *plan = &process->plan[i];

        if (!plan->deploys)
            continue;
        plan->deploys = false;
        if (config->acme_deploy_hook[0] == '\0')
            continue;
        config_acme_file(plan->names, file);
        snprintf(path, sizeof(path), "%s/%s.pem", config->acme_state_dir, file);
        call.value[0] = plan->names;
        call.value[1] = path;
        if (acme_hook_start(&process->deploy_hook, &call, why, sizeof(why)) != 0)
            event_log(LEVEL_ERROR, "ACME: %s: %s", plan->name, why);
    }
}

bool acme_process_hook_reaped(struct acme_process *process, pid_t pid, int status)
{
    struct acme_hook_result result;

    if (acme_hook_reaped(&process->dns_hook, pid, status, &result)) {
        memcpy(process->dns_output, result.output, sizeof(process->dns_output));
        report_record(process, result.good, result.why);
        return true;
    }
    if (!acme_hook_reaped(&process->deploy_hook, pid, status, &result))
        return false;
    if (result.good)
        event_log(LEVEL_INFO, "ACME: deploy_hook has run");
    else
        event_log(LEVEL_ERROR, "ACME: %s", result.why);
    return true;
}

/* The workers answer the challenge from now on. Its name is that of the configuration. */
static void publish_acme_challenge(struct acme_process *process,
                                   const struct message_acme_challenge *message)
{
    struct challenge_copy challenge = {.kind = (enum challenge_kind)message->kind};

    if (!copy_name(process, message->name, message->part, challenge.name)) {
        channel_fail(process->child.channel, "sent the challenge of a name that it was not given");
        return;
    }
    snprintf(challenge.token, sizeof(challenge.token), "%s", message->token);
    snprintf(challenge.thumbprint, sizeof(challenge.thumbprint), "%s", message->thumbprint);
    segment_store_challenge(process->segment, &challenge);
    channel_send(process->child.channel, MESSAGE_ACME_CHALLENGE_SET, NULL, 0, -1, false);
}

static void on_acme_report(void *owner, int kind, const void *data, size_t length, int fd)
{
    struct acme_process *process = owner;
    const struct message_acme_key_changed *changed;
    const struct message_acme_certificate *certificate;

    (void)length, (void)fd;
    process->child.heard_ns = clock_monotonic_ns();
    switch (kind) {
    case MESSAGE_ACME_EVENT:
        log_acme_event(process, data);
        break;
    case MESSAGE_ACME_CHALLENGE:
        publish_acme_challenge(process, data);
        break;
    case MESSAGE_ACME_PLAN:
        keep_plan(process, data);
        break;
    case MESSAGE_ACME_KEY_CHANGED:
        changed = data;
        process->key_change.ended = changed->change;
        memcpy(process->key_change.error, changed->error, sizeof(process->key_change.error));
        break;
    case MESSAGE_ACME_RECORD:
        start_dns_hook(process, data);
        break;
    case MESSAGE_ACME_CERTIFICATE:
        certificate = data;
        if (certificate->name < process->plan_count)
            process->plan[certificate->name].deploys = true;
        process->renewed(process->context);
        break;
    default:
        break; /* a sign of life */
    }
}

/* Start and end */

/*
 * Opens webserverd-acme: beside this program, as in a build directory, or in libexec. Returns -1
 * with errno.
 */
static int open_program(void)
{
    static const char *const places[] = {"", "../libexec/webserverd/"};
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
    int fd = -1;

    if (length < 0)
        return -1;
    path[length] = '\0';
    length = strrchr(path, '/') + 1 - path;
    for (size_t i = 0; i < ARRAY_LENGTH(places) && fd < 0; i++) {
        snprintf(path + length, sizeof(path) - (size_t)length, "%swebserverd-acme", places[i]);
        fd = open(path, O_PATH | O_CLOEXEC);
    }
    return fd;
}

/* In the child: executes webserverd-acme, whose options these are. */
static int execute_program(void *argument)
{
    enum { OPTIONS_MAX = 48 };
    const struct acme_setup *setup = argument;
    const struct config *config = setup->config;
    const struct config_words *names = &config->acme_names;
    const char *user = config_acme_user(config);
    bool own = user[0] != '\0';
    enum challenge_kind kind[CHALLENGE_KINDS];
    size_t kinds = config_acme_challenges(config, kind), count = 0;
    const char *argv[OPTIONS_MAX + ACME_NAMES_MAX];
    char channel[16], retry[24], title[PROCESS_TITLE_BYTES];

    process_title_format(title, sizeof(title), "acme");
    snprintf(channel, sizeof(channel), "%d", setup->command_fd);
    snprintf(retry, sizeof(retry), "%" PRIu64, (uint64_t)config->acme_retry);
    const char *const valued[][2] = {
        {"--channel", channel},
        {"--user", own ? user : config->server_user},
        {"--group", own ? "" : config->server_group},
        {"--state-dir", config->acme_state_dir},
        {"--ca-file", config->acme_ca_file},
        {"--directory", config_acme_directory(config)},
        {"--email", config->acme_email},
        {"--retry-ms", retry},
        {"--profile", config->acme_profile},
        {"--eab-kid", config->acme_eab_kid},
    };

    if (config->acme_eab_key[0] != '\0') /* other users can read options */
        setenv(ACME_EAB_KEY_VARIABLE, config->acme_eab_key, 1);
    argv[count++] = title;
    for (size_t i = 0; i < ARRAY_LENGTH(valued); i++) {
        argv[count++] = valued[i][0];
        argv[count++] = valued[i][1];
    }
    if (config->server_jail == JAIL_OFF)
        argv[count++] = "--no-jail";
    if (config->acme_key == ACME_KEY_RSA2048)
        argv[count++] = "--rsa2048";
    for (size_t i = 0; i < kinds; i++) {
        argv[count++] = "--challenge";
        argv[count++] = config_acme_challenge_name(kind[i]);
    }
    argv[count++] = "--";
    for (size_t i = 0; i < names->count; i++)
        argv[count++] = names->item[i];
    argv[count] = NULL;
    if (fcntl(setup->command_fd, F_SETFD, 0) == 0)
        fexecve(setup->program_fd, (char *const *)argv, environ);
    events_set_role(ROLE_ACME);
    events_attach(NULL, 0); /* the ring of the segment is the master's */
    event_log(LEVEL_ERROR, "cannot execute webserverd-acme: %s", strerror(errno));
    _exit(EXIT_FAILURE);
}

static void free_plans(struct acme_process *process)
{
    for (size_t i = 0; i < process->plan_count; i++)
        free(process->plan[i].names);
    free(process->plan);
    process->plan = NULL;
    process->plan_count = 0;
}

/* Plans for the names of the configuration, which are perhaps others. Returns 0, or -1. */
static int forget_plans(struct acme_process *process, const struct config_words *names)
{
    struct acme_plan *plan = calloc(names->count, sizeof(*plan));
    bool complete = plan != NULL;

    process->key_change = (struct acme_key_change){0};
    for (size_t i = 0; i < names->count && complete; i++) {
        const char *rest = names->item[i];
        struct span first = config_acme_next_name(&rest);

        snprintf(plan[i].name, sizeof(plan[i].name), "%.*s", (int)first.length, first.start);
        plan[i].names = strdup(names->item[i]);
        complete = plan[i].names != NULL;
        for (size_t k = 0; k < process->plan_count && complete; k++)
            if (strcmp(process->plan[k].names, names->item[i]) == 0)
                plan[i].deploys = process->plan[k].deploys;
    }
    free_plans(process);
    process->plan = plan;
    process->plan_count = plan != NULL ? names->count : 0;
    if (!complete)
        free_plans(process);
    return complete ? 0 : -1;
}

void acme_process_find_program(struct acme_process *process)
{
    if (process->program_fd < 0)
        process->program_fd = open_program();
}

void acme_process_start(struct acme_process *process, struct acme_setup *setup,
                        void (*after_fork)(void *context), void *context)
{
    const struct channel_owner owner = {.message = on_acme_report,
                                        .closed = child_ignore_closed,
                                        .fault = on_acme_fault,
                                        .owner = process,
                                        .queue_max = QUEUED_BYTES_MAX,
                                        .rate_max = CHANNEL_REPORTS_MAX};
    const struct child_program program = {execute_program, setup, after_fork, context};

    if (!child_is_due(&process->child, clock_monotonic_ns()))
        return;
    process->events_left = EVENTS_PER_SECOND;
    if (geteuid() == 0 && config_acme_user(setup->config)[0] == '\0')
        event_log(LEVEL_WARN, "ACME: " ACME_SHARED_USER);
    process->config = setup->config;
    acme_process_find_program(process);
    setup->program_fd = process->program_fd;
    if (setup->program_fd < 0 || forget_plans(process, &setup->config->acme_names) != 0) {
        child_report_failure(&process->child);
        if (setup->program_fd < 0)
            event_log(LEVEL_ERROR, "webserverd-acme is neither beside this program nor in "
                                   "../libexec/webserverd");
    } else {
        child_fork_with_channel(&process->child, &program, &setup->command_fd, process->base,
                                ROUTE_ACME_REPORTS, &owner);
    }
}

bool acme_process_ended(struct acme_process *process, pid_t pid, const char *how)
{
    if (pid != process->child.pid)
        return false;
    channel_read_all(process->child.channel); /* its last events */
    child_count_end(&process->child, how);
    child_forget(&process->child);
    acme_hook_kill(&process->dns_hook);
    segment_store_challenge(process->segment, &(struct challenge_copy){0});
    return true;
}

void acme_process_stop(struct acme_process *process)
{
    if (process->child.pid == 0)
        return;
    child_stop(&process->child);
    acme_hook_kill(&process->dns_hook);
    segment_store_challenge(process->segment, &(struct challenge_copy){0});
}

void acme_process_free(struct acme_process *process)
{
    child_free(&process->child);
    acme_hook_free(&process->dns_hook);
    acme_hook_free(&process->deploy_hook);
    free_plans(process);
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
    message = (struct message_acme_renew){.name = name, .renewal = ++process->renewals_requested};
    if (channel_send(process->child.channel, MESSAGE_ACME_RENEW, &message, sizeof(message), -1,
                     false) != 0)
        return 0;
    plan->renewal = process->renewals_requested;
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
    message = (struct message_acme_change_key){.change = ++process->key_changes_requested};
    if (channel_send(process->child.channel, MESSAGE_ACME_CHANGE_KEY, &message, sizeof(message), -1,
                     false) != 0)
        return 0;
    change->number = process->key_changes_requested;
    change->since_ns = clock_monotonic_ns();
    return change->number;
}

/* Hanging */

void acme_process_check(struct acme_process *process, uint64_t timeout_ms, uint64_t resumed_ns,
                        uint64_t now_ns)
{
    struct child *child = &process->child;

    process->events_left = EVENTS_PER_SECOND;
    acme_hook_check(&process->dns_hook, now_ns);
    acme_hook_check(&process->deploy_hook, now_ns);
    if (child_kill_silent(child, child->heard_ns, timeout_ms, resumed_ns, now_ns))
        child->heard_ns = now_ns;
}
