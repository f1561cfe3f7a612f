/*
 * Keys, certificate signing requests and certificates as OpenSSL objects and PEM text. What the
 * authority sends is input from outside. The ACME process.
 */
#ifndef DAEMON_ACME_CREDENTIALS_H
#define DAEMON_ACME_CREDENTIALS_H

#include "daemon/config/config.h"

#include <openssl/evp.h>
#include <stdint.h>

/* A new key. NULL: out of memory. */
EVP_PKEY *credentials_new_key(enum config_acme_key kind);

/* KEY as PEM text, which the caller cleanses and frees; and back. NULL: out of memory, or no such key. */
char *credentials_key_text(EVP_PKEY *key);
EVP_PKEY *credentials_key_read(const char *text);

/* A signing request (RFC 2986) for NAME with KEY, in base64url, which the caller frees. NULL: out of memory. */
char *credentials_request(EVP_PKEY *key, const char *name);

/* When the first certificate of a PEM text is valid, in seconds since 1970. */
struct credentials_validity {
    int64_t not_before_s, not_after_s;
};

/*
 * Checks that the first certificate of CHAIN, PEM text, is for NAME, belongs to KEY (NULL: any key)
 * and is valid at NOW_S. Returns 0 with VALIDITY, or -1 with WHY.
 */
int credentials_check(const char *chain, EVP_PKEY *key, const char *name, int64_t now_s,
                      struct credentials_validity *validity, char *why, size_t size);

enum { CREDENTIALS_ID_BYTES = 128 };

/*
 * Writes the identifier by RFC 9773 of the first certificate of CHAIN, PEM text: key of the issuer and serial
 * number; "" if the certificate does not name the key, or one of them is longer than any authority makes it.
 */
void credentials_id(const char *chain, char id[CREDENTIALS_ID_BYTES]);

/* The certificates of CHAIN without what else is in the text, which the caller frees. NULL: none, or out of memory. */
char *credentials_clean(const char *chain);

#endif
