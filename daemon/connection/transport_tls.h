/*
 * TLS over a socket, with OpenSSL. The records of a write are sent by one call, as far as there is
 * space; what the socket does not accept is kept encrypted. The owning thread unless noted.
 */
#ifndef DAEMON_CONNECTION_TRANSPORT_TLS_H
#define DAEMON_CONNECTION_TRANSPORT_TLS_H

#include "common/span.h"
#include "daemon/connection/transport.h"

#include <stdint.h>

struct client;
struct segment;
struct tls_context;

extern const struct transport transport_tls;

enum tls_progress {
    TLS_DONE,
    TLS_WANTS_READ,      /* continue when the socket is readable */
    TLS_WANTS_WRITE,     /* continue when it is writable */
    TLS_WANTS_SIGNATURE, /* loop->signer resumes it; until then it must neither move nor be freed */
    TLS_FAILED,          /* close the connection */
};

/*
 * Makes CONNECTION, which has no bytes read, one over TLS. SEGMENT as in tls_context_connect(). Returns false if out
 * of memory.
 */
bool transport_tls_open(struct connection *connection, const struct tls_context *context,
                        const struct segment *segment);

/* The session of CONNECTION, copied from another struct, is its own from now on. */
void transport_tls_attach(struct connection *connection);

/* Why a handshake has failed. */
enum tls_failure {
    TLS_FAILURE_VERSION, /* no common version of the protocol */
    TLS_FAILURE_CIPHER,  /* no common cipher, group or signature algorithm */
    TLS_FAILURE_CLIENT,  /* the client has closed the connection or sent an alert */
    TLS_FAILURE_HTTP,    /* a request without TLS */
    TLS_FAILURE_OTHER,
};

/* Continues the handshake. If the result is TLS_FAILED, sets *FAILURE. */
enum tls_progress transport_tls_handshake(struct connection *connection, enum tls_failure *failure);

/* True if ALPN has selected HTTP/2. After the handshake. */
bool transport_tls_selected_http2(const struct connection *connection);

/* True if the handshake was all that the client wanted: an ACME authority has validated a name. After it. */
bool transport_tls_was_validation(const struct connection *connection);

/* What the handshake has negotiated: number of the cipher suite, and whether it was resumed. */
unsigned int transport_tls_cipher(const struct connection *connection, bool *resumed);

/*
 * True if the session of CLIENT, over TLS, may carry requests for HOST, host[:port]: the client gave
 * no name in the handshake, or this one, or the certificate is for it.
 */
bool transport_tls_covers(const struct client *client, struct span host);

/*
 * Sends close_notify, if the connection is in a state for it: no more is written afterwards. Does
 * not wait for the client's.
 */
void transport_tls_end(struct connection *connection);

/* Any thread, if no thread owns CONNECTION. */
void transport_tls_free(struct connection *connection);

#endif
