/*
 * The run directory, in which the pid file and usually the control socket are. Nobody but root and
 * the server's user may replace files there. The master, at its start.
 */
#ifndef DAEMON_RUN_DIR_H
#define DAEMON_RUN_DIR_H

#include <stddef.h>

/*
 * Creates PATH if it does not exist. Returns 0, or -1 with WHY if it is not a directory of this
 * user, if group or others may write to it, or if somebody else could replace it: each directory
 * above must belong to root or this user, and where group or others may write, be sticky.
 */
int run_dir_prepare(const char *path, char *why, size_t size);

#endif
