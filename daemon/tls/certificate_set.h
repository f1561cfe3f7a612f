/*
 * The certificates and keys of one configuration, as files in memory: the master makes them before
 * it forks workers, and again when certificates are renewed; workers make their OpenSSL contexts
 * from them (tls/context.h). A confined child reads each certificate, so the master parses none. The
 * master.
 */
#ifndef DAEMON_TLS_CERTIFICATE_SET_H
#define DAEMON_TLS_CERTIFICATE_SET_H

#include "daemon/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct certificate_loading;
struct certificate_set;
struct message_certificates;
struct message_keys_set;

/*
 * Reads the certificates and keys that CONFIG names. Returns NULL with WHY, which begins with the
 * key of CONFIG, if one of the files is missing, invalid or does not fit. Unless DIRECTORY is -1,
 * it is the state directory of [acme]: reads its certificates, too, replaces each that is missing
 * or unusable by a self-signed one, and closes DIRECTORY.
 */
struct certificate_set *certificate_set_load(const struct config *config, int directory, char *why,
                                             size_t size);

/*
 * The same, one step after the other: call certificate_loading_continue() when the descriptor, which
 * changes with each step, is readable, and once a second. With WAIT it blocks instead, and returns
 * no CERTIFICATES_LOADING. DIRECTORY is closed with the loading, and CONFIG borrowed up to then.
 */
enum certificate_progress {
    CERTIFICATES_LOADING,
    CERTIFICATES_LOADED,   /* call certificate_loading_take() */
    CERTIFICATES_UNUSABLE, /* see WHY */
};

struct certificate_loading *certificate_loading_new(const struct config *config, int directory,
                                                    char *why, size_t size);
int certificate_loading_descriptor(const struct certificate_loading *loading);
enum certificate_progress certificate_loading_continue(struct certificate_loading *loading,
                                                       bool wait, char *why, size_t size);
struct certificate_set *certificate_loading_take(struct certificate_loading *loading);
void certificate_loading_free(struct certificate_loading *loading); /* NULL is allowed */

/* True if PID, which has been reaped with STATUS, was a child of LOADING. NULL: false. */
bool certificate_loading_reaped(struct certificate_loading *loading, pid_t pid, int status);

/* Another reference, for each of which the caller calls certificate_set_free(). NULL is allowed. */
struct certificate_set *certificate_set_hold(struct certificate_set *set);
void certificate_set_free(struct certificate_set *set);

/* True if the keys process signs: then the workers get no private keys. NULL: false. */
bool certificate_set_is_remote(const struct certificate_set *set);

/* From 1; a newer set has a higher one. */
uint32_t certificate_set_number(const struct certificate_set *set);

/*
 * For the workers and the keys process: fill the message, and return the descriptor of the sealed
 * file that is sent with it, which is borrowed. For the keys process only if it signs.
 */
int certificate_set_file(const struct certificate_set *set, struct message_certificates *message);
int certificate_set_keys(const struct certificate_set *set, struct message_keys_set *message);

/* One certificate in use. All borrowed, during the call. The texts may contain any bytes. */
struct tls_description {
    const char *issuer;
    char *const *name; /* DNS names; addresses if it has none */
    size_t name_count;
    int64_t not_before_s, not_after_s; /* wall clock; 0: not valid */
};

/* Calls SHOW(OWNER, ...) for each certificate, in the order of the configuration. */
void certificate_set_describe(const struct certificate_set *set,
                              void (*show)(void *owner, const struct tls_description *description),
                              void *owner);

/*
 * Returns false and writes to TEXT why clients reject the certificate at NOW_S, wall clock: it has
 * ended, or is not valid yet.
 */
bool certificate_is_valid_at(const struct tls_description *description, int64_t now_s, char *text,
                             size_t size);

/*
 * Logs, once each, that a certificate is not valid yet, ends within 14, 7 and 2 days of NOW_S, wall
 * clock, and has ended; the days only if they are less than a third of its life, when it should have
 * been renewed.
 */
void certificate_set_report_expired(struct certificate_set *set, int64_t now_s);

#endif
