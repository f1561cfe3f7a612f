/*
 * The commands about the caches: cache-flush, cache-purge, cache-size, cache-policy. Each worker has
 * its own cache, so changes are broadcast to all of them (daemon/master/workers.h).
 */
#include "daemon/control/command.h"

#include "common/units.h"
#include "daemon/config/value.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const policies[] = {"sieve", "lru"}; /* by enum config_policy */

static bool is_done(struct master *master, uint64_t number)
{
    return workers_broadcast_is_done(&master->workers, number);
}

/* Returns false with an error in *FAILED if the cache is off. */
static bool has_cache(const struct call *call, struct command_result *failed)
{
    if (call->master->server.config->cache_enabled)
        return true;
    *failed = command_reply(command_error("the cache is off (cache.enabled)"));
    return false;
}

/* cache-flush, cache-purge */

static json_t *report_dropped(struct master *master, uint64_t number)
{
    return json_pack("{s:b, s:I}", "ok", 1, "dropped",
                     (json_int_t)workers_broadcast_affected(&master->workers, number));
}

struct command_result command_cache_flush(const struct call *call)
{
    struct command_result result;

    if (!has_cache(call, &result))
        return result;
    command_log_action(call, "cache flushed");
    return (struct command_result){
        .in_force = is_done,
        .report = report_dropped,
        .token = workers_broadcast(&call->master->workers, COMMAND_CACHE_FLUSH, 0, "")};
}

struct command_result command_cache_purge(const struct call *call)
{
    const char *path = call->argument[0];
    struct command_result result;
    char what[256];

    if (!has_cache(call, &result))
        return result;
    if (path[0] != '/')
        return command_reply(command_error("invalid path '%.64s': it must begin with '/' "
                                           "(/directory/ and /prefix* purge all below)",
                                           path));
    snprintf(what, sizeof(what), "cache purged: %.200s", path);
    command_log_action(call, what);
    return (struct command_result){
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

        if (!segment_slot_reserved(segment_worker_slot(&master->server.segment, i)))
            continue;
        used = metric_get(segment_worker(&master->server.segment, i)->metrics, METRIC_cache_bytes);
        most = used > most ? used : most;
    }
    return most;
}

/* The smallest limit of any serving worker: they differ for a moment after a change. */
static uint64_t size_in_force(const struct master *master)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < master->workers.count; i++) {
        uint64_t size;

        if (master->workers.worker[i].state != WORKER_SERVING)
            continue;
        size = metric_get(segment_worker(&master->server.segment, i)->metrics, METRIC_cache_limit);
        least = size < least ? size : least;
    }
    return least == UINT64_MAX ? 0 : least;
}

static json_t *report_size(struct master *master, uint64_t number)
{
    (void)number;
    return json_pack("{s:b, s:I, s:I, s:I}", "ok", 1, "wanted",
                     (json_int_t)master->server.config->cache_size, "actual",
                     (json_int_t)size_in_force(master), "used", (json_int_t)largest_use(master));
}

static void store_fault(void *owner, const struct config_fault *fault)
{
    json_t **error = owner;

    if (*error == NULL)
        *error = command_error("%s%s%s", fault->problem, fault->advice[0] != '\0' ? "; " : "",
                               fault->advice);
}

/* Parses the argument as the value of KEY. Returns NULL, or an error reply. */
static json_t *parse_value(const struct call *call, enum config_key_number key, void *value)
{
    json_t *error = NULL;
    const struct config_faults faults = {store_fault, &error};

    if (config_value_parse(&config_keys[key], call->argument[0], "/", value, &faults) == 0)
        return NULL;
    return error != NULL ? error : command_error("out of memory");
}

struct command_result command_cache_size(const struct call *call)
{
    struct config *config = call->master->server.config;
    struct command_result result;
    char from[UNITS_TEXT], to[UNITS_TEXT];
    uint64_t size;
    json_t *error;

    if (!has_cache(call, &result))
        return result;
    if (call->count == 0)
        return command_reply(report_size(call->master, 0));
    error = parse_value(call, KEY_cache_size, &size);
    if (error != NULL)
        return command_reply(error);
    command_log_change(call, "cache size",
                       units_format_size(from, sizeof(from), config->cache_size),
                       units_format_size(to, sizeof(to), size));
    config->cache_size = size;
    command_changed_key(call, KEY_cache_size);
    return (struct command_result){
        .in_force = is_done,
        .report = report_size,
        .token = workers_broadcast(&call->master->workers, COMMAND_CACHE_SIZE, size, "")};
}

/* cache-policy */

static json_t *report_policy(struct master *master, uint64_t number)
{
    const char *policy = policies[master->server.config->cache_policy];

    (void)number;
    return json_pack("{s:b, s:s, s:s}", "ok", 1, "wanted", policy, "actual", policy);
}

struct command_result command_cache_policy(const struct call *call)
{
    struct config *config = call->master->server.config;
    struct command_result result;
    int policy;

    if (!has_cache(call, &result))
        return result;
    if (call->count == 0)
        return command_reply(report_policy(call->master, 0));
    policy = table_find(call->argument[0], policies, ARRAY_LENGTH(policies));
    if (policy < 0)
        return command_reply(
            command_error("invalid cache policy '%.64s' (valid: sieve, lru)", call->argument[0]));
    command_log_change(call, "cache policy", policies[config->cache_policy], policies[policy]);
    config->cache_policy = (uint32_t)policy;
    command_changed_key(call, KEY_cache_policy);
    return (struct command_result){
        .in_force = is_done,
        .report = report_policy,
        .token =
            workers_broadcast(&call->master->workers, COMMAND_CACHE_POLICY, (uint64_t)policy, "")};
}
