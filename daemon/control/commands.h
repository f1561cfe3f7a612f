/* Runs commands by name. The master's loop. */
#ifndef DAEMON_COMMANDS_H
#define DAEMON_COMMANDS_H

#include "daemon/control/command.h"

/* Runs one command line, which is changed in place. UID and PID are the client's. */
struct command_result commands_run(struct master *master, char *line, unsigned uid, int pid);

#endif
