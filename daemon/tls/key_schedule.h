/*
 * The key schedule of TLS 1.3 (RFC 8446, section 7.1) and HMAC for OpenSSL, computed with its plain
 * SHA functions. OpenSSL's own makes objects for a hash and a MAC for each of the 20 secrets of a
 * handshake: a seventh of the CPU time of a resumed handshake, a twelfth of that of a full one.
 */
#ifndef DAEMON_TLS_KEY_SCHEDULE_H
#define DAEMON_TLS_KEY_SCHEDULE_H

/*
 * The provider, which also makes ephemeral keys: key_exchange.h. The name is short because OpenSSL
 * hashes the query for it 35 times in a handshake.
 */
#define KEY_SCHEDULE_PROVIDER "ws"

/*
 * Returns the property query for SSL_CTX_new_ex() by which the context uses it; NULL: out of
 * memory, so OpenSSL's own is used. The main thread of a worker.
 */
const char *key_schedule_use(void);

/*
 * Clears the last secrets, which the thread keeps for the next derivations as OpenSSL keeps those of
 * an open connection. When a connection ends; any thread.
 */
void key_schedule_forget(void);

#endif
