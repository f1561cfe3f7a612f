/*
 * Keys, what they sign, and certificates, as OpenSSL objects, PEM text and JSON: signing requests,
 * and the requests of the account's key, JSON Web Signatures (RFC 7515) with ES256 (RFC 7518), as
 * ACME uses them (RFC 8555 section 6.2). What the authority sends is input from outside.
 */
#ifndef DAEMON_ACME_CREDENTIALS_H
#define DAEMON_ACME_CREDENTIALS_H

#include "daemon/config/config.h"

#include <jansson.h>
#include <openssl/evp.h>
#include <stddef.h>
#include <stdint.h>

/* A new key. NULL: out of memory. */
EVP_PKEY *credentials_new_key(enum config_acme_key kind);

/*
 * KEY as PEM text, which the caller cleanses and frees; and back. NULL: out of memory, or no such
 * key.
 */
char *credentials_key_text(EVP_PKEY *key);
EVP_PKEY *credentials_key_read(const char *text);

/*
 * A signing request (RFC 2986) for NAMES, which are separated by blanks, with KEY, in base64url,
 * which the caller frees. NULL: out of memory.
 */
char *credentials_request(EVP_PKEY *key, const char *names);

/* When the first certificate of a PEM text is valid, in seconds since 1970. */
struct credentials_validity {
    int64_t not_before_s, not_after_s;
};

/*
 * Checks that the first certificate of CHAIN, PEM text, is for all NAMES, belongs to KEY (NULL: any key)
 * and is valid at NOW_S. Returns 0 with VALIDITY, or -1 with WHY.
 */
int credentials_check(const char *chain, EVP_PKEY *key, const char *names, int64_t now_s,
                      struct credentials_validity *validity, char *why, size_t size);

enum { CREDENTIALS_ID_BYTES = 128 };

/*
 * Writes the identifier by RFC 9773 of the first certificate of CHAIN, PEM text: key of the issuer
 * and serial number; "" if the certificate does not name the key, or one of them is longer than any
 * authority makes it.
 */
void credentials_id(const char *chain, char id[CREDENTIALS_ID_BYTES]);

/*
 * The certificates of CHAIN without what else is in the text, which the caller frees. NULL: none,
 * or out of memory.
 */
char *credentials_clean(const char *chain);

enum { JWS_THUMBPRINT_BYTES = 44 };

/*
 * A new object: the public key of KEY (P-256) as a JSON Web Key. NULL: out of memory, or another
 * kind of key.
 */
json_t *jws_public_key(EVP_PKEY *key);

/* The thumbprint of KEY (RFC 7638): 43 characters and a NUL. Returns 0, or -1. */
int jws_thumbprint(EVP_PKEY *key, char text[JWS_THUMBPRINT_BYTES]);

/*
 * The value of the DNS record for TOKEN (RFC 8555 section 8.4): 43 characters and a NUL. Returns 0,
 * or -1: out of memory.
 */
int jws_record_value(const char *token, const char *thumbprint, char text[JWS_THUMBPRINT_BYTES]);

/*
 * The binding of the account with KEY to the customer KID (RFC 8555 section 7.3.4) by the HMAC key
 * SECRET, in base64url, for the URL of newAccount. NULL: SECRET is not valid, or out of memory.
 */
json_t *jws_binding(EVP_PKEY *key, const char *url, const char *kid, const char *secret);

/* What a request is signed with. All borrowed. */
struct jws_header {
    const char *url;
    const char *nonce;   /* NULL: none, as in a JWS within another one */
    const char *account; /* its URL; NULL: the public key is sent instead */
};

/*
 * The body of a request with PAYLOAD (NULL: POST-as-GET), which the caller frees. NULL: out of
 * memory.
 */
char *jws_sign(EVP_PKEY *key, const struct jws_header *header, json_t *payload);

#endif
