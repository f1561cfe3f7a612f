/*
 * Values by type (common/config.def): text to field and back. FIELD points to the key's member of
 * struct config. Any thread.
 */
#ifndef DAEMON_CONFIG_VALUE_H
#define DAEMON_CONFIG_VALUE_H

#include "daemon/config/config.h"
#include "daemon/config/keys.h"
#include "daemon/config/report.h"

#include <stdio.h>

/*
 * Parses TEXT as KEY's type into *FIELD, which is overwritten without being freed. Relative paths
 * are below the directory BASE. Returns 0, then call config_value_free(); or -1 after a report to
 * FAULTS, with *FIELD unchanged.
 */
int config_value_parse(const struct config_key *key, const char *text, const char *base,
                       void *field, const struct config_faults *faults);

/* Frees what *FIELD owns; all zero owns nothing. */
void config_value_free(const struct config_key *key, void *field);

/* The value in the syntax of config_value_parse(); the caller frees it. NULL: out of memory. */
char *config_value_text(const struct config_key *key, const void *field);

/*
 * Writes KEY's valid values, such as "1 to 64" or "on, off", at most SIZE bytes; empty if any value
 * is valid.
 */
void config_value_allowed(const struct config_key *key, char *buffer, size_t size);

/* The maximum of KEY, a number with a range. */
uint64_t config_value_max(const struct config_key *key);

#endif
