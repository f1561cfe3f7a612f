/*
 * A users file of [access] or [metrics], as made by htpasswd(1): lines "name:hash", comments and empty lines.
 *
 *   accepted   $2y$ $2b$ $2a$  bcrypt, htpasswd -B; cost at most 17
 *              $5$ $6$         SHA-256 and SHA-512 crypt, htpasswd -2 and -5
 *   refused    all others, such as MD5 ($apr1$, $1$), {SHA}, DES and plain text
 *
 * The master reads the file when it loads the configuration; its children inherit the memory. Read-only
 * once loaded. Any thread.
 */
#ifndef DAEMON_CONFIG_USERS_H
#define DAEMON_CONFIG_USERS_H

#include "daemon/config/config.h"
#include "daemon/config/report.h"

/*
 * Loads FILE, whose path USERS then owns. Errors go to REPORT: of the file to PLACE, which names it,
 * of a line to its number in the file; never with a hash. Returns 0, or -1 with USERS empty.
 */
int config_users_load(const char *file, struct config_users *users,
                      const struct config_place *place, struct config_report *report);
void config_users_free(struct config_users *users);

/* The same users of the same file, with the same passwords. */
bool config_users_are_equal(const struct config_users *one, const struct config_users *other);

/* The user called NAME, or NULL. */
const struct config_user *config_users_find(const struct config_users *users, struct span name);

#endif
