#include "daemon/tls/private_keys.h"

#include "daemon/base/events.h"
#include "daemon/base/memory_file.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

/*
 * Appends the length of the key in OPENED, and the key, to KEYS. Returns true, or false with WHY.
 */
static bool parse_private_key(int keys, FILE *opened, const char *key_file, X509 *leaf,
                              const char *certificate_file, char *why, size_t size)
{
    EVP_PKEY *key = PEM_read_PrivateKey(opened, NULL, no_password, NULL);
    unsigned char *bytes = NULL;
    uint32_t head;
    int length;

    if (key == NULL) {
        explain_no_key(key_file, why, size);
        return false;
    }
    if (X509_check_private_key(leaf, key) != 1) {
        snprintf(why, size, "%s: %s (the key does not belong to %s)", key_file,
                 openssl_reason(ERR_peek_last_error(), "key values mismatch"), certificate_file);
        return false;
    }
    length = i2d_PrivateKey(key, &bytes);
    head = (uint32_t)length;
    if (length > 0 && length <= KEY_BYTES_MAX && lseek(keys, 0, SEEK_END) >= 0 &&
        write(keys, &head, sizeof(head)) == (ssize_t)sizeof(head) &&
        write(keys, bytes, head) == (ssize_t)head)
        return true;
    snprintf(why, size, "%s: cannot store the key: %s", key_file, strerror(errno));
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

/* Reads what the child reports, up to its end, and reaps it. Returns 0 if it succeeded. */
static int await_key_parser(pid_t child, int reports, char *why, size_t size)
{
    size_t length = 0;
    ssize_t got;
    int status = 0;

    why[0] = '\0';
    while (length + 1 < size && (got = read(reports, why + length, size - 1 - length)) != 0)
        if (got > 0)
            length += (size_t)got;
        else if (errno != EINTR)
            break;
    why[length] = '\0';
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS)
        return 0;
    if (length == 0)
        snprintf(why, size, "the process that reads the private key has ended");
    return -1;
}

int private_keys_add(int keys, const char *key_file, X509 *leaf, const char *certificate_file,
                     char *why, size_t size)
{
    int fd = open_pem_file(key_file, why, size), report[2], result;
    pid_t child;

    if (fd < 0)
        return -1;
    if (pipe2(report, O_CLOEXEC) != 0) {
        snprintf(why, size, "%s: %s", key_file, strerror(errno));
        close(fd);
        return -1;
    }
    child = fork();
    if (child == 0) {
        FILE *opened = fdopen(fd, "r");
        bool good = opened != NULL &&
                    parse_private_key(keys, opened, key_file, leaf, certificate_file, why, size);

        if (!good && write(report[1], why, strlen(why)) < 0)
            _exit(EXIT_FAILURE);
        _exit(good ? EXIT_SUCCESS : EXIT_FAILURE);
    }
    close(fd);
    close(report[1]);
    if (child < 0)
        snprintf(why, size, "%s: %s", key_file, strerror(errno));
    result = child > 0 ? await_key_parser(child, report[0], why, size) : -1;
    close(report[0]);
    return result;
}

/* Reading */

static EVP_PKEY *read_private_key(int keys, off_t *at)
{
    uint32_t length;
    unsigned char *bytes;
    const unsigned char *next;
    EVP_PKEY *key = NULL;

    if (pread(keys, &length, sizeof(length), *at) != (ssize_t)sizeof(length) ||
        length > KEY_BYTES_MAX)
        return NULL;
    bytes = malloc(length);
    if (bytes == NULL)
        return NULL;
    next = bytes;
    if (pread(keys, bytes, length, *at + (off_t)sizeof(length)) == (ssize_t)length)
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

    while (i < count && (key[i] = read_private_key(keys, &at)) != NULL)
        i++;
    if (i == count)
        return 0;
    while (i > 0)
        EVP_PKEY_free(key[--i]);
    ERR_clear_error();
    return -1;
}
