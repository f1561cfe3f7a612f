#include "daemon/tls/private_keys.h"

#include "daemon/base/events.h"

#include <errno.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEY_BYTES_MAX = 64 * 1024 };

/* Parsing, in a confined child. Its memory ends with it. */

/* A daemon cannot ask for a password. */
static int no_password(char *buffer, int size, int writing, void *context)
{
    (void)buffer, (void)size, (void)writing, (void)context;
    return -1;
}

static const char *openssl_reason(unsigned long code, const char *otherwise)
{
    const char *reason = ERR_reason_error_string(code);

    return reason != NULL ? reason : otherwise;
}

static void explain_no_key(const char *file, char *why, size_t size)
{
    unsigned long code = ERR_peek_error();
    int reason = ERR_GET_REASON(code);

    if (reason == PEM_R_BAD_PASSWORD_READ || reason == ERR_R_INTERRUPTED_OR_CANCELLED)
        snprintf(why, size, "%s: the private key is encrypted; decrypt it: openssl pkey -in %s",
                 file, file);
    else if (reason == PEM_R_NO_START_LINE || code == 0 ||
             ERR_GET_LIB(code) == ERR_LIB_OSSL_DECODER)
        snprintf(why, size, "%s: contains no private key in PEM format", file);
    else
        snprintf(why, size, "%s: %s", file, openssl_reason(code, "contains no private key"));
}

EVP_PKEY *private_key_parse(const char *text, const char *key_file, X509 *leaf,
                            const char *certificate_file, char *why, size_t size)
{
    BIO *reader = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key =
        reader != NULL ? PEM_read_bio_PrivateKey(reader, NULL, no_password, NULL) : NULL;

    BIO_free(reader);
    if (key == NULL) {
        explain_no_key(key_file, why, size);
        return NULL;
    }
    if (X509_check_private_key(leaf, key) == 1)
        return key;
    snprintf(why, size, "%s: %s (the key does not belong to %s)", key_file,
             openssl_reason(ERR_peek_last_error(), "key values mismatch"), certificate_file);
    EVP_PKEY_free(key);
    return NULL;
}

enum { RSA_BITS_MIN = 2048, RSA_BITS_MAX = 4096 };

/* Explicit parameters can be those of P-256, too. */
static bool is_p256(const EVP_PKEY *key)
{
    char group[32] = "";
    int is_explicit = 0;

    EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, &is_explicit);
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC && is_explicit == 0 &&
           EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) == 1 &&
           strcmp(group, SN_X9_62_prime256v1) == 0;
}

bool private_key_is_obtained_kind(const EVP_PKEY *key, const char *file, char *why, size_t size)
{
    int bits = EVP_PKEY_get_bits(key);

    if (EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA ? bits >= RSA_BITS_MIN && bits <= RSA_BITS_MAX
                                                  : is_p256(key))
        return true;
    snprintf(why, size, "%s: its key is neither P-256 nor RSA of %d to %d bits", file, RSA_BITS_MIN,
             RSA_BITS_MAX);
    return false;
}

/* The master */

void private_keys_warn(const char *file)
{
    struct stat status;

    if (stat(file, &status) != 0)
        return;
    if ((status.st_mode & (S_IRWXO | S_IWGRP | S_IXGRP)) != 0)
        event_log(LEVEL_WARN,
                  "the private key %s has mode %04o: other users may use it (chmod 0600 or 0640)",
                  file, (unsigned int)status.st_mode & 07777);
    if (status.st_uid != 0 && status.st_uid != geteuid())
        event_log(LEVEL_WARN,
                  "the private key %s belongs to user %u, who is neither root nor this user", file,
                  (unsigned int)status.st_uid);
}

/* Reading */

EVP_PKEY *private_key_read(int file, off_t *at)
{
    uint32_t length;
    unsigned char *bytes;
    const unsigned char *next;
    EVP_PKEY *key = NULL;

    if (pread(file, &length, sizeof(length), *at) != (ssize_t)sizeof(length) ||
        length > KEY_BYTES_MAX)
        return NULL;
    bytes = malloc(length);
    if (bytes == NULL)
        return NULL;
    next = bytes;
    if (pread(file, bytes, length, *at + (off_t)sizeof(length)) == (ssize_t)length)
        key = d2i_AutoPrivateKey(NULL, &next, length);
    OPENSSL_cleanse(bytes, length);
    free(bytes);
    *at += (off_t)sizeof(length) + (off_t)length;
    return key;
}

int private_keys_read(int keys, EVP_PKEY **key, size_t count)
{
    off_t at = 0;
    size_t i = 0;

    while (i < count && (key[i] = private_key_read(keys, &at)) != NULL)
        i++;
    if (i == count)
        return 0;
    while (i > 0)
        EVP_PKEY_free(key[--i]);
    ERR_clear_error();
    return -1;
}
