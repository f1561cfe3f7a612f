/*
 * The seccomp filter of a worker: the system calls that serving needs. See
 * daemon/sandbox/sandbox.h.
 */
#ifndef DAEMON_SECCOMP_H
#define DAEMON_SECCOMP_H

#include <stdbool.h>

/* Whether this kernel has filters that can kill a whole process. */
bool seccomp_possible(void);

/*
 * Makes the filter, once, for all processes forked from then on: libseccomp allocates, and out of
 * memory may crash or leave rules out. Returns 0, or -1 with errno.
 */
int seccomp_prepare(void);

/*
 * From now on any other system call kills the process. no_new_privs must be set. Allocates nothing.
 * Returns 0, or -1 with errno (EINVAL: not prepared).
 */
int seccomp_enter(void);

#endif
