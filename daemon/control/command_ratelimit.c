/* The command ratelimit. What is in force lies in shared memory, where all workers read it. */
#include "daemon/control/command.h"

#include "common/units.h"
#include "daemon/config/value.h"

#include <stdio.h>
#include <string.h>

static json_t *report(const struct master *master)
{
    const struct segment_rate *rate = segment_rate(&master->segment);

    return json_pack("{s:b, s:b, s:i, s:i}", "ok", 1, "enabled", atomic_load(&rate->enabled) != 0,
                     "requests_per_second", (int)atomic_load(&rate->requests_per_second), "burst",
                     (int)atomic_load(&rate->burst));
}

static void describe(const struct config *config, char *text, size_t size)
{
    snprintf(text, size, "%s, %u requests per second, burst %u",
             config->ratelimit_enabled ? "on" : "off", config->ratelimit_requests_per_second,
             config->ratelimit_burst);
}

/* Reads an argument as the value of KEY, a COUNT. Returns NULL, or a refusal. */
static json_t *take_count(const char *text, enum config_key_number key, uint32_t *count)
{
    uint64_t most = config_value_most(&config_keys[key]), number;

    if (units_parse_number(text, &number) != 0 || number < 1 || number > most)
        return command_refusal("'%.64s' is no %s: 1 to %llu is allowed", text,
                               config_keys[key].name, (unsigned long long)most);
    *count = (uint32_t)number;
    return NULL;
}

/* "on", "off", or a rate that turns it on, with a burst if one is given. */
static json_t *take_limit(const struct call *call, struct config *config)
{
    const char *word = call->argument[0];
    json_t *refusal;

    if (call->count == 1 && (strcmp(word, "on") == 0 || strcmp(word, "off") == 0)) {
        config->ratelimit_enabled = strcmp(word, "on") == 0;
        return NULL;
    }
    refusal =
        take_count(word, KEY_ratelimit_requests_per_second, &config->ratelimit_requests_per_second);
    if (refusal == NULL && call->count > 1)
        refusal = take_count(call->argument[1], KEY_ratelimit_burst, &config->ratelimit_burst);
    config->ratelimit_enabled = true;
    return refusal;
}

struct command_result command_ratelimit(const struct call *call)
{
    struct config *config = call->master->config, wanted = *config;
    char from[80], to[80];
    json_t *refusal;

    if (call->count == 0)
        return command_answer(report(call->master));
    refusal = take_limit(call, &wanted);
    if (refusal != NULL)
        return command_answer(refusal);
    describe(config, from, sizeof(from));
    describe(&wanted, to, sizeof(to));
    command_log_change(call, "rate limit", from, to);
    config->ratelimit_enabled = wanted.ratelimit_enabled;
    config->ratelimit_requests_per_second = wanted.ratelimit_requests_per_second;
    config->ratelimit_burst = wanted.ratelimit_burst;
    command_changed_key(call, KEY_ratelimit_enabled);
    command_changed_key(call, KEY_ratelimit_requests_per_second);
    command_changed_key(call, KEY_ratelimit_burst);
    return command_answer(report(call->master));
}
