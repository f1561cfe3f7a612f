/*
 * The section [acme]: which names get a certificate from an authority, and where its files are.
 * Read-only once loaded. Any thread.
 */
#ifndef DAEMON_CONFIG_ACME_H
#define DAEMON_CONFIG_ACME_H

#include "common/segment.h"
#include "common/span.h"
#include "daemon/config/config.h"

#include <stdio.h>

enum { ACME_NAMES_MAX = 256, ACME_NAME_MAX = 253, ACME_CERTIFICATE_NAMES_MAX = 100 };

/* URL of the directory (RFC 8555 section 7.1.1). */
const char *config_acme_directory(const struct config *config);

/* True if NAME is an IP address: the identifier of RFC 8738. */
bool config_acme_is_address(const char *name);

/* The next name of a certificate in *NAMES, which becomes the rest; length 0: there is none. */
struct span config_acme_next_name(const char **names);

/* The number of the certificate of [acme] for NAME; acme_names.count: none. */
size_t config_acme_find(const struct config *config, struct span name);

/*
 * Writes the name of the files of the certificate for NAMES without suffix: the first name, with '+'
 * for the star of a wildcard.
 */
void config_acme_file(const char *names, char file[ACME_NAME_MAX + 1]);

/* The user of the ACME process, [acme] user or its default; "": that of the workers. */
const char *config_acme_user(const struct config *config);

/* The variable by which the ACME process gets [acme] eab_key. */
#define ACME_EAB_KEY_VARIABLE "WEBSERVERD_ACME_EAB_KEY"

#define ACME_SHARED_USER                                                                           \
    "the account and the keys belong to the user of the workers, as there is no user "             \
    "webserverd-acme (make it: useradd --system webserverd-acme)"

/*
 * Sets KINDS to the challenges that may be used, the preferred one first, and returns their number,
 * from 1. Each attempt after a failed one begins with the next.
 */
size_t config_acme_challenges(const struct config *config,
                              enum challenge_kind kinds[CHALLENGE_KINDS]);

/* As in the protocol: "http-01". */
const char *config_acme_challenge_name(enum challenge_kind kind);

/*
 * For -t: prints a line for each name, with the certificate that is requested for it or why none
 * is.
 */
void config_acme_describe(const struct config *config, FILE *out);

#endif
