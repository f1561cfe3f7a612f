/*
 * The section [access /prefix]: who may request the paths below it. A client is refused if a network
 * of deny contains its address, or if allow is set and none of its networks does. If users is set,
 * it must also send the name and password of one (RFC 7617). Of several sections that match a path, the one with the longest prefix applies; those of
 * [access host NAME /prefix] come before those for all hosts. Networks are
 * as in daemon/base/network.h.
 *
 * Read-only once loaded. Pure; any thread.
 */
#ifndef DAEMON_CONFIG_ACCESS_H
#define DAEMON_CONFIG_ACCESS_H

#include "daemon/config/config.h"
#include "daemon/config/reader.h"

/* The sections of one site. Borrows the configuration. */
struct access_rules {
    const struct config_access **rule; /* the most specific one first */
    size_t count;
};

/*
 * The rules for HOST (NULL: requests to no [host]), in an array that the caller frees. Returns 0, or
 * -1: out of memory.
 */
int access_rules_of_host(const struct config *config, const struct config_host *host,
                         struct access_rules *rules);

/* The rule for PATH, which is canonical, or NULL. */
const struct config_access *access_find(const struct access_rules *rules, const char *path);

bool access_allows(const struct config_access *rule, const uint8_t address[NETWORK_ADDRESS_BYTES]);

/* Where an entry comes from. */
struct access_source {
    const char *base;                   /* directory of relative paths */
    const struct config_faults *faults; /* of the entry's value */
    struct config_report *report;
};

/* Adds ENTRY to CONFIG; reports errors. */
void config_access_add(struct config *config, const struct config_entry *entry,
                       const struct access_source *source);

/* Returns true, or false after an error at PLACE: REALM cannot be sent. */
bool config_realm_check(const char *realm, const struct config_place *place,
                        struct config_report *report);

/* Reports a users file that could be served, at PLACE. */
void config_users_check(const struct config *config, const struct config_users *users,
                        const struct config_place *place, struct config_report *report);

/*
 * Reports sections for a host that does not exist, a realm without users, and users files that
 * could be served.
 */
void config_access_check(const struct config *config, struct config_report *report);

void config_access_print(const struct config *config, FILE *out);
void config_access_free(struct config *config);

#endif
