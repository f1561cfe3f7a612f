/* The sections [host NAME...] of a configuration: finding one, and its values. Any thread. */
#ifndef DAEMON_CONFIG_HOSTS_H
#define DAEMON_CONFIG_HOSTS_H

#include "common/span.h"
#include "daemon/config/config.h"
#include "daemon/config/keys.h"

/* Compares names without regard to case. */
bool config_host_name_is(const char *name, struct span text);

/* The host whose first name is NAME, or NULL. */
const struct config_host *config_host_find(const struct config *config, struct span name);

/*
 * The number of the host whose first name is NAME: that of its site, from 1; 0 if NAME is empty. It
 * is host_count + 1 if there is no such host.
 */
uint32_t config_host_number(const struct config *config, const char *name);

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
