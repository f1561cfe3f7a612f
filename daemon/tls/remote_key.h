/*
 * A private key for OpenSSL without the private part: signer_sign() makes its signatures. It is a
 * provider (provider(7)) in a library context of its own, so that no other use of OpenSSL finds it.
 */
#ifndef DAEMON_TLS_REMOTE_KEY_H
#define DAEMON_TLS_REMOTE_KEY_H

#include <openssl/evp.h>
#include <stdint.h>

/*
 * The private key of PUBLIC_KEY, which is that of the certificate; NUMBER is its number in the keys
 * process. The caller frees it. NULL: out of memory, or neither RSA, nor EC, nor Ed25519. One thread;
 * the key can be used by all.
 */
EVP_PKEY *remote_key_new(EVP_PKEY *public_key, uint32_t number);

#endif
