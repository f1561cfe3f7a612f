/* The commands about the configuration and the logs: config, reload, log-level, reopen-logs. */
#include "daemon/control/command.h"

#include "common/tables.h"
#include "daemon/config/load.h"
#include "daemon/config/value.h"
#include "daemon/master/reload.h"
#include "daemon/master/shutdown.h"
#include "daemon/master/supervisor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

/* config */

static json_t *describe_key(const struct config *config, size_t number)
{
    static const char *const changes[] = {"reload", "live", "fixed"};
    const struct config_key *key = &config_keys[number];
    const struct config_change_info *change = &config_changes[number];
    char *value = config_value_text(key, (const char *)config + key->offset);
    char name[128];
    json_t *json;

    snprintf(name, sizeof(name), "%s.%s", key->section, key->name);
    json = json_pack("{s:s, s:s, s:s, s:s, s:s}", "key", name, "value", value != NULL ? value : "",
                     "default", key->fallback, "origin", config_origin(config, number), "change",
                     changes[change->change]);
    if (json != NULL && change->command != NULL)
        json_object_set_new(json, "command", json_string(change->command));
    free(value);
    return json;
}

/* WORD is "section" or "section.key". */
static bool is_meant(const char *word, const struct config_key *key)
{
    size_t length = strlen(key->section);

    if (strncmp(word, key->section, length) != 0)
        return false;
    return word[length] == '\0' ||
           (word[length] == '.' && strcmp(word + length + 1, key->name) == 0);
}

static json_t *no_such_key(const char *word)
{
    char name[KEY_COUNT][64];
    const char *names[KEY_COUNT], *nearest;

    for (size_t i = 0; i < KEY_COUNT; i++) {
        snprintf(name[i], sizeof(name[i]), "%s.%s", config_keys[i].section, config_keys[i].name);
        names[i] = name[i];
    }
    nearest = nearest_word(word, names, KEY_COUNT);
    return command_refusal("there is no section or key '%.64s'%s%s%s", word,
                           nearest != NULL ? ", did you mean '" : "",
                           nearest != NULL ? nearest : "", nearest != NULL ? "'?" : "");
}

struct command_result command_config(const struct call *call)
{
    const char *word = call->count > 0 ? call->argument[0] : NULL;
    json_t *list = json_array();

    for (size_t i = 0; i < KEY_COUNT; i++)
        if (word == NULL || is_meant(word, &config_keys[i]))
            json_array_append_new(list, describe_key(call->master->config, i));
    if (word != NULL && json_array_size(list) == 0) {
        json_decref(list);
        return command_answer(no_such_key(word));
    }
    return command_answer(json_pack("{s:b, s:o}", "ok", 1, "keys", list));
}

/* log-level */

static json_t *report_level(const struct master *master)
{
    return json_pack("{s:b, s:s}", "ok", 1, "level", level_names[master->config->log_level]);
}

struct command_result command_log_level(const struct call *call)
{
    const char *before = level_names[call->master->config->log_level];
    int level;

    if (call->count == 0)
        return command_answer(report_level(call->master));
    level = table_find(call->argument[0], level_names, LEVEL_COUNT);
    if (level < 0)
        return command_answer(
            command_refusal("'%.64s' is no level: debug, info, warn or error", call->argument[0]));
    command_log_change(call, "log level", before, level_names[level]);
    call->master->config->log_level = (uint32_t)level;
    command_changed_key(call, KEY_log_level);
    return command_answer(report_level(call->master));
}

/* reload */

static bool is_reloaded(struct master *master, uint64_t attempt)
{
    return reload_is_done(master->reload, attempt);
}

static json_t *report_reload(struct master *master, uint64_t attempt)
{
    (void)attempt;
    if (stopping_is_under_way(master->stopping))
        return command_refusal("the server is stopping");
    if (reload_failure(master->reload) != NULL)
        return command_refusal("%s", reload_failure(master->reload));
    return json_pack("{s:b, s:i, s:O}", "ok", 1, "generation",
                     (int)supervisor_generation(master->supervisor), "changed",
                     reload_changed_keys(master->reload));
}

struct command_result command_reload(const struct call *call)
{
    char *refusal = NULL;
    uint64_t attempt;
    json_t *answer;

    command_log_act(call, "reload");
    attempt = reload_ask(call->master->reload, &refusal);
    if (attempt > 0)
        return (struct command_result){
            .in_force = is_reloaded, .report = report_reload, .token = attempt};
    answer = command_refusal("%s", refusal != NULL ? refusal : "out of memory");
    free(refusal);
    return command_answer(answer);
}

/* reopen-logs */

static bool logs_are_open(struct master *master, uint64_t number)
{
    const struct segment_logger *logger = segment_logger(&master->segment);
    uint32_t done = atomic_load_explicit(&logger->logs_done, memory_order_acquire);

    return (int32_t)(done - (uint32_t)number) >= 0;
}

static json_t *report_logs(struct master *master, uint64_t number)
{
    (void)number;
    return json_pack("{s:b, s:s, s:s}", "ok", 1, "access", master->config->log_access, "error",
                     master->config->log_error);
}

struct command_result command_reopen_logs(const struct call *call)
{
    command_log_act(call, "logs reopened");
    return (struct command_result){.in_force = logs_are_open,
                                   .report = report_logs,
                                   .token = master_reopen_logs(call->master)};
}
