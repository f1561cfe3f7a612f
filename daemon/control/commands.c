/* From words to the command's function, and what all commands share; the commands about the server
 * as a whole. */
#include "daemon/control/command.h"
#include "daemon/control/control_line.h"

#include "common/tables.h"
#include "common/units.h"
#include "daemon/base/events.h"
#include "daemon/config/load.h"
#include "daemon/master/shutdown.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static command *const functions[COMMAND_COUNT] = {
#define COMMAND(name, function, arguments, min, max, changes, help) command_##function,
#include "common/commands.def"
#undef COMMAND
};

json_t *command_refusal(const char *format, ...)
{
    char text[8192];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    return json_pack("{s:b, s:s}", "ok", 0, "error", text);
}

struct command_result command_answer(json_t *json)
{
    return (struct command_result){.answer = json};
}

void command_log_change(const struct call *call, const char *what, const char *from, const char *to)
{
    event_log(LEVEL_INFO, "%s: %s instead of %s, by uid %u pid %d", what, to, from, call->uid,
              call->pid);
}

void command_log_number(const struct call *call, const char *what, uint32_t from, uint32_t to)
{
    char from_text[16], to_text[16];

    snprintf(from_text, sizeof(from_text), "%u", from);
    snprintf(to_text, sizeof(to_text), "%u", to);
    command_log_change(call, what, from_text, to_text);
}

uint32_t command_number(const struct call *call, const char *what, uint32_t most,
                        struct command_result *result)
{
    uint64_t number;

    if (units_parse_number(call->argument[0], &number) == 0 && number >= 1 && number <= most)
        return (uint32_t)number;
    *result = command_answer(command_refusal("'%.64s' is no number of %s: 1 to %u is allowed",
                                             call->argument[0], what, most));
    return 0;
}

void command_log_act(const struct call *call, const char *what)
{
    event_log(LEVEL_INFO, "%s, by uid %u pid %d", what, call->uid, call->pid);
}

void command_changed_key(const struct call *call, enum config_key_number key)
{
    char origin[96];

    snprintf(origin, sizeof(origin), "command, by uid %u pid %d", call->uid, call->pid);
    config_set_origin(call->master->config, key, origin);
    master_publish_config(call->master);
}

/* ping, help, stop */

struct command_result command_ping(const struct call *call)
{
    return command_answer(json_pack("{s:b, s:s, s:i, s:s}", "ok", 1, "name",
                                    call->master->config->server_name, "pid", getpid(), "version",
                                    WEBSERVERD_VERSION));
}

static const struct command_info *find_command(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(command_table[i].name, name) == 0)
            return &command_table[i];
    return NULL;
}

/* The refusal for a word that is no command. */
static struct command_result unknown(const char *name)
{
    const char *names[COMMAND_COUNT], *nearest;

    for (size_t i = 0; i < COMMAND_COUNT; i++)
        names[i] = command_table[i].name;
    nearest = nearest_word(name, names, COMMAND_COUNT);
    return command_answer(command_refusal(
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
    return command_answer(json_pack("{s:b, s:o}", "ok", 1, "commands", list));
}

struct command_result command_stop(const struct call *call)
{
    bool now = call->count > 0;

    if (now && strcmp(call->argument[0], "now") != 0)
        return command_answer(
            command_refusal("'%.64s' is not 'now'; usage: stop [now]", call->argument[0]));
    command_log_act(call, now ? "stop now" : "stop");
    stopping_begin(call->master->stopping);
    if (now)
        stopping_begin(call->master->stopping);
    return command_answer(json_pack("{s:b, s:b}", "ok", 1, "stopping", 1));
}

/* Words in, one function out */

static struct command_result wrong_count(const struct command_info *info)
{
    return command_answer(command_refusal("wrong number of arguments; usage: %s%s%s", info->name,
                                          info->arguments[0] != '\0' ? " " : "", info->arguments));
}

/*
 * With [control] group, whoever is neither root nor the server's own user has come in by that group
 * and may only look.
 */
static bool may_change(const struct call *call)
{
    return call->master->config->control_group[0] == '\0' || call->uid == 0 ||
           call->uid == geteuid();
}

struct command_result command_run(struct master *master, char *line, unsigned uid, int pid)
{
    char *words[CONTROL_WORDS_MAX];
    int count = control_line_split(line, words, CONTROL_WORDS_MAX);
    const struct command_info *info;
    struct call call = {.master = master, .count = count - 1, .uid = uid, .pid = pid};

    if (count == 0)
        return command_answer(command_refusal("an empty line is no command; try: help"));
    info = find_command(words[0]);
    if (info == NULL)
        return unknown(words[0]);
    if (call.count < info->min || call.count > info->max)
        return wrong_count(info);
    if (call.count >= info->changes && !may_change(&call))
        return command_answer(command_refusal(
            "'%s' changes something: only root and the server's own user may do that", info->name));
    for (int i = 0; i < call.count; i++)
        call.argument[i] = words[i + 1];
    metric_add(segment_master(&master->segment)->metrics, METRIC_control_commands, 1);
    return functions[info - command_table](&call);
}
