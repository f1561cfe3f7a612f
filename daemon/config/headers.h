/*
 * The section [headers]: header fields added to responses. [headers] applies to all responses,
 * [headers /prefix] below a path, [headers *.extension] to names with that extension. If several
 * rules set one field, the most specific applies: extension, then prefix, then all; a longer one
 * before a shorter one. An empty value removes the field.
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
    HEADER_OF_RESPONSE, /* all other fields */
};

/* Borrows the configuration. */
struct header_rules {
    const struct config_header *rule;
    size_t count;
};

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

/* Reports an error if the fields of all rules together exceed HEADER_RULES_MAX bytes. */
void config_header_check(const struct config *config, struct config_report *report);

#endif
