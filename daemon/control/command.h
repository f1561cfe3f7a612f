/*
 * Shared by the commands of the control socket. common/commands.def lists the commands;
 * command_NAME() of each is in the file of its subject: commands.c (the server as a whole),
 * command_workers.c, command_config.c, command_clients.c, command_certificates.c. The master's loop.
 */
#ifndef DAEMON_COMMAND_H
#define DAEMON_COMMAND_H

#include "common/control_client.h"
#include "common/tables.h"
#include "daemon/config/keys.h"
#include "daemon/master/master.h"

#include <event2/buffer.h>
#include <jansson.h>

/* The request line */

enum command_line {
    COMMAND_LINE_INCOMPLETE, /* more bytes are needed */
    COMMAND_LINE_WHOLE,      /* *LINE is a line without its newline; the caller frees it */
    COMMAND_LINE_TOO_LONG,   /* CONTROL_LINE_MAX bytes or more without a newline */
    COMMAND_LINE_INVALID,    /* a line that is not UTF-8 or has a NUL byte; it was removed */
    COMMAND_LINE_NO_MEMORY,
};

/* Removes the next line, which ends in LF or CRLF, from INPUT. *LINE is NULL unless it is whole. */
enum command_line command_line_read(struct evbuffer *input, char **line);

/*
 * Splits LINE in place at spaces and tabs into WORDS, which has room for MAX. Returns the number of
 * words, or MAX + 1 if there are more.
 */
int command_line_split(char *line, char **words, int max);

/* One command */

struct call {
    struct master *master;
    int count; /* of arguments */
    char *argument[CONTROL_WORDS_MAX];
    unsigned uid; /* the client's */
    int pid;
};

/* A reply, or how to make it when the change is in force. */
struct command_result {
    json_t *reply; /* owned by the receiver; NULL without in_force(): out of memory */
    bool (*in_force)(struct master *master, uint64_t token); /* NULL: the reply is ready */
    json_t *(*report)(struct master *master, uint64_t token);
    uint64_t token; /* argument of in_force() and report() */
};

typedef struct command_result command(const struct call *call);

#define COMMAND(name, function, arguments, min, max, changes, help) command command_##function;
#include "common/commands.def"
#undef COMMAND

/* {"ok": false, "error": …}; NULL: out of memory. */
json_t *command_error(const char *format, ...) PRINTF_LIKE(1, 2);

/* A result with a reply. */
struct command_result command_reply(json_t *reply);

/* A result whose reply is sent when IN_FORCE returns true, which may be now. */
struct command_result command_reply_when(struct master *master,
                                         bool (*in_force)(struct master *, uint64_t),
                                         json_t *(*report)(struct master *, uint64_t));

/* Logs a change with the user and process that requested it. */
void command_log_change(const struct call *call, const char *what, const char *from,
                        const char *to);
void command_log_number(const struct call *call, const char *what, uint32_t from, uint32_t to);
void command_log_action(const struct call *call, const char *what);

/*
 * Records the command as the origin of KEY, which it has changed, and publishes the configuration.
 */
void command_changed_key(const struct call *call, enum config_key_number key);

/* The first argument as a number from 1 to MAX; 0 with an error in *RESULT. */
uint32_t command_number(const struct call *call, const char *what, uint32_t max,
                        struct command_result *result);

/* Runs one command line (commands.c), which is changed in place. UID and PID are the client's. */
struct command_result command_run(struct master *master, char *line, unsigned uid, int pid);

#endif
