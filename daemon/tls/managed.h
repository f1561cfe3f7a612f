/*
 * Managed certificates, which the server obtains itself: those in [acme] state_dir, and self-signed
 * ones for names that have none yet, and for development. Their files are written by the ACME
 * process, which the master does not trust: a confined child checks a copy of each, and only that
 * copy is used. The master.
 */
#ifndef DAEMON_TLS_MANAGED_H
#define DAEMON_TLS_MANAGED_H

#include "daemon/config/config.h"

#include <limits.h>
#include <openssl/x509.h>
#include <stdbool.h>

/* Paths, as in [tls] certificate and key, of sealed copies in memory: /proc/self/fd/FD. */
struct managed_certificates {
    struct config_words certificate, key;
    int *fd; /* as many as certificates */
};

/*
 * Finds a certificate for each name of [acme] in DIRECTORY, the state directory. MANAGED is all
 * zero. One that cannot be used is logged and renamed. A new self-signed one replaces it, or one
 * that is missing. Returns 0, or -1 with WHY; then call managed_certificates_free() nevertheless.
 */
int managed_certificates_find(const struct config *config, int directory,
                              struct managed_certificates *managed, char *why, size_t size);
void managed_certificates_free(struct managed_certificates *managed);

struct self_signed {
    char certificate[PATH_MAX]; /* paths of the files */
    char key[PATH_MAX];
};

/*
 * Writes a certificate for NAME with its ECDSA key (P-256) to DIRECTORY: NAME.pem and, readable by
 * the owner only, NAME.key. That of localhost is for 127.0.0.1 and ::1, too. Never replaces a file.
 * Returns 0, or -1 with WHY and no file left.
 */
int self_signed_write(struct self_signed *files, const char *directory, const char *name, char *why,
                      size_t size);

/* The paths that self_signed_write() writes. */
void self_signed_paths(struct self_signed *files, const char *directory, const char *name);

/*
 * The parts of a self-signed certificate with KEY, for COMMON (at most 64 bytes) and DAYS: first
 * all but extensions and signature, then an extension in the form of x509v3_config(5). Return
 * false: out of memory.
 */
bool self_signed_begin(X509 *certificate, EVP_PKEY *key, const char *common, long days);
bool self_signed_extend(X509 *certificate, int nid, const char *value);

#endif
