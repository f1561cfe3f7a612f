/*
 * The section [cors /prefix]: which pages of other origins may read responses (the CORS protocol of the
 * Fetch standard). Read-only once loaded. Pure; any thread.
 */
#ifndef DAEMON_CONFIG_CORS_H
#define DAEMON_CONFIG_CORS_H

#include "daemon/config/config.h"
#include "daemon/config/reader.h"

enum { CORS_LIST_MAX = 400 }; /* bytes of a list of methods or fields */

/* The sections of one site. Borrows the configuration. */
struct cors_rules {
    const struct config_cors **rule; /* the most specific one first */
    size_t count;
};

/*
 * The rules for HOST (NULL: requests to no [host]), in an array that the caller frees. Returns 0, or
 * -1: out of memory.
 */
int cors_rules_of_host(const struct config *config, const struct config_host *host,
                       struct cors_rules *rules);

/* The rule for PATH, which is canonical, or NULL. */
const struct config_cors *cors_find(const struct cors_rules *rules, const char *path);

/* Adds ENTRY to CONFIG; reports errors. */
void config_cors_add(struct config *config, const struct config_entry *entry,
                     struct config_report *report);

/*
 * Reports sections for a host that does not exist, without origins, and with credentials for every
 * origin or field.
 */
void config_cors_check(const struct config *config, struct config_report *report);

void config_cors_print(const struct config *config, FILE *out);
void config_cors_free(struct config *config);

#endif
