/*
 * Binary upgrade: a new master, executed with the command line of this one, takes over the listen
 * sockets. It makes its own segment and control socket with ".new" behind their names; when all its
 * workers serve, it renames them over ours and reports; then this master shuts down gracefully. If
 * it ends before that or takes longer than UPGRADE_S, this master continues unchanged.
 *
 *   SIGUSR2 ──▶ fork, exec ··· new master starts its workers ··· "r" over the link ──▶ shutdown
 *                   └── it ends, or UPGRADE_S is over ──▶ an error event
 *
 * The master's loop. The new master's side is in inheritance.h.
 */
#ifndef DAEMON_UPGRADE_H
#define DAEMON_UPGRADE_H

#include "daemon/master/shutdown.h"

enum { UPGRADE_S = 60 };

struct upgrade;

/*
 * ARGV is the command line to execute. FAILED(CONTEXT) removes files that a failed new master left
 * behind. All borrowed. NULL: out of memory.
 */
struct upgrade *upgrade_new(struct server *server, struct shutdown *shutdown, char **argv,
                            void (*failed)(void *context), void *context);
void upgrade_free(struct upgrade *upgrade);

void upgrade_begin(struct upgrade *upgrade);

/* Call when a child that is neither worker nor logger has ended; HOW describes the end. */
void upgrade_child_ended(struct upgrade *upgrade, pid_t pid, const char *how);

#endif
