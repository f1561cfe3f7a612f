/*
 * The seccomp filter of a worker: the system calls that serving needs. See
 * daemon/sandbox/sandbox.h.
 */
#ifndef DAEMON_SECCOMP_H
#define DAEMON_SECCOMP_H

#include <stdbool.h>

/* True if the kernel supports filters that kill the whole process. */
bool seccomp_possible(void);

/*
 * Builds the filter once, for all processes forked later. Not done in a worker, because libseccomp
 * allocates, and without memory may crash or omit rules. Returns 0, or -1 with errno.
 */
int seccomp_prepare(void);

/*
 * Loads the filter: any other system call then kills the process. no_new_privs must be set.
 * Allocates nothing. Returns 0, or -1 with errno (EINVAL: not prepared).
 */
int seccomp_enter(void);

#endif
