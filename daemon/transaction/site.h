/*
 * A site: what responses depend on by the host of the request. Each [host] of the configuration is
 * one; site 0 serves the hosts that no section names. The worker makes all sites at its start;
 * nothing in them changes afterwards, and any thread reads them.
 */
#ifndef DAEMON_TRANSACTION_SITE_H
#define DAEMON_TRANSACTION_SITE_H

#include "daemon/config/config.h"
#include "daemon/config/rules.h"
#include "daemon/content/files.h"
#include "daemon/content/resource.h"

struct site {
    uint32_t number;
    uint16_t host;                 /* its entry in section HOSTS of the segment, or 0 */
    const struct config *config;   /* the server's */
    const struct config_host *own; /* NULL: site 0 */
    struct config_words index, extensions;
    const char *fallback;
    const char *error_pages;
    bool autoindex;
    bool logged;                   /* its requests are in the access log or in its own log */
    bool coding_logged, id_logged; /* [log] fields */
    bool host_logged; /* with the requested host, which may be another than its first name */
    struct files_root root;
    bool shares_root; /* the descriptors belong to site 0 */
    struct header_rules headers;
    struct resource_source source; /* refers to root and headers */
    struct span hsts;              /* the line Strict-Transport-Security; empty: none */
};

struct site_names;

struct sites {
    uint32_t count;
    struct site *site;
    const struct site *fallback; /* serves hosts that are not names of a site */
    struct site_names *names;    /* NULL: there is only site 0 */
};

/*
 * Opens the roots of all sites of CONFIG, before the sandbox; or takes them over from HELD, by
 * site, where those that share the root of site 0 have -1. Returns 0, or -1 with errno; call
 * sites_close() in both cases.
 */
int sites_open(struct sites *sites, const struct config *config, const int *held);

/*
 * Logs a warning for each root that this process may not enter, so that all of its files are
 * answered 403: call it with the identity of a worker.
 */
void sites_warn_of_roots(const struct sites *sites);

/* The rest, which needs no rights. MIME is borrowed. Returns 0, or -1: out of memory. */
int sites_fill(struct sites *sites, const struct mime_table *mime);

void sites_close(struct sites *sites);

/* The last host that a thread looked up: most requests of a connection have the same. */
struct site_memo {
    const struct site *site; /* NULL: none yet */
    size_t length;
    char host[112];
};

/*
 * The site of HOST, a valid host[:port], or an empty text. Its exact name decides, else the longest
 * wildcard, else it is sites->fallback.
 */
const struct site *site_find(const struct sites *sites, struct site_memo *memo, struct span host);

/*
 * The key under which a thread cache keeps responses of SITE: those that came over TLS are others
 * if a redirect depends on that.
 */
static inline uint32_t site_cache_key(const struct site *site, bool secure)
{
    return 2 * site->number + (site->config->redirects_by_scheme && secure);
}

/* HOST without its port and a dot at its end. */
struct span site_host_name(struct span host);

#endif
