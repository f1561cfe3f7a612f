/*
 * Ephemeral keys of X25519 for OpenSSL, made with libsodium, which needs a third of OpenSSL's CPU
 * time: a quarter of the instructions of a handshake. The functions of OpenSSL's own provider derive
 * the secret from the keys. Without libsodium OpenSSL makes them, too.
 */
#ifndef DAEMON_TLS_KEY_EXCHANGE_H
#define DAEMON_TLS_KEY_EXCHANGE_H

#include <openssl/core.h>

/* Finds OpenSSL's own provider. Before this one is loaded; the main thread of a worker. */
void key_exchange_prepare(void);

/* The algorithms of the provider for OPERATION. NULL: none, or built without libsodium. */
const OSSL_ALGORITHM *key_exchange_algorithms(int operation);

/*
 * Reports the provider's CAPABILITY, as provider-base(7) says: a group of TLS, because libssl uses
 * one only if the provider of its keys reports it.
 */
int key_exchange_capabilities(void *provider, const char *capability, OSSL_CALLBACK *report,
                              void *argument);

#endif
