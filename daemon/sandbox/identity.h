/*
 * Who the workers are: the user and group of [server] user and group. A master that is root lets
 * them be nobody unless told otherwise; any other can only be itself.
 */
#ifndef DAEMON_IDENTITY_H
#define DAEMON_IDENTITY_H

#include "daemon/config/config.h"

#include <stdbool.h>
#include <sys/types.h>

enum { IDENTITY_NAME_MAX = 64 };

struct identity {
    bool changes; /* false: the workers stay what the master is */
    uid_t uid;
    gid_t gid;
    char user[IDENTITY_NAME_MAX]; /* for initgroups(3) */
};

/* What was wrong: which key is to blame, in words. */
struct identity_fault {
    bool group; /* [server] group, else user */
    char text[128];
};

/*
 * Finds the identity that USER and GROUP (names or numbers, empty: unset) give to the workers of a
 * process that runs as SELF. Returns 0, or -1 with FAULT filled in. Reads the user database, so it
 * belongs before the jail.
 */
int identity_find(const char *user, const char *group, uid_t self, struct identity *identity,
                  struct identity_fault *fault);

/*
 * In a worker with one thread: becomes IDENTITY, with no capability left, whoever it was. Returns
 * 0, or -1 with errno.
 */
int identity_take(const struct identity *identity);

#endif
