/*
 * The account's key, and the requests that it signs: JSON Web Signature (RFC 7515) with ES256 (RFC 7518), as
 * ACME uses it (RFC 8555 section 6.2). The ACME process.
 */
#ifndef DAEMON_ACME_JWS_H
#define DAEMON_ACME_JWS_H

#include <jansson.h>
#include <openssl/evp.h>
#include <stddef.h>

enum { JWS_THUMBPRINT_BYTES = 44 };

/* Text in base64url without padding (RFC 4648 section 5), which the caller frees. NULL: out of memory. */
char *base64url(const void *bytes, size_t length);

/* A new object: the public key of KEY (P-256) as a JSON Web Key. NULL: out of memory, or another kind of key. */
json_t *jws_public_key(EVP_PKEY *key);

/* The thumbprint of KEY (RFC 7638): 43 characters and a NUL. Returns 0, or -1. */
int jws_thumbprint(EVP_PKEY *key, char text[JWS_THUMBPRINT_BYTES]);

/* What a request is signed with. All borrowed. */
struct jws_header {
    const char *url;
    const char *nonce;   /* NULL: none, as in a JWS within another one */
    const char *account; /* its URL; NULL: the public key is sent instead */
};

/* The body of a request with PAYLOAD (NULL: POST-as-GET), which the caller frees. NULL: out of memory. */
char *jws_sign(EVP_PKEY *key, const struct jws_header *header, json_t *payload);

#endif
