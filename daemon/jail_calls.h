/* The seccomp filter of a worker: the system calls that serving needs. See daemon/jail.h. */
#ifndef DAEMON_JAIL_CALLS_H
#define DAEMON_JAIL_CALLS_H

#include <stdbool.h>

/* Whether this kernel has filters that can end a whole process. */
bool jail_calls_possible(void);

/*
 * From now on any other system call ends the process; no_new_privs is set before. Returns 0, or -1
 * with errno.
 */
int jail_calls_forbid(void);

#endif
