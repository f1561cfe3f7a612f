/* The seccomp filter of a worker: the system calls that serving needs. See daemon/sandbox/sandbox.h. */
#ifndef DAEMON_JAIL_CALLS_H
#define DAEMON_JAIL_CALLS_H

#include <stdbool.h>

/* Whether this kernel has filters that can end a whole process. */
bool jail_calls_possible(void);

/*
 * Makes the filter, once, for all processes that are forked from then on: libseccomp allocates, and
 * where memory is short may crash or leave rules out. Returns 0, or -1 with errno.
 */
int jail_calls_prepare(void);

/*
 * From now on any other system call ends the process; no_new_privs is set before. Allocates nothing.
 * Returns 0, or -1 with errno (EINVAL: not prepared).
 */
int jail_calls_forbid(void);

#endif
