/*
 * Shared by the commands of the control socket. common/commands.def lists the commands;
 * command_NAME() of each is in the file of its subject: commands.c (the server as a whole),
 * command_workers.c, command_config.c, address_limits.c, certificates.c. The master's loop.
 */
#ifndef DAEMON_MASTER_COMMAND_H
#define DAEMON_MASTER_COMMAND_H

#include "common/tables.h"
#include "daemon/config/keys.h"
#include "daemon/control/socket.h"
#include "daemon/master/internal.h"

/* A command line. */
struct call {
    struct master *master;
    int argument_count;
    char *argument[CONTROL_WORDS_MAX];
    unsigned uid; /* the client's */
    int pid;
};

/* The owner of the control socket, to which replies refer, is the struct master. */
typedef struct control_reply command(const struct call *call);

#define COMMAND(name, function, arguments, min, max, changes, help) command command_##function;
#include "common/commands.def"
#undef COMMAND

/* The reply that is ready. */
struct control_reply command_reply(json_t *json);

/* An array of texts: settings without effect; SUBJECT as in config_notes(). */
json_t *command_notes(const struct master *master, size_t subject);

/* The reply that REPORT makes when IN_FORCE returns true, which may be now. */
struct control_reply command_reply_when(struct master *master, bool (*in_force)(void *, uint64_t),
                                        json_t *(*report)(void *, uint64_t));

/* Logs a change with the user and process that requested it. */
void command_log_change(const struct call *call, const char *what, const char *from,
                        const char *to);
void command_log_number(const struct call *call, const char *what, uint32_t from, uint32_t to);
void command_log_action(const struct call *call, const char *what);

/*
 * Records the command as the origin of KEY, which it has changed, and publishes the configuration.
 */
void command_changed_key(const struct call *call, enum config_key_number key);

/* The first argument as a number from 1 to MAX; 0 with an error in *FAILED. */
uint32_t command_number(const struct call *call, const char *what, uint32_t max,
                        struct control_reply *failed);

#endif
