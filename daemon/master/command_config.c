/*
 * The commands about configuration, logs and caches: config, log-level, ratelimit, reload,
 * reopen-logs, cache-flush, cache-purge, cache-size, cache-policy. Each worker has its own cache,
 * so changes are broadcast to all of them (daemon/master/workers.h).
 */
#include "daemon/master/command.h"

#include "common/escape.h"
#include "common/tables.h"
#include "common/units.h"
#include "daemon/config/load.h"
#include "daemon/config/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    json = json_pack("{s:s, s:o, s:s, s:o, s:s}", "key", name, "value",
                     json_text(value != NULL ? value : ""), "default", key->fallback, "origin",
                     json_text(config_origin(config, number)), "change", changes[change->change]);
    if (json != NULL && change->command != NULL)
        json_object_set_new(json, "command", json_string(change->command));
    free(value);
    return json;
}

/* WORD is "section" or "section.key". */
static bool matches_key(const char *word, const struct config_key *key)
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
    return control_error("unknown section or key '%.64s'%s%s%s", word,
                         nearest != NULL ? ", did you mean '" : "", nearest != NULL ? nearest : "",
                         nearest != NULL ? "'?" : "");
}

struct control_reply command_config(const struct call *call)
{
    const char *word = call->argument_count > 0 ? call->argument[0] : NULL;
    json_t *list = json_array();

    for (size_t i = 0; i < KEY_COUNT; i++)
        if (word == NULL || matches_key(word, &config_keys[i]))
            json_array_append_new(list, describe_key(call->master->config, i));
    if (word != NULL && json_array_size(list) == 0) {
        json_decref(list);
        return command_reply(no_such_key(word));
    }
    return command_reply(json_pack("{s:b, s:o}", "ok", 1, "keys", list));
}

/* log-level */

static json_t *report_level(const struct master *master)
{
    return json_pack("{s:b, s:s}", "ok", 1, "level", level_names[master->config->log_level]);
}

struct control_reply command_log_level(const struct call *call)
{
    const char *before = level_names[call->master->config->log_level];
    int level;

    if (call->argument_count == 0)
        return command_reply(report_level(call->master));
    level = table_find(call->argument[0], level_names, LEVEL_COUNT);
    if (level < 0)
        return command_reply(control_error(
            "invalid level '%.64s' (valid: debug, info, warn, error)", call->argument[0]));
    command_log_change(call, "log level", before, level_names[level]);
    call->master->config->log_level = (uint32_t)level;
    command_changed_key(call, KEY_log_level);
    return command_reply(report_level(call->master));
}

/* ratelimit: the limit in force is in shared memory, where all workers read it */

static json_t *report_rate_limit(const struct master *master)
{
    const struct segment_rate *rate = segment_rate(&master->segment);

    return json_pack("{s:b, s:b, s:i, s:i}", "ok", 1, "enabled", atomic_load(&rate->enabled) != 0,
                     "requests_per_second", (int)atomic_load(&rate->requests_per_second), "burst",
                     (int)atomic_load(&rate->burst));
}

static void describe_rate_limit(const struct config *config, char *text, size_t size)
{
    snprintf(text, size, "%s, %u requests per second, burst %u",
             config->ratelimit_enabled ? "on" : "off", config->ratelimit_requests_per_second,
             config->ratelimit_burst);
}

/*
 * Parses TEXT as the value of KEY, a count. Returns false with an error in *FAILED if it is
 * invalid.
 */
static bool parse_count(const char *text, enum config_key_number key, uint32_t *count,
                        struct control_reply *failed)
{
    uint64_t most = config_value_max(&config_keys[key]), number;

    if (units_parse_number(text, &number) == 0 && number >= 1 && number <= most) {
        *count = (uint32_t)number;
        return true;
    }
    *failed = command_reply(control_error("invalid %s '%.64s' (valid: 1-%llu)",
                                          config_keys[key].name, text, (unsigned long long)most));
    return false;
}

/* Parses "on", "off", or a rate, which turns it on, with an optional burst. */
static bool parse_rate_limit(const struct call *call, struct config *config,
                             struct control_reply *failed)
{
    const char *word = call->argument[0];

    if (call->argument_count == 1 && (strcmp(word, "on") == 0 || strcmp(word, "off") == 0)) {
        config->ratelimit_enabled = strcmp(word, "on") == 0;
        return true;
    }
    config->ratelimit_enabled = true;
    return parse_count(word, KEY_ratelimit_requests_per_second,
                       &config->ratelimit_requests_per_second, failed) &&
           (call->argument_count == 1 ||
            parse_count(call->argument[1], KEY_ratelimit_burst, &config->ratelimit_burst, failed));
}

struct control_reply command_ratelimit(const struct call *call)
{
    struct config *config = call->master->config, wanted = *config;
    struct control_reply failed;
    char from[80], to[80];

    if (call->argument_count == 0)
        return command_reply(report_rate_limit(call->master));
    if (!parse_rate_limit(call, &wanted, &failed))
        return failed;
    describe_rate_limit(config, from, sizeof(from));
    describe_rate_limit(&wanted, to, sizeof(to));
    command_log_change(call, "rate limit", from, to);
    config->ratelimit_enabled = wanted.ratelimit_enabled;
    config->ratelimit_requests_per_second = wanted.ratelimit_requests_per_second;
    config->ratelimit_burst = wanted.ratelimit_burst;
    command_changed_key(call, KEY_ratelimit_enabled);
    command_changed_key(call, KEY_ratelimit_requests_per_second);
    command_changed_key(call, KEY_ratelimit_burst);
    return command_reply(report_rate_limit(call->master));
}

/* reload */

static bool is_reloaded(void *owner, uint64_t attempt)
{
    struct master *master = owner;
    return reload_is_done(master, attempt);
}

static json_t *report_reload(void *owner, uint64_t attempt)
{
    struct master *master = owner;
    (void)attempt;
    if (lifecycle_is_stopping(master))
        return control_error("the server is stopping");
    if (master->reload.last_failure != NULL)
        return control_error("%s", master->reload.last_failure);
    return json_pack("{s:b, s:i, s:O, s:o}", "ok", 1, "generation", (int)master->workers.generation,
                     "changed", master->reload.changed, "notes", command_notes(master, KEY_COUNT));
}

struct control_reply command_reload(const struct call *call)
{
    const struct reload *reload = &call->master->reload;
    uint64_t attempt;

    command_log_action(call, "reload");
    attempt = reload_request(call->master);
    if (attempt > 0)
        return (struct control_reply){
            .in_force = is_reloaded, .report = report_reload, .token = attempt};
    return command_reply(
        control_error("%s", reload->refusal != NULL ? reload->refusal : "out of memory"));
}

/* reopen-logs */

/* No logger reads the number, and fork() fails or it keeps ending. */
static bool logger_cannot_start(const struct master *master)
{
    const struct child *child = &master->auxiliary.logger.child;

    return child->pid == 0 && child->backoff.failures > 0;
}

static bool logs_are_open(void *owner, uint64_t number)
{
    struct master *master = owner;
    const struct segment_logger *logger = segment_logger(&master->segment);
    uint32_t done = atomic_load_explicit(&logger->logs_done, memory_order_acquire);

    return logger_cannot_start(master) || (int32_t)(done - (uint32_t)number) >= 0;
}

static json_t *report_logs(void *owner, uint64_t number)
{
    struct master *master = owner;
    const struct log_targets *targets = &master->auxiliary.logs.targets;
    json_t *hosts;

    (void)number;
    if (logger_cannot_start(master))
        return control_error(
            "the files are open, but no logger writes to them: the server tries to "
            "start one, see its standard error");
    hosts = json_array();
    for (uint32_t i = 0; i < targets->count; i++)
        json_array_append_new(hosts, json_text(targets->path[i]));
    return json_pack("{s:b, s:o, s:o, s:o}", "ok", 1, "access",
                     json_text(master->config->log_access), "error",
                     json_text(master->config->log_error), "hosts", hosts);
}

struct control_reply command_reopen_logs(const struct call *call)
{
    char why[512];
    uint32_t number;

    if (auxiliary_reopen_logs(call->master, &number, why, sizeof(why)) != 0)
        return command_reply(control_error("%s", why));
    command_log_action(call, "logs reopened");
    return (struct control_reply){
        .in_force = logs_are_open, .report = report_logs, .token = number};
}

/* The caches */

static const char *const policies[] = {"sieve", "lru"}; /* by enum config_policy */

static bool is_done(void *owner, uint64_t number)
{
    struct master *master = owner;
    return workers_broadcast_is_done(&master->workers, number);
}

/* Returns false with an error in *FAILED if the cache is off. */
static bool require_cache(const struct call *call, struct control_reply *failed)
{
    if (call->master->config->cache_enabled)
        return true;
    *failed = command_reply(control_error("the cache is off (cache.enabled)"));
    return false;
}

/* cache-flush, cache-purge */

static json_t *report_dropped(void *owner, uint64_t number)
{
    struct master *master = owner;
    return json_pack("{s:b, s:I}", "ok", 1, "dropped",
                     (json_int_t)workers_broadcast_affected(&master->workers, number));
}

struct control_reply command_cache_flush(const struct call *call)
{
    struct control_reply result;

    if (!require_cache(call, &result))
        return result;
    command_log_action(call, "cache flushed");
    return (struct control_reply){
        .in_force = is_done,
        .report = report_dropped,
        .token = workers_broadcast(&call->master->workers, COMMAND_CACHE_FLUSH, 0, "")};
}

struct control_reply command_cache_purge(const struct call *call)
{
    const char *path = call->argument[0];
    struct control_reply result;
    char what[256];

    if (!require_cache(call, &result))
        return result;
    if (path[0] != '/')
        return command_reply(control_error("invalid path '%.64s': it must begin with '/' "
                                           "(/directory/ and /prefix* purge all below)",
                                           path));
    snprintf(what, sizeof(what), "cache purged: %.200s", path);
    command_log_action(call, what);
    return (struct control_reply){
        .in_force = is_done,
        .report = report_dropped,
        .token = workers_broadcast(&call->master->workers, COMMAND_CACHE_PURGE, 0, path)};
}

/* cache-size */

static uint64_t largest_use(const struct master *master)
{
    uint64_t most = 0;

    for (uint32_t i = 0; i < master->workers.count; i++) {
        uint64_t used;

        if (!segment_worker_reserved(&master->segment, i))
            continue;
        used = metric_get(segment_worker(&master->segment, i)->metrics, METRIC_cache_bytes);
        most = used > most ? used : most;
    }
    return most;
}

/* The smallest limit of any serving worker; after a change they differ for a moment. */
static uint64_t size_in_force(const struct master *master)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < master->workers.count; i++) {
        uint64_t size;

        if (master->workers.worker[i].state != WORKER_SERVING)
            continue;
        size = metric_get(segment_worker(&master->segment, i)->metrics, METRIC_cache_limit);
        least = size < least ? size : least;
    }
    return least == UINT64_MAX ? 0 : least;
}

static json_t *report_size(void *owner, uint64_t number)
{
    struct master *master = owner;
    (void)number;
    return json_pack("{s:b, s:I, s:I, s:I}", "ok", 1, "wanted",
                     (json_int_t)master->config->cache_size, "actual",
                     (json_int_t)size_in_force(master), "used", (json_int_t)largest_use(master));
}

static void store_fault(void *owner, const struct config_fault *fault)
{
    json_t **error = owner;

    if (*error == NULL)
        *error = control_error("%s%s%s", fault->problem, fault->advice[0] != '\0' ? "; " : "",
                               fault->advice);
}

/*
 * Parses the argument as the value of KEY. Returns false with an error in *FAILED if it is invalid.
 */
static bool parse_key_value(const struct call *call, enum config_key_number key, void *value,
                            struct control_reply *failed)
{
    json_t *error = NULL;
    const struct config_faults faults = {store_fault, &error};

    if (config_value_parse(&config_keys[key], call->argument[0], "/", value, &faults) == 0)
        return true;
    *failed = command_reply(error); /* NULL: out of memory */
    return false;
}

struct control_reply command_cache_size(const struct call *call)
{
    struct config *config = call->master->config;
    struct control_reply result;
    char from[UNITS_TEXT], to[UNITS_TEXT];
    uint64_t size;

    if (!require_cache(call, &result))
        return result;
    if (call->argument_count == 0)
        return command_reply(report_size(call->master, 0));
    if (!parse_key_value(call, KEY_cache_size, &size, &result))
        return result;
    command_log_change(call, "cache size",
                       units_format_size(from, sizeof(from), config->cache_size),
                       units_format_size(to, sizeof(to), size));
    config->cache_size = size;
    command_changed_key(call, KEY_cache_size);
    return (struct control_reply){
        .in_force = is_done,
        .report = report_size,
        .token = workers_broadcast(&call->master->workers, COMMAND_CACHE_SIZE, size, "")};
}

/* cache-policy */

static json_t *report_policy(void *owner, uint64_t number)
{
    struct master *master = owner;
    const char *policy = policies[master->config->cache_policy];

    (void)number;
    return json_pack("{s:b, s:s, s:s}", "ok", 1, "wanted", policy, "actual", policy);
}

struct control_reply command_cache_policy(const struct call *call)
{
    struct config *config = call->master->config;
    struct control_reply result;
    int policy;

    if (!require_cache(call, &result))
        return result;
    if (call->argument_count == 0)
        return command_reply(report_policy(call->master, 0));
    policy = table_find(call->argument[0], policies, ARRAY_LENGTH(policies));
    if (policy < 0)
        return command_reply(
            control_error("invalid cache policy '%.64s' (valid: sieve, lru)", call->argument[0]));
    command_log_change(call, "cache policy", policies[config->cache_policy], policies[policy]);
    config->cache_policy = (uint32_t)policy;
    command_changed_key(call, KEY_cache_policy);
    return (struct control_reply){
        .in_force = is_done,
        .report = report_policy,
        .token =
            workers_broadcast(&call->master->workers, COMMAND_CACHE_POLICY, (uint64_t)policy, "")};
}
