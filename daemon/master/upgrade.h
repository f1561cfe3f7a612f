/*
 * Binary upgrade: a new master, executed with the command line of this one, takes over the listen
 * sockets. It makes its own segment and control socket with ".new" behind their names; when all its
 * workers serve, it renames them over ours and reports; then this master shuts down gracefully. If
 * it ends before that or takes longer than UPGRADE_S, this master continues unchanged. The actions of
 * the life cycle's table return 0, or -1 with nothing changed.
 *
 * The master's loop. The new master's side is in inheritance.h.
 */
#ifndef DAEMON_UPGRADE_H
#define DAEMON_UPGRADE_H

#include "daemon/master/lifecycle.h"
#include "daemon/master/server.h"

#include <sys/types.h>

enum { UPGRADE_S = 60 };

struct upgrade;

/*
 * ARGV is the command line to execute. FAILED(CONTEXT) removes files that a failed new master left
 * behind. All borrowed. NULL: out of memory.
 */
struct upgrade *upgrade_new(struct server *server, struct lifecycle *life, char **argv,
                            void (*failed)(void *context), void *context);
void upgrade_free(struct upgrade *upgrade);

/*
 * Reports EVENT_successor_ended if PID, a child that has ended, was the new master; HOW describes
 * the end.
 */
void upgrade_child_ended(struct upgrade *upgrade, pid_t pid, const char *how);

/* Reports EVENT_upgrade again if an upgrade is queued. Call when no reload is in progress. */
void upgrade_start_waiting(struct upgrade *upgrade);

/* True if the new master has been told to stop and has not ended yet. */
bool upgrade_must_end(const struct upgrade *upgrade);

/* Process id of the new master; 0: none. */
pid_t upgrade_pid(const struct upgrade *upgrade);

/* Actions */

int upgrade_start(struct upgrade *upgrade);
int upgrade_queue(struct upgrade *upgrade);
int upgrade_refuse(const struct upgrade *upgrade);
int upgrade_kill(const struct upgrade *upgrade); /* the new master took longer than UPGRADE_S */
int upgrade_abandon(const struct upgrade *upgrade);
int upgrade_stop(struct upgrade *upgrade);        /* tells the new master to stop */
int upgrade_force(const struct upgrade *upgrade); /* the same, at once, if it has been told */
void upgrade_pass_reload(const struct upgrade *upgrade); /* tells the new master to reload */

#endif
