/* Finding a [host] section by its name. Any thread. */
#ifndef DAEMON_CONFIG_HOST_FIND_H
#define DAEMON_CONFIG_HOST_FIND_H

#include "daemon/config/config.h"
#include "daemon/config/report.h"

/* Compares names without regard to case. */
bool config_host_name_is(const char *name, struct span text);

/* The host whose first name is NAME, or NULL. */
const struct config_host *config_host_find(const struct config *config, struct span name);

/* True if there is a host whose first name is NAME; else reports it for SOURCE, a section or key. */
bool config_host_require(const struct config *config, const char *name, const char *source,
                         struct config_report *report);

#endif
