/*
 * One certificate with its key, as a confined child has read and checked it. The child leaves it in
 * a file in memory, in parts that the master passes on as bytes: it parses nothing that others have
 * written.
 */
#ifndef DAEMON_TLS_CHECKED_CERTIFICATE_H
#define DAEMON_TLS_CHECKED_CERTIFICATE_H

#include "daemon/config/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CERTIFICATE_FILE_BYTES_MAX = 1024 * 1024, CERTIFICATE_ISSUER_BYTES = 256 };

/* The begin of the file. The parts follow in this order. The child may have written anything. */
struct checked_certificate {
    uint32_t chain_bytes; /* PEM, the leaf first */
    uint32_t key_bytes;   /* PKCS#8 or traditional, DER */
    uint32_t names_bytes; /* DNS names, each with its NUL */
    uint32_t is_authority;
    int64_t not_before_s, not_after_s; /* wall clock; 0: not valid */
    char issuer[CERTIFICATE_ISSUER_BYTES];
};

/* What the child is given. All borrowed. */
struct certificate_check {
    const struct config *config;
    const char *certificate_file, *key_file; /* paths, for messages */
    int certificate_fd, key_fd;              /* may be the same */
    const char *managed;                     /* the names in [acme] that it is for; NULL: it is the
                                                administrator's */
    int out;                                 /* an empty file in memory */
};

/*
 * Work of a confined child, with a struct certificate_check: reads certificate and key; or makes a
 * self-signed one for the managed names, so that only the child has had its key.
 */
bool certificate_check_files(void *argument, char *why, size_t size);
bool certificate_check_make(void *argument, char *why, size_t size);

#endif
