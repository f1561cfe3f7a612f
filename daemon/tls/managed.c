#include "daemon/tls/managed.h"

#include "common/macros.h"
#include "daemon/base/directory.h"
#include "daemon/base/events.h"
#include "daemon/base/memory_file.h"
#include "daemon/tls/certificate.h"
#include "daemon/tls/confined.h"
#include "daemon/tls/private_keys.h"

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

static bool fill_certificate(X509 *certificate, EVP_PKEY *key, const char *host)
{
    const char *common = strlen(host) <= COMMON_NAME_BYTES ? host : "webserverd";
    char names[300];

    snprintf(names, sizeof(names), "DNS:%s%s", host,
             strcmp(host, "localhost") == 0 ? ",IP:127.0.0.1,IP:::1" : "");
    return self_signed_begin(certificate, key, common, VALID_DAYS) &&
           self_signed_extend(certificate, NID_basic_constraints, "critical,CA:FALSE") &&
           self_signed_extend(certificate, NID_key_usage, "critical,digitalSignature") &&
           self_signed_extend(certificate, NID_ext_key_usage, "serverAuth") &&
           self_signed_extend(certificate, NID_subject_alt_name, names) &&
           X509_sign(certificate, key, EVP_sha256()) > 0;
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

void self_signed_paths(struct self_signed *files, const char *directory, const char *name)
{
    if (snprintf(files->certificate, PATH_MAX, "%s/%s.pem", directory, name) >= PATH_MAX)
        files->certificate[0] = '\0'; /* longer than any path: there is no such file */
    if (snprintf(files->key, PATH_MAX, "%s/%s.key", directory, name) >= PATH_MAX)
        files->key[0] = '\0';
}

int self_signed_write(struct self_signed *files, const char *directory, const char *name, char *why,
                      size_t size)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    int failed = -1;

    self_signed_paths(files, directory, name);
    if (key == NULL || certificate == NULL || !fill_certificate(certificate, key, name))
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

enum { MANAGED_BYTES_MAX = 64 * 1024, CHAIN_MAX = 10 };

/* The content of a file, in memory, so that it does not change after its check. */
struct managed_file {
    const char *path; /* for messages */
    const char *name; /* the host */
    int fd;
};

/* Checks certificate and key; in a confined child. */
static bool check_managed(void *argument, char *why, size_t size)
{
    const struct managed_file *file = argument;
    struct tls_certificate certificate = {0};
    char *text = calloc(1, MANAGED_BYTES_MAX + 1);

    if (text == NULL || pread(file->fd, text, MANAGED_BYTES_MAX, 0) < 0) {
        snprintf(why, size, "%s: %s", file->path, strerror(errno));
        return false;
    }
    if (tls_certificate_parse(&certificate, text, file->path, why, size) != 0 ||
        !private_key_check(text, certificate.leaf, file->path, why, size))
        return false;
    if (sk_X509_num(certificate.chain) > CHAIN_MAX) {
        snprintf(why, size, "%s: more than %d certificates", file->path, CHAIN_MAX);
        return false;
    }
    if (tls_certificate_match(&certificate, file->name) != TLS_NAME_DIFFERS)
        return true;
    snprintf(why, size, "%s: the certificate is not for %s", file->path, file->name);
    return false;
}

/* Writes a new certificate and its key; in a confined child, so the master never has the key. */
static bool write_managed(void *argument, char *why, size_t size)
{
    const struct managed_file *file = argument;
    FILE *out = fdopen(file->fd, "w");
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();

    if (out != NULL && key != NULL && certificate != NULL &&
        fill_certificate(certificate, key, file->name) &&
        PEM_write_PKCS8PrivateKey(out, key, NULL, NULL, 0, NULL, NULL) == 1 &&
        PEM_write_X509(out, certificate) == 1 && fflush(out) == 0)
        return true;
    snprintf(why, size, "cannot make a certificate for %s", file->name);
    return false;
}

/* Copies the file IN. Returns 0, or -1 with WHY. */
static int copy_managed(const struct managed_file *file, int in, char *why, size_t size)
{
    char buffer[4096];
    ssize_t got;
    off_t all = 0;

    while ((got = read(in, buffer, sizeof(buffer))) > 0 && (all += got) <= MANAGED_BYTES_MAX)
        if (write(file->fd, buffer, (size_t)got) != got)
            break;
    if (got == 0)
        return 0;
    snprintf(why, size, "%s: %s", file->path, strerror(got > 0 ? EFBIG : errno));
    return -1;
}

/*
 * Reads and checks the file BASE in DIRECTORY, which belongs to the ACME process. If there is none,
 * returns CONFINED_FAILED with WHY empty.
 */
static enum confined_result read_managed(const struct config *config, struct managed_file *file,
                                         int directory, const char *base, char *why, size_t size)
{
    int in = directory_open_entry(directory, base, O_RDONLY | O_NOCTTY | O_NONBLOCK, 0);
    enum confined_result result = CONFINED_REFUSED;
    struct stat status, owner;

    why[0] = '\0';
    if (in < 0 && errno == ENOENT)
        return CONFINED_FAILED;
    if (in < 0 || fstat(in, &status) != 0 || fstat(directory, &owner) != 0)
        snprintf(why, size, "%s: %s", file->path, strerror(errno));
    else if (!S_ISREG(status.st_mode))
        snprintf(why, size, "%s: not a regular file", file->path);
    else if (status.st_uid != owner.st_uid || status.st_nlink != 1)
        snprintf(why, size, "%s: %s", file->path,
                 status.st_nlink != 1 ? "a hard link" : "it belongs to another user");
    else if (copy_managed(file, in, why, size) == 0)
        result = confined_run(config, file->path, file->fd, check_managed, file, why, size);
    if (in >= 0)
        close(in);
    return result;
}

/* Renames BASE to ASIDE, which is replaced unless it is a directory with files. */
static bool rename_aside(int directory, const char *base, const char *aside)
{
    if (renameat(directory, base, directory, aside) == 0)
        return true;
    return (unlinkat(directory, aside, 0) == 0 || unlinkat(directory, aside, AT_REMOVEDIR) == 0) &&
           renameat(directory, base, directory, aside) == 0;
}

/* The ACME process then obtains another one. */
static void set_aside(int directory, const char *base, const char *why)
{
    char aside[NAME_MAX + 1];
    bool done = snprintf(aside, sizeof(aside), "%s.unusable", base) < (int)sizeof(aside) &&
                rename_aside(directory, base, aside);

    event_log(LEVEL_ERROR, "%s: serving a self-signed certificate; the file is %s%s", why,
              done ? "now called " : "not renamed: ", done ? aside : strerror(errno));
}

/* Fills FILE with the certificate of its name, or a self-signed one. Returns 0, or -1 with WHY. */
static int fill_managed(const struct config *config, struct managed_file *file, int directory,
                        const char *base, char *why, size_t size)
{
    enum confined_result result = read_managed(config, file, directory, base, why, size);

    if (result == CONFINED_REFUSED)
        set_aside(directory, base, why);
    else if (result == CONFINED_FAILED && why[0] != '\0')
        event_log(LEVEL_ERROR, "%s: serving a self-signed certificate", why);
    if (result != CONFINED_DONE &&
        (ftruncate(file->fd, 0) != 0 || lseek(file->fd, 0, SEEK_SET) != 0 ||
         confined_run(config, file->path, file->fd, write_managed, file, why, size) !=
             CONFINED_DONE))
        return -1;
    if (memory_file_seal(file->fd) == 0)
        return 0;
    snprintf(why, size, "%s: cannot seal its copy: %s", file->path, strerror(errno));
    return -1;
}

static int find_managed_certificate(const struct config *config, int directory, const char *name,
                                    struct managed_certificates *managed, char *why, size_t size)
{
    char base[NAME_MAX + 1], path[PATH_MAX], copy[32];
    struct managed_file file = {path, name, memory_file_open("certificate")};
    size_t i = managed->certificate.count;

    snprintf(base, sizeof(base), "%s.pem", name);
    snprintf(path, sizeof(path), "%s/%s", config->acme_state_dir, base);
    if (file.fd < 0) {
        snprintf(why, size, "%s: %s", path, strerror(errno));
        return -1;
    }
    snprintf(copy, sizeof(copy), "/proc/self/fd/%d", file.fd);
    managed->fd[i] = file.fd;
    managed->certificate.item[i] = strdup(copy);
    managed->key.item[i] = strdup(copy);
    managed->certificate.count = managed->key.count = i + 1;
    if (managed->certificate.item[i] == NULL || managed->key.item[i] == NULL) {
        snprintf(why, size, "out of memory");
        return -1;
    }
    return fill_managed(config, &file, directory, base, why, size);
}

int managed_certificates_find(const struct config *config, int directory,
                              struct managed_certificates *managed, char *why, size_t size)
{
    size_t count = config->acme_names.count;
    int failed = 0;

    OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL); /* the children can read no file */
    /* + 1: calloc() may return NULL for none. */
    managed->certificate.item = calloc(count + 1, sizeof(char *));
    managed->key.item = calloc(count + 1, sizeof(char *));
    managed->fd = calloc(count + 1, sizeof(int));
    if (managed->certificate.item == NULL || managed->key.item == NULL || managed->fd == NULL) {
        snprintf(why, size, "out of memory");
        failed = -1;
    }
    for (size_t i = 0; i < count && failed == 0; i++)
        failed = find_managed_certificate(config, directory, config->acme_names.item[i], managed,
                                          why, size);
    return failed;
}

void managed_certificates_free(struct managed_certificates *managed)
{
    struct config_words *both[] = {&managed->certificate, &managed->key};

    for (size_t i = 0; i < managed->certificate.count; i++)
        close(managed->fd[i]);
    free(managed->fd);
    for (size_t i = 0; i < ARRAY_LENGTH(both); i++) {
        for (size_t k = 0; k < both[i]->count; k++)
            free(both[i]->item[k]);
        free(both[i]->item);
    }
    *managed = (struct managed_certificates){0};
}
