#include "daemon/tls/certificate.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Names (RFC 9525) */

/*
 * Compares HOST, a DNS name in any case, with PATTERN, a DNS name of a certificate. A wildcard is
 * the whole leftmost label, and at least two labels follow: "*" and "*.org" match nothing.
 */
static enum tls_name_match match_name(const char *pattern, const char *host)
{
    const char *dot = strchr(host, '.');

    if (host[0] == '\0' || strchr(host, '*') != NULL)
        return TLS_NAME_DIFFERS;
    if (strcasecmp(pattern, host) == 0)
        return TLS_NAME_EQUAL;
    return strncmp(pattern, "*.", 2) == 0 && pattern[2] != '.' &&
                   strchr(pattern + 2, '.') != NULL && dot != NULL && dot != host &&
                   strcasecmp(pattern + 1, dot) == 0
               ? TLS_NAME_BY_WILDCARD
               : TLS_NAME_DIFFERS;
}

static bool has_dns_name(const GENERAL_NAMES *names)
{
    for (int i = 0; i < sk_GENERAL_NAME_num(names); i++)
        if (sk_GENERAL_NAME_value(names, i)->type == GEN_DNS)
            return true;
    return false;
}

static bool address_text(const GENERAL_NAME *name, char text[INET6_ADDRSTRLEN])
{
    const unsigned char *bytes = ASN1_STRING_get0_data(name->d.iPAddress);
    int length = ASN1_STRING_length(name->d.iPAddress);

    return (length == 4 || length == 16) &&
           inet_ntop(length == 4 ? AF_INET : AF_INET6, bytes, text, INET6_ADDRSTRLEN) != NULL;
}

/* The DNS names; the addresses of a certificate without any. Returns 0, or -1: out of memory. */
static int find_names(struct tls_certificate *certificate)
{
    GENERAL_NAMES *names = X509_get_ext_d2i(certificate->leaf, NID_subject_alt_name, NULL, NULL);
    int count = names != NULL ? sk_GENERAL_NAME_num(names) : 0;
    bool complete;

    certificate->name = calloc((size_t)count + 1, sizeof(char *));
    complete = certificate->name != NULL;
    for (int i = 0; i < count && complete; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        const char *bytes;
        size_t length;

        if (name->type != GEN_DNS)
            continue;
        bytes = (const char *)ASN1_STRING_get0_data(name->d.dNSName);
        length = (size_t)ASN1_STRING_length(name->d.dNSName);
        if (memchr(bytes, '\0', length) != NULL) /* cannot equal any host name */
            continue;
        certificate->name[certificate->name_count] = strndup(bytes, length);
        complete = certificate->name[certificate->name_count++] != NULL;
    }
    for (int i = 0; i < count && complete && certificate->name_count < (size_t)count; i++) {
        const GENERAL_NAME *name = sk_GENERAL_NAME_value(names, i);
        char address[INET6_ADDRSTRLEN];

        if (has_dns_name(names) || name->type != GEN_IPADD || !address_text(name, address))
            continue;
        certificate->name[certificate->name_count] = strdup(address);
        complete = certificate->name[certificate->name_count++] != NULL;
    }
    GENERAL_NAMES_free(names);
    return complete ? 0 : -1;
}

enum tls_name_match tls_certificate_match(const struct tls_certificate *certificate,
                                          const char *host)
{
    enum tls_name_match best = TLS_NAME_DIFFERS;

    for (size_t i = 0; i < certificate->name_count; i++) {
        enum tls_name_match match = match_name(certificate->name[i], host);

        best = match > best ? match : best;
    }
    return best;
}

bool tls_certificate_includes(const struct tls_certificate *certificate,
                              const struct tls_certificate *other)
{
    for (size_t i = 0; i < other->name_count; i++) {
        bool included = false;

        for (size_t k = 0; k < certificate->name_count && !included; k++)
            included = strcasecmp(certificate->name[k], other->name[i]) == 0 ||
                       match_name(certificate->name[k], other->name[i]) != TLS_NAME_DIFFERS;
        if (!included)
            return false;
    }
    return other->name_count > 0;
}

/* Reads the chain in TEXT. Returns 0, or -1 with an error of OpenSSL. */
static int read_chain(struct tls_certificate *certificate, BIO *text)
{
    X509 *next;

    certificate->leaf = PEM_read_bio_X509_AUX(text, NULL, NULL, NULL);
    certificate->chain = sk_X509_new_null();
    if (certificate->leaf == NULL || certificate->chain == NULL)
        return -1;
    while ((next = PEM_read_bio_X509(text, NULL, NULL, NULL)) != NULL)
        if (sk_X509_push(certificate->chain, next) == 0) {
            X509_free(next);
            return -1;
        }
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE)
        return -1;
    ERR_clear_error(); /* the end of the file */
    return 0;
}

int tls_certificate_parse(struct tls_certificate *certificate, const char *text, const char *file,
                          char *why, size_t size)
{
    const char *reason;
    BIO *reader;
    int failed;

    ERR_clear_error();
    reader = BIO_new_mem_buf(text, -1);
    failed = reader == NULL || read_chain(certificate, reader) != 0 || find_names(certificate) != 0
                 ? -1
                 : 0;
    BIO_free(reader);
    if (failed == 0)
        return 0;
    reason = ERR_reason_error_string(ERR_peek_last_error());
    if (ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE)
        reason = "contains no certificate in PEM format";
    snprintf(why, size, "%s: %s", file, reason != NULL ? reason : "out of memory");
    ERR_clear_error();
    return -1;
}

bool tls_certificate_is_authority(X509 *certificate)
{
    uint32_t flags = X509_get_extension_flags(certificate);

    return (flags & EXFLAG_CA) != 0 || X509_check_ca(certificate) != 0 ||
           ((flags & EXFLAG_KUSAGE) != 0 &&
            (X509_get_key_usage(certificate) & KU_KEY_CERT_SIGN) != 0);
}

void tls_certificate_free(struct tls_certificate *certificate)
{
    X509_free(certificate->leaf);
    sk_X509_pop_free(certificate->chain, X509_free);
    EVP_PKEY_free(certificate->key);
    for (size_t i = 0; i < certificate->name_count; i++)
        free(certificate->name[i]);
    free(certificate->name);
    *certificate = (struct tls_certificate){0};
}
