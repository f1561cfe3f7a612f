/*
 * The sections [host NAME…]: names of sites and their own values. Names are compared without regard to
 * case. "*.example.org" stands for all names below example.org. Read-only once loaded.
 */
#ifndef DAEMON_CONFIG_HOSTS_H
#define DAEMON_CONFIG_HOSTS_H

#include "daemon/config/check.h"

/*
 * Adds ENTRY, or only its host if its key is empty. The first name of a section identifies the host;
 * a later section or override with that name sets more of its values.
 */
void config_host_add(struct config_draft *draft, const struct config_entry *entry);

/* Gives each host the values that it does not set, and checks its names. */
void config_hosts_complete(struct config_draft *draft);

void config_hosts_free(struct config *config);

/* The value of KEY of HOST. */
const void *config_host_field(const struct config_host *host, enum config_host_key key);

/* True if requests to HOST, or NULL: to no [host], are logged. */
bool config_host_is_logged(const struct config *config, const struct config_host *host);

/* True if some requests are logged. */
bool config_hosts_log_any(const struct config *config);

/* The name of a key, and the key of another section that gives its type. */
extern const char *const config_host_key_names[HOST_KEY_COUNT];
const struct config_key *config_host_key_type(enum config_host_key key);

#endif
