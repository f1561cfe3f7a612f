/*
 * What a sandboxed process may do, by its role, and the seccomp filter that allows only the system
 * calls of its profile. Another kind of process is another role with its profile. See
 * daemon/sandbox/sandbox.h.
 */
#ifndef DAEMON_SECCOMP_H
#define DAEMON_SECCOMP_H

#include "daemon/sandbox/sandbox.h"

#include <stdbool.h>

struct restricted_call;

struct sandbox_profile {
    const char *name; /* the process in messages */
    /* System calls besides those of every process; ends with NULL. */
    const char *const *calls;
    const struct restricted_call *restricted;
    bool writes_files; /* false: RLIMIT_FSIZE is 0 */
    bool connects;     /* may open TCP connections */
};

extern const struct sandbox_profile sandbox_profiles[SANDBOX_ROLES];

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
