/*
 * Ephemeral keys of X25519 for OpenSSL, made with libsodium, which needs a third of OpenSSL's CPU
 * time: a quarter of the instructions of a handshake. OpenSSL derives the secret from the keys,
 * which are exported to it. Without libsodium OpenSSL makes them, too.
 */
#ifndef DAEMON_TLS_KEY_EXCHANGE_H
#define DAEMON_TLS_KEY_EXCHANGE_H

#include <openssl/core.h>

/* The algorithms of the provider for OSSL_OP_KEYMGMT; NULL: built without libsodium. */
const OSSL_ALGORITHM *key_exchange_keys(void);

/*
 * Reports the provider's CAPABILITY, as provider-base(7) says: a group of TLS, because libssl uses
 * one only if the provider of its keys reports it.
 */
int key_exchange_capabilities(void *provider, const char *capability, OSSL_CALLBACK *report,
                              void *argument);

#endif
