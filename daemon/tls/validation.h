/*
 * tls-alpn-01 (RFC 8737): an ACME authority sees in a TLS handshake that this server has a name.
 * Its client offers only the protocol acme-tls/1 and the name of the pending challenge; it gets a
 * self-signed certificate with the digest of the key authorization. Every other client gets what it
 * would get without this module.
 *
 * Certificate and key are made for each such handshake, from the challenge in the segment: there is
 * no secret in them, so none passes between processes.
 */
#ifndef DAEMON_TLS_VALIDATION_H
#define DAEMON_TLS_VALIDATION_H

#include "common/segment_reader.h"

#include <openssl/ssl.h>

/*
 * Callbacks and settings of these handshakes, which the caller frees. NULL: out of memory. The
 * master.
 */
SSL_CTX *validation_context_new(void);

/*
 * Has CONTEXT, where each handshake begins, recognize these handshakes. VALIDATION is borrowed. The
 * handshakes need validation_attach().
 */
void validation_recognize(SSL_CTX *context, SSL_CTX *validation);

/* The challenges of SSL are in SEGMENT; borrowed. NULL: none is ever pending. */
void validation_attach(SSL *ssl, const struct segment *segment);

/*
 * True if SSL, whose handshake has completed, has validated a name: then nothing else may follow.
 */
bool validation_is_done(const SSL *ssl);

/* The certificate for CHALLENGE with KEY, which the caller frees. NULL: out of memory. */
X509 *validation_certificate_new(EVP_PKEY *key, const struct challenge_copy *challenge);

#endif
