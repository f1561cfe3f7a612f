/*
 * What a sandboxed process may do, by its role. Data only: another kind of process is another role
 * with its profile.
 */
#ifndef DAEMON_PROFILE_H
#define DAEMON_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

enum sandbox_role {
    SANDBOX_WORKER,
    SANDBOX_LOGGER,
    SANDBOX_KEYS,
    SANDBOX_METRICS,
    SANDBOX_ACME,
    SANDBOX_ROLES
};

/* True if (argument & mask) == value; so an omitted one is always true. */
struct call_condition {
    unsigned int argument;
    uint64_t mask, value;
};

/* A system call that is allowed if both conditions are true. They are for different arguments. */
struct restricted_call {
    const char *name; /* NULL ends a list */
    struct call_condition when[2];
};

struct sandbox_profile {
    const char *name; /* of the process, in messages */
    /* System calls besides those of every process; ends with NULL. */
    const char *const *calls;
    const struct restricted_call *restricted;
    bool writes_files; /* false: RLIMIT_FSIZE is 0 */
    bool connects;     /* may open TCP connections */
};

extern const struct sandbox_profile sandbox_profiles[SANDBOX_ROLES];

/*
 * What every process of the daemon needs for memory, threads, event loop and time. Names that this
 * architecture lacks are skipped. openat2() is missing here and in the profiles: see seccomp.c.
 */
extern const char *const sandbox_common_calls[];
extern const struct restricted_call sandbox_common_restricted[];

#endif
