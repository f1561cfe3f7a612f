/*
 * The signatures that a TLS server makes: their kinds (SignatureScheme of RFC 8446 section 4.2.3), and
 * what it signs. Pure; any thread.
 */
#ifndef DAEMON_TLS_SIGNATURE_SCHEME_H
#define DAEMON_TLS_SIGNATURE_SCHEME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct signature_scheme {
    uint32_t code;
    const char *key_type; /* as EVP_PKEY_is_a() compares it */
    const char *digest;   /* NULL: part of the algorithm */
    bool pss;             /* RSASSA-PSS, with a salt as long as the digest */
};

/* NULL: the server makes no such signature. DIGEST in any case; NULL or "": none. */
const struct signature_scheme *signature_scheme_find(const char *key_type, const char *digest,
                                                     bool pss);
const struct signature_scheme *signature_scheme_get(uint32_t code);

/*
 * True if a TLS server signs such bytes in a handshake: the content of CertificateVerify in TLS 1.3
 * (RFC 8446 section 4.4.3), or randoms and ECDHE parameters in TLS 1.2 (RFC 8422 section 5.4). No
 * other signature of the key has a use for a client, so the owner of the key makes no other.
 */
bool signature_is_of_handshake(const uint8_t *bytes, size_t length);

#endif
