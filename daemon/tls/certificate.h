/*
 * A certificate with its chain, in PEM format. Confined children of the master, and workers.
 */
#ifndef DAEMON_TLS_CERTIFICATE_H
#define DAEMON_TLS_CERTIFICATE_H

#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>

enum tls_name_match {
    TLS_NAME_DIFFERS,
    TLS_NAME_BY_WILDCARD, /* "*.example.org" stands for exactly one label */
    TLS_NAME_EQUAL,
};

struct tls_certificate {
    X509 *leaf;
    STACK_OF(X509) * chain; /* the certificates after the first one in the file */
    EVP_PKEY *key;          /* the private key, or one that signs in the keys process */
    char **name;            /* DNS names of the subject alternative name, maybe with wildcards */
    size_t name_count;
};

/*
 * Reads the certificate and its chain in TEXT (PEM), of FILE. CERTIFICATE is all zero; its key stays
 * NULL. Returns 0, or -1 with WHY; then call tls_certificate_free() nevertheless.
 */
int tls_certificate_parse(struct tls_certificate *certificate, const char *text, const char *file,
                          char *why, size_t size);
void tls_certificate_free(struct tls_certificate *certificate);

/* True if it may issue others: basicConstraints CA, or keyUsage keyCertSign, or X.509 version 1. */
bool tls_certificate_is_authority(X509 *certificate);

/* How CERTIFICATE covers HOST, a DNS name in any case: the best match of its names. */
enum tls_name_match tls_certificate_match(const struct tls_certificate *certificate,
                                          const char *host);

/* True if CERTIFICATE covers every name of OTHER, and OTHER has names. */
bool tls_certificate_includes(const struct tls_certificate *certificate,
                              const struct tls_certificate *other);

#endif
