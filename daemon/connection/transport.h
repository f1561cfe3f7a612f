/*
 * Transport: how bytes move between a connection and its client. All functions are non-blocking and
 * return what the system calls of the same name return. The owning thread.
 */
#ifndef DAEMON_CONNECTION_TRANSPORT_H
#define DAEMON_CONNECTION_TRANSPORT_H

#include "common/span.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct client;
struct connection;
struct segment;
struct tls_context;

/* What the caller does at once after a write. Anything but nothing lets the kernel delay a short packet. */
enum write_next {
    WRITE_NEXT_NONE,
    WRITE_NEXT_MORE, /* it writes more bytes */
    WRITE_NEXT_END,  /* it ends the connection: TLS adds close_notify to the last record */
};

struct transport {
    ssize_t (*read)(struct connection *connection, void *buffer, size_t length);
    /* After EAGAIN the next write must offer the same bytes again, or these and more. */
    ssize_t (*write)(struct connection *connection, const struct iovec *parts, int count,
                     enum write_next next);
    /* After EAGAIN the next call must offer the same bytes again. */
    ssize_t (*send_file)(struct connection *connection, int file, off_t *offset, size_t length);
};

/*
 * After BEFORE bytes of bodies, BYTES more have been sent. The client is known to read when it has
 * got 1 MiB: lifts the limit of unsent bytes that the socket inherited (TCP_NOTSENT_LOWAT).
 */
void transport_count_body(const struct connection *connection, uint64_t before, uint64_t bytes);

/* A plain TCP or UNIX socket. */
extern const struct transport transport_plain;

/*
 * TLS over a socket, with OpenSSL. The records of a write are sent by one call, as far as there is
 * space; what the socket does not accept is kept encrypted. The owning thread unless noted.
 */
extern const struct transport transport_tls;

enum tls_progress {
    TLS_DONE,
    TLS_WANTS_READ,      /* continue when the socket is readable */
    TLS_WANTS_WRITE,     /* continue when it is writable */
    TLS_WANTS_SIGNATURE, /* loop->signer resumes it; until then it must neither move nor be freed */
    TLS_FAILED,          /* close the connection */
};

/*
 * Makes CONNECTION, which has no bytes read, one over TLS. SEGMENT as in tls_context_connect().
 * Returns false if out of memory.
 */
bool transport_tls_open(struct connection *connection, struct tls_context *context,
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

/* What a handshake that is done has negotiated. */
struct tls_outcome {
    unsigned int cipher_suite; /* its number */
    const char *group;         /* registered name; NULL: no keys were exchanged */
    bool resumed;              /* a session of before */
    bool http2;                /* ALPN has selected it */
    bool validated;            /* an ACME authority has validated a name: nothing follows */
};
struct tls_outcome transport_tls_outcome(const struct connection *connection);

/*
 * True if the session of CLIENT, over TLS, may carry requests for HOST, host[:port]: the client
 * gave no name in the handshake, or this one, or the certificate is for it.
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
