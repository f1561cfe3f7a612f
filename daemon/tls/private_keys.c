#include "daemon/tls/private_keys.h"

#include "daemon/base/events.h"
#include "daemon/base/memory_file.h"
#include "daemon/tls/confined.h"

#include <errno.h>
#include <fcntl.h>
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

enum { FILE_BYTES_MAX = 1024 * 1024, KEY_BYTES_MAX = 64 * 1024 };

/* Files */

/* Returns a descriptor of the regular file FILE, or -1 with WHY. */
static int open_pem_file(const char *file, char *why, size_t size)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    struct stat status;

    if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
        status.st_size <= FILE_BYTES_MAX)
        return fd;
    snprintf(why, size, "%s: %s", file,
             fd < 0                     ? strerror(errno)
             : !S_ISREG(status.st_mode) ? "not a regular file"
                                        : strerror(EFBIG));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* A block begins with a line "-----BEGIN LABEL-----" and ends with one "-----END LABEL-----". */
static void blank_private_keys(char *text)
{
    static const char begin[] = "-----BEGIN ", finish[] = "\n-----END ", secret[] = "PRIVATE KEY";
    char *block = text;

    while ((block = strstr(block, begin)) != NULL) {
        size_t label = strcspn(block, "\n");
        const char *found = memmem(block, label, secret, strlen(secret));
        const char *end = strstr(block, finish);
        size_t length = end != NULL ? (size_t)(end - block) : strlen(block);

        if (found != NULL)
            memset(block, ' ', length);
        block += found != NULL ? length : label;
    }
}

char *pem_file_read_public(const char *file, char *why, size_t size)
{
    int fd = open_pem_file(file, why, size);
    char *text = fd >= 0 ? calloc(1, FILE_BYTES_MAX + 1) : NULL;
    size_t length = 0;
    ssize_t got = 0;

    while (text != NULL && length < FILE_BYTES_MAX &&
           (got = read(fd, text + length, FILE_BYTES_MAX - length)) > 0)
        length += (size_t)got;
    if (fd >= 0 && (text == NULL || got < 0)) {
        snprintf(why, size, "%s: %s", file, strerror(errno));
        free(text);
        text = NULL;
    }
    if (fd >= 0)
        close(fd);
    if (text != NULL)
        blank_private_keys(text);
    return text;
}

int private_keys_open(char *why, size_t size)
{
    int keys = memory_file_open("keys");

    if (keys < 0)
        snprintf(why, size, "cannot make a file in memory for the private keys: %s",
                 strerror(errno));
    return keys;
}

/* Parsing, in the child. Its memory ends with it. */

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

/* The key in TEXT, if it belongs to LEAF; else NULL with WHY. */
static EVP_PKEY *read_matching_key(BIO *text, const char *key_file, X509 *leaf,
                                   const char *certificate_file, char *why, size_t size)
{
    EVP_PKEY *key = text != NULL ? PEM_read_bio_PrivateKey(text, NULL, no_password, NULL) : NULL;

    if (key == NULL) {
        explain_no_key(key_file, why, size);
        return NULL;
    }
    if (X509_check_private_key(leaf, key) == 1)
        return key;
    snprintf(why, size, "%s: %s (the key does not belong to %s)", key_file,
             openssl_reason(ERR_peek_last_error(), "key values mismatch"), certificate_file);
    return NULL;
}

struct key_to_add {
    int keys, fd;
    const char *key_file, *certificate_file;
    X509 *leaf;
};

/* Appends the length of the key, and the key. */
static bool add_key(void *argument, char *why, size_t size)
{
    const struct key_to_add *add = argument;
    FILE *opened = fdopen(add->fd, "r");
    BIO *text = opened != NULL ? BIO_new_fp(opened, BIO_NOCLOSE) : NULL;
    EVP_PKEY *key =
        read_matching_key(text, add->key_file, add->leaf, add->certificate_file, why, size);
    unsigned char *bytes = NULL;
    uint32_t head;
    int length;

    if (key == NULL)
        return false;
    length = i2d_PrivateKey(key, &bytes);
    head = (uint32_t)length;
    if (length > 0 && length <= KEY_BYTES_MAX && lseek(add->keys, 0, SEEK_END) >= 0 &&
        write(add->keys, &head, sizeof(head)) == (ssize_t)sizeof(head) &&
        write(add->keys, bytes, head) == (ssize_t)head)
        return true;
    snprintf(why, size, "%s: cannot store the key: %s", add->key_file, strerror(errno));
    return false;
}

enum { RSA_BITS_MIN = 2048, RSA_BITS_MAX = 4096 };

/* Explicit parameters can be those of P-256, too. */
static bool is_obtained_kind(const EVP_PKEY *key)
{
    char group[32] = "";
    int is_explicit = 0, bits = EVP_PKEY_get_bits(key);

    if (EVP_PKEY_get_base_id(key) == EVP_PKEY_RSA)
        return bits >= RSA_BITS_MIN && bits <= RSA_BITS_MAX;
    EVP_PKEY_get_int_param(key, OSSL_PKEY_PARAM_EC_DECODED_FROM_EXPLICIT_PARAMS, &is_explicit);
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC && is_explicit == 0 &&
           EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) == 1 &&
           strcmp(group, SN_X9_62_prime256v1) == 0;
}

bool private_key_check(const char *text, X509 *leaf, const char *file, char *why, size_t size)
{
    BIO *reader = BIO_new_mem_buf(text, -1);
    EVP_PKEY *key = read_matching_key(reader, file, leaf, file, why, size);
    bool good = key != NULL && is_obtained_kind(key);

    if (key != NULL && !good)
        snprintf(why, size, "%s: its key is neither P-256 nor RSA of %d to %d bits", file,
                 RSA_BITS_MIN, RSA_BITS_MAX);
    return good;
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

int private_keys_add(int keys, const char *key_file, X509 *leaf, const char *certificate_file,
                     char *why, size_t size)
{
    int fd = open_pem_file(key_file, why, size);
    struct key_to_add add = {keys, fd, key_file, certificate_file, leaf};
    enum confined_result result;

    if (fd < 0)
        return -1;
    result = confined_run(NULL, key_file, fd, add_key, &add, why, size);
    close(fd);
    return result == CONFINED_DONE ? 0 : -1;
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
