/*
 * The rules of a configuration for requests: who may request a path, which fields a response has,
 * and what is answered instead of a file. Each section that has them is read by a module of its
 * own.
 */
#ifndef DAEMON_CONFIG_RULES_H
#define DAEMON_CONFIG_RULES_H

#include "common/span.h"
#include "daemon/config/config.h"

#include <stdbool.h>
#include <stddef.h>

/* --- paths.c --- */

/*
 * The rules of a section by path, for all hosts together: one lookup, however many there are. Of
 * those that match, the ones of the host come before those for all hosts. Then the first in the
 * file applies for [redirect], the longest path for [access] and [cors]. Borrows the configuration.
 */

#define PATH_INDEX_NONE SIZE_MAX

/*
 * The number of the rule for PATH, which is canonical, of a request to HOST (config_host_number())
 * that came over TLS if SECURE; or PATH_INDEX_NONE. INDEX may be NULL: it has no rules.
 */
size_t path_index_find(const struct path_index *index, uint32_t host, const char *path,
                       bool secure);

/* --- access.c --- */

/*
 * The section [access /prefix]: who may request the paths below it. A client is refused if a
 * network of deny contains its address, or if allow is set and none of its networks does. If users
 * is set, it must also send the name and password of one (RFC 7617). Networks are as in
 * daemon/base/network.h. Read-only once loaded. Pure; any thread.
 */

/* The rule for PATH, which is canonical, of HOST (config_host_number()), or NULL. */
const struct config_access *access_find(const struct config *config, uint32_t host,
                                        const char *path);

bool access_allows(const struct config_access *rule, const uint8_t address[NETWORK_ADDRESS_BYTES]);

/* --- cors.c --- */

/*
 * The section [cors /prefix]: which pages of other origins may read responses (the CORS protocol of
 * the Fetch standard). Read-only once loaded. Pure; any thread.
 */

enum { CORS_LIST_MAX = 400 }; /* bytes of a list of methods or fields */

/* As access_find(). */
const struct config_cors *cors_find(const struct config *config, uint32_t host, const char *path);

/* --- headers.c --- */

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
 * The rules for HOST (NULL: requests to no [host]), in an array that the caller frees. Returns 0,
 * or -1: out of memory.
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
 * The value of field NAME for PATH, as above: "" to send none, NULL if it is not set. Needed for
 * those that header_rules_write() does not write: Server, Content-Type and Last-Modified.
 */
const char *header_rules_value(const struct header_rules *rules, const char *path,
                               const char *name);

/* --- redirects.c --- */

/*
 * The section [redirect]: what to do with requests for a path, before a file is looked up.
 *
 *   PATH = 301 TARGET       also 302, 307, 308
 *   http PATH = 301 https:  only requests without TLS; the same URL with https
 *   PATH = 410              also 403, 404
 *   PATH = try file directory /index.html 404
 *   PATH = pass             as if no rule matched
 *
 * A PATH that ends in a segment "*" is for the path before it and all below that; a TARGET that ends
 * so continues with what the star stands for. Paths and targets with blanks are in double quotes.
 *
 * The first rule that matches applies; those of [redirect host NAME] come before those for all
 * hosts. The query is kept unless the target has one. Paths are compared after decoding. The rules
 * are read-only once loaded. Pure; any thread.
 */

/* As access_find(), for a request that came over TLS if SECURE. */
const struct config_redirect *redirect_find(const struct config *config, uint32_t host,
                                            const char *path, bool secure);

/* What the star of RULE stands for in PATH, which matches. */
const char *redirect_rest(const struct config_redirect *rule, const char *path);

/* --- users.c --- */

/*
 * A users file of [access] or [metrics], as made by htpasswd(1): lines "name:hash", comments and
 * empty lines.
 *
 *   accepted   $2y$ $2b$ $2a$  bcrypt, htpasswd -B; cost at most 17
 *              $5$ $6$         SHA-256 and SHA-512 crypt, htpasswd -2 and -5
 *   refused    all others, such as MD5 ($apr1$, $1$), {SHA}, DES and plain text
 *
 * The master reads the file when it loads the configuration; its children inherit the memory.
 * Read-only once loaded. Any thread.
 */

/* The same users of the same file, with the same passwords. */
bool config_users_are_equal(const struct config_users *one, const struct config_users *other);

/* The user called NAME, or NULL. */
const struct config_user *config_users_find(const struct config_users *users, struct span name);

#endif
