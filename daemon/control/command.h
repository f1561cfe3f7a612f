/*
 * What the commands of the control socket have in common. common/commands.def lists them;
 * command_FUNCTION() of each is in the file of its subject: command_sizes.c, command_workers.c,
 * command_cache.c, command_config.c, command_status.c. The master's loop.
 */
#ifndef DAEMON_COMMAND_H
#define DAEMON_COMMAND_H

#include "daemon/control/socket.h"

#include "common/control_client.h"
#include "common/tables.h"
#include "daemon/config/keys.h"

/* One command on its way. */
struct call {
    struct master *master;
    int count; /* of arguments */
    char *argument[CONTROL_WORDS_MAX];
    unsigned uid; /* who asks */
    int pid;
};

typedef struct command_result command(const struct call *call);

#define COMMAND(name, function, arguments, min, max, changes, help) command command_##function;
#include "common/commands.def"
#undef COMMAND

/* The result that is there already. */
struct command_result command_answer(json_t *json);

/* Every change is an event: who wanted what. */
void command_log_change(const struct call *call, const char *what, const char *from,
                        const char *to);
void command_log_number(const struct call *call, const char *what, uint32_t from, uint32_t to);
void command_log_act(const struct call *call, const char *what); /* nothing was instead */

/*
 * KEY has been changed in the configuration by this call: says so where the value came from, and
 * publishes it.
 */
void command_changed_key(const struct call *call, enum config_key_number key);

/* A number from 1 to MOST, or 0 with a refusal in *RESULT. */
uint32_t command_number(const struct call *call, const char *what, uint32_t most,
                        struct command_result *result);

#endif
