#include "daemon/tls/checked_certificate.h"

#include "daemon/tls/certificate.h"
#include "daemon/tls/context.h"
#include "daemon/tls/managed.h"
#include "daemon/tls/private_keys.h"

#include <errno.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* The memory of all this ends with the child. */

enum { MANAGED_CHAIN_MAX = 10 };

static char *read_text(int fd, const char *file, char *why, size_t size)
{
    char *text = calloc(1, CERTIFICATE_FILE_BYTES_MAX + 1);
    off_t length = 0;
    ssize_t got = 1;

    while (text != NULL && length < CERTIFICATE_FILE_BYTES_MAX && got > 0) {
        got = pread(fd, text + length, (size_t)(CERTIFICATE_FILE_BYTES_MAX - length), length);
        length += got;
    }
    if (text != NULL && got >= 0)
        return text;
    snprintf(why, size, "%s: %s", file, strerror(errno));
    return NULL;
}

static bool is_as_obtained(const struct certificate_check *check,
                           const struct tls_certificate *certificate, char *why, size_t size)
{
    if (!private_key_is_obtained_kind(certificate->key, check->key_file, why, size))
        return false;
    if (sk_X509_num(certificate->chain) > MANAGED_CHAIN_MAX) {
        snprintf(why, size, "%s: more than %d certificates", check->certificate_file,
                 MANAGED_CHAIN_MAX);
        return false;
    }
    if (tls_certificate_match(certificate, check->managed) != TLS_NAME_DIFFERS)
        return true;
    snprintf(why, size, "%s: the certificate is not for %s", check->certificate_file,
             check->managed);
    return false;
}

static bool read_files(const struct certificate_check *check, struct tls_certificate *certificate,
                       char *why, size_t size)
{
    const char *file = check->certificate_file;
    char *text = read_text(check->certificate_fd, file, why, size), *key_text;

    if (text == NULL || tls_certificate_parse(certificate, text, file, why, size) != 0)
        return false;
    key_text = read_text(check->key_fd, check->key_file, why, size);
    certificate->key = key_text == NULL ? NULL
                                        : private_key_parse(key_text, check->key_file,
                                                            certificate->leaf, file, why, size);
    return certificate->key != NULL &&
           (check->managed == NULL || is_as_obtained(check, certificate, why, size)) &&
           tls_context_accepts(check->config, certificate, file, why, size);
}

static int64_t asn1_seconds(const ASN1_TIME *when)
{
    struct tm fields;

    return ASN1_TIME_to_tm(when, &fields) == 1 ? (int64_t)timegm(&fields) : 0;
}

static BIO *write_chain(const struct tls_certificate *certificate)
{
    BIO *text = BIO_new(BIO_s_mem());
    bool done = text != NULL && PEM_write_bio_X509(text, certificate->leaf) == 1;

    for (int i = 0; done && i < sk_X509_num(certificate->chain); i++)
        done = PEM_write_bio_X509(text, sk_X509_value(certificate->chain, i)) == 1;
    return done ? text : NULL;
}

static bool store(const struct tls_certificate *certificate, const struct certificate_check *check,
                  char *why, size_t size)
{
    struct checked_certificate head = {
        .is_authority = tls_certificate_is_authority(certificate->leaf),
        .not_before_s = asn1_seconds(X509_get0_notBefore(certificate->leaf)),
        .not_after_s = asn1_seconds(X509_get0_notAfter(certificate->leaf))};
    FILE *out = fdopen(check->out, "w");
    BIO *chain = write_chain(certificate);
    unsigned char *key = NULL;
    int key_bytes = i2d_PrivateKey(certificate->key, &key);
    char *text;

    if (out != NULL && chain != NULL && key_bytes > 0) {
        X509_NAME_oneline(X509_get_issuer_name(certificate->leaf), head.issuer,
                          sizeof(head.issuer));
        head.chain_bytes = (uint32_t)BIO_get_mem_data(chain, &text);
        head.key_bytes = (uint32_t)key_bytes;
        for (size_t i = 0; i < certificate->name_count; i++)
            head.names_bytes += (uint32_t)strlen(certificate->name[i]) + 1;
        fwrite(&head, sizeof(head), 1, out);
        fwrite(text, 1, head.chain_bytes, out);
        fwrite(key, 1, head.key_bytes, out);
        for (size_t i = 0; i < certificate->name_count; i++)
            fwrite(certificate->name[i], 1, strlen(certificate->name[i]) + 1, out);
        if (fflush(out) == 0 && ferror(out) == 0)
            return true;
    }
    snprintf(why, size, "%s: cannot store the certificate: %s", check->certificate_file,
             strerror(errno));
    return false;
}

bool certificate_check_files(void *argument, char *why, size_t size)
{
    const struct certificate_check *check = argument;
    struct tls_certificate certificate = {0};

    return read_files(check, &certificate, why, size) && store(&certificate, check, why, size);
}

bool certificate_check_make(void *argument, char *why, size_t size)
{
    const struct certificate_check *check = argument;
    char *names[] = {NULL};
    struct tls_certificate certificate = {.name = names, .name_count = 1};

    names[0] = (char *)check->managed;
    if (self_signed_make(&certificate.leaf, &certificate.key, check->managed))
        return store(&certificate, check, why, size);
    snprintf(why, size, "cannot make a certificate for %s", check->managed);
    return false;
}
