/*
 * The control socket: a line of words in, a line of JSON out, one after the other for each client.
 * A change is answered when it is in force; until then its client waits and others go on. The
 * master never waits for a client: what it does not read stays in a bounded buffer.
 */
#ifndef DAEMON_CONTROL_H
#define DAEMON_CONTROL_H

#include "common/control_client.h"
#include "daemon/master/master.h"

#include <jansson.h>

enum { CONTROL_CLIENTS_MAX = 64 };

/*
 * Binds the socket at config->control_socket, or, BESIDE the one of a running server, with ".new"
 * behind that. NULL with WHY.
 */
struct control *control_open(struct master *master, bool beside, char *why, size_t size);

/* Gives a socket beside another its name. Returns 0, or -1 with errno. */
int control_promote(struct control *control);

/* Removes the .new that a successor has left behind. */
void control_remove_new(const struct config *config);

/* Gives the socket the permissions and the group of CONFIG. 0, or -1 with WHY. */
int control_set_access(const struct control *control, const struct config *config, char *why,
                       size_t size);

/* Closes all clients and the listening socket. REMOVE takes its name away, too. */
void control_close_all(struct control *control, bool remove);

/* Answers the clients whose change has come into force. */
void control_changed(struct control *control);

/* What a command leaves behind. */
struct command_result {
    json_t *answer; /* owned by the caller; NULL: wait until in_force() is true, then report() */
    bool (*in_force)(struct master *master, uint64_t token);
    json_t *(*report)(struct master *master, uint64_t token);
    uint64_t token; /* the command's own */
};

/* Runs one command line (changed in place). daemon/control/commands.c. UID and PID are the client's. */
struct command_result command_run(struct master *master, char *line, unsigned uid, int pid);

/* {"ok": false, "error": …} */
json_t *command_refusal(const char *format, ...) PRINTF_LIKE(1, 2);

#endif
