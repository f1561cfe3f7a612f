/*
 * The run directory, the pid file and the instance lock. The lock is a flock() on a file beside the
 * pid file that only this user can open. Only masters hold it: it decides whether an instance is
 * alive, never a pid. The master.
 */
#ifndef DAEMON_PID_FILE_H
#define DAEMON_PID_FILE_H

#include "common/segment.h"
#include "daemon/config/config.h"
#include "daemon/logger/salvage.h"

/*
 * Creates the run directory PATH, in which the pid file and usually the control socket are, if it
 * does not exist. Returns 0, or -1 with WHY if it is not a directory of this user, if group or
 * others may write to it, or if somebody else could replace it: each directory above must belong to
 * root or this user, and where group or others may write, be sticky.
 */
int run_dir_prepare(const char *path, char *why, size_t size);

struct pid_file {
    int lock_fd; /* RUN_DIR/NAME.lock, locked, with the process record; -1: not held */
    char path[INSTANCE_PATH_MAX], lock_path[INSTANCE_PATH_MAX];
};

/*
 * Creates the run directory, acquires the lock, ends the processes that a dead instance of the same
 * name has left, after up to five seconds, and removes its segment and control socket; its unwritten
 * lines of LOGS go to SALVAGE. Fails immediately if a master replies on the control socket, and
 * after five seconds if one lives. Returns 0 with signals blocked (service.h) until the caller
 * handles them, or -1 with WHY.
 */
int pid_file_acquire(struct pid_file *pid_file, const struct config *config,
                     struct salvage *salvage, const struct log_files *logs, char *why, size_t size);

/*
 * In a binary upgrade: takes over LOCK_FD from the old master if it is the lock of CONFIG.
 * Returns like pid_file_acquire().
 */
int pid_file_inherit(struct pid_file *pid_file, const struct config *config, int lock_fd, char *why,
                     size_t size);

/* Writes the pid of this process. */
void pid_file_write(const struct pid_file *pid_file);

/* In a child of the master: adds it to the process record, and closes its copy of the lock. */
void pid_file_after_fork(struct pid_file *pid_file);

/*
 * Releases the lock. Removes both files, unless the pid file contains the pid of another process.
 */
void pid_file_release(struct pid_file *pid_file);

#endif
