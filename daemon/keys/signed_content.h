/*
 * What the keys process signs: the bytes come from a worker, which may be compromised, and a
 * signature must be of no use outside of a handshake with this server.
 */
#ifndef DAEMON_KEYS_SIGNED_CONTENT_H
#define DAEMON_KEYS_SIGNED_CONTENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct signature_scheme;

enum signed_content {
    CONTENT_INVALID,   /* no handshake has it signed */
    CONTENT_AMBIGUOUS, /* a client can choose its random so that it looks like ASN.1 */
    CONTENT_VALID,
};

/*
 * Valid is only what this server signs with SCHEME in a handshake:
 * - TLS 1.3: the content of CertificateVerify (RFC 8446 section 4.4.3), not with PKCS #1 v1.5 or
 *   SHA-224;
 * - with TLS12 also: the randoms and the ECDHE parameters of ServerKeyExchange (RFC 8422 section
 *   5.4), unless the whole could be the ASN.1 of a certificate, certificate request, revocation
 *   list or OCSP response.
 * Pure.
 */
enum signed_content signed_content_check(const struct signature_scheme *scheme, bool tls12,
                                         const uint8_t *bytes, size_t length);

#endif
