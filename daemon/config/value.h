/*
 * Values by type (common/config.def): text to field and back. Lists and log targets are used by
 * other parts of the daemon, too. Any thread.
 */
#ifndef DAEMON_CONFIG_VALUE_H
#define DAEMON_CONFIG_VALUE_H

#include "daemon/config/config.h"
#include "daemon/config/keys.h"

#include <stdbool.h>
#include <stdio.h>

enum { CONFIG_PROBLEM_MAX = 256, CONFIG_ADVICE_MAX = 512 };

/* An error in a value. */
struct config_fault {
    size_t offset, length; /* of the offending word, bytes */
    const char *problem, *advice;
};

/* Receives the faults of a value; there may be several. FAULT is valid during the call. */
struct config_faults {
    void (*report)(void *owner, const struct config_fault *fault);
    void *owner;
};

/*
 * Parses TEXT as KEY's type into *FIELD, which is overwritten without being freed. Relative paths
 * are below the directory BASE. Returns 0, then call config_value_free(); or -1 after a report to
 * FAULTS, with *FIELD unchanged.
 */
int config_value_parse(const struct config_key *key, const char *text, const char *base,
                       void *field, const struct config_faults *faults);

/* Frees what *FIELD owns; all zero owns nothing. */
void config_value_free(const struct config_key *key, void *field);

/*
 * The value in the syntax of config_value_parse(), but "(hidden)" for a secret; the caller frees it.
 * NULL: out of memory.
 */
char *config_value_text(const struct config_key *key, const void *field);

/*
 * Writes KEY's valid values, such as "1 to 64" or "on, off", at most SIZE bytes; empty if any value
 * is valid.
 */
void config_value_allowed(const struct config_key *key, char *buffer, size_t size);

/* The maximum of KEY, a number with a range. */
uint64_t config_value_max(const struct config_key *key);

/* --- lists.c --- */

/*
 * Values that are lists: addresses to listen on, paths, and networks. Words are separated by blanks
 * or commas. Parsers return 0 with the list filled, which the caller then owns, or -1 after
 * reporting every bad word to FAULTS. Any thread.
 */

/*
 * Parses "127.0.0.1:8080 [::1]:8080, https://[::]:443, unix:/path". Ports are 0 to 65535 (0: the
 * kernel picks one). "*" is every address of IPv4 and IPv6: AF_INET6 and ::, distinct from [::]
 * only by its text. Host names and addresses that cannot be bound at the same time are errors, and
 * with REQUIRED no address, too. Free list->item.
 */
int config_addresses_parse(const char *text, bool required, struct config_addresses *list,
                           const struct config_faults *faults);

/* Relative paths are joined to the directory BASE; NULL: the words are no paths. */
int config_words_parse(const char *text, const char *base, struct config_words *paths,
                       const struct config_faults *faults);
void config_words_free(struct config_words *paths);

/*
 * Any number of networks as in daemon/base/network.h, and files "@FILE" with more of them, relative
 * to BASE, which are read now; or one of the words "any" and "none".
 */
int config_networks_parse(const char *text, const char *base, struct config_networks *networks,
                          const struct config_faults *faults);
void config_networks_free(struct config_networks *networks);

/* The list in the syntax of its parser; the caller frees it. NULL: out of memory. */
char *config_addresses_text(const struct config_addresses *list);
char *config_words_text(const struct config_words *paths);

/* --- Log targets --- */

/*
 * The values of [log] access and error:
 *
 *   /path, path      a file, appended to
 *   -                standard output (access) or standard error (error)
 *   off              nowhere (access only)
 *   syslog:          one datagram per line to /dev/log (RFC 3164, the local form without a host);
 *                    also syslog:FACILITY, syslog:@SOCKET and syslog:FACILITY@SOCKET
 *   journald         fields to journald's native socket; also journald:@SOCKET
 *
 * Any thread.
 */

enum log_target_kind {
    LOG_TARGET_OFF,
    LOG_TARGET_FILE, /* or a standard stream */
    LOG_TARGET_SYSLOG,
    LOG_TARGET_JOURNALD
};

struct log_target {
    enum log_target_kind kind;
    int syslog_facility; /* as in <syslog.h> */
    const char *path;    /* a file or socket; points into the text, or to a constant */
};

/* Parses TEXT. Returns NULL, or the error message. */
const char *log_target_parse(const char *text, struct log_target *target);

/* True if TEXT is not a path and must not be joined to a directory. */
bool log_target_is_word(const char *text);

#endif
