/*
 * The header fields that the configuration adds to answers, by path: [headers] to all, [headers
 * /prefix] below a path, [headers *.ending] to names that end so. Of one field's rules that fit a
 * path the most specific counts: an ending before a prefix before all, the longer before the
 * shorter. One with an empty value leaves the field out.
 *
 * Made once and then only read, by any thread. Pure.
 */
#ifndef DAEMON_HEADER_RULES_H
#define DAEMON_HEADER_RULES_H

#include "daemon/config/config.h"

enum { HEADER_RULES_MAX = 4096 }; /* bytes of all rules together, and so of what an answer gets */

/* Which of the fields. */
enum header_part {
    /* Of the content: Content-Language, Content-Disposition … A 304 (RFC 9110 section 15.4.5) and
     * answers with another content, such as errors, don't have them. */
    HEADER_OF_CONTENT,
    HEADER_OF_ANSWER, /* all others */
};

/* Borrows the configuration. */
struct header_rules {
    const struct config_header *rule;
    size_t count;
};

/* Bytes of a rule's line in an answer. */
size_t header_rule_bytes(const struct config_header *rule);

/*
 * Writes the lines "Name: value\r\n" for PATH (canonical; NULL: not known, which only [headers]
 * fits) to BUFFER, at most HEADER_RULES_MAX bytes, and returns how many.
 */
size_t header_rules_write(const struct header_rules *rules, const char *path, enum header_part part,
                          char *buffer);

/*
 * What a Server field given in [headers] says: "" to leave it out, NULL when there is none. It takes
 * the place of ours and is no field of header_rules_write().
 */
const char *header_rules_server(const struct header_rules *rules);

#endif
