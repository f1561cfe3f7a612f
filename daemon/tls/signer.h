/*
 * The handshakes of a serving thread over TLS whose private key is in the keys process. When
 * OpenSSL needs a signature, the handshake pauses, and the request goes over the thread's link; the
 * answer continues it. If the keys process ends, the requests wait for the next link.
 *
 * All functions on the serving thread.
 */
#ifndef DAEMON_TLS_SIGNER_H
#define DAEMON_TLS_SIGNER_H

#include <event2/event.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

struct fibre;
struct signature_scheme;
struct signer;

/* One handshake, embedded by its owner; all zero at first. Must not be freed while it waits. */
struct signer_handshake {
    TAILQ_ENTRY(signer_handshake) link; /* while it waits */
    struct fibre *fibre;                /* runs the call of OpenSSL that waits; NULL: none */
    void *owner;
    SSL *ssl;
    int result, error; /* what that call returned, and errno */
    uint64_t since_ns; /* when it began to wait */
    uint32_t set;      /* the keys that sign; set by the owner */
    /* The request. Its bytes belong to the paused call. */
    uint64_t number;
    uint32_t key, scheme;
    const uint8_t *bytes;
    size_t length;
    uint8_t *signature;
    size_t signature_max, signature_length; /* 0: none */
};

/* RESUME(owner) must call signer_run() for the handshake of OWNER. NULL: out of memory. */
struct signer *signer_new(struct event_base *base, void (*resume)(void *owner));

/* No handshake waits. */
void signer_free(struct signer *signer);

/*
 * FD, which it takes over, is the link to the keys process for SET, a set of keys, from now on. The
 * link for an older set stays for the handshakes that have begun with it.
 */
void signer_connect(struct signer *signer, uint32_t set, int fd);

/*
 * Lets fail what has waited for more than PATIENCE_NS, which is the time limit of a handshake, too:
 * closes the links of older sets after twice that time.
 */
void signer_expire(struct signer *signer, uint64_t now_ns, uint64_t patience_ns);

/*
 * Continues the handshake of SSL. Returns true with the result of SSL_do_handshake() and errno; or
 * false: it waits for a signature, and RESUME(OWNER) follows.
 */
bool signer_run(struct signer *signer, struct signer_handshake *handshake, SSL *ssl, void *owner,
                uint64_t now_ns, int *result);

/*
 * Within signer_run(): has KEY, a number, sign LENGTH bytes. Returns the length of the signature in
 * SIGNATURE, which has room for MAX bytes; or 0.
 */
size_t signer_sign(uint32_t key, const struct signature_scheme *scheme, const uint8_t *bytes,
                   size_t length, uint8_t *signature, size_t max);

#endif
