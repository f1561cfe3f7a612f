#include "daemon/tls/checked_certificate.h"

#include "common/macros.h"
#include "daemon/config/acme.h"
#include "daemon/tls/certificate.h"
#include "daemon/tls/context.h"
#include "daemon/tls/managed.h"
#include "daemon/tls/private_keys.h"

#include <errno.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
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

static bool is_certificate_for(const struct tls_certificate *certificate, const char *name)
{
    return config_acme_is_address(name) ? X509_check_ip_asc(certificate->leaf, name, 0) == 1
           : name[0] == '*'             ? X509_check_host(certificate->leaf, name, 0, 0, NULL) == 1
                            : tls_certificate_match(certificate, name) != TLS_NAME_DIFFERS;
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
    for (const char *names = check->managed; *names != '\0';) {
        struct span name = config_acme_next_name(&names);
        char text[ACME_NAME_MAX + 1];

        snprintf(text, sizeof(text), "%.*s", (int)name.length, name.start);
        if (is_certificate_for(certificate, text))
            continue;
        snprintf(why, size, "%s: the certificate is not for %s", check->certificate_file, text);
        return false;
    }
    return true;
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
    char *names[ACME_CERTIFICATE_NAMES_MAX], *text = strdup(check->managed), *next = text;
    struct tls_certificate certificate = {.name = names};

    while (next != NULL && certificate.name_count < ARRAY_LENGTH(names))
        names[certificate.name_count++] = strsep(&next, " ");
    if (self_signed_make(&certificate.leaf, &certificate.key, check->managed))
        return store(&certificate, check, why, size);
    snprintf(why, size, "cannot make a certificate for %s", check->managed);
    return false;
}
