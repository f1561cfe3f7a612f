/*
 * A private key for OpenSSL without the private part: signer_sign() makes its signatures. It is a
 * provider (provider(7)) in a library context of its own, so that no other use of OpenSSL finds it.
 *
 * And the kinds of signatures that a TLS server makes (SignatureScheme of RFC 8446 section 4.2.3).
 */
#ifndef DAEMON_TLS_REMOTE_KEY_H
#define DAEMON_TLS_REMOTE_KEY_H

#include <openssl/evp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The private key of PUBLIC_KEY, which is that of the certificate; NUMBER is its number in the keys
 * process. The caller frees it. NULL: out of memory, or neither RSA, nor EC, nor Ed25519. One
 * thread; the key can be used by all.
 */
EVP_PKEY *remote_key_new(EVP_PKEY *public_key, uint32_t number);

struct signature_scheme {
    uint32_t code;
    const char *key_type; /* as EVP_PKEY_is_a() compares it */
    const char *digest;   /* NULL: part of the algorithm */
    bool pss;             /* RSASSA-PSS, with a salt as long as the digest */
    bool tls13;           /* TLS 1.3 allows it in handshakes, too */
};

/*
 * The next two are pure. NULL: the server makes no such signature. DIGEST in any case; NULL or
 * "": none.
 */
const struct signature_scheme *signature_scheme_find(const char *key_type, const char *digest,
                                                     bool pss);
const struct signature_scheme *signature_scheme_get(uint32_t code);

#endif
