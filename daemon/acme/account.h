/*
 * The account at the authority: its key and URL in the state directory, its registration, and the change of its key
 * (RFC 8555 section 7.3.5). The ACME process.
 *
 * The new key is in account.key.next before the authority receives it, and becomes account.key when the authority has
 * accepted it. A process that finds account.key.next asks the authority which of the two is the account's.
 */
#ifndef DAEMON_ACME_ACCOUNT_H
#define DAEMON_ACME_ACCOUNT_H

#include "daemon/acme/authority.h"
#include "daemon/acme/jws.h"
#include "daemon/acme/link.h"
#include "daemon/acme/settings.h"

struct account {
    const struct acme_settings *settings;
    int directory; /* descriptor of the state directory; borrowed, as are the next two */
    struct link *link;
    struct authority *authority; /* has the key, which it borrows, and the URL */
    EVP_PKEY *key;
    EVP_PKEY *next; /* which the authority may have accepted instead; NULL: none */
    char thumbprint[JWS_THUMBPRINT_BYTES]; /* of KEY */
};

/* Reads the files, and makes a key if there is none. Returns 0, or -1 after an event with the reason. */
int account_load(struct account *account);
void account_free(struct account *account);

/* The next three return 0, or -1 with authority->why. */

/* Reads the directory of the authority, finds out which key is the account's, and registers it unless it is known. */
int account_open(struct account *account);

/* Replaces the key, at the authority and in the state directory. */
int account_change_key(struct account *account);

#endif
