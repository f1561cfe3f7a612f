/*
 * The private keys of one configuration, in a file in memory that no process maps: a process has
 * them only if it has its descriptor and reads it. A child of the master parses the files of keys,
 * so the master, whose memory the workers inherit, has no trace of them, also when it reads
 * certificates.
 */
#ifndef DAEMON_TLS_PRIVATE_KEYS_H
#define DAEMON_TLS_PRIVATE_KEYS_H

#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * Returns the text of FILE, in which spaces replace every private key: none stays in memory. The
 * caller frees it. NULL with WHY.
 */
char *pem_file_read_public(const char *file, char *why, size_t size);

/* An empty file. Returns its descriptor, or -1 with WHY. The master, like the next two. */
int private_keys_open(char *why, size_t size);

/*
 * Adds the key in the file KEY_FILE (PEM), after it has checked that it belongs to LEAF, the
 * certificate in the file CERTIFICATE_FILE. Returns 0, or -1 with WHY.
 */
int private_keys_add(int keys, const char *key_file, X509 *leaf, const char *certificate_file,
                     char *why, size_t size);

/*
 * In a confined child: true if the key in TEXT is of a kind that the ACME process obtains, and
 * belongs to LEAF. FILE is for WHY.
 */
bool private_key_check(const char *text, X509 *leaf, const char *file, char *why, size_t size);

/* Logs a warning if other users can read the file KEY_FILE. */
void private_keys_warn(const char *key_file);

/*
 * Reads the COUNT keys of the file into KEY, each of which the caller frees with EVP_PKEY_free().
 * Returns 0, or -1 and no key.
 */
int private_keys_read(int keys, EVP_PKEY **key, size_t count);

/*
 * The key at *AT in a file in which each is after its length (uint32_t); sets *AT behind it. The
 * caller frees it. NULL: there is none, or out of memory.
 */
EVP_PKEY *private_key_read(int file, off_t *at);

#endif
