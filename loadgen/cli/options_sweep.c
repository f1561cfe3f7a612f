/* Several runs: how often, and over what. */
#include "loadgen/cli/options_take.h"

#include "common/units.h"

#include <stdlib.h>
#include <string.h>

enum {
    DEFAULT_ROUNDS = 5,
    DEFAULT_POINT_MS = 2000,
    DEFAULT_WARMUP_MS = 300,
    SERVER_NUMBER_MAX = 4096,
};

static const uint32_t default_connections[] = {1, 2, 5, 10, 20, 50, 100, 200};

bool options_take_number(struct reading *reading, struct typed typed, uint64_t most, uint32_t *out)
{
    uint64_t number;

    if (strchr(typed.value, ',') != NULL)
        return options_refuse(reading,
                              "%s %s: takes one number; several are for a sweep: wsload "
                              "sweep %s %s",
                              typed.spelling, typed.value, typed.spelling, typed.value);
    if (units_parse_count(typed.value, &number) != 0 || number < 1 || number > most)
        return options_refuse(reading, "%s %s: needs a whole number from 1 to %llu", typed.spelling,
                              typed.value, (unsigned long long)most);
    *out = (uint32_t)number;
    return true;
}

static int by_number(const void *one, const void *other)
{
    uint32_t a = *(const uint32_t *)one, b = *(const uint32_t *)other;

    return (a > b) - (a < b);
}

static bool add_number(struct plan_numbers *numbers, const char *word, uint64_t most)
{
    uint64_t number;

    if (units_parse_count(word, &number) != 0 || number < 1 || number > most)
        return false;
    for (size_t i = 0; i < numbers->count; i++)
        if (numbers->value[i] == number)
            return true;
    if (numbers->count == PLAN_NUMBERS_MAX)
        return false;
    numbers->value[numbers->count++] = (uint32_t)number;
    return true;
}

bool options_take_numbers(struct reading *reading, struct typed typed, uint64_t most,
                          struct plan_numbers *out)
{
    char text[512], *rest = NULL;
    bool good = strlen(typed.value) < sizeof(text);

    out->count = 0;
    snprintf(text, sizeof(text), "%s", typed.value);
    for (char *word = strtok_r(text, ",", &rest); word && good; word = strtok_r(NULL, ",", &rest))
        good = add_number(out, word, most);
    if (!good || out->count == 0)
        return options_refuse(reading,
                              "%s %s: needs up to %d whole numbers from 1 to %llu with commas "
                              "between, such as 1,2,5",
                              typed.spelling, typed.value, PLAN_NUMBERS_MAX,
                              (unsigned long long)most);
    qsort(out->value, out->count, sizeof(out->value[0]), by_number);
    return true;
}

bool take_repeat(struct reading *reading, struct typed typed)
{
    return options_take_number(reading, typed, PLAN_ROUNDS_MAX, &reading->plan->rounds);
}

static bool is_sweep(struct reading *reading, struct typed typed)
{
    if (reading->plan->command == PLAN_SWEEP)
        return true;
    return options_refuse(reading, "%s is for sweeps: wsload sweep %s %s", typed.spelling,
                          typed.spelling, typed.value);
}

bool take_keepalive(struct reading *reading, struct typed typed)
{
    static const char *const names[] = {
        [PLAN_KEEPALIVE_ON] = "on", [PLAN_KEEPALIVE_OFF] = "off", [PLAN_KEEPALIVE_BOTH] = "both"};

    if (reading->plan->command != PLAN_SWEEP)
        return options_refuse(reading,
                              "%s is for sweeps (wsload sweep %s both): connections are "
                              "kept alive anyway; --no-keepalive turns that off",
                              typed.spelling, typed.spelling);
    for (size_t i = 0; i < ARRAY_LENGTH(names); i++)
        if (strcmp(typed.value, names[i]) == 0) {
            reading->plan->sweep.keepalive = (enum plan_keepalive)i;
            return true;
        }
    return options_refuse(reading, "%s %s: needs on, off or both", typed.spelling, typed.value);
}

bool take_server_threads(struct reading *reading, struct typed typed)
{
    return is_sweep(reading, typed) && options_take_numbers(reading, typed, SERVER_NUMBER_MAX,
                                                            &reading->plan->sweep.server_threads);
}

bool take_server_workers(struct reading *reading, struct typed typed)
{
    return is_sweep(reading, typed) && options_take_numbers(reading, typed, SERVER_NUMBER_MAX,
                                                            &reading->plan->sweep.server_workers);
}

bool options_check_sweep(struct reading *reading)
{
    const struct plan *plan = reading->plan;

    if (plan_is_open(plan) || plan->ramp_ms > 0 || plan->stage_count > 0)
        return options_refuse(reading, "a sweep is a closed loop over connections: --rate, --ramp, "
                                       "--stages and --replay do not go with it");
    if (plan->control_fd >= 0)
        return options_refuse(reading, "--control-fd changes one run; it does not go with sweep");
    if (plan->format == PLAN_FORMAT_HDR)
        return options_refuse(reading, "--format hdr is the distribution of one run; a sweep has "
                                       "text, json, csv, html, md and png");
    return true;
}

void options_complete_sweep(struct plan *plan)
{
    struct plan_numbers *connections = &plan->sweep.connections;

    if (connections->count == 0) {
        connections->count = ARRAY_LENGTH(default_connections);
        memcpy(connections->value, default_connections, sizeof(default_connections));
    }
    if (!plan->keepalive)
        plan->sweep.keepalive = PLAN_KEEPALIVE_OFF;
    if (plan->rounds == 0)
        plan->rounds = DEFAULT_ROUNDS;
    if (plan->requests == 0 && plan->duration_ms == 0) {
        plan->duration_ms = DEFAULT_POINT_MS;
        plan->warmup_ms = plan->warmup_given ? plan->warmup_ms : DEFAULT_WARMUP_MS;
    }
    plan->connections_requested = connections->value[connections->count - 1];
}
