/*
 * The types of common/config.def: text to field and back. A field is the member of struct config
 * that a key stands for; it is passed as a pointer to it. Any thread.
 */
#ifndef DAEMON_CONFIG_VALUE_H
#define DAEMON_CONFIG_VALUE_H

#include "daemon/config/config.h"
#include "daemon/config/keys.h"
#include "daemon/config/report.h"

#include <stdio.h>

/*
 * Reads TEXT as KEY's type into *FIELD, whose former content is not looked at. Relative paths are
 * taken from the folder BASE. Returns 0; *FIELD then is owed config_value_free(). Or -1 when FAULTS
 * has been told; *FIELD is left alone.
 */
int config_value_parse(const struct config_key *key, const char *text, const char *base,
                       void *field, const struct config_faults *faults);

/* Frees what *FIELD owns. A field of zero bytes owns nothing. */
void config_value_free(const struct config_key *key, void *field);

/*
 * Writes the value as config_value_parse() takes it, into memory that the caller frees. NULL: out
 * of memory.
 */
char *config_value_text(const struct config_key *key, const void *field);

/* "1 to 64": KEY's allowed values as a sentence's end; empty when any are. At most SIZE bytes. */
void config_value_allowed(const struct config_key *key, char *buffer, size_t size);

/* The most that KEY, a number in a range, may be. */
uint64_t config_value_most(const struct config_key *key);

#endif
