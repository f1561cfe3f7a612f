#include "daemon/master/command.h"

#include "common/server_status.h"
#include "common/tables.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/config/load.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { REPLY_EXTRA_MS = 5000 };

static command *const functions[COMMAND_COUNT] = {
#define COMMAND(name, function, arguments, min, max, changes, help) command_##function,
#include "common/commands.def"
#undef COMMAND
};

/* Results */

struct control_reply command_reply(json_t *json)
{
    return (struct control_reply){.json = json};
}

struct control_reply command_reply_when(struct master *master, bool (*in_force)(void *, uint64_t),
                                        json_t *(*report)(void *, uint64_t))
{
    if (in_force(master, 0))
        return command_reply(report(master, 0));
    return (struct control_reply){.in_force = in_force, .report = report};
}

/* Changes */

void command_log_change(const struct call *call, const char *what, const char *from, const char *to)
{
    event_log(LEVEL_INFO, "%s changed from %s to %s, by uid %u pid %d", what, from, to, call->uid,
              call->pid);
}

void command_log_number(const struct call *call, const char *what, uint32_t from, uint32_t to)
{
    char from_text[16], to_text[16];

    snprintf(from_text, sizeof(from_text), "%u", from);
    snprintf(to_text, sizeof(to_text), "%u", to);
    command_log_change(call, what, from_text, to_text);
}

void command_log_action(const struct call *call, const char *what)
{
    event_log(LEVEL_INFO, "%s, by uid %u pid %d", what, call->uid, call->pid);
}

void command_changed_key(const struct call *call, enum config_key_number key)
{
    struct master *master = call->master;
    char origin[96];

    snprintf(origin, sizeof(origin), "command, by uid %u pid %d", call->uid, call->pid);
    config_set_origin(master->config, key, origin);
    publish_config(master);
}

/* Arguments */

uint32_t command_number(const struct call *call, const char *what, uint32_t max,
                        struct control_reply *failed)
{
    uint64_t number;

    if (units_parse_number(call->argument[0], &number) == 0 && number >= 1 && number <= max)
        return (uint32_t)number;
    *failed = command_reply(
        control_error("invalid number of %s '%.64s' (valid: 1-%u)", what, call->argument[0], max));
    return 0;
}

/* ping, status, help, stop */

struct control_reply command_ping(const struct call *call)
{
    return command_reply(json_pack("{s:b, s:s, s:i, s:s}", "ok", 1, "name",
                                   call->master->config->server_name, "pid", getpid(), "version",
                                   WEBSERVERD_VERSION));
}

struct control_reply command_status(const struct call *call)
{
    predecessor_count(call->master);
    return command_reply(server_status(&call->master->segment));
}

static const struct command_info *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(command_table[i].name, name) == 0)
            return &command_table[i];
    return NULL;
}

static struct control_reply unknown(const char *name)
{
    const char *names[COMMAND_COUNT], *nearest;

    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = command_table[i].name;
    nearest = nearest_word(name, names, COMMAND_COUNT);
    return command_reply(control_error(
        "unknown command '%.64s'%s%s%s; try: help", name, nearest != NULL ? ", did you mean '" : "",
        nearest != NULL ? nearest : "", nearest != NULL ? "'?" : ""));
}

struct control_reply command_help(const struct call *call)
{
    json_t *list = json_array();

    if (call->argument_count > 0 && find_command(call->argument[0]) == NULL) {
        json_decref(list);
        return unknown(call->argument[0]);
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const struct command_info *info = &command_table[i];

        if (call->argument_count == 0 || strcmp(info->name, call->argument[0]) == 0)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:s}", "name", info->name, "arguments",
                                            info->arguments, "help", info->help));
    }
    return command_reply(json_pack("{s:b, s:o}", "ok", 1, "commands", list));
}

struct control_reply command_stop(const struct call *call)
{
    bool now = call->argument_count > 0;

    if (now && strcmp(call->argument[0], "now") != 0)
        return command_reply(
            control_error("invalid argument '%.64s'; usage: stop [now]", call->argument[0]));
    command_log_action(call, now ? "stop now" : "stop");
    lifecycle_stop(call->master, EVENT_stop_command);
    if (now)
        lifecycle_stop(call->master, EVENT_stop_command);
    if (upgrade_must_end(call->master))
        return command_reply(json_pack("{s:b, s:b, s:i}", "ok", 1, "stopping", 1, "new_master",
                                       (int)call->master->upgrade.successor_pid));
    return command_reply(json_pack("{s:b, s:b}", "ok", 1, "stopping", 1));
}

/* upgrade */

static bool upgrade_has_ended(void *owner, uint64_t number)
{
    return upgrade_is_done(owner, number);
}

static json_t *report_upgrade(void *owner, uint64_t number)
{
    const struct upgrade *upgrade = &((const struct master *)owner)->upgrade;

    if (upgrade->done < number)
        return control_error("the server is stopping");
    if (upgrade->failure != NULL)
        return control_error("%s", upgrade->failure);
    return json_pack("{s:b, s:i, s:i}", "ok", 1, "pid", (int)upgrade->successor_pid, "old_pid",
                     getpid());
}

struct control_reply command_upgrade(const struct call *call)
{
    uint64_t number;

    command_log_action(call, "upgrade");
    number = upgrade_request(call->master);
    if (number == 0)
        return command_reply(control_error("upgrade rejected: %s", call->master->upgrade.refusal));
    return (struct control_reply){
        .in_force = upgrade_has_ended, .report = report_upgrade, .token = number};
}

/* From the line to the function */

/*
 * Splits LINE in place at spaces and tabs into WORDS. Returns their number, or CONTROL_WORDS_MAX +
 * 1 if there are more than CONTROL_WORDS_MAX.
 */
static int split_command(char *line, char *words[CONTROL_WORDS_MAX])
{
    int count = 0;
    char *word;

    while ((word = strsep(&line, " \t")) != NULL) {
        if (*word == '\0')
            continue;
        if (count == CONTROL_WORDS_MAX)
            return CONTROL_WORDS_MAX + 1;
        words[count++] = word;
    }
    return count;
}

/*
 * Returns true if a command that changes something may run, else false with an error in *FAILED.
 * With control.group set, its members may connect, but only root and the server's user may change.
 * During a shutdown only another stop may run: the listeners are closed, and no worker can start.
 */
static bool may_change(const struct call *call, const struct command_info *info,
                       struct control_reply *failed)
{
    bool stopping = lifecycle_is_stopping(call->master);
    bool restricted = call->master->config->control_group[0] != '\0';

    if (restricted && call->uid != 0 && call->uid != geteuid())
        *failed = command_reply(control_error(
            "permission denied: only root and the server's user may run '%s'", info->name));
    else if (stopping && functions[info - command_table] != command_stop)
        *failed = command_reply(control_error("the server is stopping"));
    else
        return true;
    return false;
}

/*
 * Workers leave or are killed within drain_timeout and the watchdog's grace, twice that if they are
 * replaced one by one. A change that takes longer waits for a worker that does not do what it
 * should.
 */
static uint64_t reply_limit_ms(const struct master *master)
{
    return 2 * (master->config->workers_drain_timeout + WATCHDOG_GRACE_MS) + REPLY_EXTRA_MS;
}

/* A worker that has been taken over may connect, where its user is that of the master. */
static bool is_own_process(const struct master *master, pid_t pid)
{
    const struct auxiliary *auxiliary = &master->auxiliary;
    bool own = pid == auxiliary->logger.child.pid || pid == auxiliary->keys.child.pid ||
               pid == auxiliary->metrics.child.pid || pid == auxiliary->metrics.leaving ||
               pid == master->certificates.process.child.pid;

    for (uint32_t i = 0; i < master->workers.count && !own; i++)
        own = pid == master->workers.worker[i].pid;
    return own && pid > 0;
}

struct control_reply command_run(void *owner, char *line, unsigned uid, int pid)
{
    struct master *master = owner;
    char *words[CONTROL_WORDS_MAX];
    int count = split_command(line, words);
    const struct command_info *info;
    struct call call = {.master = master, .argument_count = count - 1, .uid = uid, .pid = pid};
    struct control_reply reply;

    if (is_own_process(master, pid))
        return command_reply(control_error("processes of the server may run no command"));
    if (count == 0)
        return command_reply(control_error("empty command; try: help"));
    info = find_command(words[0]);
    if (info == NULL)
        return unknown(words[0]);
    if (call.argument_count < info->min || call.argument_count > info->max)
        return command_reply(control_error("wrong number of arguments; usage: %s%s%s", info->name,
                                           info->arguments[0] != '\0' ? " " : "", info->arguments));
    if (call.argument_count >= info->changes && !may_change(&call, info, &reply))
        return reply;
    for (int i = 0; i < call.argument_count; i++)
        call.argument[i] = words[i + 1];
    metric_add(segment_master(&master->segment)->metrics, METRIC_control_commands, 1);
    reply = functions[info - command_table](&call);
    reply.wait_limit_ms = reply_limit_ms(master);
    return reply;
}
