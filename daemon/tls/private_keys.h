/*
 * The private keys of one configuration, in a file in memory that no process maps: a process has
 * them only if it has its descriptor and reads it. A confined child parses the files of keys, so the
 * master, whose memory the workers inherit, has no trace of them.
 */
#ifndef DAEMON_TLS_PRIVATE_KEYS_H
#define DAEMON_TLS_PRIVATE_KEYS_H

#include <openssl/x509.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * The key in TEXT (PEM) of KEY_FILE, if it belongs to LEAF, the certificate in CERTIFICATE_FILE. The
 * caller frees it. NULL with WHY. A confined child, like the next.
 */
EVP_PKEY *private_key_parse(const char *text, const char *key_file, X509 *leaf,
                            const char *certificate_file, char *why, size_t size);

/* True if KEY, of FILE, is of a kind that the ACME process obtains; else WHY. */
bool private_key_is_obtained_kind(const EVP_PKEY *key, const char *file, char *why, size_t size);

/* Logs a warning if other users can read the file KEY_FILE. The master. */
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
