/*
 * The keys that encrypt session tickets (RFC 5077, RFC 8446 section 4.6.1), with which a client
 * resumes its session without a signature, in any worker. The master makes them and sends them to
 * its workers after each rotation; they are never in the segment.
 *
 * The newest key encrypts; the two before it still decrypt. Any thread, unless noted.
 */
#ifndef DAEMON_TLS_TICKETS_H
#define DAEMON_TLS_TICKETS_H

#include "daemon/base/messages.h"

#include <openssl/ssl.h>

struct tls_tickets;

/* With a first key. NULL: out of memory or random numbers. */
struct tls_tickets *tls_tickets_new(void);
void tls_tickets_free(struct tls_tickets *tickets);

/* Makes another key the newest one. Returns 0, or -1: out of random numbers. */
int tls_tickets_rotate(struct tls_tickets *tickets);

/* Copies all keys, for another process, and from one. */
void tls_tickets_export(struct tls_tickets *tickets, struct message_ticket_keys *keys);
void tls_tickets_import(struct tls_tickets *tickets, const struct message_ticket_keys *keys);

/*
 * For the next master of a binary upgrade. tls_tickets_save() returns a descriptor of a sealed file
 * in memory with all keys and ROTATED_NS, the monotonic time of the last rotation; or -1 with
 * errno. tls_tickets_restore() reads such a file. NULL: FD is no such file, or out of memory. The
 * master.
 */
int tls_tickets_save(struct tls_tickets *tickets, uint64_t rotated_ns);
struct tls_tickets *tls_tickets_restore(int fd, uint64_t *rotated_ns);

/*
 * CONTEXT gives its clients tickets and accepts them. TICKETS is borrowed. Returns 0, or -1 with an
 * error of OpenSSL.
 */
int tls_tickets_use(struct tls_tickets *tickets, SSL_CTX *context);

#endif
