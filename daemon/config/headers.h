/*
 * The section [headers]: header fields added to responses. [headers] applies to all responses,
 * [headers /prefix] below a path, [headers *.extension] to names with that extension. If several
 * rules set one field, the most specific applies: extension, then prefix, then all; a longer one
 * before a shorter one. An empty value removes the field.
 *
 * Freshness fields, such as Cache-Control, are for responses with a status below 400 only: a cache
 * must not keep an error for as long as a file. [headers always], also with a path or an extension,
 * sets them for errors, too; of two rules of one scope, the one with "always" applies to errors and
 * the other to the rest. Errors of the request, see response_is_of_request(), never have them.
 *
 * [headers host NAME …] is for one [host]. Its lines apply before those for all hosts, however
 * specific these are.
 *
 * The rules are read-only once loaded. Pure; any thread.
 */
#ifndef DAEMON_CONFIG_HEADERS_H
#define DAEMON_CONFIG_HEADERS_H

#include "daemon/config/config.h"
#include "daemon/config/reader.h"

enum { HEADER_RULES_MAX = 4096 }; /* bytes of all rules together */

enum header_part {
    /*
     * Fields about the content, such as Content-Language. Omitted in a 304 (RFC 9110 section
     * 15.4.5) and in responses with other content, such as errors.
     */
    HEADER_OF_CONTENT,
    HEADER_OF_RESPONSE,      /* all other fields */
    HEADER_OF_ERROR,         /* those of an error */
    HEADER_OF_REQUEST_ERROR, /* those of an error of the request */
};

/* Borrows the configuration. */
struct header_rules {
    const struct config_header *rule;
    size_t count;
};

/*
 * The rules for HOST (NULL: requests to no [host]), in an array that the caller frees. Returns 0, or
 * -1: out of memory.
 */
int header_rules_of_host(const struct config *config, const struct config_host *host,
                         struct header_rules *rules);

/* Bytes of the rule's field line. */
size_t header_rule_bytes(const struct config_header *rule);

/*
 * Writes the field lines of PART for PATH to BUFFER, at most HEADER_RULES_MAX bytes; returns the
 * number of bytes. PATH is canonical; NULL means unknown, and only [headers] applies.
 */
size_t header_rules_write(const struct header_rules *rules, const char *path, enum header_part part,
                          char *buffer);

/*
 * The value of Server in [headers]: "" to send none, NULL if it is not set. header_rules_write()
 * does not write it.
 */
const char *header_rules_server(const struct header_rules *rules);

/*
 * Adds ENTRY to CONFIG, or replaces the line of the same scope and field; reports errors. *LINES
 * (allocated, owned by the caller) has the file's line number of each, or 0 if not from the file.
 */
void config_header_add(struct config *config, size_t **lines, const struct config_entry *entry,
                       struct config_report *report);

/*
 * Reports rules for a host that does not exist, and hosts whose rules together exceed
 * HEADER_RULES_MAX bytes.
 */
void config_header_check(const struct config *config, struct config_report *report);

#endif
