/*
 * The TLS side of the server for one configuration: its certificates and settings as OpenSSL
 * contexts. The master makes it before it forks workers, which inherit it; a reload makes another
 * one, and so do renewed certificates, which the running workers receive in a file. Nothing in it
 * changes, so that all threads of a worker may use it.
 */
#ifndef DAEMON_TLS_CONTEXT_H
#define DAEMON_TLS_CONTEXT_H

#include "daemon/config/config.h"

#include <openssl/ssl.h>

struct managed_certificates;
struct message_certificates;
struct message_keys_set;
struct segment;
struct tls_context;
struct tls_tickets;

/*
 * Reads the certificates and keys that CONFIG names, and then those of MANAGED (tls/managed.h;
 * NULL: none). With [tls] keys_process the private keys are only in the file tls_context_keys(),
 * and the signatures come from the keys process. TICKETS is borrowed; NULL: clients get no session
 * tickets, whatever CONFIG says. Returns NULL with WHY, which begins with the key of CONFIG, if one
 * of the files is missing, invalid or does not fit.
 */
struct tls_context *tls_context_new(const struct config *config,
                                    const struct managed_certificates *managed,
                                    struct tls_tickets *tickets, char *why, size_t size);

/*
 * Another reference, for each of which the caller calls tls_context_free(). NULL is allowed. Any
 * thread.
 */
struct tls_context *tls_context_hold(struct tls_context *context);
void tls_context_free(struct tls_context *context);

/* In a child that has inherited CONTEXT and closes other descriptors than its own. NULL is allowed. */
void tls_context_forget_files(struct tls_context *context);

/*
 * The certificates of CONTEXT, for a worker that runs; also the private keys, unless the keys
 * process signs. tls_context_save() returns the descriptor of a sealed file in memory, or -1 with
 * errno. tls_context_restore() makes a context from it, whose number and COUNT of certificates are
 * those of MESSAGE, with the settings of CONFIG; or NULL: out of memory. The main thread of a
 * worker.
 */
int tls_context_save(const struct tls_context *context, struct message_certificates *message);
struct tls_context *tls_context_restore(const struct message_certificates *message, int file,
                                        const struct config *config, struct tls_tickets *tickets);

/* True if the keys process signs. NULL: false. */
bool tls_context_is_remote(const struct tls_context *context);

/* That of its set of keys, from 1; a newer context has a higher one. */
uint32_t tls_context_number(const struct tls_context *context);

/*
 * For the keys process: SET gets a number that is unique in this master, and the number of keys.
 * Returns the descriptor of their file (private_keys.h), which is borrowed.
 */
int tls_context_keys(const struct tls_context *context, struct message_keys_set *set);

/* One certificate in use. All borrowed, during the call. */
struct tls_description {
    const char *issuer;
    char *const *name; /* DNS names */
    size_t name_count;
    int64_t not_before_s, not_after_s; /* wall clock; 0: not valid */
};

/* Calls SHOW(OWNER, ...) for each certificate, in the order of the configuration. */
void tls_context_describe(const struct tls_context *context,
                          void (*show)(void *owner, const struct tls_description *description),
                          void *owner);

/*
 * Logs, once each, that a certificate ends within 14, 7 and 2 days of NOW_S, wall clock, and has
 * ended; the days only if they are less than a third of its life, when it should have been renewed.
 * The master.
 */
void tls_context_report_expired(struct tls_context *context, int64_t now_s);

/*
 * A new server side of a connection, which the caller frees with SSL_free(). NULL: out of memory.
 * The client's SNI selects the certificate during the handshake. SEGMENT, borrowed, has the
 * challenges of ACME (NULL: none). Any thread of a worker.
 */
SSL *tls_context_connect(const struct tls_context *context, const struct segment *segment);

#endif
