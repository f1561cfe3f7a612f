/* Certificates for development, and until an authority has signed one. */
#ifndef DAEMON_TLS_SELF_SIGNED_H
#define DAEMON_TLS_SELF_SIGNED_H

#include <limits.h>
#include <stddef.h>

struct self_signed {
    char certificate[PATH_MAX]; /* paths of the files */
    char key[PATH_MAX];
};

/*
 * Writes a certificate for NAME with its ECDSA key (P-256) to DIRECTORY: NAME.pem and, readable by the owner
 * only, NAME.key. That of localhost is for 127.0.0.1 and ::1, too. Never replaces a file. Returns 0, or -1
 * with WHY and no file left.
 */
int self_signed_write(struct self_signed *files, const char *directory, const char *name, char *why,
                      size_t size);

/* The paths that self_signed_write() writes. */
void self_signed_paths(struct self_signed *files, const char *directory, const char *name);

#endif
