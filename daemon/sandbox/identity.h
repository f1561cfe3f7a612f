/*
 * The user and group of the workers: [server] user and group. If the master is root, the default is
 * nobody; otherwise workers keep the master's identity.
 */
#ifndef DAEMON_IDENTITY_H
#define DAEMON_IDENTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { IDENTITY_NAME_MAX = 64 };

struct identity {
    bool changes; /* false: keep the identity of the master */
    uid_t uid;
    gid_t gid;
    char user[IDENTITY_NAME_MAX]; /* for initgroups(3) */
};

struct identity_fault {
    bool group; /* the fault is in [server] group, else in user */
    char text[128];
};

/*
 * Looks up the identity of the workers of a process with user ID SELF. USER and GROUP are names or
 * numbers; empty: unset. Returns 0, or -1 with FAULT filled in. Reads the user database, so call it
 * before the sandbox is entered.
 */
int identity_find(const char *user, const char *group, uid_t self, struct identity *identity,
                  struct identity_fault *fault);

/* The same for this process, as a check only; for struct config_system. */
int identity_check(const char *user, const char *group, bool *group_at_fault, char *why,
                   size_t size);

/*
 * In the master: changes nothing. Returns 0, or -1 with errno if the other processes of root could
 * not change their user, or those of another user not drop the capabilities of this process, because
 * a service manager has taken capabilities away or filters system calls.
 */
int identity_check_switch(void);

/*
 * In a worker with one thread: switches to IDENTITY and drops all capabilities. Returns 0, or -1
 * with errno.
 */
int identity_switch(const struct identity *identity);

#endif
