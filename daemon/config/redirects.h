/*
 * The section [redirect]: what to do with requests for a path, before a file is looked up.
 *
 *   PATH = 301 TARGET       also 302, 307, 308
 *   http PATH = 301 https:  only requests without TLS; the same URL with https
 *   PATH = 410              also 403, 404
 *   PATH = try file directory /index.html 404
 *   PATH = pass             as if no rule matched
 *
 * A PATH that ends in a segment "*" is for all paths that begin with the rest; a TARGET that ends so
 * continues with what the star stands for.
 *
 * The first rule that matches applies; those of [redirect host NAME] come before those for all hosts.
 * The query is kept unless the target has one. Paths are compared after decoding. The rules are
 * read-only once loaded. Pure; any thread.
 */
#ifndef DAEMON_CONFIG_REDIRECTS_H
#define DAEMON_CONFIG_REDIRECTS_H

#include "daemon/config/config.h"
#include "daemon/config/reader.h"

/* The rules of one site, in the order in which they are tried. Borrows the configuration. */
struct redirect_rules {
    const struct config_redirect **rule;
    size_t count;
    bool of_scheme; /* a rule is for requests without TLS only */
};

/*
 * The rules for HOST (NULL: requests to no [host]), in an array that the caller frees. Returns 0, or
 * -1: out of memory.
 */
int redirect_rules_of_host(const struct config *config, const struct config_host *host,
                           struct redirect_rules *rules);

/* The first rule for PATH, which is canonical, of a request that came over TLS if SECURE; or NULL. */
const struct config_redirect *redirect_find(const struct redirect_rules *rules, const char *path,
                                            bool secure);

/* Adds ENTRY to CONFIG; reports errors. */
void config_redirect_add(struct config *config, const struct config_entry *entry,
                         struct config_report *report);

/* Reports rules for a host that does not exist, and redirects that lead to themselves. */
void config_redirects_check(const struct config *config, struct config_report *report);

/* The rule as in the file, key and value; for printing. */
void config_redirect_print(const struct config_redirect *rule, FILE *out);

void config_redirects_free(struct config *config);

#endif
