/*
 * Certificates that the server obtains itself: files in [acme] state_dir, which the ACME process
 * writes, whom the master does not trust; and self-signed ones for names that have none yet, and for
 * development. The master.
 */
#ifndef DAEMON_TLS_MANAGED_H
#define DAEMON_TLS_MANAGED_H

#include <limits.h>
#include <openssl/x509.h>
#include <stdbool.h>

/*
 * Opens the file BASE in DIRECTORY, the state directory; PATH is for messages. Returns a descriptor,
 * or -1 with WHY, which is empty if there is no such file.
 */
int managed_open(int directory, const char *base, const char *path, char *why, size_t size);

/* Renames a file that cannot be used, and logs WHY. The ACME process then obtains another one. */
void managed_set_aside(int directory, const char *base, const char *why);

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

/*
 * The same in memory for NAMES, which are separated by blanks; addresses, too. The caller frees both
 * in any case. Returns false: out of memory.
 */
bool self_signed_make(X509 **certificate, EVP_PKEY **key, const char *names);

/*
 * The parts of a self-signed certificate with KEY, for COMMON (at most 64 bytes) and DAYS: first
 * all but extensions and signature, then an extension in the form of x509v3_config(5). Return
 * false: out of memory.
 */
bool self_signed_begin(X509 *certificate, EVP_PKEY *key, const char *common, long days);
bool self_signed_extend(X509 *certificate, int nid, const char *value);

#endif
