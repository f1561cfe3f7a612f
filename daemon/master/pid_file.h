/*
 * What an instance has outside its processes: run directory, pid file, lock, and the names of
 * socket and segment. The lock (flock on the pid file) is inherited by every child, so it is free
 * only when the last process of an instance has gone, and with it the last listening socket. What a
 * dead instance left is recognised by the lock, never by a pid. The master.
 */
#ifndef DAEMON_RUNTIME_H
#define DAEMON_RUNTIME_H

#include "daemon/config/config.h"

struct runtime {
    int lock_fd; /* the pid file, locked; -1: nothing is held */
    char pid_path[INSTANCE_PATH_MAX];
};

/*
 * Makes the run directory, takes the lock and removes what a dead predecessor left. Waits up to
 * five seconds for the processes of a dead master to go; a master that answers on its control
 * socket is refused at once. From the lock on signals are held (signals.h): who has it lets them in
 * once it watches for them. Returns 0, or -1 with WHY.
 */
int runtime_take(struct runtime *runtime, const struct config *config, char *why, size_t size);

/*
 * Instead of that, after a binary upgrade: takes over LOCK_FD from the master before, if it is that of
 * this CONFIG's pid file. Signals are held from then on. Returns 0, or -1 with WHY.
 */
int runtime_inherit(struct runtime *runtime, const struct config *config, int lock_fd, char *why,
                    size_t size);

/* Writes this process's pid. */
void runtime_write_pid(const struct runtime *runtime);

/* Lets go of the lock, and removes the pid file if it has this process's pid. */
void runtime_release(struct runtime *runtime);

/* Lets this process open as many descriptors as it may. Returns the limit. */
unsigned long runtime_raise_descriptors(void);

#endif
