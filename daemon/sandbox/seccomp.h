/*
 * The seccomp filter of a process: the system calls of its profile. See daemon/sandbox/sandbox.h.
 */
#ifndef DAEMON_SECCOMP_H
#define DAEMON_SECCOMP_H

#include "daemon/sandbox/profile.h"

#include <stdbool.h>

/* True if the kernel supports filters that kill the whole process. */
bool seccomp_possible(void);

/*
 * Builds the filter of ROLE once, for all processes forked later. Not done in them, because
 * libseccomp allocates, and without memory may crash or omit rules. A filter cannot see the flags
 * of openat2(): without ALLOW_OPENAT2 it fails with ENOSYS. Returns 0, or -1 with errno.
 */
int seccomp_prepare(enum sandbox_role role, bool allow_openat2);

/*
 * Loads the filter: any other system call then kills the process. no_new_privs must be set.
 * Allocates nothing. Returns 0, or -1 with errno (EINVAL: not prepared).
 */
int seccomp_enter(enum sandbox_role role);

#endif
