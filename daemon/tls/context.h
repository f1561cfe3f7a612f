/*
 * The TLS side of a worker: the certificates and settings of a configuration as OpenSSL contexts. A
 * worker makes it at its start, and another one of renewed certificates. Nothing in it changes, so
 * that all threads may use it.
 */
#ifndef DAEMON_TLS_CONTEXT_H
#define DAEMON_TLS_CONTEXT_H

#include "daemon/config/config.h"

#include <openssl/ssl.h>
#include <stdbool.h>

struct message_certificates;
struct segment;
struct tls_certificate;
struct tls_context;
struct tls_tickets;

/*
 * True if OpenSSL accepts CERTIFICATE, of FILE, with its key and the settings of CONFIG; else WHY. A
 * confined child.
 */
bool tls_context_accepts(const struct config *config, const struct tls_certificate *certificate,
                         const char *file, char *why, size_t size);

/*
 * Makes a context of FILE, which certificate_set_file() has returned with MESSAGE, and the settings
 * of CONFIG. With [tls] keys_process the signatures come from the keys process. TICKETS is borrowed;
 * NULL: clients get no session tickets, whatever CONFIG says. Returns NULL after an event that
 * names the reason. The main thread.
 */
struct tls_context *tls_context_new(const struct message_certificates *message, int file,
                                    const struct config *config, struct tls_tickets *tickets);

/*
 * Another reference, for each of which the caller calls tls_context_free(). NULL is allowed. Any
 * thread.
 */
struct tls_context *tls_context_hold(struct tls_context *context);
void tls_context_free(struct tls_context *context);

/* True if the keys process signs. NULL: false. */
bool tls_context_is_remote(const struct tls_context *context);

/* That of the set of certificates. */
uint32_t tls_context_number(const struct tls_context *context);

/*
 * A new server side of a connection, which the caller frees with SSL_free(). NULL: out of memory.
 * The client's SNI selects the certificate during the handshake. SEGMENT, borrowed, has the
 * challenges of ACME (NULL: none). Any thread of a worker.
 */
SSL *tls_context_connect(const struct tls_context *context, const struct segment *segment);

#endif
