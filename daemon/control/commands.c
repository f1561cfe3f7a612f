#include "daemon/control/command.h"

#include "common/tables.h"
#include "daemon/config/load.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static command *const functions[COMMAND_COUNT] = {
#define COMMAND(name, function, arguments, min, max, changes, help) command_##function,
#include "common/commands.def"
#undef COMMAND
};

/* ping, help, stop */

struct command_result command_ping(const struct call *call)
{
    return command_reply(json_pack("{s:b, s:s, s:i, s:s}", "ok", 1, "name",
                                   call->master->server.config->server_name, "pid", getpid(),
                                   "version", WEBSERVERD_VERSION));
}

static const struct command_info *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(command_table[i].name, name) == 0)
            return &command_table[i];
    return NULL;
}

static struct command_result unknown(const char *name)
{
    const char *names[COMMAND_COUNT], *nearest;

    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = command_table[i].name;
    nearest = nearest_word(name, names, COMMAND_COUNT);
    return command_reply(command_error(
        "unknown command '%.64s'%s%s%s; try: help", name, nearest != NULL ? ", did you mean '" : "",
        nearest != NULL ? nearest : "", nearest != NULL ? "'?" : ""));
}

struct command_result command_help(const struct call *call)
{
    json_t *list = json_array();

    if (call->count > 0 && find_command(call->argument[0]) == NULL) {
        json_decref(list);
        return unknown(call->argument[0]);
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const struct command_info *info = &command_table[i];

        if (call->count == 0 || strcmp(info->name, call->argument[0]) == 0)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:s}", "name", info->name, "arguments",
                                            info->arguments, "help", info->help));
    }
    return command_reply(json_pack("{s:b, s:o}", "ok", 1, "commands", list));
}

struct command_result command_stop(const struct call *call)
{
    bool now = call->count > 0;

    if (now && strcmp(call->argument[0], "now") != 0)
        return command_reply(
            command_error("invalid argument '%.64s'; usage: stop [now]", call->argument[0]));
    command_log_action(call, now ? "stop now" : "stop");
    master_stop(call->master, EVENT_stop_command);
    if (now)
        master_stop(call->master, EVENT_stop_command);
    if (upgrade_must_end(call->master->upgrade))
        return command_reply(json_pack("{s:b, s:b, s:i}", "ok", 1, "stopping", 1, "new_master",
                                       (int)upgrade_pid(call->master->upgrade)));
    return command_reply(json_pack("{s:b, s:b}", "ok", 1, "stopping", 1));
}

/* From the line to the function */

/*
 * Returns true if a command that changes something may run, else false with an error in *FAILED.
 * With control.group set, its members may connect, but only root and the server's user may change.
 * During a shutdown only another stop may run: the listeners are closed, and no worker can start.
 */
static bool may_change(const struct call *call, const struct command_info *info,
                       struct command_result *failed)
{
    bool stopping = lifecycle_is_stopping(&call->master->life);
    bool restricted = call->master->server.config->control_group[0] != '\0';

    if (restricted && call->uid != 0 && call->uid != geteuid())
        *failed = command_reply(command_error(
            "permission denied: only root and the server's user may run '%s'", info->name));
    else if (stopping && functions[info - command_table] != command_stop)
        *failed = command_reply(command_error("the server is stopping"));
    else
        return true;
    return false;
}

struct command_result command_run(struct master *master, char *line, unsigned uid, int pid)
{
    char *words[CONTROL_WORDS_MAX];
    int count = command_line_split(line, words, CONTROL_WORDS_MAX);
    const struct command_info *info;
    struct call call = {.master = master, .count = count - 1, .uid = uid, .pid = pid};
    struct command_result failed;

    if (count == 0)
        return command_reply(command_error("empty command; try: help"));
    info = find_command(words[0]);
    if (info == NULL)
        return unknown(words[0]);
    if (call.count < info->min || call.count > info->max)
        return command_reply(command_error("wrong number of arguments; usage: %s%s%s", info->name,
                                           info->arguments[0] != '\0' ? " " : "", info->arguments));
    if (call.count >= info->changes && !may_change(&call, info, &failed))
        return failed;
    for (int i = 0; i < call.count; i++)
        call.argument[i] = words[i + 1];
    metric_add(segment_master(&master->server.segment)->metrics, METRIC_control_commands, 1);
    return functions[info - command_table](&call);
}
