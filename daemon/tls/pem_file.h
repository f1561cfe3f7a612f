/* Files with certificates and keys. The master. */
#ifndef DAEMON_TLS_PEM_FILE_H
#define DAEMON_TLS_PEM_FILE_H

#include <stddef.h>

/* Returns a descriptor of the regular file FILE, or -1 with WHY. */
int pem_file_open(const char *file, char *why, size_t size);

/*
 * Returns the text of FILE, in which spaces replace every private key: none stays in memory. The
 * caller frees it. NULL with WHY.
 */
char *pem_file_read_public(const char *file, char *why, size_t size);

#endif
