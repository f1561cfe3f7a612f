/*
 * The section [acme]: which names get a certificate from an authority, and where its files are.
 * Read-only once loaded. Any thread.
 */
#ifndef DAEMON_CONFIG_ACME_H
#define DAEMON_CONFIG_ACME_H

#include "common/segment.h"
#include "daemon/config/config.h"

#include <stdio.h>

enum { ACME_NAMES_MAX = 256, ACME_NAME_MAX = 253 };

/* URL of the directory (RFC 8555 section 7.1.1). */
const char *config_acme_directory(const struct config *config);

/* The user of the ACME process, [acme] user or its default; "": that of the workers. */
const char *config_acme_user(const struct config *config);

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
