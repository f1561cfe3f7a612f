/* Making gzip, RFC 1952, of what is in memory. Pure; any thread. The same bytes always give the same. */
#ifndef DAEMON_GZIP_H
#define DAEMON_GZIP_H

#include <stddef.h>

/*
 * Compresses LENGTH bytes. Returns 0 with *COMPRESSED, which the caller frees, and its length;
 * ENODATA when it would not be smaller; or ENOMEM.
 */
int gzip_compress(const char *bytes, size_t length, char **compressed, size_t *compressed_length);

#endif
