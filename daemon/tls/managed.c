#include "daemon/tls/managed.h"

#include "daemon/base/directory.h"
#include "daemon/base/events.h"
#include "daemon/base/memory_file.h"
#include "daemon/config/acme.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    VALID_DAYS = 397, /* browsers accept no longer validity */
    SERIAL_BYTES = 16,
    COMMON_NAME_BYTES = 64, /* RFC 5280: the maximum; clients look at the alternative names only */
};

/* Self-signed certificates */

bool self_signed_extend(X509 *certificate, int nid, const char *value)
{
    X509V3_CTX context;
    X509_EXTENSION *extension;
    bool added;

    X509V3_set_ctx(&context, certificate, certificate, NULL, NULL, 0);
    extension = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    added = extension != NULL && X509_add_ext(certificate, extension, -1) == 1;
    X509_EXTENSION_free(extension);
    return added;
}

bool self_signed_begin(X509 *certificate, EVP_PKEY *key, const char *common, long days)
{
    X509_NAME *name = X509_get_subject_name(certificate);
    unsigned char bytes[SERIAL_BYTES];
    BIGNUM *serial;
    bool has_serial;

    if (RAND_bytes(bytes, sizeof(bytes)) != 1)
        return false;
    bytes[0] &= 0x7f; /* a positive number */
    serial = BN_bin2bn(bytes, sizeof(bytes), NULL);
    has_serial =
        serial != NULL && BN_to_ASN1_INTEGER(serial, X509_get_serialNumber(certificate)) != NULL;
    BN_free(serial);
    return has_serial && X509_set_version(certificate, X509_VERSION_3) == 1 &&
           X509_gmtime_adj(X509_getm_notBefore(certificate), 0) != NULL &&
           X509_gmtime_adj(X509_getm_notAfter(certificate), days * 86400) != NULL &&
           X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)common, -1,
                                      -1, 0) == 1 &&
           X509_set_issuer_name(certificate, name) == 1 && X509_set_pubkey(certificate, key) == 1;
}

/* As in x509v3_config(5); the caller frees it. NULL: out of memory. */
static char *alternative_names(const char *names)
{
    char *text = NULL;
    size_t length;
    FILE *out = open_memstream(&text, &length);

    if (out == NULL)
        return NULL;
    for (bool first = true; *names != '\0'; first = false) {
        struct span name = config_acme_next_name(&names);
        char one[ACME_NAME_MAX + 1];

        snprintf(one, sizeof(one), "%.*s", (int)name.length, name.start);
        fprintf(out, "%s%s:%s%s", first ? "" : ",", config_acme_is_address(one) ? "IP" : "DNS", one,
                strcmp(one, "localhost") == 0 ? ",IP:127.0.0.1,IP:::1" : "");
    }
    if (memstream_close(out, &text) == 0)
        return text;
    free(text);
    return NULL;
}

static bool fill_certificate(X509 *certificate, EVP_PKEY *key, const char *host)
{
    const char *common =
        strlen(host) <= COMMON_NAME_BYTES && strchr(host, ' ') == NULL ? host : "webserverd";
    char *names = alternative_names(host);
    bool filled = names != NULL && self_signed_begin(certificate, key, common, VALID_DAYS) &&
                  self_signed_extend(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
                  self_signed_extend(certificate, NID_key_usage, "critical,digitalSignature") &&
                  self_signed_extend(certificate, NID_ext_key_usage, "serverAuth") &&
                  self_signed_extend(certificate, NID_subject_alt_name, names) &&
                  X509_sign(certificate, key, EVP_sha256()) > 0;

    free(names);
    return filled;
}

/* Returns a stream to the new file PATH, or NULL with WHY. */
static FILE *create_new_file(const char *path, mode_t mode, char *why, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;

    if (file == NULL)
        snprintf(why, size, "cannot create %s: %s (%s)", path, strerror(errno),
                 errno == EEXIST ? "it is not replaced: remove it, or name another directory"
                                 : "name a directory that exists and that you may write");
    return file;
}

/* Closes FILE. If not all was WRITTEN, removes it. */
static int close_new_file(FILE *file, const char *path, bool written, char *why, size_t size)
{
    if (fclose(file) == 0 && written)
        return 0;
    snprintf(why, size, "%s: cannot write: %s", path, strerror(errno));
    unlink(path);
    return -1;
}

static int write_key_and_certificate(const struct self_signed *files, X509 *certificate,
                                     EVP_PKEY *key, char *why, size_t size)
{
    FILE *file = create_new_file(files->key, 0600, why, size);

    if (file == NULL ||
        close_new_file(file, files->key,
                       PEM_write_PKCS8PrivateKey(file, key, NULL, NULL, 0, NULL, NULL) == 1, why,
                       size) != 0)
        return -1;
    file = create_new_file(files->certificate, 0644, why, size);
    if (file != NULL && close_new_file(file, files->certificate,
                                       PEM_write_X509(file, certificate) == 1, why, size) == 0)
        return 0;
    unlink(files->key);
    return -1;
}

static void self_signed_paths(struct self_signed *files, const char *directory, const char *name)
{
    if (snprintf(files->certificate, PATH_MAX, "%s/%s.pem", directory, name) >= PATH_MAX)
        files->certificate[0] = '\0'; /* longer than any path: there is no such file */
    if (snprintf(files->key, PATH_MAX, "%s/%s.key", directory, name) >= PATH_MAX)
        files->key[0] = '\0';
}

bool self_signed_make(X509 **certificate, EVP_PKEY **key, const char *names)
{
    *key = EVP_EC_gen("P-256");
    *certificate = X509_new();
    return *key != NULL && *certificate != NULL && fill_certificate(*certificate, *key, names);
}

int self_signed_write(struct self_signed *files, const char *directory, const char *name, char *why,
                      size_t size)
{
    EVP_PKEY *key;
    X509 *certificate;
    int failed = -1;

    self_signed_paths(files, directory, name);
    if (!self_signed_make(&certificate, &key, name))
        snprintf(why, size, "cannot make a certificate: %s",
                 ERR_reason_error_string(ERR_peek_last_error()));
    else
        failed = write_key_and_certificate(files, certificate, key, why, size);
    ERR_clear_error();
    X509_free(certificate);
    EVP_PKEY_free(key);
    return failed;
}

/* Managed certificates */

enum { MANAGED_BYTES_MAX = 64 * 1024 };

int managed_open(int directory, const char *base, const char *path, char *why, size_t size)
{
    int fd = directory_open_entry(directory, base, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
    struct stat status, owner;

    why[0] = '\0';
    if (fd < 0 && errno == ENOENT)
        return -1;
    if (fd < 0 || fstat(fd, &status) != 0 || fstat(directory, &owner) != 0)
        snprintf(why, size, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(status.st_mode))
        snprintf(why, size, "%s: not a regular file", path);
    else if (status.st_uid != owner.st_uid || status.st_nlink != 1)
        snprintf(why, size, "%s: %s", path,
                 status.st_nlink != 1 ? "a hard link" : "it belongs to another user");
    else if (status.st_size > MANAGED_BYTES_MAX)
        snprintf(why, size, "%s: %s", path, strerror(EFBIG));
    else
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

/* Renames BASE to ASIDE, which is replaced unless it is a directory with files. */
static bool rename_aside(int directory, const char *base, const char *aside)
{
    if (renameat(directory, base, directory, aside) == 0)
        return true;
    return (unlinkat(directory, aside, 0) == 0 || unlinkat(directory, aside, AT_REMOVEDIR) == 0) &&
           renameat(directory, base, directory, aside) == 0;
}

void managed_set_aside(int directory, const char *base, const char *why)
{
    char aside[NAME_MAX + 1];
    bool done = snprintf(aside, sizeof(aside), "%s.unusable", base) < (int)sizeof(aside) &&
                rename_aside(directory, base, aside);

    event_log(LEVEL_ERROR, "%s: serving a self-signed certificate; the file is %s%s", why,
              done ? "now called " : "not renamed: ", done ? aside : strerror(errno));
}
