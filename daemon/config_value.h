/*
 * The types of common/config.def: text to field and back. A field is the member of struct config
 * that a key stands for; it is passed as a pointer to it. Any thread.
 */
#ifndef DAEMON_CONFIG_VALUE_H
#define DAEMON_CONFIG_VALUE_H

#include "common/macros.h"
#include "daemon/config.h"
#include "daemon/config_keys.h"

#include <stdio.h>

enum { CONFIG_PROBLEM_MAX = 256, CONFIG_ADVICE_MAX = 512 };

/* What is wrong with a text, and which part of it. */
struct config_fault {
    size_t offset, length; /* of the offending word, bytes */
    const char *problem, *advice;
};

/* Who is told of faults; a text may have more than one. The fault is valid during the call. */
struct config_faults {
    void (*tell)(void *owner, const struct config_fault *fault);
    void *owner;
};

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

/* The two together with a '/' between; owned by the caller. NULL: out of memory. */
char *config_path_join(const char *folder, const char *path);

/* Tells of one fault, in the words of FORMAT. Returns -1. */
int config_fault_tell(const struct config_faults *faults, size_t offset, size_t length,
                      const char *advice, const char *format, ...) PRINTF_LIKE(5, 6);
int config_fault_memory(const struct config_faults *faults);

#endif
