#include "common/tables.h"

#include <string.h>

const struct metric_info metric_table[METRIC_COUNT] = {
#define METRIC(scope, name, kind, unit, label, help)                                               \
    {#name, label, help, SCOPE_##scope, KIND_##kind, UNIT_##unit},
#include "common/metrics.def"
#undef METRIC
};

const struct thread_state_info thread_state_table[THREAD_STATE_COUNT] = {
#define THREAD_STATE(id, letter, name, help) {letter, name, help},
#include "common/thread_states.def"
#undef THREAD_STATE
};

const char *const outcome_names[OUTCOME_COUNT] = {
#define OUTCOME(id, name, help) name,
#include "common/outcomes.def"
#undef OUTCOME
};

const char *const level_names[LEVEL_COUNT] = {
#define LEVEL(id, name) name,
#include "common/levels.def"
#undef LEVEL
};

const char *const role_names[ROLE_COUNT] = {
#define ROLE(id, name) name,
#include "common/roles.def"
#undef ROLE
};

const struct command_info command_table[COMMAND_COUNT] = {
#define COMMAND(name, function, arguments, least, most, changes, help)                             \
    {name, arguments, least, most, changes, help},
#include "common/commands.def"
#undef COMMAND
};

int table_find(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0)
            return (int)i;
    return -1;
}
