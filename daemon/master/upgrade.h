/*
 * A binary upgrade: another program, started from the command line that this one was started with,
 * takes over the listening sockets. It makes its own segment and control socket beside ours (named
 * with ".new"), and when all its workers serve, renames them over ours and says so; then we retire.
 * If it ends before, or takes longer than UPGRADE_S, everything goes on here as before.
 *
 *   SIGUSR2 ──▶ fork, exec ··· new master starts its workers ··· "r" over the link ──▶ we retire
 *                   └── it ends, or the time is over ──▶ an error event, and nothing else
 *
 * The master's loop.
 */
#ifndef DAEMON_UPGRADE_H
#define DAEMON_UPGRADE_H

#include "daemon/master/master.h"

enum { UPGRADE_S = 60 };

/* NULL: out of memory. */
struct upgrade *upgrade_new(struct master *master);
void upgrade_free(struct upgrade *upgrade);

void upgrade_begin(struct upgrade *upgrade);

/* A child has ended: says so if it was the new master. */
void upgrade_child_ended(struct upgrade *upgrade, pid_t pid, const char *how);

#endif
