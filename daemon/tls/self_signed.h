/* Certificates for development. */
#ifndef DAEMON_TLS_SELF_SIGNED_H
#define DAEMON_TLS_SELF_SIGNED_H

#include <limits.h>
#include <stddef.h>

struct self_signed {
    char certificate[PATH_MAX]; /* paths of the files */
    char key[PATH_MAX];
};

/*
 * Writes a certificate for localhost, 127.0.0.1 and ::1 with its ECDSA key (P-256) to DIRECTORY:
 * localhost.pem and, readable by the owner only, localhost.key. Never replaces a file. Returns 0, or
 * -1 with WHY and no file left.
 */
int self_signed_write(struct self_signed *files, const char *directory, char *why, size_t size);

#endif
